"""Histories outside a store: read as they are recorded, written as lines of JSON, and replayed.

A line is a JSON object. The first of a history says whose it is; each further one is an event. Its
body is kept as the very text that is stored: what is replayed must be the same to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.authoring.registry import Registry
from perdure.client.histories.histories import execution_key
from perdure.codec import Json
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.core.orchestrations.execution import Execution
from perdure.errors import InstanceNotFoundError, UsageError
from perdure.model.histories.events import StoredEvent, UnreadableEventError
from perdure.model.histories.removed import last_number
from perdure.store.base import Store

if TYPE_CHECKING:
    from perdure.client.client import Client

FORMAT = 1
"""Number of the form of the lines; a reader refuses a higher one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHistory:
    """The history of one execution, and whose it is."""

    instance_id: str
    kind: str
    """orchestration or decider"""
    name: str
    version: str
    status: str
    incarnation: int
    execution: int
    events: Sequence[StoredEvent]


async def read_recorded(
    client: Client, instance_id: str, execution: int | None = None
) -> RecordedHistory:
    """Return what is recorded of an instance; see `read_execution`."""
    # Late: brings what only callers over HTTP need.
    from perdure.client.remote.client import RemoteClient

    if isinstance(client, RemoteClient):
        objects = await client.handle(instance_id).export(execution)
        [found] = read_mappings(objects, source=instance_id)
        return found
    return await read_execution(client._core.store, instance_id, execution)


async def read_execution(
    store: Store,
    instance_id: str,
    execution: int | None = None,
    *,
    after: int = 0,
    limit: int | None = None,
) -> RecordedHistory:
    """Return what is recorded of an instance.

    Args:
        store: Where to look.
        instance_id: Which instance.
        execution: Which execution, from 1; the current one if not given.
        after: Events behind this one.
        limit: How many events at most; all if not given.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: There was no such execution.
    """
    [row] = await store.read_instances([instance_id])
    if row is None:
        raise InstanceNotFoundError(instance_id)
    key = execution_key(row, execution)
    [events] = await store.read_histories([key], after_seq=after, limit=limit)
    return RecordedHistory(
        instance_id=row.instance_id,
        kind=row.kind,
        name=row.name,
        version=row.version,
        status=row.status.value,
        incarnation=row.incarnation,
        execution=key.execution,
        events=events,
    )


# ------------------------------------------------------------------------- lines


def write_lines(history: RecordedHistory) -> Iterator[str]:
    """Return a history as lines of JSON."""
    return map(_line, write_mappings(history))


def write_mappings(history: RecordedHistory) -> Iterator[dict[str, Json]]:
    """Return a history as the objects that are written as lines."""
    facts = {name: getattr(history, name) for name in _FACTS}
    yield {"perdure_history": FORMAT, **facts, "events": len(history.events)}
    for seq, kind, at_ms, body in history.events:
        yield {"seq": seq, "kind": kind, "at_ms": at_ms, "body": body.decode()}


def read_lines(lines: Iterable[str], *, source: str) -> list[RecordedHistory]:
    """Return the histories that were written as lines.

    Args:
        lines: As `write_lines` makes them, of any number of histories.
        source: Where they come from, for errors.

    Raises:
        UsageError: They are not such lines, or some are missing.
    """
    numbered = ((f"{source}, line {n}", text) for n, text in enumerate(lines, start=1))
    return _read(
        ((where, _object(text, where)) for where, text in numbered if text.strip()), source
    )


def read_mappings(objects: Iterable[Mapping[str, Json]], *, source: str) -> list[RecordedHistory]:
    """Return the histories that lines were written of.

    Args:
        objects: As `write_mappings` makes them, of any number of histories.
        source: Where they come from, for errors.

    Raises:
        UsageError: They are not such objects, or some are missing.
    """
    return _read(((f"{source}, object {n}", one) for n, one in enumerate(objects, start=1)), source)


def _read(placed: Iterable[tuple[str, Mapping[str, Json]]], source: str) -> list[RecordedHistory]:
    """Return the histories in objects, each with where it stands."""
    found: list[RecordedHistory] = []
    objects = iter(placed)
    for where, head in objects:
        facts = _facts(head, where)
        events: list[StoredEvent] = []
        for _ in range(head["events"]):
            where, one = next(objects, (where, None))
            events.append(_event(one, _next_number(events, where), where))
        found.append(RecordedHistory(**facts, events=events))
    if not found:
        raise UsageError(f"{source} has no history in it")
    return found


_FACTS: dict[str, type] = {
    "instance_id": str,
    "kind": str,
    "name": str,
    "version": str,
    "status": str,
    "incarnation": int,
    "execution": int,
}


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{where} is not what `perdure export` writes: a JSON object is expected")
    return found


def _facts(head: Mapping[str, Any], where: str) -> dict[str, Any]:
    form = head.get("perdure_history")
    if not isinstance(form, int) or not isinstance(head.get("events"), int):
        raise UsageError(f"{where}: a history is expected to begin here, as `perdure export` does")
    if form > FORMAT:
        raise UsageError(
            f"{where}: it was written by a newer perdure (form {form}, this version knows "
            f"{FORMAT}); use that version"
        )
    for name, kind in _FACTS.items():
        if type(head.get(name)) is not kind:
            raise UsageError(f"{where}: {name} must be a {kind.__name__}, got {head.get(name)!r}")
    return {name: head[name] for name in _FACTS}


def _next_number(events: Sequence[StoredEvent], where: str) -> int:
    try:
        return last_number(events[-1]) + 1 if events else 1
    except UnreadableEventError as error:
        raise UsageError(f"{where}: {error}") from error


def _event(found: Mapping[str, Any] | None, seq: int, where: str) -> StoredEvent:
    if found is None:
        raise UsageError(f"{where}: the file ends before event {seq} of the history")
    types = {"seq": int, "kind": str, "at_ms": int, "body": str}
    if any(type(found.get(name)) is not kind for name, kind in types.items()):
        raise UsageError(f"{where}: event {seq} of the history is expected here")
    if found["seq"] != seq:
        raise UsageError(f"{where}: event {seq} is expected here, got {found['seq']}")
    return StoredEvent(seq, found["kind"], found["at_ms"], found["body"].encode())


# ------------------------------------------------------------------------ replay


def replay(registry: Registry, history: RecordedHistory, *, watch_calls: bool = True) -> None:
    """Run code against a history. Nothing is written, and no activity runs.

    Args:
        registry: Where the code is.
        history: What to run it against.
        watch_calls: Also watch for clocks, random numbers and uuids.

    Raises:
        NotRegisteredError: The code is not there, or not in the version on record.
        NondeterminismError: The code does not fit the history.
        UnreadableEventError: An event is damaged or of an unknown kind.
    """
    if not history.events:
        return
    execution = execution_of(registry, history, watch_calls=watch_calls)
    try:
        execution.replay(history.events)
    finally:
        execution.tear_down()


def execution_of(
    registry: Registry, history: RecordedHistory, *, watch_calls: bool = True
) -> Execution | DeciderExecution:
    """Return an execution of a history's code that has replayed nothing yet; it is to be torn down.

    Raises:
        NotRegisteredError: The code is not there, or not in the version on record.
    """
    guard = Guard(watch_calls=watch_calls)
    key = ExecutionId(history.instance_id, history.incarnation, history.execution)
    if history.kind == "decider":
        decider = registry.decider(history.name)
        return DeciderExecution(decider, key, registry.code_of_decider(decider.name), guard)
    code = registry.orchestration(history.name, history.version)
    digest = registry.code_of(code.name, code.version)
    return Execution(code, key, digest, guard, version=history.version)
