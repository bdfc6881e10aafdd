"""`perdure demo` and `perdure new`: the first minutes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from perdure.cli.exit_codes import ExitCode
from perdure.cli.first_programs import FIRST_PROGRAMS
from perdure.cli.output import errors_as_lines, say


@click.command("demo")
@click.option("--seconds", default=1.0, show_default=True, help="How long each activity takes.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8321,
    show_default=True,
    help="Of the pages; any, if it is taken.",
)
@click.option(
    "--stay/--no-stay",
    "stays",
    default=None,
    help="Whether to go on serving the pages when the story is told; by default on a terminal.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Whether to open the pages in a browser; by default on a terminal with a screen.",
)
def demo_command(seconds: float, port: int, stays: bool | None, opens: bool | None) -> None:
    """Run an order, kill its worker in the middle, start it again: the order goes on.

    The web pages are served beside it, with a button that crashes the worker.
    """
    # Late: the demo brings the whole engine and, on a terminal, rich.
    from perdure.cli.demo.demo import DemoSettings, run_demo

    if seconds < 0.05:
        raise click.BadParameter(f"must be at least 0.05, got {seconds:g}", param_hint="--seconds")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    settings = DemoSettings(
        seconds=seconds,
        port=port,
        stays=is_terminal if stays is None else stays,
        opens=is_terminal if opens is None else opens,
    )
    with errors_as_lines():
        report = run_demo(settings)
    if report is not None and report.repeated:
        sys.exit(ExitCode.FAILED)


@click.command("new")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--template",
    type=click.Choice(list(FIRST_PROGRAMS)),
    default="hello",
    show_default=True,
    help="What kind of program.",
)
def new_command(file: Path, template: str) -> None:
    """Write a first program to FILE, such as hello.py: small, whole, and ready to run."""
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise click.UsageError(
            f"{file} cannot be imported: name a file such as hello.py, of letters, digits and _"
        )
    program = FIRST_PROGRAMS[template]
    try:
        # Never over a file that is there.
        with file.open("x", encoding="utf-8") as opened:
            opened.write(program.text.format(file=file))
    except FileExistsError:
        raise click.UsageError(f"{file} exists; name another file") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None
    click.echo(str(file))
    serve = f"python {file}" if template == "web" else f"perdure dev {file}"
    say(f"Next: {serve}, and in another terminal: {program.start}")
