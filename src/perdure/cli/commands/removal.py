"""`perdure delete` and `perdure db prune`: whole instances, and histories of earlier executions.

What is removed is gone for good, so a person is asked also about a single instance.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from perdure.cli.chosen import choose, confirm_what, where_option
from perdure.cli.commands.act import Act, do_act
from perdure.cli.forms import Column, Listing, json_line
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import say
from perdure.client.client import Client
from perdure.client.reading.filters import parse_filter, parse_time
from perdure.client.reading.lists import InstanceQuery, ended_roots
from perdure.errors import UsageError
from perdure.limits import BULK_MAX
from perdure.model.admin import DeletedCounts
from perdure.model.instances import ENDED

# ------------------------------------------------------------------------ delete


@click.command("delete")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@where_option
@click.option("--before", metavar="TIME", help="All that ended before then: 30d, 2026-11-01.")
@click.option("--force", is_flag=True, help="With IDs: also what has not ended; it is not asked.")
@click.option("--dry-run", is_flag=True, help="Print which ones or how many, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@form_options
@store_option
def delete_command(
    ids: tuple[str, ...],
    where: str | None,
    before: str | None,
    force: bool,
    dry_run: bool,
    yes: bool,
    form: str,
    url: str,
) -> None:
    """Delete instances that have ended, each with everything below it, for good.

    With --before or --where all that ended so long ago, or that a filter finds; a tree in which
    something has not ended is left alone then. Workers do it by themselves with --retain-ended.
    """
    if where is None and before is None:
        _delete_named(ids, force=force, dry_run=dry_run, yes=yes, form=form, url=url)
        return
    if ids or force:
        given = "ids" if ids else "--force"
        raise UsageError(f"{given} cannot be given with --where or --before: leave one of them out")
    query = _ended(where, before)
    count = ask(url, lambda client: client.count(**query)) if query.get("status") else 0
    trees = f"{count:,} instance{'s' * (count != 1)}, with all below"
    if dry_run or not count:
        say(f"would delete {trees}")
        return
    # Outside any event loop, which would keep Ctrl-C for itself while a person is asked.
    confirm_what(f"delete {trees}", yes=yes)
    deleted = ask(url, lambda client: _delete_all(client, query))
    if form in ("json", "jsonl"):
        click.echo(json_line({"deleted": deleted}))
    else:
        click.echo(f"deleted\t{deleted}")


def _ended(where: str | None, before: str | None) -> InstanceQuery:
    """Return the conditions of what is deleted: ended roots."""
    words = [] if before is None else [f"ended-before:{before}"]
    query = parse_filter([where or "", *words], now=datetime.now(UTC))
    if before is None:
        choose((), where)  # refuses an empty filter
    return ended_roots(query)


async def _delete_all(client: Client, query: InstanceQuery) -> int:
    """Delete all that are found; return how many, those below them counted."""
    deleted = 0
    while found := (await client.delete_all(limit=BULK_MAX, **query)).instances:
        deleted += found
    return deleted


def _delete_named(ids: tuple[str, ...], *, force: bool, **options: Any) -> None:
    async def do(client: Client, instance_id: str) -> str:
        below = (await client.handle(instance_id).delete(force=force)).instances - 1
        return f"deleted, with {below:,} below" if below > 0 else ""

    act = Act("delete, with all below,", "deleted", ENDED, do, unasked=0)
    do_act(act, ids, where=None, **options)


# ------------------------------------------------------------------------- prune


class Pruned(NamedTuple):
    """What was removed of earlier executions."""

    of: str
    """An instance, or what was asked for."""
    counts: DeletedCounts


PRUNED = Listing[Pruned](
    columns=(
        Column("of", lambda one: one.of),
        Column("executions", lambda one: one.counts.executions),
        Column("events", lambda one: one.counts.events),
    ),
    json=lambda one: {
        "of": one.of,
        "executions": one.counts.executions,
        "events": one.counts.events,
    },
)


@click.command("prune")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@where_option
@click.option("--all", "is_all", is_flag=True, help="Of all instances.")
@click.option(
    "--keep-last",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many executions stay, the current one included.",
)
@click.option("--before", metavar="TIME", help="Only executions that ended before then: 30d.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@form_options
@store_option
def prune_command(
    ids: tuple[str, ...],
    where: str | None,
    is_all: bool,
    keep_last: int,
    before: str | None,
    yes: bool,
    form: str,
    url: str,
) -> None:
    """Remove the histories of earlier executions, of running instances too: of those that went on
    by continue_as_new or by a reset.

    The current execution always stays, and all that the instance needs to go on. Workers do it by
    themselves with --retain-executions. Whole instances: perdure delete
    """
    named, query = _pruned(ids, where, is_all=is_all)
    terms = PruneTerms(
        keep_last,
        None if before is None else parse_time(before, now=datetime.now(UTC), what="--before"),
    )
    # Outside any event loop, which would keep Ctrl-C for itself while a person is asked.
    confirm_what(f"remove the histories of earlier executions of {_whose(named, where)}", yes=yes)

    async def work(client: Client) -> list[Pruned]:
        if query is not None:
            return [Pruned(where or "all", await _prune_all(client, query, terms))]
        return [Pruned(one, await client.handle(one).prune(**terms._asdict())) for one in named]

    PRUNED.show(form, ask(url, work))


class PruneTerms(NamedTuple):
    """What stays."""

    keep_last: int
    before: datetime | None


def _pruned(
    ids: tuple[str, ...], where: str | None, *, is_all: bool
) -> tuple[list[str], InstanceQuery | None]:
    """Return the instances that are named, or the conditions of those that are meant.

    Raises:
        UsageError: None are named, or in two ways.
    """
    if is_all:
        if ids or where is not None:
            raise UsageError("--all means every instance: leave it out, or the ids and --where")
        return [], {}
    if not ids and where is None:
        raise UsageError(
            "say of which instances: ids, - for ids on standard input, --where or --all"
        )
    chosen = choose(ids, where)
    return list(chosen.ids), chosen.query


async def _prune_all(client: Client, which: InstanceQuery, terms: PruneTerms) -> DeletedCounts:
    """Remove them of all that match; return how many."""
    events = executions = 0
    while True:
        found = await client.prune(limit=BULK_MAX, **terms._asdict(), **which)
        executions, events = executions + found.executions, events + found.events
        # Each instance of a call that came to its limit has lost one at least.
        if found.executions < BULK_MAX:
            return DeletedCounts(executions=executions, events=events)


def _whose(named: list[str], where: str | None) -> str:
    """Return whose histories they are, for the question."""
    if where is not None:
        return f"what {where!r} finds"
    if not named:
        return "all instances"
    return ", ".join(named[:3]) + (f" and {len(named) - 3:,} more" if len(named) > 3 else "")
