"""`perdure queues` and `perdure workers`: what waits, and who works."""

from __future__ import annotations

from collections.abc import Sequence

import click

from perdure.cli.jobs_shown import QUEUES, WORKERS
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import named, say
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.client import Client
from perdure.client.reading.overview import QueueInfo


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
