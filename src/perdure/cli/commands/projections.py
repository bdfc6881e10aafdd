"""`perdure projection`: how projections and subscriptions stand, and steering them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from perdure.cli.forms import Column, Listing, json_line, json_text
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import printable
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.client import Client
from perdure.client.deciders.projections import ProjectionInfo

PROJECTIONS = Listing[ProjectionInfo](
    columns=(
        Column("projection", lambda one: one.name),
        Column("status", lambda one: one.status.value),
        Column("position", lambda one: one.position),
        Column("behind", lambda one: one.behind),
        Column("lag", lambda one: one.lag),
        Column("worker", lambda one: "yes" if one.has_worker else "no"),
        Column("moved", lambda one: one.updated),
        Column("why", lambda one: _why(one)),
    ),
)


def _why(one: ProjectionInfo) -> str:
    if one.stuck is None:
        return one.reason
    stuck = one.stuck
    where = f" at event {stuck.event} of {stuck.instance_id}" if stuck.position else ""
    return (
        f"{stuck.method} failed{where} ({stuck.attempts} attempts): {stuck.error}: {stuck.message}"
    )


@click.group("projection")
def projection_command() -> None:
    """Look at projections and subscriptions, and steer them."""


@projection_command.command("list")
@watch_option
@form_options
@store_option
def list_projections(watch: bool, form: str, url: str) -> None:
    """List the projections and subscriptions that a worker has ever run here."""
    ask(url, lambda client: show_or_watch(PROJECTIONS, form, client.projections, watch=watch))


@projection_command.command("show")
@click.argument("name")
@form_options
@store_option
def show_projection(name: str, form: str, url: str) -> None:
    """Show how a projection stands."""
    found = ask(url, lambda client: client.projection(name))
    if form in ("json", "jsonl"):
        click.echo(json_text(found) if form == "json" else json_line(found))
    else:
        PROJECTIONS.show("wide" if form == "table" else form, [found])


@projection_command.command("pause")
@click.argument("name")
@click.option("--reason", default="", help="Why; shown beside it.")
@store_option
def pause_projection(name: str, reason: str, url: str) -> None:
    """Let a projection handle no more events until it is resumed."""
    _do(url, name, "paused", lambda client: client.pause_projection(name, reason=reason))


@projection_command.command("resume")
@click.argument("name")
@click.option("--skip", is_flag=True, help="Leave out the event at which it is stuck, for good.")
@store_option
def resume_projection(name: str, skip: bool, url: str) -> None:
    """Let a projection go on that was paused or is stuck."""
    _do(url, name, "resumed", lambda client: client.resume_projection(name, skip=skip))


@projection_command.command("rebuild")
@click.argument("name")
@store_option
def rebuild_projection(name: str, url: str) -> None:
    """Let a projection remove what it has written and handle all events once more."""
    _do(url, name, "begins anew", lambda client: client.rebuild_projection(name))


@projection_command.command("forget")
@click.argument("name")
@store_option
def forget_projection(name: str, url: str) -> None:
    """Forget a projection that exists no more, and how far it had come."""
    _do(url, name, "forgotten", lambda client: client.forget_projection(name))


def _do(url: str, name: str, done: str, do: Callable[[Client], Awaitable[None]]) -> None:
    ask(url, do)
    click.echo(f"{printable(name)}\t{done}")
