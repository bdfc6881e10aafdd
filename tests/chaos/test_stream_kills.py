"""Workers that send are killed again and again, while readers in other processes read on."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from perdure import Client
from perdure.checking.invariants import check
from perdure.store.opening import open_store
from tests.chaos import narrating
from tests.chaos.narrating import ID, narrate, whole_story, words

READERS = 4
KILLS = 4
WITHIN_S = 120.0


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    begun: list[subprocess.Popen[str]] = []
    yield begun
    for process in begun:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def begin(processes: list[subprocess.Popen[str]], what: str, url: str) -> subprocess.Popen[str]:
    """Start a process, and wait until it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", narrating.__name__, what, url], stdout=subprocess.PIPE, text=True
    )
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


async def test_readers_in_four_processes_see_the_whole_story_once(
    url: str, processes: list[subprocess.Popen[str]]
) -> None:
    async with Client(url, create=True) as client, asyncio.timeout(WITHIN_S):
        handle = await client.start(ID, narrate)
        readers = [begin(processes, "reader", url) for _ in range(READERS)]
        worker = begin(processes, "worker", url)
        for _ in range(KILLS):
            # In the midst of an attempt, or behind it: whatever it has sent meanwhile.
            reader = handle.stream(words, after=await newest(client))
            async for _ in reader:
                break
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            worker = begin(processes, "worker", url)

        assert await handle.result() == narrating.CHAPTERS * narrating.LENGTH

        late = [item.value async for item in handle.stream(words)]
        told = await asyncio.gather(*(asyncio.to_thread(reader.communicate) for reader in readers))
    assert late == whole_story()
    for said, _ in told:
        assert json.loads(said) == {"shown": whole_story(), "rises": True}
    store = open_store(url)
    await store.open()
    assert await check(store) == []
    await store.close()


async def newest(client: Client) -> int:
    """Return the newest index."""
    return max([one.last_index for one in await client.handle(ID).streams()], default=0)
