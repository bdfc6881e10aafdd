"""Users of every driver: each has a connection, a client, and rows of its own.

Whoever blocks does so on a thread of its own, to which its connection belongs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from perdure import BlockingClient, Client

TABLE = "CREATE TABLE notes (text VARCHAR(50))"
INSERT = "INSERT INTO notes (text) VALUES ('mine')"
COUNT = "SELECT count(*) FROM notes"


class User(ABC):
    """Somebody with a connection."""

    def __init__(self, url: str, client: Client) -> None:
        self.url = url
        self.client = client

    @abstractmethod
    async def open(self) -> None:
        """Connect."""

    @abstractmethod
    async def close(self) -> None:
        """Hang up."""

    @abstractmethod
    async def ask(self, what: Callable[[Any], Any]) -> Any:
        """Ask something of the client inside the transaction."""

    @abstractmethod
    async def ask_outside(self, what: Callable[[Any], Any]) -> Any:
        """Ask something of the client itself."""

    @abstractmethod
    async def run(self, text: str) -> Any:
        """Run a statement of one's own; return the first value."""

    async def autocommit(self) -> None:
        """Be without an open transaction, where that takes something."""
        return

    async def begin(self) -> None:
        """Begin a transaction, where that is not done by itself."""
        return

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def rollback(self) -> None: ...


# ----------------------------------------------------------------- event loops


class AsyncUser(User):
    connection: Any

    async def ask(self, what: Callable[[Any], Any]) -> Any:
        return await what(self.client.within(self.connection))

    async def ask_outside(self, what: Callable[[Any], Any]) -> Any:
        return await what(self.client)


class AsyncpgUser(AsyncUser):
    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.url)

    async def close(self) -> None:
        await self.connection.close()

    async def run(self, text: str) -> Any:
        return await self.connection.fetchval(text)

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()


class AsyncpgPoolUser(AsyncpgUser):
    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.url, min_size=1, max_size=1)
        self.connection = await self._pool.acquire()

    async def close(self) -> None:
        await self._pool.release(self.connection)
        await self._pool.close()


