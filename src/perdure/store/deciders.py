"""The part of the contract that deciders use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from perdure.model.feeds import Observation, StoredSnapshot
from perdure.model.histories.removals import EventRemoval, SnapshotPlace
from perdure.model.instances import Stamp
from perdure.model.turns import InputReceipt, NewObservation

if TYPE_CHECKING:
    from perdure.store.base import ExecutionKey
    from perdure.store.contents import SlicePlace


class DeciderStore(Protocol):
    """What deciders need of a store."""

    async def read_receipts(
        self, instance_id: str, input_ids: Sequence[str]
    ) -> dict[str, bytes | None]:
        """Return the outcomes of inputs that were given before; None: given and not decided yet."""
        ...

    async def settle_inputs(
        self,
        instance_id: str,
        receipts: Sequence[InputReceipt],
        observations: Sequence[NewObservation] = (),
        *,
        stamp: Stamp | None = None,
        patience_s: float | None = None,
    ) -> list[bytes] | None:
        """Keep outcomes of inputs that changed nothing, and what was observed of them.

        Return the outcome that counts for each receipt: an earlier one stays, and such an input is
        not observed again. One that waits in the inbox under the same id is removed, and a worker
        that has taken it is refused.

        Args:
            instance_id: The instance.
            receipts: The outcomes.
            observations: What was observed.
            stamp: Of the state on which they were decided. If that is not the stored one, nothing
                is kept, and None is returned.
            patience_s: How long to wait for the store.
        """
        ...

    async def read_snapshots(
        self, executions: Sequence[ExecutionKey]
    ) -> list[StoredSnapshot | None]:
        """Return the newest snapshot of each execution, None where there is none."""
        ...

    async def list_snapshots(
        self, *, after: SlicePlace, above: int, limit: int
    ) -> list[SnapshotPlace]:
        """Return which events the newest snapshots of live instances are of: those of higher
        versions than one, in order of their places, from behind a place on."""
        ...

    async def first_unread(self, execution: ExecutionKey) -> int | None:
        """Return the first event of an execution that some reader of the feed has not passed, a
        paused or stuck one too; None: all have passed all, or there is no reader."""
        ...

    async def remove_events(self, removal: EventRemoval, *, before_ms: int) -> bool:
        """Remove the events of an execution behind its start, up to one, from its history and from
        the feed, and put down what stands for them in their place, as the second event.

        False, and nothing is removed: the rows are not those that it names, the last one was not
        recorded before then, the newest snapshot is of an earlier event, or some reader of the feed
        has not passed all of them. What is committed meanwhile is accepted as if nothing had
        happened: numbers go on, and stamps stay.
        """
        ...

    async def read_observations(
        self, instance_id: str, *, after: int = 0, limit: int = 500
    ) -> list[Observation]:
        """Return observed inputs of an instance in order, from behind a number on."""
        ...

    async def read_unique_key(self, scope: str, key: str) -> str | None:
        """Return the instance that has a business key."""
        ...
