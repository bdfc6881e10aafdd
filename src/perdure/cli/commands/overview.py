"""`perdure queues` and `perdure workers`: what waits, and who works."""

from __future__ import annotations

import click

from perdure.cli.jobs_shown import QUEUES, WORKERS
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.watching import show_or_watch, watch_option


@click.command("queues")
@watch_option
@form_options
@store_option
def queues_command(watch: bool, form: str, url: str) -> None:
    """List what waits for which definition, and who takes it.

    What no live worker takes is under `unclaimed`, with what a worker would need.
    """
    ask(url, lambda client: show_or_watch(QUEUES, form, client.queues, watch=watch))


@click.command("workers")
@watch_option
@form_options
@store_option
def workers_command(watch: bool, form: str, url: str) -> None:
    """List the workers that gave a sign of life lately, and what they take."""
    ask(url, lambda client: show_or_watch(WORKERS, form, client.workers, watch=watch))