class AsyncPsycopgUser(AsyncUser):
    async def open(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(self.url)

    async def close(self) -> None:
        await self.connection.close()

    async def autocommit(self) -> None:
        await self.connection.set_autocommit(True)

    async def run(self, text: str) -> Any:
        cursor = await self.connection.execute(text)
        return None if cursor.description is None else (await cursor.fetchone())[0]

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


class AsyncSqlalchemyUser(AsyncUser):
    driver = "asyncpg"

    async def open(self) -> None:
        url = self.url.replace("postgresql", f"postgresql+{self.driver}")
        self._engine = create_async_engine(url)
        self.connection = await self._engine.connect()

    async def close(self) -> None:
        await self.connection.close()
        await self._engine.dispose()

    async def autocommit(self) -> None:
        self.connection = await self.connection.execution_options(isolation_level="AUTOCOMMIT")

    async def run(self, text: str) -> Any:
        found = await self.connection.execute(sqlalchemy.text(text))
        return found.scalar() if found.returns_rows else None

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


class AsyncSqlalchemyPsycopgUser(AsyncSqlalchemyUser):
    driver = "psycopg"


class AsyncSessionUser(AsyncSqlalchemyUser):
    async def open(self) -> None:
        await super().open()
        await self.connection.close()
        self.connection = AsyncSession(self._engine)


class AsyncSqliteUser(AsyncUser):
    """Blocks the loop for as long as a statement takes."""

    async def open(self) -> None:
        self.connection = sqlite3.connect(path_of(self.url))
        self.connection.row_factory = sqlite3.Row
        self.connection.text_factory = bytes

    async def close(self) -> None:
        self.connection.close()

    async def run(self, text: str) -> Any:
        found = self.connection.execute(text).fetchone()
        return None if found is None else found[0]

    async def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()


# --------------------------------------------------------------------- threads


class BlockingUser(User):
    """Waits on a thread of its own."""

    connection: Any
    blocking: BlockingClient

    async def open(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="user")
        self.blocking = BlockingClient(self.url)
        await self.there(self.blocking.open)
        await self.there(self.connect)

    async def close(self) -> None:
        await self.there(self.disconnect)
        await self.there(self.blocking.close)
        self._threads.shutdown()

    async def there(self, what: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    async def ask(self, what: Callable[[Any], Any]) -> Any:
        return await self.there(lambda: what(self.blocking.within(self.connection)))

    async def ask_outside(self, what: Callable[[Any], Any]) -> Any:
        return await self.there(lambda: what(self.blocking))

    async def run(self, text: str) -> Any:
        return await self.there(lambda: self.first_of(text))

    async def commit(self) -> None:
        await self.there(lambda: self.connection.commit())

    async def rollback(self) -> None:
        await self.there(lambda: self.connection.rollback())

    @abstractmethod
    def connect(self) -> None: ...

    def disconnect(self) -> None:
        self.connection.close()

    @abstractmethod
    def first_of(self, text: str) -> Any: ...


class PsycopgUser(BlockingUser):
    def connect(self) -> None:
        self.connection = psycopg.connect(self.url, row_factory=dict_row)

    async def autocommit(self) -> None:
        self.connection.autocommit = True

    def first_of(self, text: str) -> Any:
        cursor = self.connection.execute(text)
        return None if cursor.description is None else next(iter(cursor.fetchone().values()))


class SqlalchemyUser(BlockingUser):
    def connect(self) -> None:
        self._engine = sqlalchemy.create_engine(self.dialect_url)
        self.connection = self._engine.connect()

    @property
    def dialect_url(self) -> str:
        return self.url.replace("postgresql", "postgresql+psycopg")

    def disconnect(self) -> None:
        self.connection.close()
        self._engine.dispose()

    def first_of(self, text: str) -> Any:
        found = self.connection.execute(sqlalchemy.text(text))
        return found.scalar() if found.returns_rows else None


class SessionUser(SqlalchemyUser):
    def connect(self) -> None:
        super().connect()
        self.connection.close()
        self.connection = Session(self._engine)


class SqliteUser(BlockingUser):
    def connect(self) -> None:
        self.connection = sqlite3.connect(path_of(self.url))

    def first_of(self, text: str) -> Any:
        found = self.connection.execute(text).fetchone()
        return None if found is None else found[0]

    async def begin(self) -> None:
        await self.run("BEGIN IMMEDIATE")


class SqlalchemySqliteUser(SqlalchemyUser):
    @property
    def dialect_url(self) -> str:
        return self.url


class SessionSqliteUser(SessionUser):
    @property
    def dialect_url(self) -> str:
        return self.url


POSTGRES_USERS = {
    "asyncpg": AsyncpgUser,
    "asyncpg-pool": AsyncpgPoolUser,
    "psycopg-async": AsyncPsycopgUser,
    "sqlalchemy-asyncpg": AsyncSqlalchemyUser,
    "sqlalchemy-psycopg-async": AsyncSqlalchemyPsycopgUser,
    "sqlalchemy-async-session": AsyncSessionUser,
    "psycopg": PsycopgUser,
    "sqlalchemy-psycopg": SqlalchemyUser,
    "sqlalchemy-session": SessionUser,
}
SQLITE_USERS = {
    "sqlite3-async": AsyncSqliteUser,
    "sqlite3": SqliteUser,
    "sqlalchemy-sqlite3": SqlalchemySqliteUser,
    "sqlalchemy-sqlite3-session": SessionSqliteUser,
}


def path_of(url: str) -> str:
    """Return the file of a store."""
    return url.removeprefix("sqlite:///").partition("?")[0]


def make_table(url: str) -> None:
    """Make the users' own table, beside those of the store."""
    if url.startswith("sqlite"):
        with sqlite3.connect(path_of(url)) as connection:
            connection.execute(TABLE)
        connection.close()
    else:
        with psycopg.connect(url) as other:
            other.execute(TABLE)
