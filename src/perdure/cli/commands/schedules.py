"""`perdure schedule`: what is started when, and steering it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import click

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.schedules.schedule import MISSED, OVERLAPS, Schedule
from perdure.authoring.schedules.when import Cron, Every
from perdure.cli.commands.starting import named_argument
from perdure.cli.forms import Column, Exact, Listing, json_line, json_text
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import DURATION, form_options, store_option
from perdure.cli.output import printable
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.deciders.schedules import ScheduleHandle, ScheduleInfo
from perdure.errors import UsageError

SCHEDULES = Listing[ScheduleInfo](
    columns=(
        Column("schedule", lambda one: one.name),
        Column("starts", lambda one: one.orchestration),
        Column("when", lambda one: ", ".join(one.when)),
        Column("next", lambda one: None if one.next is None else Exact(one.next)),
        Column("last", lambda one: None if one.last is None else Exact(one.last.at)),
        Column("running", lambda one: len(one.running)),
        Column("paused", lambda one: _paused(one)),
        Column("by", lambda one: "code" if one.declared else "hand"),
        Column("overlap", lambda one: one.overlap, wide=True),
        Column("waiting", lambda one: None if one.queued is None else one.queued.at, wide=True),
    ),
)


def _paused(one: ScheduleInfo) -> str:
    return "" if one.paused is None else one.paused or "paused"


def _aware(_: click.Context, param: click.Parameter, value: str) -> datetime:
    """Return a point in time; refuse one without a zone."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise click.BadParameter(
            f"{value!r} is no time with a zone, such as 2026-01-01T00:00Z", param=param
        )
    return found


@click.group("schedule")
def schedule_command() -> None:
    """Look at schedules, and steer them."""


@schedule_command.command("list")
@watch_option
@form_options
@store_option
def list_schedules(watch: bool, form: str, url: str) -> None:
    """List the schedules, by name."""
    ask(url, lambda client: show_or_watch(SCHEDULES, form, client.schedules, watch=watch))


@schedule_command.command("show")
@click.argument("name")
@form_options
@store_option
def show_schedule(name: str, form: str, url: str) -> None:
    """Show a schedule: its next slots, and what runs."""
    found = ask(url, lambda client: client.schedule(name).info())
    if form in ("json", "jsonl"):
        click.echo(json_text(found) if form == "json" else json_line(found))
        return
    SCHEDULES.show("wide" if form == "table" else form, [found])
    if form == "table":
        for at in found.upcoming:
            click.echo(f"  next  {at.isoformat()}")
        for instance_id in found.running:
            click.echo(f"  runs  {printable(instance_id)}")


@schedule_command.command("put")
@click.argument("name")
@click.argument("orchestration")
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@click.option("--arg", "named", metavar="NAME=VALUE", multiple=True, help="An argument by name.")
@click.option("--cron", "crons", multiple=True, help='Times, as in "0 2 * * *".')
@click.option("--timezone", default="UTC", show_default=True, help="The place of --cron.")
@click.option("--every", "periods", type=DURATION, multiple=True, help="A distance, as in 5m.")
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    default="skip",
    show_default=True,
    help="What to do with a slot while an earlier one runs.",
)
@click.option(
    "--missed",
    type=click.Choice(MISSED),
    default="latest",
    show_default=True,
    help="Which missed slots to make up for.",
)
@click.option("--jitter", type=DURATION, help="Start each up to so much later.")
@store_option
def put_schedule(
    name: str,
    orchestration: str,
    values: tuple[str, ...],
    named: tuple[str, ...],
    crons: tuple[str, ...],
    timezone: str,
    periods: tuple[timedelta, ...],
    overlap: Any,
    missed: Any,
    jitter: timedelta | None,
    url: str,
) -> None:
    """Start ORCHESTRATION at given times, or change a schedule that was put by hand.

    Each VALUE is an argument, as JSON: perdure schedule put daily report '"eu"' --cron "0 2 * * *"
    """
    args = [parse_value(one, what=f"argument {n}") for n, one in enumerate(values, start=1)]
    kwargs = dict(named_argument(one) for one in named)
    started: Orchestration[..., Any] = Orchestration.named(orchestration, Any)
    try:
        when: list[Cron | Every] = [Cron(one, timezone) for one in crons]
        when += [Every(one) for one in periods]
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not when:
        raise UsageError("when is it to start? Give --cron or --every, or several of them")
    schedule = Schedule(name, when, started, *args, **kwargs).with_options(
        overlap=overlap, missed=missed, jitter=jitter or timedelta(0)
    )
    ask(url, lambda client: client.put_schedule(schedule))
    click.echo(f"{printable(name)}\tput")


@schedule_command.command("pause")
@click.argument("name")
@click.option("--reason", default="", help="Why; shown beside it.")
@store_option
def pause_schedule(name: str, reason: str, url: str) -> None:
    """Start nothing more by the clock until it is resumed; what runs goes on."""
    _do(url, name, lambda handle: handle.pause(reason), "paused")


@schedule_command.command("resume")
@click.argument("name")
@store_option
def resume_schedule(name: str, url: str) -> None:
    """Go on from now."""
    _do(url, name, lambda handle: handle.resume(), "resumed")


@schedule_command.command("trigger")
@click.argument("name")
@click.option("--id", "trigger_id", help="The same id twice starts one.")
@store_option
def trigger_schedule(name: str, trigger_id: str | None, url: str) -> None:
    """Start one now, and print its instance id."""
    click.echo(ask(url, lambda client: client.schedule(name).trigger(trigger_id=trigger_id)))


@schedule_command.command("backfill")
@click.argument("name")
@click.argument("after", callback=_aware)
@click.argument("before", callback=_aware)
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    default="allow",
    show_default=True,
    help="Side by side, one after another, or left out while another runs.",
)
@store_option
def backfill_schedule(name: str, after: datetime, before: datetime, overlap: Any, url: str) -> None:
    """Start what the time from AFTER up to BEFORE would have started."""
    count = ask(url, lambda client: client.schedule(name).backfill(after, before, overlap=overlap))
    click.echo(f"{printable(name)}\t{count} slots")


@schedule_command.command("delete")
@click.argument("name")
@store_option
def delete_schedule(name: str, url: str) -> None:
    """Have no such schedule any more; what it has started goes on."""
    _do(url, name, lambda handle: handle.delete(), "deleted")


def _do(url: str, name: str, do: Callable[[ScheduleHandle], Awaitable[None]], done: str) -> None:
    ask(url, lambda client: do(client.schedule(name)))
    click.echo(f"{printable(name)}\t{done}")
