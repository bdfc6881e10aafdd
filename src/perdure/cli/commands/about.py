"""`perdure config`, `completion` and `version`: about the command itself."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from perdure.cli.forms import Column, Listing
from perdure.cli.options import form_options
from perdure.cli.output import errors_as_lines
from perdure.cli.settings import KNOWN, Setting, read_setting
from perdure.store.urls import shown_url

PACKAGES = ("perdure", "click", "msgspec", "asyncpg")

SETTINGS = Listing[Setting](
    columns=(
        Column("setting", lambda one: one.name),
        Column("value", lambda one: one.value),
        Column("from", lambda one: one.source),
        Column("meaning", lambda one: KNOWN[one.name].meaning, wide=True),
    ),
    json=lambda one: {**one._asdict(), "meaning": KNOWN[one.name].meaning},
)

VERSIONS = Listing[tuple[str, str]](
    columns=(Column("what", lambda one: one[0]), Column("version", lambda one: one[1])),
    json=lambda one: {"what": one[0], "version": one[1]},
)


@click.command("config")
@click.option("--store", "url", metavar="URL", help="As other commands have it.")
@click.option("--target", metavar="TARGET", help="As other commands have it.")
@form_options
def config_command(url: str | None, target: str | None, form: str) -> None:
    """Show the settings, and where each comes from.

    A flag counts before the environment, that before [tool.perdure] in the pyproject.toml of this
    folder or the nearest one above it, and that before the default.
    """
    with errors_as_lines(url or ""):
        store = read_setting("store", url)
        SETTINGS.show(
            form,
            [
                store._replace(value=shown_url(store.value)),
                read_setting("target", target),
                read_setting("output", None),
            ],
        )


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell.

    bash: perdure completion bash >> ~/.bashrc; zsh: the same with ~/.zshrc; fish: into
    ~/.config/fish/completions/perdure.fish.
    """
    from click.shell_completion import get_completion_class  # late: for completion only

    from perdure.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, "the choice names those that there are"
    click.echo(found(cli, {}, "perdure", "_PERDURE_COMPLETE").source())


@click.command("version")
@form_options
def version_command(form: str) -> None:
    """Print the versions of perdure, Python and the libraries and databases it uses."""
    from perdure.store.upkeep import library_versions  # late: brings the drivers

    rows = [(name, found) for name in PACKAGES if (found := _version(name))]
    rows.insert(1, ("python", platform.python_version()))
    VERSIONS.show(form, [*rows, *library_versions()])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
