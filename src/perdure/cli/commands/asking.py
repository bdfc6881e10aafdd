"""`perdure update`, `query` and `kv`: asking an instance, and reading what it keeps."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import click

from perdure.authoring.query import Query
from perdure.authoring.update import Update
from perdure.cli.commands.starting import StartsWith, with_start_options
from perdure.cli.forms import result_text
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import DURATION, form_options, raw_option, store_option, target_option
from perdure.cli.output import named, printable, say
from perdure.cli.targets import load_target
from perdure.client.client import Client
from perdure.client.reading.views import ask_view
from perdure.client.remote.urls import is_remote
from perdure.errors import UsageError


@click.command("update")
@click.argument("instance_id", metavar="ID")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--update-id", help="Given again with the same id, it gets the same answer.")
@click.option(
    "--timeout", type=DURATION, help="How long to wait, as in 30s; for ever if not given."
)
@raw_option
@form_options
@store_option
@with_start_options
def update_command(
    instance_id: str,
    name: str,
    value: str | None,
    starts: StartsWith | None,
    update_id: str | None,
    timeout: timedelta | None,
    raw: bool,
    form: str,
    url: str,
) -> None:
    """Ask an instance: the update NAME, with VALUE as JSON (null if left out). Prints the answer
    that its code gives; a refusal is an error.

    A worker that runs the instance answers. The request stays if the wait ends before.
    """
    update: Update[Any, Any] = Update(name, Any, Any).with_options(timeout=timeout)
    if update_id is not None:
        update = update.with_options(update_id=update_id)
    given = None if value is None else parse_value(value, what=f"value of update {name}")

    async def work(client: Client) -> None:
        if starts is None:
            answer = await client.handle(instance_id).update(update, given)
        else:
            answer = await client.update_with_start(
                update, given, instance_id, starts.definition, **starts.arguments
            )
        click.echo(result_text(form, answer, raw=raw), color=raw or None)

    ask(url, work)


@click.command("query")
@click.argument("instance_id", metavar="ID")
@click.argument("name")
@click.option("--at", type=click.IntRange(min=1), help="As of this event.  [default: now]")
@raw_option
@target_option
@form_options
@store_option
def query_command(
    instance_id: str, name: str, at: int | None, raw: bool, target: str, form: str, url: str
) -> None:
    """Compute the query NAME of an orchestration: its code in TARGET is replayed here, and its
    view asked. Nothing is written, and no worker is needed.

    The server that --store names computes it with its own code, and needs no TARGET.
    """
    if is_remote(url):
        view: Query[Any] = Query(name, Any)

        async def at_server(client: Client) -> None:
            told = await client.handle(instance_id).ask(view, at=at)
            click.echo(result_text(form, told, raw=raw), color=raw or None)

        ask(url, at_server)
        return
    if not target:
        raise UsageError(
            "a query is computed by code: name the orchestration's module with --target, "
            "$PERDURE_TARGET or target in [tool.perdure]; `perdure kv` needs none"
        )
    registry = load_target(target)

    async def work(client: Client) -> None:
        answer = await ask_view(client._core, instance_id, name, at=at, registry=registry)
        click.echo(result_text(form, json.loads(answer), raw=raw), color=raw or None)

    ask(url, work)


@click.command("kv")
@click.argument("instance_id", metavar="ID")
@click.argument("key", required=False)
@click.option("--wait", is_flag=True, help="Wait until there is something under KEY.")
@click.option(
    "--timeout", type=DURATION, help="How long to wait, as in 30s; for ever if not given."
)
@raw_option
@form_options
@store_option
def kv_command(
    instance_id: str,
    key: str | None,
    wait: bool,
    timeout: timedelta | None,
    raw: bool,
    form: str,
    url: str,
) -> None:
    """Print what an instance keeps under KEY, or all its values as one JSON object."""
    if wait and key is None:
        raise UsageError("--wait is for one key: name it")
    if timeout is not None and not wait:
        raise UsageError("--timeout is for --wait: give both")

    async def work(client: Client) -> None:
        handle = client.handle(instance_id)
        if wait and key is not None:
            kept: Any = await handle.wait_kv(key, timeout=timeout)
        else:
            every = await handle.kv()
            kept = every if key is None else every.get(key)
            if key is not None and key not in every:
                keys = named(every)
                say(printable(f"{instance_id!r} keeps nothing under {key!r}; its keys: {keys}"))
        click.echo(result_text(form, kept, raw=raw), color=raw or None)

    ask(url, work)
