"""`perdure check`: what in the code cannot be replayed, and whom would it not fit?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from perdure.authoring.registry import Registry
from perdure.cli.exit_codes import ExitCode
from perdure.cli.forms import json_text
from perdure.cli.opening import ask
from perdure.cli.output import errors_as_lines, printable, say
from perdure.cli.replay_gate import GateResult, try_live, unfit_of
from perdure.cli.targets import load_target
from perdure.errors import UsageError
from perdure.lint.checker import Checked, check_files
from perdure.lint.sarif import as_sarif

FORMS = ("text", "json", "sarif")
SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", "build", "dist"})
"""Folders in which no code of the project is."""


@click.command("check")
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@click.option("--store", "url", metavar="URL", help="Also replay live instances of this store.")
@click.option(
    "--per-shape",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How many instances of each shape are replayed.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="How many live instances of each definition are looked at.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(FORMS),
    default="text",
    show_default=True,
    help="The form of the answer.",
)
def check_command(
    targets: tuple[str, ...], url: str | None, per_shape: int, limit: int, form: str
) -> None:
    """Look for what cannot be replayed in the orchestrations and deciders of TARGETs.

    TARGET is a file, a folder, a module, or a name in one (shop/orders.py:checkout). Its text is
    read, together with the functions of the project that it calls; nothing is run. A line that says
    `# perdure: ignore[clock]` is passed over.

    With --store a few live instances of each shape are replayed with the code of TARGET, which is
    imported for that: those that it does not fit would be blocked after a deploy.

    Exits with 1 if something was found, with 6 if the code does not fit a live instance.
    """
    with errors_as_lines(url or ""):
        checked = _check_text(targets)
        results = [] if url is None else _check_store(targets, url, per_shape, limit)
    _SHOW[form](checked, results)
    if unfit_of(results):
        sys.exit(ExitCode.MISMATCH)
    sys.exit(ExitCode.FAILED if checked.findings else ExitCode.GOOD)


# ------------------------------------------------------------------------ what is read


def _check_text(targets: Iterable[str]) -> Checked:
    roots = [Path.cwd(), Path.cwd() / "src"]
    whole: list[Path] = []
    parts: list[tuple[Path, str]] = []
    for target in targets:
        place, _, name = target.partition(":")
        if name:
            parts += [(path, name) for path in _files_of(place, target)]
        else:
            whole += _files_of(place, target)
    found = [check_files(whole, roots=roots)] if whole else []
    for path, name in parts:
        one = check_files([path], roots=roots, only=name)
        if not one.definitions and not one.findings:
            raise UsageError(f"there is no orchestration or decider {name!r} in {path}")
        found.append(one)
    return Checked(
        sorted({finding for one in found for finding in one.findings}),
        sum(one.definitions for one in found),
        sum(one.files for one in found),
    )


def _files_of(place: str, target: str) -> list[Path]:
    path = Path(place)
    if path.is_file():
        return [path]
    if path.is_dir():
        return [file for file in sorted(path.rglob("*.py")) if SKIPPED.isdisjoint(file.parts)]
    relative = Path(*place.split(".")) if not place.endswith(".py") else path
    for root in (Path(), Path("src")):
        for found in (root / relative.with_suffix(".py"), root / relative / "__init__.py"):
            if found.is_file():
                return (
                    [found] if found.name != "__init__.py" else _files_of(str(found.parent), target)
                )
    raise UsageError(
        f"{target}: there is no such file or folder, nor a module of that name in {Path.cwd()} or "
        "its folder src"
    )


# ---------------------------------------------------------------------- what is replayed


def _check_store(targets: Iterable[str], url: str, per_shape: int, limit: int) -> list[GateResult]:
    registry = Registry([load_target(target) for target in _importable(targets)])
    return ask(url, lambda client: try_live(client, registry, per_shape=per_shape, limit=limit))


def _importable(targets: Iterable[str]) -> list[str]:
    """Return what can be imported of targets: of a folder, the files that define something."""
    found: list[str] = []
    for target in targets:
        place = target.partition(":")[0]
        if not Path(place).is_dir():
            found.append(target)
            continue
        defining = [
            str(file)
            for file in _files_of(place, target)
            if check_files([file], roots=[]).definitions
        ]
        if not defining:
            raise UsageError(f"{target} has no orchestrations and deciders to replay")
        found += defining
    return found


# --------------------------------------------------------------------------- what is said


def _show_text(checked: Checked, results: Sequence[GateResult]) -> None:
    for finding in checked.findings:
        click.echo(printable(finding.text))
    for unfit in unfit_of(results):
        what = f"{unfit.name} {unfit.version}".strip()
        click.echo(printable(f"{unfit.instance_id} ({what}) does not fit: {unfit.problem}"))
    say(
        f"{_counted(checked.definitions, 'definition', 'definitions')} in "
        f"{_counted(checked.files, 'file', 'files')}: "
        f"{_counted(len(checked.findings), 'finding', 'findings')}"
    )
    for one in results:
        bad = len(one.unfit)
        said = f"{bad:,} do not fit" if bad else "all fit"
        more = ", there are more" if one.is_partial else ""
        say(
            f"{one.name}: {one.live:,} live{more}, {_counted(one.shapes, 'shape', 'shapes')}, "
            f"{one.replayed:,} replayed, {said}"
        )


def _show_json(checked: Checked, results: Sequence[GateResult]) -> None:
    click.echo(
        json_text(
            {
                "findings": [asdict(one) for one in checked.findings],
                "definitions": checked.definitions,
                "files": checked.files,
                "replays": [_replay_json(one) for one in results],
            }
        )
    )


def _replay_json(result: GateResult) -> dict[str, Any]:
    return {**result._asdict(), "unfit": [one._asdict() for one in result.unfit]}


def _show_sarif(checked: Checked, results: Sequence[GateResult]) -> None:
    click.echo(json_text(as_sarif(checked.findings, version=version("perdure"))))
    for unfit in unfit_of(results):
        say(printable(f"{unfit.instance_id} ({unfit.name}) does not fit: {unfit.problem}"))


_SHOW = {"text": _show_text, "json": _show_json, "sarif": _show_sarif}


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
