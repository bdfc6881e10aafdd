"""A store of an earlier commit in which all is open that instances ask, promise, tell, go back to
and do in pages is migrated and finished by the code of today."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, Retention, Tally
from perdure.store.migrate import read_migrations
from perdure.store.postgres.connection import PACKAGE as POSTGRES
from perdure.store.sqlite.database import PACKAGE as SQLITE
from tests.engine.stage import Stage, options
from tests.engine.test_upgrade import ROOT, WITHIN, applied, take_back
from tests.engine.upgrading_everyday import (
    CODE,
    IS_FILLING,
    add,
    go,
    items,
    paid,
    results,
    tokens,
    words,
)

RECORDED = ROOT / "tests" / "golden" / "stores" / "everyday.db.gz"
KEPT = options(lease_for=timedelta(seconds=2), retention=Retention(receipts=None))
"""However old the file is by now, it is remembered what was asked for."""


@pytest.fixture
async def stage(url: str) -> AsyncIterator[Stage]:
    stage = Stage(url)
    yield stage
    await stage.close()
    await stage.look_over()


@pytest.fixture
def url(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A store that was filled by a program that was killed: on SQLite a file of that time; on
    PostgreSQL it is filled now, and what later migrations made is taken away."""
    IS_FILLING["now"] = False
    if store_kind == "sqlite":
        path = tmp_path / "everyday.db"
        path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("postgres_url")
    program = [sys.executable, "-m", "tests.engine.upgrading_everyday", url]
    filled = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert filled.returncode == -9, filled.stderr
    take_back(url, after=3)
    return url


async def test_what_was_asked_promised_told_and_taken_back_goes_on(
    stage: Stage, store_kind: str
) -> None:
    stage.allow_log("clock|lease|lost|died|goes on|attempt|ready")
    assert applied(stage.url) == [1, 2, 3]

    engine = await stage.engine(CODE, options=KEPT)

    package = SQLITE if store_kind == "sqlite" else POSTGRES
    assert applied(stage.url) == [one.number for one in read_migrations(package)]
    await updates_are_answered_once(engine)
    await promises_are_kept_once(engine)
    await what_went_back_goes_on(engine)
    await a_schedule_is_as_it_was(engine)
    await the_rest_comes_to_its_end(engine)


async def result_of(engine: Engine, instance_id: str) -> Any:
    return await engine.handle(instance_id).result(timeout=WITHIN)


async def updates_are_answered_once(engine: Engine) -> None:
    """One was not taken, one was taken and not answered: given again, both are still the same."""
    for instance_id in ("ev-asked", "ev-holding"):
        handle = engine.handle(instance_id)
        await handle.send(go, "on")
        assert await handle.update(add, 3, update_id="u-1") == 3
        assert await handle.update(add, 4, update_id="u-2") == 7
        assert await result_of(engine, instance_id) == [3, 4]


async def promises_are_kept_once(engine: Engine) -> None:
    """One had been kept and not been heard of."""
    handle = engine.handle("ev-promised")
    first, second = await handle.kv(tokens) or []
    assert not await engine.resolve(paid, first, "again")
    assert await engine.resolve(paid, second, "second")
    await handle.send(go, "on")
    assert await result_of(engine, "ev-promised") == ["first", "second"]


async def what_went_back_goes_on(engine: Engine) -> None:
    """It had no turn since; so with the fork."""
    back = await result_of(engine, "ev-back")
    kept = await engine.handle("ev-back").kv()
    assert back == f"paid 40 for {kept['order']}"
    branch = await result_of(engine, "ev-branch")
    assert branch == f"paid 40 for {(await engine.handle('ev-branch').kv())['order']}"
    assert branch != back
    await engine.handle("ev-failed").reset()
    assert str(await result_of(engine, "ev-failed")).startswith("paid 40 for ")


async def a_schedule_is_as_it_was(engine: Engine) -> None:
    handle = engine.schedule("daily")
    info = await handle.info()
    assert (info.paused, info.running, info.next) == ("holidays", ("daily@trigger#t",), None)
    assert await handle.trigger(trigger_id="t") == "daily@trigger#t"
    await engine.handle("daily@trigger#t").send(go, "on")
    assert await result_of(engine, "daily@trigger#t") == "eu on"
    await handle.resume()
    assert (await handle.info()).next is not None


async def the_rest_comes_to_its_end(engine: Engine) -> None:
    """What the killed attempt of an activity sent is void; each item is done and told once."""
    assert await result_of(engine, "ev-tells") == "upon"
    said = [item.value async for item in engine.handle("ev-tells").stream(words)]
    assert said == ["once", "upon", "upon!", "a time"]
    pages = engine.handle("ev-items", items)
    assert await pages.result(timeout=WITHIN) == Tally(done=10, failed=0, failures=())
    found = [item.value async for item in pages.stream(results)]
    assert sorted(found) == list(range(0, 20, 2))
    await engine.handle("ev-trip").send(go, "on")
    assert await result_of(engine, "ev-trip") == ["gave up hotel", "gave up flight"]
