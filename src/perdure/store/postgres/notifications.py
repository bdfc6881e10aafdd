"""Tell other processes that something was committed, and hear it from them.

Only a hint: what it misses is found by looking, now and then. So it stays out of the way of
commits: a thread of its own sends a notification, on a connection of its own: the first at once,
and one for all commits that come while it is being sent. It says which kinds of hints they give. A
notification inside the transaction would make all commits of the database queue behind one another.

Through a pooler in transaction mode no process can listen. One that tells the others therefore
raises a number too, and there the thread looks now and then whether that has grown. Commits that
others need not know of, such as signs of life, do not raise it, so that a large fleet can wait for
little.

A transaction of a user's is told of when it has ended: the thread asks until it is over. It does
not notify by itself, for the same reason, and because it could not be prepared for a two-phase
commit then.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import asyncpg
import msgspec

from perdure.backoff import GrowingPause
from perdure.errors import UsageError
from perdure.model.hints import KINDS, Hint
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import close, connect, fetch, statement
from perdure.store.postgres.faults import TROUBLE

GAP_MIN_S = 0.001
GAP_MAX_S = 0.004
"""Between two notifications of one process, at least; the longer, the more there are without a
pause: each costs the server as much as a small commit."""
LOOK_MIN_S = 0.05
LOOK_MAX_S = 3.0
"""Through a pooler: pauses between two looks, about as long as there was nothing new. Fifty idle
workers then ask less than a hundred times a second, all in all."""
RECONNECT_S = (0.1, 0.5, 2.0, 5.0)
CLOSE_WITHIN_S = 5.0
DONE_WITHIN_S = 1.0
"""How long a connection that is being made, or an answer that is on its way, is waited for when
it is no longer wanted."""

ENDED_MIN_S = 0.005
ENDED_MAX_S = 0.2
"""Pauses between two looks whether transactions of users have ended, which mostly is soon."""

ARRIVALS = "arrivals"
"""What is told if messages are on their way to the inboxes."""

logger = logging.getLogger(__name__)


class Notifications:
    """Counts what others commit, and tells them what we do."""

    def __init__(self, address: Address, *, own: str) -> None:
        """Prepare; nothing runs yet.

        Args:
            address: Where.
            own: What tells our notifications from those of others.
        """
        self.statements = 0
        self._address = address
        self._own = own
        self._counts = dict.fromkeys(KINDS, 0)
        self._listeners: list[tuple[Hint, Callable[[], None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stirred = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._untold = Hint.NONE
        """Hints of commits that others were not told of yet."""
        self._telling = threading.Lock()
        """Held while that is changed, by the threads that commit and by the one that tells."""
        self._is_closing = False
        self._open: dict[str, bool] = {}
        """Transactions of users that are to be told of when they have ended, and whether they have
        sent messages."""
        self._have_sent = False
        """Whether such a one has ended that others were not told of yet."""
        self.has_arrivals = True
        """Whether there may be messages that users' transactions have put on their way."""
        self._find_lock: Callable[[int], int] | None = None
        """Returns the lock that the worker of this process holds, in a life of the server."""
        self._is_attending = False
        """Whether it was taken by the connection that there is, or cannot be."""

    def start(self) -> None:
        """Begin to listen."""
        self._loop = asyncio.new_event_loop()
        # Not made before: from Python 3.13 on one that a fork has copied cannot be started.
        self._thread = threading.Thread(target=self._run, name="perdure-notify", daemon=True)
        self._thread.start()

    def count(self, kind: Hint) -> int:
        """Return a number that differs after another process has given a hint of a kind."""
        return self._counts[kind]

    def listen(self, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        """Have a function called by the thread whenever the number differs; return what ends it."""
        listener = (kind, heard)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def stir(self, hints: Hint = Hint.BOTH) -> None:
        """Something was committed that others may want to know of. Called by any thread."""
        if self._loop is None or not hints:
            return
        with self._telling:
            is_told_soon = bool(self._untold)
            if hints is not self._untold:
                self._untold |= hints
        if not is_told_soon:
            with suppress(RuntimeError):  # Closed meanwhile.
                self._loop.call_soon_threadsafe(self._stirred.set)

    def attend(self, find_lock: Callable[[int], int]) -> None:
        """Hold a worker's lock by each connection that there will be. Called by any thread.

        Args:
            find_lock: Returns it for a life of the server: see `presence`.
        """
        self._find_lock = find_lock
        if self._loop is not None:
            with suppress(RuntimeError):  # Closed meanwhile.
                self._loop.call_soon_threadsafe(self._stirred.set)

    def ring(self) -> None:
        """Something has changed that listeners here may not have seen. Called by any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # Closed meanwhile.
                self._loop.call_soon_threadsafe(self._change, Hint.BOTH)

    def stir_after(self, xid: str, *, has_sent: bool) -> None:
        """A transaction of a user's has written something that others may want to know of."""
        if self._loop is not None:
            with suppress(RuntimeError):  # Closed meanwhile.
                self._loop.call_soon_threadsafe(self._watch, xid, has_sent)

    def close(self) -> None:
        """Send what is to be sent, then end the thread."""

        def end() -> None:
            if self._task is not None:
                self._task.cancel()

        if self._loop is not None:
            self._is_closing = True  # The thread may not have come to its task yet.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(end)
            assert self._thread is not None, "it was made with the loop"
            self._thread.join(CLOSE_WITHIN_S)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        assert self._loop is not None, "made when it was started"
        try:
            # It may be told to end while it closes a connection.
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._keep_on())
            self._loop.run_until_complete(asyncio.sleep(0))  # What was closed lets go.
        finally:
            self._loop.close()

    async def _keep_on(self) -> None:
        """Serve connection after connection, until cancelled."""
        self._task = asyncio.current_task()
        serve = self._look if self._address.is_pooled else self._talk
        failures = 0
        while not self._is_closing:
            connection = None
            try:
                connection = await self._connect()
                failures = 0
                self._give_up_open()
                await serve(connection)
            except asyncio.CancelledError:
                if connection is not None:
                    with suppress(*TROUBLE):
                        await self._see_ended(connection)
                        await self._tell(connection)
                return
            except (*TROUBLE, UsageError) as error:
                if failures == 0:
                    logger.info(
                        "hints of other processes are missing; looking goes on",
                        extra={"trouble": str(error)},
                    )
                pause_s = RECONNECT_S[min(failures, len(RECONNECT_S) - 1)]
                failures += 1
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(pause_s)
                    continue
                return
            finally:
                if connection is not None:
                    await close(connection)

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Connect; when told to end meanwhile, end in order."""
        connecting = asyncio.ensure_future(connect(self._address))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # The driver leaves an error behind that is never read when it is broken off here.
            with suppress(*TROUBLE, UsageError):
                async with asyncio.timeout(DONE_WITHIN_S):
                    await close(await connecting)
            raise

    async def _talk(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Listen, and tell of our own commits, one notification for many."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(self._channel, self._hear)
        self.statements += 1
        self._heard()  # What was committed while there was no listener is found by looking.
        self._is_attending = False
        pause, gap = GrowingPause(ENDED_MIN_S, ENDED_MAX_S), GrowingPause(GAP_MIN_S, GAP_MAX_S)
        while True:
            await self._hold_lock(connection)
            rested_s = monotonic()
            await _first_of(self._stirred, lost, within_s=pause.seconds if self._open else None)
            if monotonic() - rested_s < GAP_MIN_S:
                gap.grow()
            else:
                gap.restart()
            if lost.is_set():
                raise ConnectionResetError("the server has closed the connection")
            if self._stirred.is_set():
                pause.restart()
            else:
                pause.grow()
            self._stirred.clear()
            await self._see_ended(connection)
            await self._tell(connection)
            await asyncio.sleep(gap.seconds)

    async def _hold_lock(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Hold the worker's lock by this connection, if there is a worker."""
        if self._find_lock is None or self._is_attending:
            return
        self._is_attending = True
        [(life,)] = await self._ask(connection, "read_life")
        key, pid = self._find_lock(life), connection.get_server_pid()
        await self._ask(connection, "attend", key=key, pid=pid)

    async def _tell(self, connection: asyncpg.Connection[asyncpg.Record]) -> int | None:
        """Tell of our own commits, if there are any; return the number that stands for it."""
        # A commit after this is told of by the next notification.
        with self._telling:
            hints, self._untold = self._untold, Hint.NONE
        if not hints:
            return None
        have_sent, self._have_sent = self._have_sent, False
        try:
            [(told,)] = await self._ask(
                connection,
                "tell",
                channel=self._channel,
                own=f"{hints:d} {ARRIVALS if have_sent else self._own}",
                schema=self._address.schema,
            )
        except TROUBLE:
            self._have_sent = have_sent
            self.stir(hints)  # Told on the next connection.
            raise
        number: int = told
        return number

    def _hear(self, *notification: Any) -> None:
        hints, _, told = notification[-1].partition(" ")
        if told == ARRIVALS:
            self.has_arrivals = True
        if told != self._own:
            # Of another release it may be anything.
            self._change(Hint(int(hints)) if hints in ("1", "2") else Hint.BOTH)

    def _heard(self) -> None:
        """Others have committed something, whatever it is."""
        self.has_arrivals = True
        self._change(Hint.BOTH)

    def _change(self, hints: Hint) -> None:
        for kind in KINDS:
            self._counts[kind] += bool(hints & kind)
        for kind, heard in tuple(self._listeners):
            if hints & kind:
                heard()

    # ------------------------------------------------------- through a pooler

    async def _look(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Look whether others have told something, and tell of our own commits."""
        seen, pause = None, GrowingPause(LOOK_MIN_S, LOOK_MAX_S)
        while True:
            await self._see_ended(connection)
            told = await self._tell(connection)
            newest = told or await self._read_told(connection)
            is_quiet = seen is not None and newest == seen + (told is not None)
            if not is_quiet:
                self._heard()
            seen = newest
            await asyncio.sleep(LOOK_MIN_S)
            if is_quiet and told is None:
                pause.grow()
            else:
                pause.restart()
            if await self._is_woken(pause.seconds - LOOK_MIN_S):
                pause.restart()

    async def _read_told(self, connection: asyncpg.Connection[asyncpg.Record]) -> int:
        [(told,)] = await self._ask(connection, "read_told")
        number: int = told
        return number

    async def _is_woken(self, within_s: float) -> bool:
        """Wait a while; return whether there is something to tell, or soon will be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._stirred.wait()
        is_woken = self._stirred.is_set()
        self._stirred.clear()
        return is_woken

    # ------------------------------------------------------ transactions of users

    def _watch(self, xid: str, has_sent: bool) -> None:
        self._open[xid] = has_sent or self._open.get(xid, False)
        self._stirred.set()

    def _give_up_open(self) -> None:
        """Tell of transactions that were watched on another connection: another server may be there
        now, which does not know them."""
        if self._open:
            self._have_sent = True
            self._open.clear()
            self.stir()

    async def _see_ended(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """See which transactions of users are over: they are told of like commits of our own, and
        are news to us too, as they are to those who listen."""
        if self._open:
            xids = msgspec.json.encode([*self._open]).decode()
            ended = {xid for (xid,) in await self._ask(connection, "read_ended", xids=xids)}
            for xid in ended:
                self._have_sent = self._open.pop(xid) or self._have_sent
            if ended:
                self.stir()
                self._heard()

    async def _ask(
        self, connection: asyncpg.Connection[asyncpg.Record], name: str, **params: str | int
    ) -> list[asyncpg.Record]:
        """Run a statement, to its end also when told to end meanwhile."""
        text, names = statement(name, self._address.quoted_schema)
        self.statements += 1
        asking = asyncio.ensure_future(
            fetch(connection, self._address, text, *(params[one] for one in names))
        )
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            # A connection on which a question was broken off cannot even be closed in order.
            with suppress(*TROUBLE):
                async with asyncio.timeout(DONE_WITHIN_S):
                    await asking
            raise

    @property
    def _channel(self) -> str:
        """Where commits in the schema are told of."""
        return f"perdure_{zlib.crc32(self._address.schema.encode()):08x}"


async def _first_of(*events: asyncio.Event, within_s: float | None) -> None:
    """Wait until one of them is set, or for so long."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=within_s)
    finally:
        for one in waiting:
            one.cancel()
