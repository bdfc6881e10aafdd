"""`perdure replay`: does the code on disk still fit what was recorded? Nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from perdure.authoring.registry import Registry
from perdure.cli.chosen import choose, find_ids, where_option
from perdure.cli.commands.histories import FILE_SUFFIX, read_file
from perdure.cli.exit_codes import ExitCode
from perdure.cli.forms import Column, Listing
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option, target_option
from perdure.cli.output import printable, say
from perdure.cli.targets import load_target
from perdure.client.client import Client
from perdure.client.histories.recorded import RecordedHistory, read_recorded, replay
from perdure.errors import NondeterminismError, UsageError
from perdure.model.histories.unreadable import UnreadableEventError
from perdure.model.instances import Status

NOT_THE_USERS = ["perdure.*", "asyncio.*", "contextvars", "contextlib", "functools", "msgspec.*"]
"""Modules through which a debugger goes without stopping."""


class Replayed(NamedTuple):
    """What came of a replay."""

    instance_id: str
    execution: int
    name: str
    version: str
    events: int
    result: str
    """fits, or the first line of why not."""
    problem: str = ""


REPLAYED = Listing[Replayed](
    columns=(
        Column("instance", lambda one: one.instance_id),
        Column("execution", lambda one: one.execution),
        Column("name", lambda one: one.name),
        Column("version", lambda one: one.version),
        Column("events", lambda one: one.events),
        Column("result", lambda one: one.result),
    ),
)


@click.command("replay")
@click.argument("words", metavar="[ID|FILE]...", nargs=-1)
@where_option
@click.option("--execution", type=click.IntRange(min=1), help="Which one.  [default: current]")
@click.option("--pdb", "is_pdb", is_flag=True, help="Stop in the code, in Python's debugger.")
@target_option
@form_options
@store_option
def replay_command(
    words: tuple[str, ...],
    where: str | None,
    execution: int | None,
    is_pdb: bool,
    target: str,
    form: str,
    url: str,
) -> None:
    """Run the code of TARGET against recorded histories: of instances, or of FILEs of `export`.

    No activity runs and nothing is written. Exits with 6 if the code does not fit one of them, and
    says what was recorded and what the code asks for now.
    """
    if not target:
        raise UsageError(
            "replay needs the code: name its module or file with --target, $PERDURE_TARGET or "
            "target in [tool.perdure]"
        )
    files = [one for one in words if one.endswith(FILE_SUFFIX)]
    ids = [one for one in words if not one.endswith(FILE_SUFFIX)]
    chosen = choose(ids, where) if ids or where is not None or not files else None
    registry = load_target(target)
    histories = [history for file in files for history in read_file(file)]
    if chosen is not None:

        async def work(client: Client) -> list[RecordedHistory]:
            found = await find_ids(client, chosen, tuple(Status))
            return [await read_recorded(client, one, execution) for one in found]

        histories += ask(url, work)
    if is_pdb and len(histories) != 1:
        raise UsageError(f"--pdb is for one history, not for {len(histories)}")
    results = [_try(registry, history, is_pdb=is_pdb) for history in histories]
    _show(form, results)
    sys.exit(ExitCode.MISMATCH if any(one.problem for one in results) else ExitCode.GOOD)


def _try(registry: Registry, history: RecordedHistory, *, is_pdb: bool) -> Replayed:
    problem = ""
    try:
        if is_pdb:
            _debug(registry, history)
        else:
            replay(registry, history)
    except (NondeterminismError, UnreadableEventError) as error:
        problem = str(error)
    first_line = problem.strip().partition("\n")[0]
    return Replayed(
        history.instance_id,
        history.execution,
        history.name,
        history.version,
        len(history.events),
        first_line if problem else "fits",
        problem,
    )


def _debug(registry: Registry, history: RecordedHistory) -> None:
    """Replay in Python's debugger, which stops where the user's own code begins."""
    import pdb  # late: for this only

    debugger: Any = pdb.Pdb(skip=NOT_THE_USERS, nosigint=True)
    code = _entry(registry, history).__code__
    debugger.set_break(code.co_filename, code.co_firstlineno, True, None, code.co_name)
    # It would stop at our own first line, too.
    debugger.rcLines.append("continue")
    # The debugger itself reads clocks and files.
    debugger.runcall(replay, registry, history, watch_calls=False)


def _entry(registry: Registry, history: RecordedHistory) -> Any:
    """Return the function of the user's that a replay begins with."""
    if history.kind == "decider":
        return registry.decider(history.name).cls.evolve
    return registry.orchestration(history.name, history.version).fn


def _show(form: str, results: Sequence[Replayed]) -> None:
    REPLAYED.show(form, results)
    for one in results:
        if one.problem:
            say("\n".join(printable(line) for line in ["", *one.problem.splitlines()]))
    if len(results) != 1:
        bad = sum(bool(one.problem) for one in results)
        say(f"{len(results) - bad:,} of {len(results):,} fit")
