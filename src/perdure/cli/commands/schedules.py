"""`perdure schedule`: what is started when, and steering it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import click

from perdure.authoring.schedules.schedule import OVERLAPS
from perdure.cli.forms import Column, Exact, Listing, json_line, json_text
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import printable
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.deciders.schedules import ScheduleHandle, ScheduleInfo

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
