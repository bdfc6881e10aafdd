"""`perdure history`, `export`, `import` and `diff`: what is recorded, on the screen, in a file,
in another store, compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from perdure.cli.chosen import choose, find_ids, where_option
from perdure.cli.event_texts import history_listing
from perdure.cli.exit_codes import ExitCode
from perdure.cli.forms import Column, Exact, Listing, json_text
from perdure.cli.importing import Imported, import_histories
from perdure.cli.opening import ask
from perdure.cli.options import database_option, form_options, store_option
from perdure.cli.output import printable, say
from perdure.client.client import Client
from perdure.client.handle import Handle
from perdure.client.histories.event_texts import names_in, subject_of, value_of
from perdure.client.histories.finding import WantedEvents, matching, read_subjects
from perdure.client.histories.recorded import (
    RecordedHistory,
    read_lines,
    read_recorded,
    write_lines,
)
from perdure.client.reading.info import (
    ExecutionInfo,
    HistoryEvent,
    InstanceTree,
    Json,
    event_of,
)
from perdure.errors import UsageError
from perdure.model.instances import Status

MAX_DIFF_EVENTS = 10_000
"""Longer histories are not compared: finding what moved takes time that grows with the square."""
NEIGHBOURS = 2
"""How many equal events `diff` shows before and behind a difference."""
FILE_SUFFIX = ".jsonl"

# ----------------------------------------------------------------------- history


EXECUTIONS = Listing[ExecutionInfo](
    columns=(
        Column("execution", lambda one: one.execution),
        Column("started", lambda one: Exact(one.started_at)),
        Column("changed", lambda one: Exact(one.updated_at)),
        Column("events", lambda one: one.events),
        Column("ended as", lambda one: (one.ended_as or "").replace("_", " ")),
    ),
)


@click.command("history")
@click.argument("instance_id", metavar="ID|FILE")
@click.option("--execution", type=click.IntRange(min=1), help="Which one.  [default: current]")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only those behind event N.")
@click.option("--limit", type=click.IntRange(min=1), help="How many at most.  [default: all]")
@click.option("--kind", help="Only events of this kind, or of those that begin so: activity.")
@click.option("--name", help="Only events of this activity, signal, child or key.")
@click.option("--failures", is_flag=True, help="Only what failed or was refused.")
@click.option("--full", is_flag=True, help="All that is recorded, as JSON, one event per line.")
@click.option("--executions", is_flag=True, help="List the executions whose histories are there.")
@form_options
@store_option
def history_command(
    instance_id: str,
    execution: int | None,
    after: int,
    limit: int | None,
    kind: str | None,
    name: str | None,
    failures: bool,
    full: bool,
    executions: bool,
    form: str,
    url: str,
) -> None:
    """Print what is recorded of an instance: every event of its current execution, in order.

    --kind, --name and --failures find some of them; all that are given must hold.

    FILE is one that `perdure export` wrote, and ends in .jsonl
    """
    which = WantedEvents(
        kind=None if kind is None else kind.strip().replace(" ", "_"), name=name, failures=failures
    )
    if executions:
        is_of_file = instance_id.endswith(FILE_SUFFIX)
        others = (execution is not None, after, limit, full, not which.is_empty, is_of_file)
        if any(others):
            raise UsageError(
                "--executions takes the ID of an instance and no other option: it lists them all"
            )
        EXECUTIONS.show(form, ask(url, lambda client: client.handle(instance_id).executions()))
        return
    if instance_id.endswith(FILE_SUFFIX):
        found = [event_of(one) for one in one_of_file(instance_id).events]
        events = [one for one in matching(found, which) if one.seq > after][:limit]
        names = names_in(found)
    else:
        events, names = ask(
            url,
            lambda client: _read_events(client.handle(instance_id), which, execution, after, limit),
        )
    history_listing(names).show("jsonl" if full else form, events)


async def _read_events(
    handle: Handle[Json],
    which: WantedEvents,
    execution: int | None,
    after: int,
    limit: int | None,
) -> tuple[list[HistoryEvent], dict[int, str]]:
    """Return the events that are wanted, and what they and those that they answer are about."""
    events = await handle.history(execution, after=after, limit=limit, **asdict(which))

    async def read(after: int, limit: int) -> Sequence[HistoryEvent]:
        return await handle.history(execution, after=after, limit=limit)

    return events, await read_subjects(events, read)


# ------------------------------------------------------------------------ export


@click.command("export")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@where_option
@click.option("--children", is_flag=True, help="Also everything below them.")
@click.option("--all-executions", is_flag=True, help="Also the executions before the current one.")
@click.option(
    "-o", "--output", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write there."
)
@store_option
def export_command(
    ids: tuple[str, ...],
    where: str | None,
    children: bool,
    all_executions: bool,
    file: Path | None,
    url: str,
) -> None:
    """Write histories as lines of JSON, for `replay`, `diff` and `history` elsewhere.

    They hold every argument and result. A file is made for its owner's eyes only.
    """
    chosen = choose(ids, where)

    async def work(client: Client) -> list[RecordedHistory]:
        found = await find_ids(client, chosen, tuple(Status))
        if children:
            found = [below for one in found for below in await _below(client, one)]
        histories = []
        for one in dict.fromkeys(found):
            current = await read_recorded(client, one)
            if all_executions:
                earlier = range(1, current.execution)
                histories += [await read_recorded(client, one, number) for number in earlier]
            histories.append(current)
        return histories

    histories = ask(url, work)
    lines = (line for history in histories for line in write_lines(history))
    if file is None:
        for line in lines:
            click.echo(line)
    else:
        _write(file, lines)
        count = len(histories)
        say(f"{count:,} histor{'y' if count == 1 else 'ies'} in {file}")


async def _below(client: Client, instance_id: str) -> list[str]:
    waiting: list[InstanceTree] = [await client.handle(instance_id).tree(calls=False)]
    found = []
    while waiting:
        node = waiting.pop()
        found.append(node.info.instance_id)
        waiting += reversed(node.children)
    return found


def _write(file: Path, lines: Iterator[str]) -> None:
    try:
        # Payloads may hold what others must not read.
        file.touch(mode=0o600, exist_ok=False)
        with file.open("w", encoding="utf-8") as opened:
            opened.writelines(f"{line}\n" for line in lines)
    except FileExistsError:
        raise UsageError(f"{file} exists; name another file") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


def read_file(name: str) -> list[RecordedHistory]:
    """Return the histories of a file that `perdure export` wrote.

    Raises:
        UsageError: It cannot be read, or is none.
    """
    try:
        with Path(name).open(encoding="utf-8") as opened:
            return read_lines(opened, source=name)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{name} cannot be read: {error}") from error


def one_of_file(name: str) -> RecordedHistory:
    """Return the only history of a file.

    Raises:
        UsageError: There are several, or it cannot be read.
    """
    found = read_file(name)
    if len(found) > 1:
        ids = ", ".join(one.instance_id for one in found[:3])
        raise UsageError(f"{name} has {len(found)} histories ({ids}, …): export one by itself")
    return found[0]


# ------------------------------------------------------------------------ import

IMPORTED = Listing[Imported](
    columns=(
        Column("instance", lambda one: one.instance_id),
        Column("status", lambda one: one.status),
        Column("events", lambda one: one.events),
        Column("result", lambda one: one.result),
        Column("why", lambda one: one.why),
    )
)


@click.command("import")
@click.argument("file", metavar="FILE")
@form_options
@database_option
def import_command(file: str, form: str, url: str) -> None:
    """Bring the histories of FILE, which `perdure export` wrote, into a store, to look at them.

    Only instances that have ended: nothing that is imported ever runs. Ids, events, times, values,
    reports and results are as they were; dead jobs and receipts are not in a file. An id that is
    taken is refused, and so are unfinished instances, those that continued as new, deciders, and
    children without their parent. What is there already from an earlier import is left alone. Exits
    with 1 if one was refused; the others are imported all the same.
    """
    found = ask(url, partial(import_histories, histories=read_file(file)))
    IMPORTED.show(form, found)
    refused = [one for one in found if one.result == "refused"]
    say(f"{len(found) - len(refused):,} of {len(found):,} are here")
    sys.exit(ExitCode.FAILED if refused else ExitCode.GOOD)


# -------------------------------------------------------------------------- diff


class DiffRow(NamedTuple):
    """Two events beside each other."""

    mark: str
    """= equal, < only left, > only right, ! different."""
    left: HistoryEvent | None
    right: HistoryEvent | None


@click.command("diff")
@click.argument("left", metavar="ID|FILE")
@click.argument("right", metavar="ID|FILE")
@click.option("--full", is_flag=True, help="Also all events that are equal.")
@form_options
@store_option
def diff_command(left: str, right: str, full: bool, form: str, url: str) -> None:
    """Compare two histories: what was asked for and what came of it, not when.

    FILE is one that `perdure export` wrote, and ends in .jsonl. Exits with 1 if they differ.
    """

    async def work(client: Client) -> list[RecordedHistory]:
        return [
            one_of_file(one) if one.endswith(FILE_SUFFIX) else await read_recorded(client, one)
            for one in (left, right)
        ]

    if left.endswith(FILE_SUFFIX) and right.endswith(FILE_SUFFIX):
        histories = [one_of_file(left), one_of_file(right)]
    else:
        histories = ask(url, work)
    sides = [[event_of(event) for event in one.events] for one in histories]
    rows = compare(*sides)
    differs = any(row.mark != "=" for row in rows)
    shown = rows if full else _around_differences(rows)
    if form == "json":
        click.echo(json_text([row._asdict() for row in shown]))
    else:
        _diff_listing(*sides).show(form, shown)
    if not differs:
        say(f"equal: {len(rows)} events")
    sys.exit(ExitCode.FAILED if differs else ExitCode.GOOD)


def compare(left: Sequence[HistoryEvent], right: Sequence[HistoryEvent]) -> list[DiffRow]:
    """Return two histories side by side.

    Raises:
        UsageError: One is too long.
    """
    longest = max(len(left), len(right))
    if longest > MAX_DIFF_EVENTS:
        raise UsageError(f"a history of {longest:,} events is too long to compare")
    matcher = SequenceMatcher(None, _facts(left), _facts(right), autojunk=False)
    rows: list[DiffRow] = []
    for word, i, i_end, j, j_end in matcher.get_opcodes():
        pairs = min(i_end - i, j_end - j)
        mark = "=" if word == "equal" else "!"
        rows += [DiffRow(mark, left[i + n], right[j + n]) for n in range(pairs)]
        rows += [DiffRow("<", one, None) for one in left[i + pairs : i_end]]
        rows += [DiffRow(">", None, one) for one in right[j + pairs : j_end]]
    return rows


def _facts(events: Sequence[HistoryEvent]) -> list[str]:
    names = names_in(events)
    return [
        f"{one.kind} {subject_of(one, names)} {sorted(_timeless(one.data).items())!r}"
        for one in events
    ]


def _timeless(data: dict[str, Json]) -> dict[str, Any]:
    """Return what an event says, without times, numbers of events and the code's digest."""
    left_out = ("code", "schedule", "parent", "lineage", "traceback_text")
    return {
        name: [_timeless(each) if isinstance(each, dict) else each for each in one]
        if isinstance(one, list)
        else _timeless(one)
        if isinstance(one, dict) and name in ("failure",)
        else one
        for name, one in data.items()
        if name not in left_out and not name.endswith("_ms")
    }


def _around_differences(rows: list[DiffRow]) -> list[DiffRow]:
    near = {
        place
        for n, row in enumerate(rows)
        if row.mark != "="
        for place in range(n - NEIGHBOURS, n + NEIGHBOURS + 1)
    }
    return [row for n, row in enumerate(rows) if n in near]


def _seq(event: HistoryEvent | None) -> int | None:
    return None if event is None else event.seq


def _diff_listing(left: Sequence[HistoryEvent], right: Sequence[HistoryEvent]) -> Listing[DiffRow]:
    names = (names_in(left), names_in(right))

    def text(event: HistoryEvent | None, side: int) -> str:
        if event is None:
            return ""
        words = (event.kind.replace("_", " "), subject_of(event, names[side]), value_of(event))
        return printable("  ".join(filter(None, words)))

    return Listing[DiffRow](
        columns=(
            Column("", lambda row: row.mark),
            Column("#", lambda row: _seq(row.left)),
            Column("left", lambda row: text(row.left, 0)),
            Column("#", lambda row: _seq(row.right)),
            Column("right", lambda row: text(row.right, 1)),
        ),
        json=lambda row: row._asdict(),
    )
