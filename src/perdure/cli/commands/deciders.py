"""`perdure decider`: what instances of deciders recorded, their state, and inputs for them."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import click

from perdure.authoring.deciders.decider_definition import SEPARATOR
from perdure.authoring.registry import Registry
from perdure.cli.exit_codes import ExitCode
from perdure.cli.forms import Column, Exact, Listing, json_line, json_text, value_text
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import DURATION, form_options, store_option, target_option
from perdure.cli.output import printable
from perdure.cli.targets import load_target
from perdure.client.client import Client
from perdure.client.reading.info import HistoryEvent, Json
from perdure.errors import UsageError
from perdure.model.histories.events import EventRecorded, EventsRemoved, InputTaken


class RecordedEvent(NamedTuple):
    """A domain event as it is stored: no code is needed to read it."""

    version: int
    seq: int
    at: datetime
    tag: str
    event: Json
    input_tag: str
    input: Json
    cause: str


EVENTS = Listing[RecordedEvent](
    columns=(
        Column("version", lambda one: one.version),
        Column("when", lambda one: Exact(one.at)),
        Column("event", lambda one: one.tag),
        Column("value", lambda one: value_text(one.event)),
        Column("input", lambda one: one.input_tag),
        Column("cause", lambda one: one.cause),
        Column("input value", lambda one: value_text(one.input), wide=True),
        Column("#", lambda one: one.seq, wide=True),
    ),
)


@click.group("decider")
def decider_command() -> None:
    """Events and state of deciders.

    ID is as `perdure list` shows it, with the decider's name: order:o-1
    """


@decider_command.command("events")
@click.argument("instance_id", metavar="ID")
@form_options
@store_option
def show_events(instance_id: str, form: str, url: str) -> None:
    """Print what an instance recorded, each event with the input that caused it."""
    events = ask(url, lambda client: _read_events(client, instance_id))
    if events and events[0].version > 1:
        click.echo(f"events 1 to {events[0].version - 1} were removed (keep_events)", err=True)
    EVENTS.show(form, events)


async def _read_events(client: Client, instance_id: str) -> list[RecordedEvent]:
    handle = client.handle(instance_id)
    info = await handle.info()
    _require_decider(instance_id, info.kind)
    return recorded_events(await handle.history())


def recorded_events(history: list[HistoryEvent]) -> list[RecordedEvent]:
    """Return the domain events of a history."""
    found: list[RecordedEvent] = []
    taken: dict[str, Json] = {}
    version = 0
    for event in history:
        data = event.data
        if event.kind == InputTaken.kind:
            taken = data
        elif event.kind == EventsRemoved.kind:
            version = data["version"]
        elif event.kind == EventRecorded.kind:
            version += 1
            found.append(
                RecordedEvent(
                    version=version,
                    seq=event.seq,
                    at=event.at,
                    tag=str(data.get("tag", "")),
                    event=data.get("event"),
                    input_tag=str(taken.get("tag", "")),
                    input=taken.get("input"),
                    cause=str(taken.get("cause") or "client"),
                )
            )
    return found


@decider_command.command("state")
@click.argument("instance_id", metavar="ID")
@click.option("--at", type=click.IntRange(min=0), help="After so many events.  [default: all]")
@target_option
@form_options
@store_option
def show_state(instance_id: str, at: int | None, target: str, form: str, url: str) -> None:
    """Print the state of an instance: its events, folded by the decider's code in TARGET."""
    if not target:
        raise UsageError(
            "a state is folded by code: name the decider's module with --target, $PERDURE_TARGET "
            "or target in [tool.perdure]; `perdure decider events` needs none"
        )
    registry = load_target(target)
    state = ask(url, lambda client: _read_state(client, registry, instance_id, at))
    click.echo(json_line(state) if form == "jsonl" else json_text(state))


async def _read_state(client: Client, registry: Registry, instance_id: str, at: int | None) -> Json:
    info = await client.handle(instance_id).info()
    _require_decider(instance_id, info.kind)
    definition = registry.decider(info.name)
    state = await client.state(definition.cls, definition.own_id(instance_id), at=at)
    found: Json = json.loads(definition.state.encode(state, "state"))
    return found


def _require_decider(instance_id: str, kind: str) -> None:
    if kind != "decider":
        raise UsageError(f"{instance_id} is the instance of an {kind}, not of a decider")


# ------------------------------------------------------------------------ inputs


@decider_command.command("execute")
@click.argument("instance_id", metavar="ID")
@click.argument("tag", metavar="INPUT")
@click.argument("value", default="{}")
@click.option("--input-id", help="Given again with the same id, the first outcome is returned.")
@click.option("--timeout", type=DURATION, help="How long to wait for a worker, as in 30s.")
@form_options
@store_option
def execute_input(
    instance_id: str,
    tag: str,
    value: str,
    input_id: str | None,
    timeout: timedelta | None,
    form: str,
    url: str,
) -> None:
    """Have an input decided by a worker, and print what it came to.

    INPUT is the input's class or tag, VALUE its fields as JSON: perdure decider execute order:o-1
    Ship '{"order_id": "o-1"}'. Exits with 1 if it is rejected.
    """
    name, own_id = _split(instance_id)
    content = parse_value(value, what=f"input {tag}")

    async def work(client: Client) -> dict[str, Json]:
        return await client.execute_json(
            name, tag, content, instance_id=own_id, input_id=input_id, timeout=timeout
        )

    outcome = ask(url, work)
    _print_outcome(form, outcome)
    sys.exit(ExitCode.GOOD if outcome["outcome"] == "accepted" else ExitCode.FAILED)


def _print_outcome(form: str, outcome: dict[str, Any]) -> None:
    click.echo(json_line(outcome) if form == "jsonl" else json_text(outcome))


@decider_command.command("send")
@click.argument("instance_id", metavar="ID")
@click.argument("tag", metavar="INPUT")
@click.argument("value", default="{}")
@click.option("--input-id", help="Sent again with the same id, it is decided once.")
@store_option
def send_input(instance_id: str, tag: str, value: str, input_id: str | None, url: str) -> None:
    """Queue an input: durable when this returns, decided soon by a worker that has the decider."""
    name, own_id = _split(instance_id)
    content = parse_value(value, what=f"input {tag}")
    ask(
        url,
        lambda client: client.send_json(name, tag, content, instance_id=own_id, input_id=input_id),
    )
    click.echo(f"{printable(instance_id)}\tsent")


def _split(instance_id: str) -> tuple[str, str]:
    name, separator, own_id = instance_id.partition(SEPARATOR)
    if not separator or not name or not own_id:
        raise UsageError(
            f"{instance_id!r} is not the id of a decider's instance: write the decider's name and "
            f"the id with {SEPARATOR!r} between them, as in order:o-1"
        )
    return name, own_id
