"""`within` needs a transaction to be within."""

from __future__ import annotations

import pytest

from perdure.errors import (
    UsageError,
)
from tests.engine.stage import Stage
from tests.within.conftest import Opener
from tests.within.programs import ALL, double

DRIVERS = [
    "asyncpg",
    "psycopg-async",
    "sqlalchemy-asyncpg",
    "sqlalchemy-psycopg-async",
    "psycopg",
    "sqlite3",
]
"""Those that can be without one; the others of SQLAlchemy begin one whenever they are used."""


async def test_without_an_open_transaction_nothing_is_done(stage: Stage, open_user: Opener) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.autocommit()

    with pytest.raises(UsageError, match="no open transaction"):
        await user.ask(lambda client: client.start("a", double, 1))

    assert (await engine.instances()).items == []
