"""`perdure worker`: one process or several, told to stop, killed, orphaned."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import msgspec
import psutil  # type: ignore[import-untyped]  # no stubs
import pytest

from perdure import Client
from perdure.cli.serving.fleet import Fleet
from perdure.cli.serving.worker import WorkerSettings
from tests.cli.commands import Command, perdure
from tests.engine.stage import load, until

Begin: TypeAlias = Callable[..., Command]

SHOP = """
import asyncio, os, time
from pathlib import Path
from perdure import ActivityContext, activity, orchestration

@activity
async def pack(order: str) -> int:
    return os.getpid()

@activity
async def wait_for_ever() -> None:
    Path("waiting").touch()
    await asyncio.sleep(3_600)

@activity
async def hang() -> None:
    Path("hanging").touch()
    time.sleep(3_600)

@activity
async def endure(ctx: ActivityContext) -> int:
    if ctx.attempt == 1:
        Path("unfinished").write_text(f"{os.getpid()}")
        Path("unfinished").rename("enduring")
        await asyncio.sleep(3_600)
    return os.getpid()

@orchestration
async def last() -> int:
    return await endure()

@orchestration
async def ship(order: str) -> int:
    return await pack(order)

@orchestration
async def stay() -> None:
    await wait_for_ever()

@orchestration
async def freeze() -> None:
    await hang()
