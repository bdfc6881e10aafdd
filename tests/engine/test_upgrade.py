"""A store of an earlier commit is opened, migrated and finished, whatever its instances were at."""

from __future__ import annotations

import asyncio
import gzip
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from perdure import Engine, Status
from perdure.errors import InstanceCancelledError, InstanceFailedError, InstanceTerminatedError
from perdure.store.migrate import read_migrations
from perdure.store.opening import open_store
from perdure.store.postgres.connection import PACKAGE as POSTGRES
from perdure.store.sqlite.database import PACKAGE as SQLITE
from tests.engine.accounts import Account, Deposit
from tests.engine.stage import Stage, options, until
from tests.engine.upgrading import CODE, IS_FILLING, go, waits

ROOT = Path(__file__).parent.parent.parent
RECORDED = ROOT / "tests" / "golden" / "stores" / "first.db.gz"
WITHIN = timedelta(seconds=30)


@pytest.fixture
def url(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A store with the first migration alone. On SQLite it is a file of that time; on PostgreSQL it
    is filled by a program that is killed, and what later migrations made is taken away."""
    IS_FILLING["now"] = False
    if store_kind == "sqlite":
        path = tmp_path / "first.db"
        path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("postgres_url")
    program = [sys.executable, "-m", "tests.engine.upgrading", url]
    filled = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert filled.returncode == -9, filled.stderr
    take_back(url, after=1)
    return url


MADE = re.compile(r"^CREATE (?:UNIQUE )?(TABLE|INDEX|FUNCTION)\s+(?:perdure\.)?(\w+)", re.MULTILINE)


def take_back(url: str, *, after: int) -> None:
    """Take away what the migrations behind one have made, so that they are missing again."""
    later = [one for one in read_migrations(POSTGRES) if one.number > after]
    made = [found for one in later for found in MADE.findall(one.script)]
    assert made
    with psycopg.connect(url, autocommit=True) as connection:
        for kind, name in reversed(made):
            drop = sql.SQL("DROP {} perdure.{}")
            connection.execute(drop.format(sql.SQL(kind), sql.Identifier(name)))
        connection.execute("DELETE FROM perdure.migrations WHERE migration_no > %s", [after])


def applied(url: str) -> list[int]:
    text = "SELECT migration_no FROM {}migrations ORDER BY 1"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return [number for (number,) in file.execute(text.format(""))]
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT migration_no FROM perdure.migrations ORDER BY 1")
        return [number for (number,) in found]


@pytest.fixture
async def stage(url: str) -> AsyncIterator[Stage]:
    stage = Stage(url)
    yield stage
    await stage.close()
    await stage.look_over()


async def test_a_store_with_instances_in_every_state_is_migrated_and_finished(
    stage: Stage, store_kind: str
) -> None:
    stage.allow_log("clock|lease|lost|died|goes on|attempt")
    assert applied(stage.url) == [1]

    engine = await stage.engine(CODE, options=options(lease_for=timedelta(seconds=2)))

    package = SQLITE if store_kind == "sqlite" else POSTGRES
    assert applied(stage.url) == [one.number for one in read_migrations(package)]
    await check_ended(engine)
    await finish(engine)
    assert len(await engine._core.store.admin.read_secret()) == 32


async def check_ended(engine: Engine) -> None:
    assert await engine.handle("up-completed").result() == "done"
    with pytest.raises(InstanceFailedError, match=r"ValueError: too bad"):
        await engine.handle("up-failed").result()
    with pytest.raises(InstanceCancelledError, match="enough"):
        await engine.handle("up-cancelled").result()
    with pytest.raises(InstanceTerminatedError, match="stop"):
        await engine.handle("up-terminated").result()


async def finish(engine: Engine) -> None:
    async def result_of(instance_id: str) -> object:
        return await engine.handle(instance_id).result(timeout=WITHIN)

    for instance_id in ("up-waits", "up-child", "up-continued"):
        await engine.handle(instance_id).send(go, "on")
    assert str(await result_of("up-waits")).startswith("on value ")
    assert str(await result_of("up-parent")).startswith("on value ")
    assert await result_of("up-continued") == "on"
    assert await result_of("up-sleeps") == "awake"
    assert await result_of("up-works") == "WORD"
    assert await result_of("up-delayed") == "done"
    assert await result_of("up-drifts") == "new on"
    assert (await engine.handle("up-parked").info()).status is Status.PARKED
    assert await engine.handle("up-parked").unpark()
    await engine.handle("up-parked").send(go, "freed")
    assert str(await result_of("up-parked")).startswith("freed value ")
    unborn = await engine.start("up-unborn", waits)
    assert (await unborn.result(timeout=WITHIN)).startswith("early value ")

    async def has_both() -> bool:
        return await engine.state(Account, "ada") == 12

    await until(has_both)
    # Given again under its id it is not decided again.
    await engine.execute(Account, Deposit("ada", 5), input_id="d-1")
    assert await engine.state(Account, "ada") == 12
    assert await engine.retry_all(ids=["up-failed"], expect=1) == 1
    await until(lambda: _is_retried(engine))


async def _is_retried(engine: Engine) -> bool:
    return await engine.count_dead_jobs() == 0


def test_two_processes_that_open_it_at_once_migrate_it_once(url: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from perdure.store.opening import open_store\n"
        "async def main():\n"
        "    store = open_store(sys.argv[1])\n"
        "    await store.open()\n"
        "    print((await store.admin.read_secret()).hex())\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    secrets = {process.communicate(timeout=60)[0] for process in processes}

    assert [process.returncode for process in processes] == [0] * 4
    assert len(secrets) == 1
    assert asyncio.run(_secret(url)) == secrets.pop().strip()


async def _secret(url: str) -> str:
    store = open_store(url)
    await store.open()
    found = (await store.admin.read_secret()).hex()
    await store.close()
    return found


@pytest.mark.sqlite_only("users' tables are in the same file there")
async def test_a_table_of_the_users_is_not_in_the_way(url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        file.execute("CREATE TABLE settings (mine TEXT)")

    assert len(await _secret(url)) == 64
