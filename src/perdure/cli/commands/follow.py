"""`perdure wait`, `tail` and `watch`: staying with instances until they end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import click

from perdure.cli.chosen import read_ids
from perdure.cli.commands.look import rich_tree
from perdure.cli.event_texts import history_listing
from perdure.cli.exit_codes import ExitCode, exit_code_of
from perdure.cli.forms import Exact, for_people, json_line, result_text, shortened, value_text
from perdure.cli.opening import ask
from perdure.cli.options import DURATION, form_options, raw_option, store_option
from perdure.cli.output import error_text, printable, say_error
from perdure.client.client import Client
from perdure.client.handle import Handle
from perdure.client.histories.event_texts import names_in, subject_of, value_of
from perdure.client.reading.as_json import as_json
from perdure.client.reading.info import HistoryEvent, InstanceInfo, InstanceTree, Json, Progress
from perdure.client.reading.progress import read_portion
from perdure.client.reading.tallies import ReportedTally, read_tally
from perdure.errors import InstanceNotFoundError, OutcomeError, ResultTimeoutError, UsageError
from perdure.model.histories.events import ContinuedAsNew
from perdure.model.histories.paging import FOR_EACH
from perdure.model.instances import Status

LOOK_EVERY_S = 0.2
"""The pause between two looks for new events."""
DRAW_EVERY_S = 0.5
"""The pause between two drawings of `watch`."""
EVENTS_PER_LOOK = 500
MAX_WATCHED = 50
"""How many instances one terminal shows."""
MAX_ASKED = 20
"""How many instances are asked at each drawing how far they are."""
BAR_WIDTH = 24

_ENDED_AS = {
    Status.COMPLETED: ExitCode.GOOD,
    Status.FAILED: ExitCode.FAILED,
    Status.CANCELLED: ExitCode.STOPPED,
    Status.TERMINATED: ExitCode.STOPPED,
}

# -------------------------------------------------------------------------- wait


@click.command("wait")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--timeout", type=DURATION, help="How long, as in 30s; for ever if not given.")
@raw_option
@form_options
@store_option
def wait_command(
    ids: tuple[str, ...], timeout: timedelta | None, raw: bool, form: str, url: str
) -> None:
    """Wait for instances to end, and print their results: JSON, behind the id if there are several.

    The exit code says how it ended: 0 completed, 1 failed, 4 still running when the wait ended, 5
    cancelled or terminated; of several, that of the first that did not complete.
    """
    wanted = read_ids(ids)
    if raw and len(wanted) > 1:
        raise UsageError("--raw is for one instance: texts of several could not be told apart")

    async def work(client: Client) -> Sequence[Any]:
        results = (client.handle(one).result(timeout=timeout) for one in wanted)
        return await asyncio.gather(*results, return_exceptions=True)

    code = ExitCode.GOOD
    for instance_id, result in zip(wanted, ask(url, work), strict=True):
        if isinstance(result, OutcomeError | ResultTimeoutError | InstanceNotFoundError):
            say_error(error_text(result, url))
            code = code or exit_code_of(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            _print_result(form, instance_id, result, raw=raw, is_alone=len(wanted) == 1)
    sys.exit(code)


def _print_result(form: str, instance_id: str, result: Json, *, raw: bool, is_alone: bool) -> None:
    if is_alone:
        click.echo(result_text(form, result, raw=raw), color=raw or None)
    elif form in ("json", "jsonl"):
        click.echo(json_line({"instance_id": instance_id, "result": result}))
    else:
        click.echo(f"{printable(instance_id)}\t{json_line(result)}")


# -------------------------------------------------------------------------- tail


@click.command("tail")
@click.argument("instance_id", metavar="ID")
@click.option(
    "--events",
    default=10,
    show_default=True,
    type=click.IntRange(0, 10_000),
    help="How many of those that are there already.",
)
@form_options
@store_option
def tail_command(instance_id: str, events: int, form: str, url: str) -> None:
    """Print the newest events of an instance and those that come, until it ends.

    The exit code says how it ended, as that of `perdure wait`.
    """

    async def work(client: Client) -> Status:
        handle = client.handle(instance_id)
        names: dict[int, str] = {}
        async for event in _events_of(handle, newest=events):
            names |= names_in([event])
            click.echo(_event_line(form, event, names))
        return (await handle.info()).status

    sys.exit(_ENDED_AS.get(ask(url, work), ExitCode.RUNNING))


async def follow_on(
    handle: Handle[Any], form: str, execution: int, shown: Sequence[HistoryEvent]
) -> ExitCode:
    """Print what is recorded behind events of an execution that were shown, until the instance
    ends; return how that ended."""
    names = names_in(shown)
    after = (execution, shown[-1].seq) if shown else None
    async for event in _events_of(handle, newest=0, after=after):
        names |= names_in([event])
        click.echo(_event_line(form, event, names))
    return _ENDED_AS.get((await handle.info()).status, ExitCode.RUNNING)


async def _events_of(
    handle: Handle[Any], *, newest: int, after: tuple[int, int] | None = None
) -> AsyncIterator[HistoryEvent]:
    """Return the newest events of an instance, or those after one of an execution, and all that
    come until it ends."""
    info = await handle.info()
    if after is not None:
        execution, seen = after
    else:
        execution = info.execution
        seen = max(0, (await handle.stats()).events - newest)
    while True:
        events = await handle.history(execution, after=seen, limit=EVENTS_PER_LOOK)
        for event in events:
            yield event
            seen = event.seq
        if events and events[-1].kind == ContinuedAsNew.kind:
            execution, seen = execution + 1, 0
        elif not events:
            if info.status.is_terminal and info.execution == execution:
                return
            info = await handle.info()
            if not info.status.is_terminal:
                await asyncio.sleep(LOOK_EVERY_S)


def _event_line(form: str, event: HistoryEvent, names: dict[int, str]) -> str:
    if form in ("json", "jsonl"):
        return json_line(as_json(event))
    if form in ("table", "wide"):
        when = for_people(Exact(event.at), event.at)
        words = [when, event.kind.replace("_", " "), subject_of(event, names)]
        value = value_of(event)
        text = "  ".join(filter(None, [*words, value if form == "wide" else shortened(value, 80)]))
        return printable(text)
    return history_listing(names).render(form, [event]) or ""


# ------------------------------------------------------------------------- watch


@click.command("watch")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@store_option
def watch_command(ids: tuple[str, ...], url: str) -> None:
    """Watch instances and all below them live, with bars for activities that say how far they are,
    and for each `for_each`.

    Ends when all have ended; the exit code is that of `perdure wait`. Needs a terminal; in a pipe
    use `perdure tail`.

    An activity's progress is a bar if it is a number from 0 to 1, [done, total], or an object with
    `done` and `total`, or `done` and `of`. Of many instances, 20 that run say how far they are.
    """
    wanted = read_ids(ids)
    if len(wanted) > MAX_WATCHED:
        raise UsageError(f"{len(wanted)} instances do not fit: at most {MAX_WATCHED}")
    if not sys.stdout.isatty():
        raise UsageError("watch needs a terminal; in a pipe use: perdure tail ID")
    statuses = ask(url, lambda client: _watch(client, wanted))
    sys.exit(next((code for one in statuses if (code := _ENDED_AS[one])), ExitCode.GOOD))


async def _watch(client: Client, ids: Sequence[str]) -> list[Status]:
    from rich.console import Console, Group  # late: rich is needed on a terminal only
    from rich.live import Live

    handles = [client.handle(one) for one in ids]
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            trees = [await handle.tree() for handle in handles]
            live.update(Group(*await draw_trees(client, trees)), refresh=True)
            statuses = [tree.info.status for tree in trees]
            if all(status.is_terminal for status in statuses):
                return statuses
            await asyncio.sleep(DRAW_EVERY_S)


async def draw_trees(client: Client, trees: Sequence[InstanceTree]) -> list[Any]:
    """Return trees as rich draws them: below each instance that runs its running activities, below
    each `for_each` how far it is, and what the roots report."""
    from rich.text import Text  # late: rich is needed on a terminal only

    below: dict[str, list[Any]] = {}
    asked = _to_ask(trees)
    for info in asked[:MAX_ASKED]:
        handle = client.handle(info.instance_id)
        with suppress(InstanceNotFoundError):  # It was deleted meanwhile.
            if info.name == FOR_EACH:
                report = await handle.report()
                below[info.instance_id] = (
                    [] if report is None else [drawn_tally(read_tally(report.value))]
                )
            else:
                below[info.instance_id] = [drawn_progress(one) for one in await handle.progress()]
    for tree in trees:
        if not tree.info.status.is_terminal and tree.info.name != FOR_EACH:
            report = await client.handle(tree.info.instance_id).report()
            if report is not None:
                below.setdefault(tree.info.instance_id, []).append(_line("report", report.value))
    drawn = [rich_tree(tree, below) for tree in trees]
    if len(asked) > MAX_ASKED:
        text = f"bars are drawn for {MAX_ASKED} of {len(asked)} instances; watch the others alone"
        drawn.append(Text(text, style="dim"))
    return drawn


def _to_ask(trees: Sequence[InstanceTree]) -> list[InstanceInfo]:
    """Return the instances of trees that may say how far they are, each once: those that run first,
    and of these those that are nearest to a root."""
    found: dict[str, InstanceInfo] = {}
    level = list(trees)
    while level:
        for one in level:
            if one.info.status is Status.RUNNING or one.info.name == FOR_EACH:
                found.setdefault(one.info.instance_id, one.info)
        level = [below for one in level for below in (*one.children, *one.calls)]
    return sorted(found.values(), key=lambda info: info.status.is_terminal)


def drawn_tally(tally: ReportedTally) -> Any:
    """Return how far a `for_each` is as rich draws it; a bar without an end, if it is not known how
    many items there are."""
    from rich.progress_bar import ProgressBar  # late: rich is needed on a terminal only
    from rich.table import Table

    row = Table.grid(padding=(0, 2, 0, 0))
    fraction = tally.fraction
    total = None if fraction is None else 1.0
    row.add_row(ProgressBar(total=total, completed=fraction or 0, width=BAR_WIDTH), str(tally))
    return row


def _line(name: str, value: Json) -> Any:
    from rich.text import Text  # late: rich is needed on a terminal only

    return Text(f"{printable(name)}  {printable(value_text(value))}", style="dim")


def drawn_progress(one: Progress) -> Any:
    """Return a running activity as rich draws it: a bar, or what it says."""
    from rich.progress_bar import ProgressBar  # late: rich is needed on a terminal only
    from rich.table import Table
    from rich.text import Text

    name = f"{one.activity} (attempt {one.attempt})"
    portion = read_portion(one.value)
    if portion is None:
        return _line(name, one.value) if one.value is not None else _line(name, "runs")
    row = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(total=1.0, completed=portion.fraction, width=BAR_WIDTH)
    row.add_row(Text(printable(name)), bar, str(portion))
    return row
