"""The part of a store that deciders use.

What is said in `perdure.store.deciders` is not repeated here. What a turn brings is decided in
`decisions` and written by `decision_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.feeds import Observation, StoredSnapshot
from perdure.model.histories.removals import EventRemoval, SnapshotPlace
from perdure.model.instances import Stamp, part_of
from perdure.model.turns import InputReceipt, NewObservation, UniqueKey
from perdure.store.base import ExecutionKey
from perdure.store.contents import SlicePlace
from perdure.store.deciders import DeciderStore
from perdure.store.observer import Observer
from perdure.store.observing import observable
from perdure.store.sql import event_removal
from perdure.store.sql.access import StoreAccess
from perdure.store.sql.commits.rows import load_holders
from perdure.store.sql.commits.settled import SettledInputs
from perdure.store.sql.packing import pack


@observable(DeciderStore)
class SqlDeciders:
    """See `perdure.store.deciders.DeciderStore`."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    @property
    def observer(self) -> Observer | None:
        """Who is told of each operation."""
        return self._store.observer

    async def read_receipts(
        self, instance_id: str, input_ids: Sequence[str]
    ) -> dict[str, bytes | None]:
        """Return the outcomes of inputs that were given before; None: given and not decided yet."""
        return await self._store.read(
            lambda c: {
                input_id: outcome
                for input_id, _, outcome in c.run(
                    "read_outcomes",
                    part=part_of(instance_id),
                    instance_id=instance_id,
                    ids=pack(input_ids),
                )
            }
        )

    async def settle_inputs(
        self,
        instance_id: str,
        receipts: Sequence[InputReceipt],
        observations: Sequence[NewObservation] = (),
        *,
        stamp: Stamp | None = None,
        patience_s: float | None = None,
    ) -> list[bytes] | None:
        """Keep outcomes of inputs that changed nothing, and what was observed of them."""
        settled = SettledInputs(instance_id, receipts, observations, stamp)
        return await self._store.add(settled.write, patience_s=patience_s)

    async def read_snapshots(
        self, executions: Sequence[ExecutionKey]
    ) -> list[StoredSnapshot | None]:
        """Return the newest snapshot of each execution, None where there is none."""
        keys = pack([(part_of(key.instance_id), *key) for key in executions])
        found: list[StoredSnapshot | None] = [None] * len(executions)
        rows = await self._store.read_once(lambda c: c.run("read_snapshots", keys=keys))
        for index, *values in rows:
            found[index] = StoredSnapshot(*values)
        return found

    async def list_snapshots(
        self, *, after: SlicePlace, above: int, limit: int
    ) -> list[SnapshotPlace]:
        """Return which events the newest snapshots of live instances are of."""
        return await self._store.read(
            lambda c: event_removal.list_snapshots(c, after=after, above=above, limit=limit)
        )

    async def first_unread(self, execution: ExecutionKey) -> int | None:
        """Return the first event of an execution that some reader of the feed has not passed."""
        return await self._store.read(lambda c: event_removal.first_unread(c, execution))

    async def remove_events(self, removal: EventRemoval, *, before_ms: int) -> bool:
        """Remove events of an execution, and put down what stands for them."""
        return await self._store.work(
            lambda t: event_removal.remove_events(t.connection, removal, before_ms=before_ms),
            is_quiet=True,
        )

    async def read_observations(
        self, instance_id: str, *, after: int = 0, limit: int = 500
    ) -> list[Observation]:
        """Return observed inputs of an instance in order, from behind a number on."""
        rows = await self._store.read(
            lambda c: c.run(
                "read_observations",
                part=part_of(instance_id),
                instance_id=instance_id,
                after=after,
                limit=max(limit, 0),
            )
        )
        return [Observation(*row) for row in rows]

    async def read_unique_key(self, scope: str, key: str) -> str | None:
        """Return the instance that has a business key."""
        unique = UniqueKey(scope, key)
        return (await self._store.read(lambda c: load_holders(c, [unique]))).get(unique)
