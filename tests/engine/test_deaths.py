"""What a process held that is killed goes on at a neighbour, long before any lease ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker import departures
from tests.engine.fed import Placed
from tests.engine.mortal import DEFINITIONS, acting, acting_in_session, computing
from tests.engine.stage import Stage, until
from tests.engine.test_projections import record
from tests.engine.test_subscriptions import is_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells enough")

ROOT = Path(__file__).parents[2]

Kill = Callable[[], None]


@pytest.fixture
def kill(stage: Stage) -> Iterator[Kill]:
    """A worker in another process; what kills it."""
    process = subprocess.Popen([sys.executable, "-m", "tests.engine.mortal", stage.url], cwd=ROOT)
    yield process.kill
    process.kill()
    process.wait()


async def has_job(client: Client, instance_id: str) -> bool:
    return any(job.worker_id for job in await client._core.store.read_jobs(instance_id))


async def has_lease(client: Client, instance_id: str) -> bool:
    live = await client._core.store.read_live(instance_id)
    return live is not None and live.lease != 0


async def has_reader(client: Client, name: str) -> bool:
    readers = await client._core.store.feed.read_checkpoints()
    return any(reader.name == name and reader.lease_until_ms for reader in readers)


async def test_everything_that_a_dead_process_held_goes_on(stage: Stage, kill: Kill) -> None:
    client = await stage.client()
    job = await client.start("job", acting)
    bound = await client.start("bound", acting_in_session)
    await until(lambda: has_job(client, "job"))
    await until(lambda: has_job(client, "bound"))
    await until(lambda: has_reader(client, "shipping"))
    # The last one: it keeps the loop there, and does not come to its end.
    turn = await client.start("turn", computing)
    await until(lambda: has_lease(client, "turn"))
    engine = await stage.engine(DEFINITIONS)

    kill()
    await record(engine, Placed("o-1"))

    assert await turn.result() == "computed"
    assert (await job.result(), await bound.result()) == (2, 2)
    await until(lambda: is_at(engine, "shipping", 1))
    assert await client.handle("shipping:1").result() == "o-1"


async def test_who_starts_when_the_other_is_dead_already_goes_on(stage: Stage, kill: Kill) -> None:
    """Such as the only worker of a machine, killed and started again."""
    client = await stage.client()
    handle = await client.start("a", acting)
    await until(lambda: has_job(client, "a"))

    kill()
    await stage.engine(DEFINITIONS)

    assert await handle.result() == 2


@pytest.fixture
def kill_far(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kill]:
    """A worker as if on another host; what kills it. Here it is looked for without pauses."""
    if not stage.url.startswith("postgresql"):
        pytest.skip("a file has no connections that a server knows of")
    for pause in ("LOOK_AGAIN_S", "ALONE_EVERY_S"):
        monkeypatch.setattr(departures, pause, 0.02)
    command = [sys.executable, "-m", "tests.engine.mortal", stage.url, "far"]
    process = subprocess.Popen(command, cwd=ROOT)
    yield process.kill
    process.kill()
    process.wait()


@pytest.mark.parametrize("comes", ["before", "after"])
async def test_what_a_process_of_another_host_held_goes_on_when_its_connections_are_gone(
    stage: Stage, kill_far: Kill, comes: str
) -> None:
    client = await stage.client()
    job = await client.start("job", acting)
    bound = await client.start("bound", acting_in_session)
    await until(lambda: has_job(client, "job"))
    await until(lambda: has_job(client, "bound"))
    turn = await client.start("turn", computing)
    await until(lambda: has_lease(client, "turn"))
    if comes == "before":
        await stage.engine(DEFINITIONS)

    kill_far()
    if comes == "after":
        await stage.engine(DEFINITIONS)

    assert await turn.result() == "computed"
    assert (await job.result(), await bound.result()) == (2, 2)
