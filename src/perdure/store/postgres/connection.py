"""One connection to PostgreSQL, used by one thread at a time, with an event loop of its own.

The code that both databases share runs statements one after another and knows nothing of event
loops. The driver, asyncpg, does. So each writer or reader is a thread with its own loop: it never
waits for what users do on theirs, and theirs never for it.

A statement that does not answer within `ANSWER_WITHIN_S` counts as lost, and with it the
connection: the other side may be gone without a word.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from string import ascii_lowercase
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import asyncpg

from perdure.errors import (
    PerdureError,
    RowError,
    StoreError,
    StoreUnavailableError,
    UsageError,
)
from perdure.model.tables import Parameters
from perdure.store.postgres.address import Address, quoted
from perdure.store.postgres.clock import DatabaseClock
from perdure.store.postgres.faults import (
    DIALECT,
    TROUBLE,
    is_broken,
    is_of_statement,
    of_user,
    ours,
)
from perdure.store.postgres.statements import JOINT, Statements
from perdure.store.sql.statement_files import PARTS, text_of

PACKAGE = "perdure.store.postgres"
CONNECT_WITHIN_S = 10.0
ANSWER_WITHIN_S = 30.0
REST_S, ASK_EVERY_S, ASK_TIMES = 30, 10, 3
"""When nothing was heard for so long, the system asks whether the other side is there. Without
an answer to any of so many questions the connection is lost. Nothing else would find that out where
nothing is said, as on the connection that listens."""
_STATEMENTS = 400
"""More than there are, so that each is prepared once."""
_FIXED_TYPES = 10_000
"""The types below are numbered in PostgreSQL's sources."""
_TYPES: dict[frozenset[int], Any] = {}
"""What the driver was told of them."""
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_SETTINGS = {"application_name": "perdure"}

PIN = "SET LOCAL search_path = pg_catalog, pg_temp;"
"""Begins every transaction of ours. A role that may create in a schema of the search path can have
an operator or a function there that fits our statements better than PostgreSQL's own, and it would
run with our rights (CVE-2018-1058). Our tables and functions are named with their schema.

Between transactions a session of ours has the same path. What a session is given when it begins
would be its default too, and what projections run is looked for where the user's default says.
"""

T = TypeVar("T")


