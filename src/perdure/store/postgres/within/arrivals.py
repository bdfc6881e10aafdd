"""Messages that were sent inside transactions of users, on their way to the inboxes.

A message is numbered under the lock of its instance. A transaction of a user's would hold that lock
until its end, and all who have something for the instance would wait. So what is sent there is only
appended, to a table of its own, and workers move it to the inboxes after the commit, by the same
code that delivers any other message.

The order in which one transaction after another has sent is kept, because one moves at a time, and
because what has to wait keeps back all that follows it to the same instance.

Moving has a lane of its own. An instance that an open transaction is about to start cannot be
seen: a lane that wants to put something there waits for it. Few of them are waited for in one
transaction, shortly, and once that was in vain each one alone, so that nothing else is locked
meanwhile. Claims do not wait for any of that: they are told when something was moved.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from perdure.errors import RowError, StoreError, StoreUnavailableError
from perdure.model.instances import NewInstance, part_of
from perdure.model.messages import Delivery
from perdure.store.base import PATIENCE_S
from perdure.store.batching import LATER
from perdure.store.postgres.address import Address
from perdure.store.postgres.faults import RowLockedError
from perdure.store.postgres.lane import LOCK_WITHIN
from perdure.store.postgres.notifications import Notifications
from perdure.store.sql.commits.batch import Transaction, run_batch
from perdure.store.sql.commits.row_types import ArrivalValues
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import Rows, pack, unpack
from perdure.store.sql.questions.reading import read_lives

AT_ONCE = 500
"""Messages that are looked at together, and about as many are moved in one transaction."""
MOST_LOOKS = 200
"""How often one transaction looks further, past messages that have to wait. A look leaves out the
instances that are known to be busy, however many messages they have."""
LOCK_SHORTLY = "20ms"
"""How long moving waits for an instance that an open transaction is about to start."""
MOST_WAITS = 5
"""For how many such instances moving waits before it lets go of what it has locked."""
AGAIN_AFTER_S = 1.0
"""When to look again for what could not be moved."""
CLAIM_WITHIN_S = 0.05
"""How long a claim waits for what is being moved: mostly it then finds it at once."""

logger = logging.getLogger(__name__)


class Arrival(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a row holds: one of the two."""

    delivery: Delivery | None = None
    start: NewInstance | None = None
    """An instance of a decider with its input: started if it is not there."""


_decoder = msgspec.json.Decoder(Arrival)


class Moved(NamedTuple):
    """What became of the messages that were found."""

    moved: int
    left: int
    waits: int = 0
    """For how many instances was waited, in vain."""


def put_on_the_way(transaction: Transaction, sent: Sequence[Delivery | NewInstance]) -> str:
    """Append messages; return the id of the transaction."""
    rows = Rows()
    for one in sent:
        arrival = Arrival(delivery=one) if isinstance(one, Delivery) else Arrival(start=one)
        body = msgspec.json.encode(arrival)
        part = part_of(one.instance_id)
        rows.rows.append(ArrivalValues(part, one.instance_id, rows.place(body), len(body)))
    [(xid,)] = transaction.connection.run(
        "insert_arrivals", rows=rows.text, bodies=rows.bodies, now_ms=transaction.now_ms
    )
    found: str = xid
    return found


def let_arrive(transaction: Transaction, instance_id: str) -> int | None:
    """Put everything that is on its way to an instance into its inbox; return how much it was.

    The instance is locked from here on. None: another transaction has it locked, and this one
    waits for none.
    """
    connection, part = transaction.connection, part_of(instance_id)
    # First, as all transactions do it.
    lock = "lock_live" if transaction.waits else "try_live"
    [(text,)] = connection.run(lock, keys=pack([(part, instance_id)]))
    if not transaction.waits and not unpack(text) and read_lives(connection, [instance_id])[0]:
        return None
    found = connection.run("take_arrivals", part=part, instance_id=instance_id)
    if found:
        _put(transaction, [_read(no, body) for no, body in found])
    return len(found)


