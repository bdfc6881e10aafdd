"""Methods of `Client` that read deciders as JSON, by their names: for tools that have no class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.authoring.deciders.decider_definition import stored_id_of
from perdure.client.deciders.decided_events import DecidedEvent, read_decided
from perdure.client.deciders.deciders import state
from perdure.client.reading.info import Json
from perdure.client.reading.lists import check_count, check_limit
from perdure.codec import JSON
from perdure.errors import NotRegisteredError

if TYPE_CHECKING:
    from perdure.client.client import Client


async def state_json(
    self: Client, decider: str, instance_id: str, /, *, at: int | None = None
) -> Json:
    """Return the state of an instance as JSON, of a decider that is given by name.

    A state is folded by the decider's code: that of this process's worker, or the server's for a
    client of an `https://` URL.

    Args:
        decider: Its name.
        instance_id: As the decider gives it.
        at: After so many events; after all of them if not given.

    Raises:
        NotRegisteredError: The code is not there.
        InstanceNotFoundError: There is no such instance.
        UsageError: It has not had so many events.
    """
    definition = self._core.find_decider(decider)
    if definition is None:
        raise NotRegisteredError(
            "decider",
            decider,
            known=[],
            advice="states are folded by its code: ask an Engine that has it, or a server whose "
            "engine does; client.events_json(...) needs none",
        )
    found = await state(self, definition.cls, instance_id, at=at)
    return JSON.decode(definition.state.encode(found, "state"))


async def events_json(
    self: Client, decider: str, instance_id: str, /, *, after: int = 0, limit: int = 100
) -> list[DecidedEvent]:
    """Return events of an instance in order as they are recorded, of a decider that is given by
    name, each with the input that caused it. No code is needed.

    Args:
        decider: Its name.
        instance_id: As the decider gives it.
        after: Behind the event of this version.
        limit: How many, 500 at most.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It is none of a decider.
    """
    check_count("after", after, least=0)
    check_limit(limit)
    return await read_decided(self, stored_id_of(decider, instance_id), after=after, limit=limit)
