"""`perdure list`, `show`, `explain` and `tree`: where instances stand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from perdure.cli.chosen import WORDS_HELP, choose, find_ids, read_ids, where_option
from perdure.cli.error_texts import explain_error, find_error, near_error
from perdure.cli.event_texts import history_listing
from perdure.cli.forms import Column, Listing, ago, json_line, json_text, print_rich, value_text
from perdure.cli.instance_texts import INSTANCES, OPEN_JOBS, now_text
from perdure.cli.jobs_shown import DEAD_JOBS, INBOX
from perdure.cli.mermaid import gantt
from perdure.cli.opening import ask
from perdure.cli.options import form_options, form_options_with, store_option
from perdure.cli.output import printable, say
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.client import Client
from perdure.client.histories.event_texts import names_in
from perdure.client.reading.as_json import as_json
from perdure.client.reading.filters import parse_filter
from perdure.client.reading.info import HistoryEvent, InstanceInfo, InstanceTree, JobInfo, Report
from perdure.client.reading.lists import InstanceQuery
from perdure.durations import shown_duration
from perdure.errors import InstanceNotFoundError, UsageError
from perdure.limits import PAGE_MAX
from perdure.model.instances import Status

SHOWN_EVENTS = 20
"""How many of the newest events `show` prints."""

# -------------------------------------------------------------------------- list


@click.command("list", epilog=WORDS_HELP)
@click.argument("words", metavar="[FILTER]...", nargs=-1)
@where_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most."
)
@click.option("--all", "is_all", is_flag=True, help="All of them, however many.")
@click.option("--count", "is_count", is_flag=True, help="Print how many there are, and no more.")
@watch_option
@form_options
@store_option
def list_command(
    words: tuple[str, ...],
    where: str | None,
    limit: int,
    is_all: bool,
    is_count: bool,
    watch: bool,
    form: str,
    url: str,
) -> None:
    """List instances, newest first.

    FILTER is words that must all hold: name:checkout status:failed,parked since:2h
    """
    query = parse_filter([*words, where or ""], now=datetime.now(UTC))

    async def work(client: Client) -> None:
        if is_count:
            click.echo(await client.count(**query))
            return

        async def read() -> Sequence[InstanceInfo]:
            items, is_more = await _read(client, query, None if is_all else limit)
            if is_more and not watch:
                say(f"the newest {len(items)} are shown: --limit N or --all for more")
            return items

        await show_or_watch(INSTANCES, form, read, watch=watch)

    ask(url, work)


async def _read(
    client: Client, query: InstanceQuery, limit: int | None
) -> tuple[list[InstanceInfo], bool]:
    """Return so many instances, and whether there are more."""
    items: list[InstanceInfo] = []
    after = None
    while True:
        size = PAGE_MAX if limit is None else min(PAGE_MAX, limit - len(items))
        page = await client.instances(limit=size, after=after, **query)
        items += page.items
        after = page.next
        if after is None or len(items) == limit:
            return items, after is not None


# -------------------------------------------------------------------------- show


class ShownInstance(NamedTuple):
    """All that `show` prints of an instance."""

    instance: InstanceInfo
    explanation: str
    report: Report | None
    jobs: Sequence[JobInfo]
    events: Sequence[HistoryEvent]
    """The newest."""


@click.command("show")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--events",
    default=SHOWN_EVENTS,
    show_default=True,
    type=click.IntRange(0, 10_000),
    help="How many of the newest events.",
)
@click.option("--follow", "follows", is_flag=True, help="Print events as they come, until it ends.")
@form_options_with("mermaid")
@store_option
def show_command(ids: tuple[str, ...], events: int, follows: bool, form: str, url: str) -> None:
    """Show where an instance stands: what it waits for, its input, its newest events.

    `-` reads ids from standard input. With --follow the exit code is that of `perdure wait`.
    -o mermaid prints the newest events as a chart that GitHub and others draw.
    """
    wanted = read_ids(ids)
    if follows and len(wanted) != 1:
        raise UsageError(f"--follow is for one instance, not for {len(wanted)}")
    if follows and form in ("json", "csv", "ids", "mermaid"):
        raise UsageError(f"--follow has no end that -o {form} could close: use -o jsonl")

    async def work(client: Client) -> None:
        for number, instance_id in enumerate(wanted):
            if number and form in ("table", "wide", "tsv"):
                click.echo()
            shown = await _look_at(client, instance_id, events)
            _show(form, shown)
            if follows:
                from perdure.cli.commands.follow import follow_on  # late: it brings this file

                execution = shown.instance.execution
                handle = client.handle(instance_id)
                sys.exit(await follow_on(handle, form, execution, shown.events))

    ask(url, work)


async def _look_at(client: Client, instance_id: str, newest: int) -> ShownInstance:
    handle = client.handle(instance_id)
    info = await handle.info()
    stats = await handle.stats()
    events: list[HistoryEvent] = []
    if newest:
        after = max(0, stats.events - newest)
        events = await handle.history(info.execution, after=after, limit=newest)
    return ShownInstance(
        info, await handle.explain(), await handle.report(), await handle.jobs(), events
    )


def _show(form: str, shown: ShownInstance) -> None:
    info = shown.instance
    match form:
        case "json":
            click.echo(json_text(shown._asdict()))
        case "jsonl":
            click.echo(json_line(shown._asdict()))
        case "ids":
            click.echo(printable(info.instance_id))
        case "csv":
            INSTANCES.show("csv", [info])
        case "mermaid":
            click.echo(gantt(info, shown.events, now=datetime.now(UTC)))
        case "tsv":
            for field, value in _fields(shown):
                click.echo(f"{field}\t{printable(value)}")
            history_listing(names_in(shown.events)).show("tsv", shown.events)
        case _:
            _show_on_terminal(form, shown)


def _fields(shown: ShownInstance) -> Iterator[tuple[str, str]]:
    info = shown.instance
    yield "instance", info.instance_id
    yield "name", " ".join(filter(None, (info.name, info.version)))
    yield "status", info.status.value
    yield "explanation", shown.explanation
    if info.parent_id is not None:
        yield "parent", info.parent_id
    yield "input", value_text(info.input)
    if shown.report is not None:
        yield "report", value_text(shown.report.value)
    if info.status is Status.COMPLETED:
        yield "output", value_text(info.output)


def _show_on_terminal(form: str, shown: ShownInstance) -> None:
    from rich.table import Table  # late: rich is needed on a terminal only
    from rich.text import Text

    now = datetime.now(UTC)
    info = shown.instance
    head = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    head.add_column(style="dim")
    head.add_column(overflow="fold")
    for field, value in _fields(shown):
        head.add_row(field, Text(printable(value)))
    age = ago(info.created_at, now)
    if info.ended_at is not None:
        age += f", took {shown_duration(info.ended_at - info.created_at)}"
    head.add_row("started", age)
    print_rich(head)
    if shown.jobs:
        click.echo("\nopen jobs")
        OPEN_JOBS.show(form, shown.jobs)
    if shown.events:
        click.echo(f"\nnewest {len(shown.events)} events")
        history_listing(names_in(shown.events)).show(form, shown.events)


# ----------------------------------------------------------------------- explain


@click.command("explain")
@click.argument("ids", metavar="[ID|ERROR]...", nargs=-1)
@where_option
@form_options
@store_option
def explain_command(ids: tuple[str, ...], where: str | None, form: str, url: str) -> None:
    """Say in one sentence what an instance waits for, who has it and why nothing moves.

    On a terminal and in JSON the evidence follows: open jobs, what is in the inbox, dead jobs.

    The name of an error instead of an ID says what that means and what to do: perdure explain
    InstanceHeldError.
    """
    kinds = [find_error(one) for one in ids]
    if ids and where is None and None not in kinds:
        for kind in filter(None, kinds):
            text = explain_error(kind)
            in_json = {"error": kind.__name__, "explanation": text}
            click.echo(json_line(in_json) if form in ("json", "jsonl") else text)
        return
    chosen = choose(ids, where)

    async def work(client: Client) -> None:
        for instance_id in await find_ids(client, chosen, [Status(one) for one in Status]):
            try:
                sentence = await client.handle(instance_id).explain()
            except InstanceNotFoundError as missing:
                near = near_error(instance_id)
                if near is None:
                    raise
                text = f"{missing}, and no error of that name; did you mean {near}?"
                raise InstanceNotFoundError(instance_id, text) from None
            if form in ("tsv", "csv", "ids"):
                click.echo(printable(sentence))
            else:
                _show_evidence(form, sentence, await _evidence(client, instance_id))

    ask(url, work)


async def _evidence(client: Client, instance_id: str) -> dict[str, Any]:
    page = await client.dead_jobs(instance_id=instance_id)
    return {
        "instance_id": instance_id,
        "jobs": await client.handle(instance_id).jobs(),
        "inbox": await client.inbox(instance_id),
        "dead_jobs": page.items,
    }


def _show_evidence(form: str, sentence: str, evidence: dict[str, Any]) -> None:
    if form in ("json", "jsonl"):
        whole = {"explanation": sentence, **evidence}
        click.echo(json_text(whole) if form == "json" else json_line(whole))
        return
    click.echo(printable(sentence))
    kinds: tuple[tuple[str, Listing[Any]], ...] = (
        ("jobs", OPEN_JOBS),
        ("inbox", INBOX),
        ("dead_jobs", DEAD_JOBS),
    )
    for title, listing in kinds:
        if evidence[title]:
            click.echo(f"\n{title.replace('_', ' ')}")
            listing.show(form, evidence[title])


# -------------------------------------------------------------------------- tree


class TreeRow(NamedTuple):
    """One instance of a tree, as a row."""

    info: InstanceInfo
    depth: int
    how: str
    """child or call; empty for the root."""


TREE = Listing[TreeRow](
    columns=(
        Column("instance", lambda one: one.info.instance_id),
        Column("depth", lambda one: one.depth),
        Column("how", lambda one: one.how),
        Column("name", lambda one: one.info.name),
        Column("status", lambda one: one.info.status.value),
        Column("now", lambda one: now_text(one.info)),
    ),
    json=lambda one: {"depth": one.depth, "how": one.how, **_as_dict(one.info)},
)


@click.command("tree")
@click.argument("instance_id", metavar="ID")
@click.option("--no-calls", is_flag=True, help="Leave out the deciders that were called.")
@form_options
@store_option
def tree_command(instance_id: str, no_calls: bool, form: str, url: str) -> None:
    """Show an instance, what it started and waits for, and the deciders it called."""
    found = ask(url, lambda client: client.handle(instance_id).tree(calls=not no_calls))
    if form == "json":
        click.echo(json_text(found))
    elif form in ("table", "wide"):
        print_rich(rich_tree(found))
    else:
        TREE.show(form, list(_rows(found)))


def rich_tree(
    found: InstanceTree, below: Mapping[str, Sequence[Any]] = MappingProxyType({})
) -> Any:
    """Return a tree of instances as one of rich's.

    Args:
        found: The tree.
        below: What else is drawn below an instance, by its id.
    """
    from rich.text import Text  # late: rich is needed on a terminal only
    from rich.tree import Tree

    from perdure.cli.forms import STYLES

    def label(info: InstanceInfo, how: str) -> Text:
        status = info.status.value
        text = Text(printable(info.instance_id))
        text.append(f"  {printable(info.name)}", style="dim")
        text.append(f"  {status}", style=STYLES.get(status, ""))
        text.append(f"  {how}" if how == "call" else "", style="dim")
        return text.append(f"  {printable(now_text(info))}" if now_text(info) else "")

    root = Tree(label(found.info, ""))
    # Without recursion: a chain of children may be deeper than Python's stack.
    waiting = [(found, root)]
    while waiting:
        node, branch = waiting.pop()
        for one in below.get(node.info.instance_id, ()):
            branch.add(one)
        for how, others in (("child", node.children), ("call", node.calls)):
            waiting += [(other, branch.add(label(other.info, how))) for other in others]
    return root


def _rows(found: InstanceTree) -> Iterator[TreeRow]:
    waiting = [(found, 0, "")]
    while waiting:
        node, depth, how = waiting.pop()
        yield TreeRow(node.info, depth, how)
        below = [(one, depth + 1, "child") for one in node.children]
        below += [(one, depth + 1, "call") for one in node.calls]
        waiting += reversed(below)


def _as_dict(info: InstanceInfo) -> dict[str, Any]:
    found = as_json(info)
    assert isinstance(found, dict)
    return found