class Arrivals:
    """Moves messages to the inboxes, whenever there may be some.

    Args:
        address: Of the store.
        notifications: Hear of new ones.
        work: Runs a function in the next transaction of the lane that is for this.
    """

    def __init__(
        self, address: Address, notifications: Notifications, work: Callable[..., Awaitable[Any]]
    ) -> None:
        self._key = zlib.crc32(address.schema.encode())
        self._notifications = notifications
        self._work = work
        self._again_s = float("inf")
        self._complained: set[int] = set()
        self._slow: dict[str, None] = {}
        """Instances that were waited for in vain, that for which it was longest ago first."""
        self._moving: asyncio.Task[None] | None = None

    async def move_hinted(self) -> None:
        """Have moved what has come, if a hint said that something has; wait for it a moment."""
        is_hinted = self._notifications.has_arrivals or monotonic() >= self._again_s
        if not is_hinted or (self._moving is not None and not self._moving.done()):
            return
        # Before the look: what comes from here on is looked for again.
        self._notifications.has_arrivals = False
        self._again_s = float("inf")
        self._moving = asyncio.ensure_future(self._move_until_done())
        await asyncio.wait({self._moving}, timeout=CLAIM_WITHIN_S)

    async def close(self) -> None:
        """Move no more."""
        if self._moving is not None and self._moving.get_loop() is asyncio.get_running_loop():
            self._moving.cancel()
            await asyncio.wait({self._moving})

    async def _move_until_done(self) -> None:
        try:
            await self._move_all()
        except Exception:
            logger.exception("messages that were sent inside transactions could not be moved")
            self._again_s = monotonic() + AGAIN_AFTER_S

    async def _move_all(self) -> None:
        for instance_id in [*self._slow][:MOST_WAITS]:
            self._note(await self._work(partial(self._move_slow, instance_id), is_quiet=True))
        while True:
            result = self._note(await self._work(self._move, is_quiet=True))
            # Those that were waited for are left out the next time, and what is behind them comes.
            if result.moved < AT_ONCE and not result.waits:
                return

    def _note(self, result: Moved) -> Moved:
        if result.moved:
            # Others may have looked before they could see it, and so may we.
            self._notifications.stir()
            self._notifications.ring()
        if result.left:
            self._again_s = monotonic() + AGAIN_AFTER_S
        return result

    async def arrive(self, instance_id: str, xid: str) -> bool:
        """Move what was sent to one instance; return whether a transaction has ended."""

        def work(transaction: Transaction) -> object:
            [(is_over,)] = transaction.connection.run("read_transaction_over", xid=xid)
            moved = let_arrive(transaction, instance_id)
            return LATER if moved is None else (is_over, moved)

        is_over, moved = await self._work(work, patience_s=PATIENCE_S, is_quiet=True)
        if moved:
            self._notifications.stir()
        return bool(is_over)

    # ------------------------------------------------------------ in a transaction

    def _move(self, transaction: Transaction) -> Moved:
        """Move messages to instances that need not be waited for."""
        connection = transaction.connection
        ready, left = self._find(connection)
        if not ready:
            return Moved(0, left)
        connection.run("set_lock_timeout", timeout=LOCK_SHORTLY)
        moved, waits = len(ready), 0
        if not self._try(transaction, ready):
            moved, waits = self._move_singly(transaction, ready)
        connection.run("set_lock_timeout", timeout=LOCK_WITHIN)
        return Moved(moved, left + len(ready) - moved, waits)

    def _move_singly(
        self, transaction: Transaction, ready: Sequence[tuple[Any, ...]]
    ) -> tuple[int, int]:
        """Move messages of one instance after another; return how many, and for how many instances
        was waited in vain."""
        by_instance: dict[str, list[tuple[Any, ...]]] = {}
        for row in ready:
            by_instance.setdefault(row[2], []).append(row)
        moved = waits = 0
        for instance_id, rows in by_instance.items():
            if self._try(transaction, rows):
                moved += len(rows)
            else:
                self._slow[instance_id] = None
                waits += 1
                if waits == MOST_WAITS:
                    break
        return moved, waits

    def _move_slow(self, instance_id: str, transaction: Transaction) -> Moved:
        """Move all messages of an instance that was waited for in vain before, and no others."""
        connection = transaction.connection
        del self._slow[instance_id]
        connection.run("set_lock_timeout", timeout=LOCK_SHORTLY)
        moved: int | None = None
        connection.run("begin_part")
        try:
            moved = let_arrive(transaction, instance_id)
            connection.run("end_part")
        except StoreError:
            _undo(connection)
            transaction.definitions.forget_fresh()
            moved = None
        connection.run("set_lock_timeout", timeout=LOCK_WITHIN)
        if moved is None:
            self._slow[instance_id] = None
            return Moved(0, 1, 1)
        return Moved(moved, 0)

    def _find(self, connection: Connection) -> tuple[list[tuple[Any, ...]], int]:
        """Return messages that can be moved now, and how many others were seen.

        An instance of which one has to wait, or cannot be read, is left out with all that follow,
        also if it could be had by the next look: they would come before that one.
        """
        ready: list[tuple[Any, ...]] = []
        busy = set(self._slow)
        left = len(busy)
        after = 0
        for _ in range(MOST_LOOKS):
            page = connection.run(
                "find_arrivals", key=self._key, after=after, limit=AT_ONCE, busy=pack([*busy])
            )
            for row in page:
                _, after, instance_id, body = row
                if instance_id not in busy and body is not None and self._is_readable(row):
                    ready.append(row)
                else:
                    busy.add(instance_id)
                    left += 1
            if len(page) < AT_ONCE or len(ready) >= AT_ONCE:
                break
        return ready, left

    def _try(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Move some messages, or none of them."""
        connection = transaction.connection
        connection.run("begin_part")
        try:
            self._deliver(transaction, rows)
            connection.run("end_part")
        except StoreError as error:
            _undo(connection)
            # Numbers that were given in it are undone too.
            transaction.definitions.forget_fresh()
            # Others may be in the way for a while, and then they are not.
            if len(rows) == 1 and not isinstance(error, StoreUnavailableError):
                self._complain(rows[0][1], "cannot be delivered", error)
            return False
        return True

    @staticmethod
    def _deliver(transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> None:
        keys = [(part, no) for part, no, *_ in rows]
        ours = {no for (no,) in transaction.connection.run("delete_arrivals", keys=pack(keys))}
        _put(transaction, [_read(no, body) for _, no, _, body in rows if no in ours])

    def _is_readable(self, row: tuple[Any, ...]) -> bool:
        try:
            _read(row[1], row[3])
        except RowError as error:
            self._complain(row[1], "cannot be read", error)
            return False
        return True

    def _complain(self, no: int, what: str, error: Exception) -> None:
        """Say once that a message stays where it is."""
        if no not in self._complained:
            self._complained.add(no)
            logger.warning(
                "a message that was sent inside a transaction %s: %s",
                what,
                error,
                extra={"arrival": no},
            )


def _put(transaction: Transaction, sent: Sequence[Delivery | NewInstance]) -> None:
    """Put messages that were just removed into inboxes: all of them.

    Raises:
        RowLockedError: An instance that was not there to be locked has come to life meanwhile, and
            another transaction has locked it. What was removed must be undone.
    """
    results, _ = run_batch(transaction, sent)
    if LATER in results:
        raise RowLockedError("an instance that messages are on their way to is locked by others")


def _read(no: int, body: bytes) -> Delivery | NewInstance:
    try:
        arrival = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise RowError(f"row {no} of the table arrivals cannot be read: {error}") from error
    found = arrival.delivery or arrival.start
    if found is None:
        raise RowError(f"row {no} of the table arrivals holds nothing")
    return found


def _undo(connection: Connection) -> None:
    connection.forget_writes()
    connection.run("undo_part")
    connection.run("end_part")
