"""One connection to PostgreSQL, used by one thread at a time, with an event loop of its own.

The code that both databases share runs statements one after another and knows nothing of event
loops. The driver, asyncpg, does. So whoever writes or reads is a thread with its own loop: it never
waits for what users do on theirs, and theirs never for it.

A statement that does not answer within `ANSWER_WITHIN_S` counts as lost, and with it the
connection: the other side may be gone without a word.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from time import monotonic
from typing import Any, TypeVar

import asyncpg

from perdure.errors import PerdureError, StoreError, UsageError
from perdure.model.tables import Parameters
from perdure.store.postgres.address import Address
from perdure.store.postgres.clock import DatabaseClock
from perdure.store.postgres.faults import TROUBLE, is_broken, of_user, ours
from perdure.store.sql.connection import Value

PACKAGE = "perdure.store.postgres"
CONNECT_WITHIN_S = 10.0
ANSWER_WITHIN_S = 30.0
_STATEMENTS = 400
"""More than there are, so that each is prepared once."""
_SETTINGS = {"application_name": "perdure"}

T = TypeVar("T")


class PostgresConnection:
    """See `perdure.store.sql.connection.Connection`."""

    locks = True

    def __init__(self, address: Address) -> None:
        self.statements = 0
        self.xid: str | None = None
        """The id of the transaction that has written last."""
        self.loaded_at_ms: int | None = None
        """See `Connection`. None too if another clock rules."""
        self.clock: DatabaseClock | None = None
        """Learns the time from what is loaded."""
        self._address = address
        self._writes: list[tuple[str, Value, Value, Value]] = []
        self._loop = asyncio.new_event_loop()
        try:
            self._connection = self._wait(connect(address))
        except BaseException:
            self._loop.close()
            raise

    def run(self, name: str, /, **params: Value) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        self.send_writes()
        self.statements += 1
        text, names = statement(name, self._address.quoted_schema)
        records = self._wait(self._connection.fetch(text, *(params[one] for one in names)))
        return [tuple(record) for record in records]

    def load(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """See `Connection`."""
        if not asked:
            return []
        self.send_writes()
        self.statements += 1
        names, keys = zip(*asked, strict=True)
        text, _ = statement("load", self._address.quoted_schema)
        [record] = self._wait(self._connection.fetch(text, names, keys))
        found: list[str]
        found, database_ms = record
        if self.clock is not None:
            self.loaded_at_ms = database_ms
            self.clock.learn(database_ms)
        return found

    def write(self, name: str, /, **params: Value) -> None:
        """See `Connection`."""
        rows = params["keys"] if "keys" in params else params["rows"]
        self._writes.append((name, rows, params.get("bodies"), params.get("now_ms", 0)))

    def send_writes(self) -> None:
        """Have all statements run that `write` was asked for, in one call."""
        if self._writes:
            names, rows, bodies, times = zip(*self._writes, strict=True)
            self._writes = []
            self.statements += 1
            text, _ = statement("write", self._address.quoted_schema)
            self.xid = self._wait(self._connection.fetchval(text, names, rows, bodies, max(times)))

    def forget_writes(self) -> None:
        """Run none of them: the transaction is undone."""
        self._writes = []

    def change(self, name: str, /, **params: Value) -> int:
        """See `Connection`."""
        self.send_writes()
        self.statements += 1
        text, names = statement(name, self._address.quoted_schema)
        status = self._wait(self._connection.execute(text, *(params[one] for one in names)))
        return int(status.rpartition(" ")[2])

    def run_script(self, text: str) -> None:
        """Run statements without parameters, all in one message."""
        self.statements += 1
        self._wait(self._connection.execute(text))

    def run_own(self, text: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """See `Connection`."""
        self.send_writes()
        records = self._wait(self._connection.fetch(text, *_places(parameters)), of_user)
        return [tuple(record) for record in records]

    def run_own_many(self, text: str, rows: Iterable[Parameters]) -> None:
        """See `Connection`."""
        self.send_writes()
        self._wait(self._connection.executemany(text, [_places(row) for row in rows]), of_user)

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
        """Tell whether it is of no use any more."""
        return self._connection.is_closed()

    def server_version(self) -> int:
        """Return the major version of the server."""
        return self._connection.get_server_version().major

    def server_pid(self) -> int:
        """Return the process that serves this connection, as whoever we have called says."""
        return self._connection.get_server_pid()

    def close(self) -> None:
        """Say goodbye, or hang up if nobody listens. Harmless the second time."""
        if self._loop.is_closed():
            return
        try:
            self._loop.run_until_complete(close(self._connection))
        finally:
            self._loop.close()

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
            # on its way has to be taken first, or the connection would be of no use to anybody.
            with suppress(Exception):
                self._loop.run_until_complete(task)
            raise


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
        )
    except asyncpg.exceptions.ClientConfigurationError as error:
        raise UsageError(f"the store URL {address.shown} cannot be used: {error}") from error
    return connection


async def close(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Close a connection; hang up if it does not answer."""
    try:
        await connection.close(timeout=2)
    except TROUBLE:
        connection.terminate()


@cache
def statement(name: str, quoted_schema: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of `sql/<name>.sql` for the driver, and the parameters in their order."""
    text = (resources.files(PACKAGE) / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    text = in_schema(_without_comments(text), quoted_schema)
    names: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}"

    text = re.sub(r"(?<![:\w]):([a-z_]+)", place, text)
    return text.strip().removesuffix(";"), tuple(names)


def in_schema(text: str, quoted_schema: str) -> str:
    """Return statements that name our schema with the one that was chosen in its place."""
    return re.sub(r"\bperdure\.", lambda _: f"{quoted_schema}.", text)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def _places(parameters: Parameters) -> tuple[Any, ...]:
    if isinstance(parameters, Mapping):
        raise UsageError("on PostgreSQL parameters are given in order, for $1, $2 and so on")
    return tuple(parameters)
