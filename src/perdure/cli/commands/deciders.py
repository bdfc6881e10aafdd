"""`perdure decider`: what instances of deciders recorded, their state and keys, and inputs for
them, given or only tried."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import click

from perdure.authoring.deciders.decider_definition import SEPARATOR, AnyDecider
from perdure.authoring.deciders.describing import Transition, describe
from perdure.authoring.registry import Registry
from perdure.cli.exit_codes import ExitCode
from perdure.cli.forms import Column, Exact, Listing, json_line, json_text, value_text
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import (
    DURATION,
    form_options,
    form_options_with,
    store_option,
    target_option,
)
from perdure.cli.output import printable, say, say_error
from perdure.cli.targets import load_target
from perdure.client.client import Client
from perdure.client.deciders.decisions import (
    Observed,
    Tried,
    check_addressee,
    tried_json,
)
from perdure.client.reading.as_json import as_json
from perdure.client.reading.info import HistoryEvent, Json
from perdure.client.remote.client import RemoteClient
from perdure.client.remote.deciding import try_json
from perdure.client.remote.urls import is_remote
from perdure.errors import UsageError
from perdure.limits import PAGE_MAX
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


OBSERVATIONS = Listing[Observed](
    columns=(
        Column("no", lambda one: one.no),
        Column("when", lambda one: Exact(one.at)),
        Column("input", lambda one: one.tag),
        Column("value", lambda one: value_text(one.input)),
        Column("outcome", lambda one: one.outcome),
        Column("why", lambda one: "" if one.rejection is None else value_text(one.rejection)),
        Column("input id", lambda one: one.input_id, wide=True),
    ),
)

TRANSITIONS = Listing[Transition](
    columns=(
        Column("from", lambda one: one[0]),
        Column("input", lambda one: one[1]),
        Column("to", lambda one: one[2]),
    ),
    json=lambda one: {"from": one[0], "input": one[1], "to": one[2]},
)

HOLDERS = Listing[str](
    columns=(Column("instance", lambda one: one),),
    json=lambda one: {"instance_id": one},
)


@click.group("decider")
def decider_command() -> None:
    """Events, state, keys and transitions of deciders, and inputs for them.

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
    """Print the state of an instance: its events, folded by the decider's code in TARGET; without
    one, by the code of the server that --store names.
    """
    registry = _code(
        target, url, "a state is folded by code", "; `perdure decider events` needs none"
    )
    state = ask(url, lambda client: _read_state(client, registry, instance_id, at))
    click.echo(json_line(state) if form == "jsonl" else json_text(state))


def _code(target: str, url: str, why: str, more: str = "") -> Registry | None:
    """Return the definitions of a target; None: a server is asked, which has them.

    Raises:
        UsageError: None is named, and no server is asked.
    """
    if target:
        return load_target(target)
    if is_remote(url):
        return None
    raise UsageError(
        f"{why}: name the decider's module with --target, $PERDURE_TARGET or target in "
        f"[tool.perdure]{more}"
    )


async def _read_state(
    client: Client, registry: Registry | None, instance_id: str, at: int | None
) -> Json:
    info = await client.handle(instance_id).info()
    _require_decider(instance_id, info.kind)
    if registry is None:
        return await client.state_json(info.name, _split(instance_id)[1], at=at)
    definition = registry.decider(info.name)
    state = await client.state(definition.cls, definition.own_id(instance_id), at=at)
    found: Json = json.loads(definition.state.encode(state, "state"))
    return found


def _require_decider(instance_id: str, kind: str) -> None:
    if kind != "decider":
        raise UsageError(f"{instance_id} is the instance of an {kind}, not of a decider")


@decider_command.command("transitions")
@click.argument("instance_id", metavar="ID")
@target_option
@form_options_with("mermaid")
@store_option
def show_transitions(instance_id: str, target: str, form: str, url: str) -> None:
    """Print which inputs led an instance from which state to which, by the decider's code in
    TARGET. A state is named by its `status`, else by its class.

    -o mermaid prints the state diagram of the decider, with these in it.
    """
    if not target:
        raise UsageError(
            "states are folded by code: name the decider's module with --target, $PERDURE_TARGET "
            "or target in [tool.perdure]"
        )
    registry = load_target(target)

    async def work(client: Client) -> tuple[type[AnyDecider], list[Transition]]:
        info = await client.handle(instance_id).info()
        _require_decider(instance_id, info.kind)
        cls = registry.decider(info.name).cls
        return cls, await client.transitions(cls, _split(instance_id)[1])

    cls, found = ask(url, work)
    if form == "mermaid":
        click.echo(describe(cls, observed=found).mermaid())
    else:
        TRANSITIONS.show(form, found)


@decider_command.command("observations")
@click.argument("instance_id", metavar="ID")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only those behind number N.")
@click.option(
    "--limit",
    type=click.IntRange(1, PAGE_MAX),
    default=100,
    show_default=True,
    help="How many at most.",
)
@form_options
@store_option
def show_observations(instance_id: str, after: int, limit: int, form: str, url: str) -> None:
    """Print the inputs that an instance was given, in order, with what each came to: also those
    that were rejected.

    Only deciders with observe_inputs = True keep them.
    """

    async def work(client: Client) -> list[Observed]:
        info = await client.handle(instance_id).info()
        _require_decider(instance_id, info.kind)
        name, own_id = _split(instance_id)
        return await client.observations(name, own_id, after=after, limit=limit)

    found = ask(url, work)
    if not found and not after:
        say("no inputs are kept: the decider has no observe_inputs = True")
    if len(found) == limit:
        say(f"at most {limit} are shown; those behind: --after {found[-1].no}")
    OBSERVATIONS.show(form, found)


@decider_command.command("key")
@click.argument("decider")
@click.argument("key")
@form_options
@store_option
def show_key_holder(decider: str, key: str, form: str, url: str) -> None:
    """Print the ID of the instance of DECIDER that has the business key KEY.

    Exits with 3 if the key is free.
    """
    holder = ask(url, lambda client: client.key_holder(decider, key))
    if holder is None:
        say_error(f"no instance of {decider} has the key {key!r}: it is free")
        sys.exit(ExitCode.NOT_FOUND)
    HOLDERS.show(form, [f"{decider}{SEPARATOR}{holder}"])


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


@decider_command.command("try")
@click.argument("instance_id", metavar="ID")
@click.argument("tag", metavar="INPUT")
@click.argument("value", default="{}")
@target_option
@form_options
@store_option
def try_input(instance_id: str, tag: str, value: str, target: str, form: str, url: str) -> None:
    """Print what an input would come to now: events, state, effects, timers. Nothing is written.

    It is decided here by the decider's code in TARGET; a server that --store names decides with its
    own. INPUT and VALUE are as for `execute`. Exits with 1 if it would be rejected.
    """
    name, own_id = _split(instance_id)
    content = parse_value(value, what=f"input {tag}")
    registry = None if is_remote(url) else _code(target, url, "an input is decided by code")

    async def work(client: Client) -> Tried:
        if registry is None:
            assert isinstance(client, RemoteClient), "a server is asked only where one is named"
            return await try_json(client, name, tag, content, instance_id=own_id)
        definition = registry.decider(name)
        given = definition.inputs.decode_json(tag, content)
        check_addressee(definition, tag, given, own_id)
        return tried_json(definition, await client.dry_run(definition.cls, given))

    tried = ask(url, work)
    _print_outcome(form, as_json(tried))
    is_accepted = tried.outcome["outcome"] == "accepted"
    sys.exit(ExitCode.GOOD if is_accepted else ExitCode.FAILED)


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
