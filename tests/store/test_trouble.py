"""Full disks, read-only files, other programs that lock, and several processes at work."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.errors import StoreFullError, StoreUnavailableError
from perdure.model.hints import Hint
from perdure.model.histories.events import Body
from perdure.store import batching
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.store.sqlite.connection import has_wal_reset_bug
from tests.contract.store_values import STARTED, begun, first_turn, message, new_instance
from tests.disks import fill
from tests.sizes import WITHIN_S

IS_OLD = has_wal_reset_bug(sqlite3.sqlite_version_info)

WORK = """
import asyncio, sys
from perdure.store.opening import open_store
from tests.contract.store_values import begun, claim, message, accepted, turn_of

async def main(url, name, count):
    store = open_store(url)
    await store.open()
    async def one(number):
        instance_id = f"{name}-{number}"
        await begun(store, instance_id)
        await store.deliver([message(instance_id), message("shared", name, if_absent="buffer")])
        for claimed in await claim(store, name, limit=3):
            await store.commit([turn_of(claimed)])
    for begin in range(0, count, 10):
        await asyncio.gather(*(one(number) for number in range(begin, begin + 10)))
    await store.close()
    print("transactions", store.counters.transactions)
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""


def _warnings_of_old_sqlite(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    return [text for text in said if "older than 3.51.3" in text]


def _work_elsewhere(url: str, name: str = "elsewhere") -> None:
    """Let another process write to the store, and wait for its end."""
    with _python(WORK, url, name, "10") as process:
        out, errors = process.communicate()
    assert out.startswith(b"transactions"), errors


def _python(script: str, *args: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "error", "-c", script, *args]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


def _mount(*args: str) -> None:
    subprocess.run(["mount", *args], check=True)


@pytest.fixture
def locked_by_another(store: Store, path: Path) -> Iterator[Callable[[], None]]:
    """Another program holds SQLite's write lock until the returned function is called."""
    program = _python(HOLD, str(path))
    assert program.stdout is not None
    assert program.stdout.readline() == b"locked\n"

    def end() -> None:
        if program.returncode is None:
            program.communicate(b"\n", timeout=WITHIN_S)

    yield end
    end()


async def test_processes_share_a_file_without_a_lock_error(
    url: str, store: Store, clock: ManualClock
) -> None:
    """Every message gets its own number, and nobody hears that the database is locked."""
    before = store.change_count(Hint.WORK)
    processes = [_python(WORK, url, f"p{number}", "100") for number in range(3)]

    outputs = await asyncio.gather(*(asyncio.to_thread(p.communicate) for p in processes))

    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert all(b"locked" not in error for _, error in outputs)
    assert len(await store.read_inbox("shared")) == 300
    assert not [v for v in await check(store) if v.invariant != "S3"]
    assert store.change_count(Hint.WORK) != before


async def test_two_stores_in_one_process_share_a_file(url: str, store: Store) -> None:
    other = open_store(url, clock=store.clock)
    await other.open()

    await asyncio.gather(
        *(begun(store, f"a{number}") for number in range(20)),
        *(begun(other, f"b{number}") for number in range(20)),
    )

    rows = await other.read_instances([f"a{number}" for number in range(20)])
    await other.close()
    assert None not in rows


async def test_another_program_s_lock_is_waited_for_and_named(
    store: Store,
    locked_by_another: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    patient = asyncio.create_task(store.deliver([message(text="patient", if_absent="buffer")]))
    with pytest.raises(StoreUnavailableError, match="locked by another program"):
        await store.deliver([message(text="impatient", if_absent="buffer")], patience_s=0.1)
    assert await store.read_inbox("i") == []  # Reading goes on meanwhile.
    await asyncio.to_thread(locked_by_another)

    assert await patient == ["buffered"]
    assert [m.body for m in await store.read_inbox("i")] == [b"patient"]
    assert len(_warnings_of_old_sqlite(caplog)) == IS_OLD


async def test_stores_of_one_process_are_no_reason_to_warn_of_an_old_sqlite(
    url: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    other = open_store(url, clock=store.clock)
    await other.open()

    for number in range(3):
        await begun(store, f"a{number}")
        await begun(other, f"b{number}")

    await other.close()
    assert _warnings_of_old_sqlite(caplog) == []


async def test_an_earlier_process_is_no_reason_to_warn_of_an_old_sqlite(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(_work_elsewhere, url)
    store = open_store(url)
    await store.open()

    await begun(store, "a")
    await begun(store, "b")

    await store.close()
    assert _warnings_of_old_sqlite(caplog) == []


async def test_an_old_sqlite_is_warned_of_once_per_file_and_day_when_several_processes_write(
    url: str, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite before 3.51.3 has the WAL-reset bug."""
    stores = [open_store(url, clock=clock) for _ in range(3)]
    for store in stores:
        await store.open()
    await asyncio.to_thread(_work_elsewhere, url)

    for number, store in enumerate(stores[:2]):
        await begun(store, f"a{number}")
        await begun(store, f"b{number}")
    assert len(_warnings_of_old_sqlite(caplog)) == IS_OLD

    clock.advance(timedelta(days=1))
    await asyncio.to_thread(_work_elsewhere, url, "elsewhere, later")
    await begun(stores[2], "c")
    assert len(_warnings_of_old_sqlite(caplog)) == 2 * IS_OLD

    for store in stores:
        await store.close()


async def test_the_change_count_tells_of_others_only(url: str, store: Store) -> None:
    other = open_store(url, clock=store.clock)
    await other.open()
    before = store.change_count(Hint.WORK)

    await store.start([new_instance("a")])
    assert store.change_count(Hint.WORK) == before
    await other.start([new_instance("b")])
    assert store.change_count(Hint.WORK) != before

    await other.close()
    assert other.change_count(Hint.WORK) == 0


async def test_the_wal_stays_bounded(store: Store, path: Path) -> None:
    """R5: it is copied into the file and written from its beginning again."""
    await begun(store)
    large = "x" * 2 * 1024 * 1024

    for _ in range(50):
        await store.deliver([message(text=large)])

    size = path.with_name(f"{path.name}-wal").stat().st_size
    assert size < 64 * 1024 * 1024


@pytest.fixture
async def cramped(small_disk: Path, clock: ManualClock) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{small_disk}/store.db", clock=clock)
    await store.open()
    yield store
    await store.close()


async def test_a_full_disk_is_told_and_writing_goes_on_when_there_is_room(
    cramped: Store, small_disk: Path
) -> None:
    stamp = await begun(cramped)
    ballast = small_disk / "ballast"
    fill(ballast)

    turn = first_turn(new_instance("j"), events=(STARTED, Body("x", b"x" * 300_000)))
    commit = asyncio.ensure_future(cramped.commit([turn]))
    with pytest.raises(StoreFullError, match="the disk is full"):
        await cramped.deliver([message(text="y" * 300_000)], patience_s=0.1)
    assert not commit.done()
    assert isinstance(cramped.trouble, StoreFullError)
    ballast.unlink()

    [receipt] = await commit
    assert cramped.trouble is None
    assert receipt.status == "accepted"
    assert await cramped.read_inbox("i") == []
    assert stamp.next_seq == 2


async def test_a_file_size_limit_is_told_as_trouble(store: Store) -> None:
    """For those who are not root: a limit of the process instead of a full disk."""
    await begun(store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(StoreUnavailableError):
            await store.deliver([message(text="y" * 400_000)], patience_s=0.1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert await store.deliver([message()]) == ["delivered"]


async def test_a_read_only_directory_is_told_at_opening(small_disk: Path) -> None:
    _mount("-o", "remount,ro", str(small_disk))

    with pytest.raises(StoreUnavailableError, match="Read-only file system"):
        await open_store(f"sqlite:///{small_disk}/store.db").open()


async def test_a_store_closed_in_trouble_ends(
    store: Store, locked_by_another: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "CLOSE_WITHIN_S", 0.1)
    waiting = asyncio.create_task(store.deliver([message(if_absent="buffer")]))
    await asyncio.sleep(0)

    await store.close()

    with pytest.raises(StoreUnavailableError, match="closed before this was written"):
        await waiting
