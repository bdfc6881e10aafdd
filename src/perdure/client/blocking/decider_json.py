"""Methods of `BlockingClient`, which wait where those of `decider_json` are awaited.

Made from `client/deciders/decider_json.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.client.deciders.decided_events import DecidedEvent
from perdure.client.reading.info import Json

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingClient


def state_json(
    self: BlockingClient, decider: str, instance_id: str, /, *, at: int | None = None
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
    return self._thread.run(self._client.state_json(decider, instance_id, at=at))


def events_json(
    self: BlockingClient, decider: str, instance_id: str, /, *, after: int = 0, limit: int = 100
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
    return self._thread.run(
        self._client.events_json(decider, instance_id, after=after, limit=limit)
    )
