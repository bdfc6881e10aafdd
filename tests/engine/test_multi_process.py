"""Several processes on one store: workers and clients that know nothing of each other."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, Status
from perdure.store.sql.store import SqlStore
from tests.engine.fleet import COUNT
from tests.engine.stage import HARMLESS, Stage

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@pytest.fixture
def url(driver_url: str) -> str:
    return driver_url


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def begin(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine.fleet", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


async def test_two_workers_and_two_clients_finish_everything_once(
    stage: Stage, processes: list[subprocess.Popen[str]]
) -> None:
    url = stage.url
    workers = [begin("worker", url) for _ in range(2)]
    clients = [begin("client", url, name) for name in ("a", "b")]
    processes += [*workers, *clients]

    outputs = [client.communicate(timeout=PATIENCE_S) for client in clients]
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    outputs += [worker.communicate(timeout=PATIENCE_S) for worker in workers]

    expected = [n * 10 + n + 1 + 5 for n in (*range(COUNT), 1000)]
    assert [json.loads(out) for out, _ in outputs[:2]] == [expected, expected]
    assert [out for out, _ in outputs[2:]] == ["ready\n\n"] * 2
    complaints = [line for _, err in outputs for line in err.splitlines() if not is_harmless(line)]
    assert complaints == []
    assert [process.returncode for process in processes] == [0] * 4
    await check_that_everything_ended_once(stage)


def is_harmless(line: str) -> bool:
    return re.search(HARMLESS, line) is not None


async def check_that_everything_ended_once(stage: Stage) -> None:
    client: Client = await stage.client()
    assert isinstance(client._core.store, SqlStore)
    contents = await client._core.store.read_contents()
    ordered = [row for row in contents.instances.values() if row.name == "ordering"]
    assert len(ordered) == 2 * COUNT + 1
    assert {row.status for row in contents.instances.values()} == {Status.COMPLETED}
    assert contents.live == {}
    assert contents.jobs == {}
    assert contents.inboxes == {}
    for events in contents.histories.values():
        completed = [event for event in events if event.kind == "completed"]
        assert len(completed) == 1
