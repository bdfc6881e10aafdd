"""The part of a store that deciders and projections use; the rest of it is in `store`.

What is said in `perdure.store.deciders` is not repeated here. What a turn brings is decided in
`decisions` and written by `decision_rows`; the feed is in `feed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from perdure.model.feeds import Checkpoint, FeedEvent, Observation, ReaderStatus, StoredSnapshot
from perdure.model.histories.removals import EventRemoval, SnapshotPlace
from perdure.model.instances import LiveRow, Stamp, part_of
from perdure.model.tables import FeedWork
from perdure.model.turns import InputReceipt, NewObservation, UniqueKey
from perdure.store.base import ExecutionKey
from perdure.store.contents import SlicePlace
from perdure.store.sql import event_removal, projection_sql
from perdure.store.sql.commits.batch import Transaction
from perdure.store.sql.commits.rows import load_holders
from perdure.store.sql.commits.settled import SettledInputs
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack
from perdure.store.sql.questions import feed, reading

T = TypeVar("T")


class SqlDeciders(ABC):
    """See `perdure.store.deciders.DeciderStore`."""

    def __init__(self, approval: projection_sql.Approval) -> None:
        self._approval = approval
        self._heard: list[Callable[[], None]] = []

    @abstractmethod
    async def work(
        self,
        run: Callable[[Transaction], T],
        *,
        patience_s: float | None = None,
        is_quiet: bool = False,
    ) -> T:
        """Run a function in the next transaction that writes."""

    @abstractmethod
    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function with a connection that reads one state of the database."""

    async def read_receipts(
        self, instance_id: str, input_ids: Sequence[str]
    ) -> dict[str, bytes | None]:
        """Return the outcomes of inputs that were given before; None: given and not decided yet."""
        return await self.read(
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
        return await self.work(settled.write, patience_s=patience_s)

    async def read_lives(self, instance_ids: Sequence[str]) -> list[LiveRow | None]:
        """Return the narrow rows of instances."""
        return await self.read(lambda c: reading.read_lives(c, instance_ids))

    async def read_snapshots(
        self, executions: Sequence[ExecutionKey]
    ) -> list[StoredSnapshot | None]:
        """Return the newest snapshot of each execution, None where there is none."""
        keys = pack([(part_of(key.instance_id), *key) for key in executions])
        found: list[StoredSnapshot | None] = [None] * len(executions)
        for index, *values in await self.read(lambda c: c.run("read_snapshots", keys=keys)):
            found[index] = StoredSnapshot(*values)
        return found

    async def list_snapshots(
        self, *, after: SlicePlace, above: int, limit: int
    ) -> list[SnapshotPlace]:
        """Return which events the newest snapshots of live instances are of."""
        return await self.read(
            lambda c: event_removal.list_snapshots(c, after=after, above=above, limit=limit)
        )

    async def first_unread(self, execution: ExecutionKey) -> int | None:
        """Return the first event of an execution that some reader of the feed has not passed."""
        return await self.read(lambda c: event_removal.first_unread(c, execution))

    async def remove_events(self, removal: EventRemoval, *, before_ms: int) -> bool:
        """Remove events of an execution, and put down what stands for them."""
        return await self.work(
            lambda t: event_removal.remove_events(t.connection, removal, before_ms=before_ms),
            is_quiet=True,
        )

    async def read_observations(
        self, instance_id: str, *, after: int = 0, limit: int = 500
    ) -> list[Observation]:
        """Return observed inputs of an instance in order, from behind a number on."""
        rows = await self.read(
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
        return (await self.read(lambda c: load_holders(c, [unique]))).get(unique)

    # ---------------------------------------------------------------- the feed

    async def read_feed(
        self,
        *,
        after: int,
        limit: int,
        deciders: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> tuple[list[FeedEvent], int]:
        """Return events in the order of their commits, and up to where was looked."""
        return await self.read(
            lambda c: feed.read_feed(c, after=after, limit=limit, deciders=deciders, tags=tags)
        )

    async def claim_feed(
        self, name: str, *, lease: int, lease_ms: int, worker_id: str = ""
    ) -> Checkpoint | None:
        """Take or keep the right to read under a name, made at position 0 if it is new."""
        return await self.work(
            lambda t: feed.claim_feed(
                t.connection,
                name,
                lease=lease,
                lease_ms=lease_ms,
                worker_id=worker_id,
                now_ms=t.now_ms,
            ),
            is_quiet=True,
        )

    async def advance_feed(self, name: str, *, lease: int, from_pos: int, to_pos: int) -> bool:
        """Move a checkpoint forward; False if the lease is lost or it stands elsewhere."""
        return await self.work(
            lambda t: feed.advance_feed(
                t.connection,
                name,
                lease=lease,
                from_pos=from_pos,
                to_pos=to_pos,
                now_ms=t.now_ms,
            ),
            is_quiet=True,
        )

    async def work_feed(
        self,
        name: str,
        *,
        lease: int,
        from_pos: int,
        work: FeedWork,
        within_s: float | None = None,
        defining: bool = False,
    ) -> bool:
        """Let a function write to the user's own tables and move the checkpoint, in one commit."""
        done = await self.work(
            lambda t: projection_sql.work_feed(
                t,
                self._approval,
                name,
                lease=lease,
                from_pos=from_pos,
                work=work,
                within_s=within_s,
                defining=defining,
            )
        )
        if done is not None and done.error is not None:
            raise done.error
        return done is not None

    def listen_feed(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever this store has committed events or changed a reader."""
        self._heard.append(heard)
        return lambda: self._heard.remove(heard)

    def _tell_feed(self) -> None:
        for heard in self._heard:
            heard()

    async def release_feed(self, name: str, *, lease: int) -> None:
        """Give back the right to read."""
        await self.work(lambda t: t.connection.run("release_feed", name=name, lease=lease))

    async def set_reader(
        self,
        name: str,
        *,
        status: ReaderStatus | None = None,
        reason: str | None = None,
        pos: int | None = None,
        lease: int | None = None,
    ) -> bool:
        """Pause, resume or mark a reader, or set it back to a position; ends its lease."""
        changed = await self.work(
            lambda t: feed.set_reader(
                t.connection,
                name,
                status=status,
                reason=reason,
                pos=pos,
                lease=lease,
                now_ms=t.now_ms,
            )
        )
        self._tell_feed()
        return changed

    async def forget_reader(self, name: str) -> bool:
        """Forget a reader and how far it has come, unless a worker has the right to read."""
        return await self.work(lambda t: feed.forget_reader(t.connection, name, now_ms=t.now_ms))

    async def read_checkpoints(self) -> list[Checkpoint]:
        """Return how far every reader has come, by name."""
        return await self.read(feed.read_checkpoints)

    async def feed_end(self) -> int:
        """Return the position of the newest event that can be read; 0 if there is none."""
        return await self.read(feed.feed_end)