"""
HEADLINE = r"perdure \S+   store (\S+)   shop.py: 4 orchestrations, 4 activities   workers? (.+)"


@pytest.fixture(autouse=True)
def shop(folder: Path) -> ModuleType:
    """The definitions, as the client of the test knows them."""
    return load(folder, "shop", SHOP)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{folder}/shop.db"


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with Client(url, create=True) as client:
        yield client


async def pids(client: Client) -> set[int]:
    return {worker.pid for worker in await client.workers()}


def is_gone(pid: int) -> bool:
    try:
        # What has ended stays on the list until its parent, now the first process, asks for it.
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


# ------------------------------------------------------------------ one process


async def test_a_worker_serves_a_file_until_it_is_told_to_stop(
    begin: Begin, url: str, client: Client, shop: ModuleType
) -> None:
    worker = begin("worker", "shop.py", "--store", url)
    [shown, worker_id] = (await worker.says(HEADLINE)).groups()

    handle = await client.start("ship-1", shop.ship, "order-1")
    assert await handle.result() == worker.process.pid
    assert [one.worker_id for one in await client.workers()] == [worker_id]
    worker.send(signal.SIGTERM)

    assert worker.end() == 0
    assert shown == url
    assert await client.workers() == []


async def test_a_second_signal_gives_back_what_still_runs(
    begin: Begin, folder: Path, url: str, client: Client, shop: ModuleType
) -> None:
    worker = begin("worker", "shop.py", "--store", url, "--stop-grace", "3600")
    handle = await client.start("stay-1", shop.stay)
    await until((folder / "waiting").exists)

    worker.send(signal.SIGINT)
    await worker.says("stopping")
    worker.send(signal.SIGTERM)

    assert worker.end() == 0
    [job] = await handle.jobs()
    assert job.worker_id is None


async def test_a_name_lasts_and_options_reach_the_worker(begin: Begin, url: str) -> None:
    worker = begin(
        "worker",
        "shop.py",
        "--store",
        url,
        "--name",
        "packer",
        "--tag",
        "gpu",
        "--concurrency",
        "3",
    )

    await worker.says(HEADLINE.replace("(.+)", "packer\n"))
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


def test_an_option_that_makes_no_sense_is_refused_with_its_value(folder: Path) -> None:
    done = perdure("worker", "shop.py", "--tag", "x" * 1_000, cwd=folder)

    assert done.returncode == 2
    assert re.fullmatch(r"Error: tags must each have 1 to .*\n", done.stderr)


# ------------------------------------------------------------- several processes


async def test_processes_share_the_work_and_stop_together(
    begin: Begin, url: str, client: Client, shop: ModuleType
) -> None:
    parent = begin("worker", "shop.py", "--store", url, "--processes", "2", "--name", "packer")
    await parent.says(HEADLINE.replace("(.+)", "packer-1, packer-2\n"))
    children = await pids(client)

    handle = await client.start("ship-1", shop.ship, "order-1")
    assert await handle.result() in children
    # Ctrl-C at a terminal reaches a whole group: it must come to them through their parent alone.
    assert {os.getpgid(pid) for pid in children} == children
    parent.send(signal.SIGTERM)

    assert parent.end() == 0
    assert len(children) == 2
    assert parent.process.pid not in children
    assert await client.workers() == []
    assert all(map(is_gone, children))


async def test_a_process_that_dies_is_replaced(begin: Begin, url: str, client: Client) -> None:
    parent = begin("worker", "shop.py", "--store", url, "--processes", "2", "--name", "packer")
    await parent.says(HEADLINE)
    victim, survivor = sorted(await pids(client))

    os.kill(victim, signal.SIGKILL)
    await parent.says(rf"process {victim}, worker packer-\d was ended by SIGKILL; another one")
    replaced = int((await parent.says(r"process (\d+), worker packer-\d works in its place"))[1])

    assert await pids(client) == {survivor, replaced}
    parent.send(signal.SIGTERM)
    assert parent.end() == 0


@pytest.mark.parametrize("name", [(), ("--name", "packer")], ids=["no name", "lasting name"])
async def test_what_a_dead_process_did_waits_for_no_lease(
    begin: Begin, folder: Path, url: str, client: Client, shop: ModuleType, name: tuple[str, ...]
) -> None:
    parent = begin("worker", "shop.py", "--store", url, "--processes", "2", *name)
    await parent.says(HEADLINE)
    handle = await client.start("last-1", shop.last)
    await until((folder / "enduring").exists)
    victim = int((folder / "enduring").read_text())

    [job] = await client._core.store.read_jobs("last-1")
    os.kill(victim, signal.SIGKILL)
    taken_over_by = await handle.result()

    assert client._core.store.clock() < job.visible_at_ms
    assert taken_over_by != victim
    parent.send(signal.SIGTERM)
    assert parent.end() == 0


async def test_processes_whose_parent_is_killed_stop_in_order(
    begin: Begin, url: str, client: Client, shop: ModuleType
) -> None:
    parent = begin("worker", "shop.py", "--store", url, "--processes", "2")
    await parent.says(HEADLINE)
    children = await pids(client)

    parent.kill()

    await until(lambda: all(map(is_gone, children)))
    assert await client.workers() == []


async def test_a_third_signal_kills_processes_that_hang_and_the_exit_code_tells(
    begin: Begin, folder: Path, url: str, client: Client, shop: ModuleType
) -> None:
    parent = begin("worker", "shop.py", "--store", url, "--processes", "2")
    await client.start("freeze-1", shop.freeze)
    await until((folder / "hanging").exists)

    for line in ("stopping", "hurrying", "killing"):
        parent.send(signal.SIGTERM)
        await parent.says(line)

    assert parent.end() == 1


async def test_processes_that_cannot_start_end_the_command(begin: Begin, folder: Path) -> None:
    (folder / "fussy.py").write_text(
        f"{SHOP}\nimport sys\nif 'worker_process' in sys.argv[0]: raise OSError('not here')\n"
    )
    parent = begin("worker", "fussy.py", "--processes", "2")

    await parent.says(r"Error: fussy.py cannot be imported: OSError: not here \(.*fussy.py:\d+\)")
    assert parent.end() == 2


async def nobody_died(worker_id: str) -> None:
    raise AssertionError(worker_id)


async def test_a_process_that_the_system_does_not_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """Such as while a deployment replaces the interpreter. The others must not stop for it."""
    monkeypatch.setattr(sys, "executable", str(folder / "replaced" / "python"))
    fleet = Fleet([b"{}"], stop_within_s=10, started=lambda _: None, died=nobody_died)
    running = asyncio.ensure_future(fleet.run())
    said: list[str] = []

    def is_told() -> bool:
        said.append(capsys.readouterr().err)
        return "another one starts in" in said[-1]

    await until(is_told)
    os.kill(os.getpid(), signal.SIGTERM)

    assert await running == 0
    assert "could not be started" in "".join(said)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_process_that_died_just_before_the_fleet_was_told_to_stop_is_no_failure(
    folder: Path, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    dead: list[str] = []

    async def stop_now(worker_id: str) -> None:
        dead.append(worker_id)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(fleet._told.is_set)

    settings = msgspec.json.encode(WorkerSettings(url=url, target="shop.py", name="packer"))
    is_started = asyncio.Event()
    fleet = Fleet([settings], stop_within_s=10, started=lambda _: is_started.set(), died=stop_now)
    running = asyncio.ensure_future(fleet.run())
    await is_started.wait()
    [pid] = await pids(client)
    os.kill(pid, signal.SIGKILL)

    assert await running == 0
    assert dead == ["packer"]
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


def test_processes_cannot_share_a_store_in_memory(folder: Path) -> None:
    done = perdure(
        "worker", "shop.py", "--store", "sqlite://:memory:", "--processes", "2", cwd=folder
    )

    assert done.returncode == 2
    assert done.stderr == "Error: processes cannot share a store in memory: give --store a file\n"
