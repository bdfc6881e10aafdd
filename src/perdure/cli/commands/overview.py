"""`perdure queues`, `workers`, `sessions`, `stats`: what waits, who works, how much is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from perdure.cli.chosen import choose, find_ids, where_option
from perdure.cli.forms import Column, Listing
from perdure.cli.jobs_shown import QUEUES, SESSIONS, WORKERS
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import named, say
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.client import Client
from perdure.client.reading.as_json import as_json
from perdure.client.reading.overview import QueueInfo
from perdure.model.admin import InstanceStats
from perdure.model.instances import Status


@click.command("queues")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@watch_option
@form_options
@store_option
def queues_command(names: tuple[str, ...], watch: bool, form: str, url: str) -> None:
    """List what waits for which definition, and who takes it; of these definitions alone, if any
    are named.

    What no live worker takes is under `unclaimed`, with what a worker would need. -o wide names the
    workers.
    """

    async def read(client: Client) -> Sequence[QueueInfo]:
        found = await client.queues()
        unknown = [name for name in names if name not in {one.name for one in found}]
        if unknown and not watch:
            say(f"nothing waits or is served under {named(unknown)}")
        return [one for one in found if not names or one.name in names]

    ask(url, lambda client: show_or_watch(QUEUES, form, lambda: read(client), watch=watch))


@click.command("workers")
@watch_option
@form_options
@store_option
def workers_command(watch: bool, form: str, url: str) -> None:
    """List the workers that gave a sign of life lately, and what they take."""
    ask(url, lambda client: show_or_watch(WORKERS, form, client.workers, watch=watch))


@click.command("sessions")
@watch_option
@form_options
@store_option
def sessions_command(watch: bool, form: str, url: str) -> None:
    """List the sessions, each with the worker that all its jobs run on.

    One that is held no more goes to the first worker that claims a job of it.
    """
    ask(url, lambda client: show_or_watch(SESSIONS, form, client.sessions, watch=watch))


class Stored(NamedTuple):
    """How much is stored for an instance."""

    instance_id: str
    stats: InstanceStats


def _in_json(one: Stored) -> dict[str, Any]:
    stats = as_json(one.stats)
    assert isinstance(stats, dict)
    return {"instance_id": one.instance_id, **stats}


STATS = Listing[Stored](
    columns=(
        Column("instance", lambda one: one.instance_id),
        Column("executions", lambda one: one.stats.executions),
        Column("events", lambda one: one.stats.events),
        Column("event bytes", lambda one: one.stats.event_bytes),
        Column("messages", lambda one: one.stats.messages),
        Column("timers", lambda one: one.stats.timers),
        Column("jobs", lambda one: one.stats.jobs),
        Column("keys", lambda one: one.stats.kv_keys),
        Column("key bytes", lambda one: one.stats.kv_bytes),
        Column("observations", lambda one: one.stats.observations, wide=True),
        Column("snapshot bytes", lambda one: one.stats.snapshot_bytes, wide=True),
    ),
    json=_in_json,
)


@click.command("stats")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@where_option
@form_options
@store_option
def stats_command(ids: tuple[str, ...], where: str | None, form: str, url: str) -> None:
    """Say how much is stored for instances: events and bytes of the current execution, what waits
    in the inbox, open jobs, values under keys.

    Of the whole store: perdure db info
    """
    chosen = choose(ids, where)

    async def work(client: Client) -> list[Stored]:
        found = await find_ids(client, chosen, tuple(Status))
        return [Stored(one, await client.handle(one).stats()) for one in found]

    STATS.show(form, ask(url, work))
