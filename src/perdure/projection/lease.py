"""The right to read the feed under a name, and where the reader stands.

A worker that has it is the only one that handles events under that name. Every write is fenced by
it. What a handler does elsewhere cannot be fenced, so nothing is handled when it may have run out:
it is renewed before.
"""

from __future__ import annotations

from perdure.errors import LeaseLostError
from perdure.model.feeds import REBUILD, Checkpoint, ReaderStatus, StuckEvent, write_stuck
from perdure.model.tables import FeedWork, Tables
from perdure.store.base import Store


class ReaderLease:
    """A lease on a name, while it lasts."""

    def __init__(
        self, store: Store, found: Checkpoint, *, lease: int, lease_ms: int, worker_id: str
    ) -> None:
        self.name = found.name
        self.pos = found.pos
        """Up to where the store knows that events were handled."""
        self.seen = found.pos
        """Up to where there is nothing more to handle; ahead of `pos` by what others wrote."""
        self.must_reset = found.pos == 0 and found.reason == REBUILD
        """Whether everything is to be handled anew."""
        self.losses = found.losses
        """How many workers were lost here, perhaps by the next event."""
        self._store = store
        self._lease = lease
        self._lease_ms = lease_ms
        self._worker_id = worker_id
        self._until_ms = found.lease_until_ms
        self._moving_to = found.pos

    async def renew(self) -> None:
        """Keep the right to read.

        Raises:
            LeaseLostError: It is another's by now, or the reader was paused or set elsewhere.
        """
        found = await self._store.feed.claim_feed(
            self.name, lease=self._lease, lease_ms=self._lease_ms, worker_id=self._worker_id
        )
        if found is None or found.pos not in (self.pos, self._moving_to):
            raise self._lost()
        self._until_ms = found.lease_until_ms

    async def confirm(self) -> None:
        """Find out whether a client has paused the reader, set it elsewhere or forgotten it.

        Raises:
            LeaseLostError: One has.
        """
        for found in await self._store.feed.read_checkpoints():
            if found.name == self.name:
                is_held = found.status is ReaderStatus.RUNNING and found.lease_until_ms > 0
                if is_held and found.pos == self.pos:
                    return
        raise self._lost()

    async def ensure(self) -> None:
        """Make sure that no other worker can read now: call it before each handling."""
        # Half of it: a handler takes its time too.
        if self._store.clock() >= self._until_ms - self._lease_ms // 2:
            await self.renew()

    async def advance(self, to_pos: int) -> None:
        """Say that all events up to a position were handled.

        Raises:
            LeaseLostError: The right to read is lost.
        """
        if to_pos <= self.pos:
            return
        self._moving_to = to_pos
        if not await self._store.feed.advance_feed(
            self.name, lease=self._lease, from_pos=self.pos, to_pos=to_pos
        ):
            raise self._lost()
        self._stand_at(to_pos)

    async def work(self, work: FeedWork, *, within_s: float, defining: bool = False) -> None:
        """Let a function write to the user's tables, and stand where it says, in one commit.

        Args:
            work: Writes, and returns the new position.
            within_s: How long it may run statements.
            defining: Whether it may make and remove tables too.

        Raises:
            LeaseLostError: The right to read is lost; nothing was written.
        """
        reached = self.pos

        def noting(tables: Tables) -> int:
            nonlocal reached
            reached = self._moving_to = work(tables)
            return reached

        if not await self._store.feed.work_feed(
            self.name,
            lease=self._lease,
            from_pos=self.pos,
            work=noting,
            within_s=within_s,
            defining=defining,
        ):
            raise self._lost()
        self._stand_at(reached)

    async def get_stuck(self, stuck: StuckEvent) -> None:
        """Stop here until a person resumes the reader.

        Raises:
            LeaseLostError: The right to read is lost, and nothing was said.
        """
        if not await self._store.feed.set_reader(
            self.name, status=ReaderStatus.STUCK, reason=write_stuck(stuck), lease=self._lease
        ):
            raise self._lost()

    def _stand_at(self, pos: int) -> None:
        if pos > self.pos:
            self.losses = 0
        self.pos = self._moving_to = pos
        self.seen = max(self.seen, pos)
        self.must_reset = False

    def _lost(self) -> LeaseLostError:
        return LeaseLostError(f"another worker reads as {self.name!r}, or the reader was stopped")
