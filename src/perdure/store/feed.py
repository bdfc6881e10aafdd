"""The part of the contract that projections and subscriptions use: the events of all deciders in
the order of their commits, and how far each reader has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from perdure.model.feeds import Checkpoint, FeedEvent, ReaderStatus
from perdure.model.tables import FeedWork


class FeedStore(Protocol):
    """What readers of the feed need of a store."""

    async def read_feed(
        self,
        *,
        after: int,
        limit: int,
        deciders: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> tuple[list[FeedEvent], int]:
        """Return events in the order of their commits, and up to where was looked.

        Never shows an event before one that may still appear in front of it. Empty filters: all.
        Looks at so many positions at a time: where it looked to is ahead of the last event returned
        if nothing else up to there concerns the reader.
        """
        ...

    async def claim_feed(
        self, name: str, *, lease: int, lease_ms: int, worker_id: str = ""
    ) -> Checkpoint | None:
        """Take or keep the right to read under a name, made at position 0 if it is new.

        None: another has it, or the reader is paused or stuck. Taken from one that did not give it
        back while there were events to handle, a loss is counted until the reader moves on. What a
        worker has goes to others when it is known to be dead: see `release_worker`.
        """
        ...

    async def advance_feed(self, name: str, *, lease: int, from_pos: int, to_pos: int) -> bool:
        """Move a checkpoint forward; False if the lease is lost or it stands elsewhere."""
        ...

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
        """Let a function write to the user's own tables, and move the checkpoint to the position
        it returns, in one transaction; False if the lease is lost or it stands elsewhere.

        The function runs on the thread that writes for everybody: it must be quick. It may run
        several times, each time as if the times before had not been. What it raises is raised here,
        and then nothing of it was written.

        Args:
            name: The reader.
            lease: Proves the right to write.
            from_pos: Where the checkpoint stands.
            work: Writes, and returns the new position.
            within_s: How long it may run statements; one that runs then ends with a TimeoutError,
                and no other is begun. None: as long as it likes.
            defining: Whether it may make and remove tables too.
        """
        ...

    def listen_feed(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever this store has committed events or has changed a reader.
        What others commit changes `change_count` of news.

        Returns:
            What ends that.
        """
        ...

    async def release_feed(self, name: str, *, lease: int) -> None:
        """Give back the right to read."""
        ...

    async def set_reader(
        self,
        name: str,
        *,
        status: ReaderStatus | None = None,
        reason: str | None = None,
        pos: int | None = None,
        lease: int | None = None,
    ) -> bool:
        """Pause, resume or mark a reader, or set it back to a position; ends its lease.

        False: there is no such reader, or `lease` was given and is lost. The reason is replaced in
        any case, and forgotten when the reader moves on.
        """
        ...

    async def forget_reader(self, name: str) -> bool:
        """Forget a reader and how far it has come: claimed again it begins before all events.

        False: there is no such reader, or a worker has the right to read.
        """
        ...

    async def read_checkpoints(self) -> list[Checkpoint]:
        """Return how far every reader has come."""
        ...

    async def feed_end(self) -> int:
        """Return the position of the newest event that can be read; 0 if there is none."""
        ...
