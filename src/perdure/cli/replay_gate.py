"""Before a deploy: which live instances would the code on disk not fit? Nothing is written.

Instances that took the same way through the code have one *shape*, however often they went round a
loop. A few of each shape are replayed; if one does not fit, all of that shape are, so that those
which would be blocked can be named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from perdure.authoring.registry import Registry
from perdure.client.client import Client
from perdure.client.histories.event_texts import own_subject
from perdure.client.histories.recorded import RecordedHistory, read_recorded, replay
from perdure.client.reading.info import event_of
from perdure.errors import InstanceNotFoundError, NondeterminismError, NotRegisteredError
from perdure.limits import PAGE_MAX
from perdure.model.histories.unreadable import UnreadableEventError
from perdure.model.instances import LIVE


class GateResult(NamedTuple):
    """What came of the replays of one definition."""

    name: str
    live: int
    """How many live instances were looked at."""
    shapes: int
    replayed: int
    is_partial: bool
    """Whether there are more live instances than were looked at."""
    unfit: list[UnfitInstance]


class UnfitInstance(NamedTuple):
    """A live instance that the code does not fit."""

    instance_id: str
    name: str
    version: str
    problem: str
    """The first line that differs, or why it cannot be compared."""


async def try_live(
    client: Client, registry: Registry, *, per_shape: int, limit: int
) -> list[GateResult]:
    """Replay live instances of the definitions of a registry.

    Args:
        client: Where they are.
        registry: The code.
        per_shape: How many of each shape.
        limit: How many instances of each definition are looked at.
    """
    return [
        await _try_definition(client, registry, name, per_shape=per_shape, limit=limit)
        for name in sorted({*registry.names(), *registry.deciders})
    ]


async def _try_definition(
    client: Client, registry: Registry, name: str, *, per_shape: int, limit: int
) -> GateResult:
    ids, is_partial = await _live_ids(client, name, limit)
    shapes: dict[object, list[RecordedHistory]] = {}
    for instance_id in ids:
        try:
            history = await read_recorded(client, instance_id)
        except InstanceNotFoundError:
            continue  # Deleted meanwhile.
        if history.events:
            shapes.setdefault(_shape(history), []).append(history)
    replayed = 0
    unfit: list[UnfitInstance] = []
    for some in shapes.values():
        # The longest went through most of the code.
        some.sort(key=lambda one: -len(one.events))
        tried = _try_all(registry, some[:per_shape])
        replayed += min(len(some), per_shape)
        if tried:
            tried += _try_all(registry, some[per_shape:])
            replayed += max(len(some) - per_shape, 0)
        unfit += tried
    return GateResult(name, len(ids), len(shapes), replayed, is_partial, unfit)


async def _live_ids(client: Client, name: str, limit: int) -> tuple[list[str], bool]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await client.instances(
            name=name, status=LIVE, limit=min(PAGE_MAX, limit), after=after
        )
        found += [one.instance_id for one in page.items]
        after = page.next
        if after is None or len(found) > limit:
            return found[:limit], len(found) > limit or after is not None


def _shape(history: RecordedHistory) -> object:
    """Return what histories have in common that took the same way: what follows on what."""
    events = [event_of(one) for one in history.events]
    steps = [f"{one.kind} {own_subject(one)}" for one in events]
    if history.kind == "decider":
        return history.name, frozenset(steps)
    return history.name, history.version, frozenset(pairwise(["", *steps])), steps[-1]


def _try_all(registry: Registry, histories: Iterable[RecordedHistory]) -> list[UnfitInstance]:
    found = []
    for history in histories:
        problem = _problem(registry, history)
        if problem:
            found.append(UnfitInstance(history.instance_id, history.name, history.version, problem))
    return found


def _problem(registry: Registry, history: RecordedHistory) -> str:
    """Return why the code does not fit a history; nothing if it does."""
    try:
        replay(registry, history)
    except NondeterminismError as error:
        if error.recorded is None:
            return str(error).partition("\n")[0]
        return f"event {error.seq}: recorded {error.recorded}, the code asks for {error.asked}"
    except (NotRegisteredError, UnreadableEventError) as error:
        return str(error).partition("\n")[0]
    return ""


def unfit_of(results: Sequence[GateResult]) -> list[UnfitInstance]:
    """Return the instances that do not fit."""
    return [unfit for one in results for unfit in one.unfit]
