"""The part of the contract that deciders and projections use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from perdure.model.feeds import Checkpoint, FeedEvent, Observation, ReaderStatus, StoredSnapshot
from perdure.model.histories.removals import EventRemoval, SnapshotPlace
from perdure.model.instances import LiveRow, Stamp
from perdure.model.tables import FeedWork
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

    async def read_lives(self, instance_ids: Sequence[str]) -> list[LiveRow | None]:
        """Return the narrow rows of instances, as `read_live` does for one."""
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

    # ---------------------------------------------------------------- the feed

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
