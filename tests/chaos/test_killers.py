"""One job, or one decision, that kills its process every time: nobody else is taken with it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure import Client
from perdure.model.instances import Status
from tests.chaos.fleet import ROOT
from tests.chaos.killer_process import DIED, KILLER, OPTIONS, Acting, Ask, Thinking, act
from tests.sizes import WITHIN_S

HARMLESS = [f"harmless-{number}" for number in range(30)]
ALL = [*HARMLESS[:15], KILLER, *HARMLESS[15:]]

pytestmark = pytest.mark.timeout(2 * WITHIN_S)


@pytest.fixture(params=["sqlite", "postgres"])
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if request.param == "postgres":
        server: str = request.getfixturevalue("postgres_url")
        return server
    return f"sqlite:///{tmp_path}/store.db"


class Supervisor:
    """Starts a worker process again whenever it has died."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        self.deaths = 0

    def look(self) -> None:
        """Start a process if there is none."""
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            assert code == DIED, "it ended by itself"
            self.deaths += 1
        command = [sys.executable, "-m", "tests.chaos.killer_process", self._url]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        """Kill whoever is left."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@asynccontextmanager
async def supervised(url: str, until: Callable[[], Awaitable[bool]]) -> AsyncIterator[Supervisor]:
    """Keep a worker running until something holds."""
    supervisor = Supervisor(url)
    try:
        async with asyncio.timeout(WITHIN_S):
            while not await until():
                supervisor.look()
                await asyncio.sleep(0.05)
        yield supervisor
    finally:
        supervisor.close()


async def test_a_job_that_kills_its_process_is_the_only_one_to_die(url: str) -> None:
    async with Client(url, create=True) as client:
        for instance_id in ALL:
            await client.execute(Acting, Ask(instance_id))

        async def are_settled() -> bool:
            for one in ALL:
                if await client.handle(one, Acting).jobs() or await client.inbox(f"acting:{one}"):
                    return False
            return True

        async with supervised(url, are_settled) as supervisor:
            [dead] = (await client.dead_jobs()).items

        assert (dead.instance_id, dead.activity) == (f"acting:{KILLER}", act.name)
        assert dead.lost == supervisor.deaths == OPTIONS.max_attempts
        for instance_id in HARMLESS:
            history = await client.handle(instance_id, Acting).history()
            assert history[-1].kind == "activity_completed"


async def test_a_decision_that_kills_its_process_parks_no_other_instance(url: str) -> None:
    async with Client(url, create=True) as client:
        for instance_id in ALL:
            await client.send(Thinking, Ask(instance_id))

        async def status(instance_id: str) -> Status:
            return (await client.handle(instance_id, Thinking).info()).status

        async def is_settled() -> bool:
            done = [await client.state(Thinking, one) for one in HARMLESS]
            return done == [1] * len(HARMLESS) and await status(KILLER) is Status.PARKED

        async with supervised(url, is_settled) as supervisor:
            statuses = {await status(instance_id) for instance_id in HARMLESS}

        assert statuses == {Status.RUNNING}
        assert supervisor.deaths == OPTIONS.max_attempts
