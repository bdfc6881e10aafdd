"""The part of a store that readers of the feed use.

What is said in `perdure.store.feed` is not repeated here. What is asked of the database is in
`questions.feed`, what projections write in `projection_sql`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from perdure.model.feeds import Checkpoint, FeedEvent, ReaderStatus
from perdure.model.tables import FeedWork
from perdure.store.feed import FeedStore
from perdure.store.observer import Observer
from perdure.store.observing import observable
from perdure.store.sql import projection_sql
from perdure.store.sql.access import StoreAccess
from perdure.store.sql.questions import feed


@observable(FeedStore)
class SqlFeed:
    """See `perdure.store.feed.FeedStore`.

    Args:
        store: The store.
        approval: Which statements projections may run.
        before_reading: Called before anything looks at which events there are.
    """

    def __init__(
        self,
        store: StoreAccess,
        *,
        approval: projection_sql.Approval,
        before_reading: Callable[[], Awaitable[None]],
    ) -> None:
        self.approval = approval
        self._store = store
        self._before_reading = before_reading
        self._heard: list[Callable[[], None]] = []

    @property
    def observer(self) -> Observer | None:
        """Who is told of each operation."""
        return self._store.observer

    async def read_feed(
        self,
        *,
        after: int,
        limit: int,
        deciders: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> tuple[list[FeedEvent], int]:
        """Return events in the order of their commits, and up to where was looked."""
        await self._before_reading()
        return await self._store.read(
            lambda c: feed.read_feed(c, after=after, limit=limit, deciders=deciders, tags=tags)
        )

    async def claim_feed(
        self, name: str, *, lease: int, lease_ms: int, worker_id: str = ""
    ) -> Checkpoint | None:
        """Take or keep the right to read under a name, made at position 0 if it is new."""
        await self._before_reading()
        return await self._store.work(
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
        return await self._store.work(
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
        done = await self._store.work(
            lambda t: projection_sql.work_feed(
                t,
                self.approval,
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

    def tell_listeners(self) -> None:
        """Call those functions."""
        for heard in self._heard:
            heard()

    async def release_feed(self, name: str, *, lease: int) -> None:
        """Give back the right to read."""
        await self._store.work(lambda t: t.connection.run("release_feed", name=name, lease=lease))

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
        changed = await self._store.work(
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
        self.tell_listeners()
        return changed

    async def forget_reader(self, name: str) -> bool:
        """Forget a reader and how far it has come, unless a worker has the right to read."""
        return await self._store.work(
            lambda t: feed.forget_reader(t.connection, name, now_ms=t.now_ms)
        )

    async def read_checkpoints(self) -> list[Checkpoint]:
        """Return how far every reader has come, by name."""
        return await self._store.read(feed.read_checkpoints)

    async def feed_end(self) -> int:
        """Return the position of the newest event that can be read; 0 if there is none."""
        await self._before_reading()
        return await self._store.read(feed.feed_end)