class PostgresConnection(Statements):
    """See `perdure.store.sql.connection.Connection`."""

    waits = False

    def __init__(self, address: Address) -> None:
        super().__init__()
        self.clock: DatabaseClock | None = None
        """Learns the time from what is loaded, unless another one rules."""
        self._address = address
        self._has_run_own = False
        self._loop = asyncio.new_event_loop()
        try:
            self._connection = self._wait(connect(address))
        except BaseException:
            self._loop.close()
            raise

    def _text(self, name: str) -> tuple[str, tuple[str, ...]]:
        return statement(name, self._address.quoted_schema)

    def _fetch(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        records = self._wait(fetch(self._connection, self._address, text, *values))
        return [tuple(record) for record in records]

    def _execute(self, text: str, values: Sequence[Any]) -> int:
        status = self._wait(self._connection.execute(text, *values))
        return int(status.rpartition(" ")[2])

    def _learn(self, database_ms: int) -> None:
        if self.clock is not None:
            self.loaded_at_ms = self.clock.learn(database_ms)

    def run_script(self, text: str) -> None:
        """Run statements without parameters, all in one message."""
        self.statements += 1
        self._wait(self._connection.execute(text))

    def commit(self) -> None:
        """Commit. What the user's tables have put off until then runs as the user's statements
        did."""
        path = f"SET LOCAL search_path = {quoted(self._address.tables)}, pg_temp;"
        before = path if self._has_run_own else ""
        self._has_run_own = False
        self.run_script(f"{before}COMMIT")

    def run_own(self, text: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        self.send_writes()
        self._has_run_own = True
        values = _places(parameters)
        records = self._wait(self._own(lambda: self._connection.fetch(text, *values)), of_user)
        return [tuple(record) for record in records]

    def run_own_many(self, text: str, rows: Iterable[Parameters]) -> None:
        """See `Connection`."""
        self.send_writes()
        self._has_run_own = True
        values = [_places(row) for row in rows]
        self._wait(self._own(lambda: self._connection.executemany(text, values)), of_user)

    def set_deadline(self, until_s: float | None) -> None:
        """See `Connection`."""
        left_ms = ANSWER_WITHIN_S * 1000 if until_s is None else (until_s - monotonic()) * 1000
        # A transaction that has failed takes no statement; its settings go with what is undone.
        with suppress(StoreError):
            self.run_script(f"SET LOCAL statement_timeout = {max(int(left_ms), 1)}")

    def in_transaction(self) -> bool:
        """See `Connection`."""
        return not self.is_broken and self._connection.is_in_transaction()

    @property
    def is_broken(self) -> bool:
        """Return whether it is of no use any more."""
        return self._connection.is_closed()

    def server_version(self) -> int:
        """Return the major version of the server."""
        return self._connection.get_server_version().major

    def server_pid(self) -> int:
        """Return the process that serves this connection, as that process itself says."""
        return self._connection.get_server_pid()

    def close(self) -> None:
        """Say goodbye, or hang up if the server does not listen. Harmless the second time."""
        if self._loop.is_closed():
            return
        try:
            self._loop.run_until_complete(close(self._connection))
        finally:
            self._loop.close()

    async def _own(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run a statement of a user's."""
        try:
            return await run()
        except TROUBLE as error:
            if self._connection.is_closed() or not is_of_statement(error):
                raise
            hint = f"; {DIALECT}" if isinstance(error, asyncpg.InterfaceError) else ""
            raise RowError(f"a statement cannot be run: {error}{hint}") from error

    def _wait(
        self,
        answer: Coroutine[Any, Any, T],
        meaning: Callable[[str, BaseException], StoreError] = ours,
    ) -> T:
        if self._loop.is_closed():
            answer.close()
            raise StoreError("the connection is closed")
        task = self._loop.create_task(answer)
        try:
            return self._loop.run_until_complete(task)
        except Exception as error:
            if is_broken(error) and hasattr(self, "_connection"):
                self._connection.terminate()
            if isinstance(error, PerdureError):
                raise
            raise meaning(self._address.shown, error) from error
        except BaseException:
            # A handler of a projection was broken off while it waited for us. The answer that is
            # on its way has to be taken first, or the connection would be of no use any more.
            with suppress(Exception):
                self._loop.run_until_complete(task)
            raise


def connect_again(address: Address) -> PostgresConnection:
    """Connect where another connection is, or was.

    Raises:
        StoreUnavailableError: The server cannot be reached, or the driver cannot use the URL now:
            a file that it names is just being replaced.
    """
    try:
        return PostgresConnection(address)
    except UsageError as error:
        raise StoreUnavailableError(str(error)) from error


class KeptConnection(asyncpg.Connection):
    """A connection of which is noticed that the other side is gone without a word."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        line: socket.socket | None = transport.get_extra_info("socket")
        if line is not None and line.family in (socket.AF_INET, socket.AF_INET6):
            # Not every system has or allows all of it, and it works without.
            with suppress(OSError):
                _keep_alive(line)

    async def _introspect_types(
        self,
        typeoids: Iterable[int],
        timeout: float,  # noqa: ASYNC109 - the driver's
    ) -> Any:
        """Say what the types of a statement are, as the driver wants to know it of arrays.

        It asks at every connection, and the answer takes the server twice as long as the connection
        itself. Of types whose numbers are PostgreSQL's own, the same everywhere, what one
        connection was told is told to the others of the process. A driver that does not call this
        asks as ever.
        """
        wanted = frozenset(typeoids)
        found = _TYPES.get(wanted)
        if found is None:
            ask: Any = super()
            found, statement = await ask._introspect_types(wanted, timeout)
            if max(wanted) < _FIXED_TYPES:
                _TYPES[wanted] = found
            return found, statement
        return found, _NothingAsked()


class _NothingAsked(NamedTuple):
    """In place of the statement that has asked: it has taken no other's place."""

    name: str = "nothing"


def _keep_alive(line: socket.socket) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", REST_S),
        ("TCP_KEEPALIVE", REST_S),  # as macOS calls it
        ("TCP_KEEPINTVL", ASK_EVERY_S),
        ("TCP_KEEPCNT", ASK_TIMES),
        # For what was sent and is not even acknowledged; Linux alone.
        ("TCP_USER_TIMEOUT", (REST_S + ASK_EVERY_S * ASK_TIMES) * 1000),
    ):
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def connect(address: Address) -> asyncpg.Connection[asyncpg.Record]:
    """Connect with what every connection of ours needs.

    Raises:
        UsageError: The URL has something in it that the driver cannot use.
    """
    try:
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_WITHIN_S,
            command_timeout=ANSWER_WITHIN_S,
            statement_cache_size=0 if address.is_pooled else _STATEMENTS,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            server_settings={} if address.is_pooled else _SETTINGS,
            connection_class=KeptConnection,
        )
    except OSError:
        raise  # Some are ValueErrors too: a certificate that is refused.
    except (asyncpg.exceptions.ClientConfigurationError, ValueError, OverflowError) as error:
        raise UsageError(f"the store URL {address.shown} cannot be used: {error}") from error
    if not address.is_pooled:
        await connection.execute("SET search_path = pg_catalog, pg_temp")
    return connection


async def fetch(
    connection: asyncpg.Connection[asyncpg.Record], address: Address, text: str, *values: Any
) -> list[asyncpg.Record]:
    """Run a statement of ours and return its rows."""
    if not address.is_pooled or connection.is_in_transaction():
        return await connection.fetch(text, *values)
    # Any session may be behind a pooler, with any search path.
    await connection.execute(f"BEGIN; {PIN}")
    try:
        return await connection.fetch(text, *values)
    finally:
        if not connection.is_closed():
            # If the statement has failed, this rolls back.
            await connection.execute("COMMIT")


async def close(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Close a connection; hang up if it does not answer."""
    try:
        await connection.close(timeout=2)
    except TROUBLE:
        connection.terminate()


@cache
def statement(name: str, quoted_schema: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement or command for the driver, and the parameters in their order.

    Args:
        name: Of a statement, or of several that are run as one: see `Statements.run_each`.
        quoted_schema: Where our tables are.
    """
    text = PARTS.get(name) or (_joined(name) if name.startswith(JOINT) else _code(name))
    text = in_schema(text, quoted_schema)
    names: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}"

    return re.sub(_PARAMETER, place, text), tuple(names)


def _joined(names: str) -> str:
    """Return one statement that returns the values of several, and the database's time."""
    parts = [
        re.sub(_PARAMETER, rf":{place}_\1", _code(name))
        for place, name in zip(ascii_lowercase, names.split(JOINT)[1:], strict=False)
    ]
    values = ",\n".join(f"({text}\n)" for text in (*parts, _code("read_now")))
    return f"SELECT\n{values}"


def _code(name: str) -> str:
    return _without_comments(text_of(PACKAGE, name)).strip().removesuffix(";")


def in_schema(text: str, quoted_schema: str) -> str:
    """Return statements that name our schema with the one that was chosen in its place."""
    return re.sub(r"\bperdure\.", lambda _: f"{quoted_schema}.", text)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def _places(parameters: Parameters) -> tuple[Any, ...]:
    if isinstance(parameters, Mapping):
        raise UsageError("on PostgreSQL parameters are given in order, for $1, $2 and so on")
    return tuple(parameters)
