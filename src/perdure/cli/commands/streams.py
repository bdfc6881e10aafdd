"""`perdure stream`: what an instance and its activities say while they work."""

from __future__ import annotations

from typing import Any

import click

from perdure.authoring.stream import Item, Stream
from perdure.cli.forms import Column, Listing, json_line, value_text
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import named, printable, say
from perdure.client.client import Client
from perdure.client.reading.as_json import as_json
from perdure.client.reading.info import StreamInfo

STREAMS = Listing[StreamInfo](
    columns=[
        Column("name", lambda one: one.name),
        Column("items", lambda one: one.items),
        Column("last index", lambda one: one.last_index),
        Column("last", lambda one: one.at),
    ]
)


@click.command("stream")
@click.argument("instance_id", metavar="ID")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--follow", is_flag=True, help="Go on with what comes, until the instance ends.")
@click.option(
    "--after",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Only items behind this index.",
)
@form_options
@store_option
def stream_command(
    instance_id: str, name: str | None, follow: bool, after: int, form: str, url: str
) -> None:
    """Print the items of a stream, texts as they are and all else as JSON, one per line; without
    NAME, which streams there are.

    What a failed attempt of an activity sent is void. With --follow it may have been printed: then
    a line says from which index on.
    """
    if name is None:
        STREAMS.show(form, ask(url, lambda client: client.handle(instance_id).streams()))
        return
    stream: Stream[Any] = Stream(name, Any)

    async def work(client: Client) -> None:
        reader = client.handle(instance_id).stream(stream, after=after)
        reader.waits = follow
        is_any = False
        async for item in reader:
            is_any = True
            _print_discarded(form, item.discards_from)
            click.echo(_item_line(form, item))
        if not is_any:
            names = named(one.name for one in await client.handle(instance_id).streams())
            behind = f" behind index {after}" if after else ""
            say(printable(f"nothing was sent to stream {name!r}{behind}; its streams: {names}"))
        _print_discarded(form, reader.discards_from)

    ask(url, work)


def _item_line(form: str, item: Item[Any]) -> str:
    if form in ("json", "jsonl"):
        return json_line(as_json(item))
    text = printable(item.value if isinstance(item.value, str) else value_text(item.value))
    return f"{item.index}\t{text}" if form == "wide" else text


def _print_discarded(form: str, first: int | None) -> None:
    """Say what is void, where an item does not say it itself."""
    if first is not None and form not in ("json", "jsonl"):
        say(f"(what was sent from index {first} on is void)")
