"""`for_each` when every process that works on it is killed in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, Tally
from tests.engine.items_fleet import COUNT, HELD, all_items
from tests.engine.stage import Stage, kinds, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(driver_url: str) -> str:
    return driver_url


class Killable:
    """Workers as processes, and what they have done."""

    def __init__(self, url: str, folder: Path) -> None:
        self.gate = folder / "gate"
        self._ledger = folder / "ledger"
        self._url = url
        self._processes: list[subprocess.Popen[bytes]] = []

    def begin(self, count: int) -> None:
        """Start workers."""
        program = [sys.executable, "-m", "tests.engine.items_fleet", self._url]
        for _ in range(count):
            arguments = [*program, str(self._ledger), str(self.gate)]
            self._processes.append(subprocess.Popen(arguments, cwd=ROOT))

    def kill(self) -> None:
        """End all of them at once, without a word."""
        for process in self._processes:
            process.send_signal(signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def done(self) -> Counter[int]:
        """Return how often something was done for each item."""
        text = self._ledger.read_text() if self._ledger.exists() else ""
        return Counter(int(line) for line in text.splitlines())


@pytest.fixture
def workers(url: str, tmp_path: Path) -> Iterator[Killable]:
    found = Killable(url, tmp_path)
    yield found
    found.kill()


async def test_each_item_is_done_and_counted_once_though_all_workers_are_killed(
    stage: Stage, workers: Killable
) -> None:
    client = await stage.client()
    handle = await client.start("all", all_items)
    workers.begin(2)
    await until(lambda: HELD in workers.done())

    workers.kill()
    workers.gate.touch()
    workers.begin(2)
    tally = await handle.result()

    failure = "item 7, 7: ValueError: not this one"
    assert tally == Tally(done=COUNT - 1, failed=1, failures=(failure,))
    assert sorted(workers.done()) == list(range(COUNT))
    assert kinds(await handle.history()) == [
        "started",
        "child_scheduled",
        "child_completed",
        "completed",
    ]
    await _each_item_is_recorded_once(client)


async def _each_item_is_recorded_once(client: Client) -> None:
    pages = (await client.instances(name="perdure.page", limit=100)).items
    done = [kinds(await client.handle(page.instance_id).history()) for page in pages]
    recorded: Counter[str] = Counter(kind for history in done for kind in history)
    assert len(pages) == 18
    assert recorded["activity_scheduled"] == COUNT
    assert recorded["activity_completed"] == COUNT - 1
    assert recorded["activity_failed"] == 1
