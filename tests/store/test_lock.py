"""The lock file beside a database: what its errors do, and who has it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import StoreUnavailableError
from perdure.model.hints import Hint
from perdure.store.sqlite import short_calls
from perdure.store.sqlite.file_lock import WriteLock
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import begun, given, message, next_turn, outcome

FORK = """
import os, signal, sys
from perdure.store.sqlite.file_lock import WriteLock

lock = WriteLock(sys.argv[1])
with lock:
    if os.fork() == 0:
        if sys.argv[2] == "inside":
            print("child", flush=True)
            sys.stdin.readline()
            os._exit(0)
    elif sys.argv[2] == "inside":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        os.wait()
        print("parent", flush=True)
        sys.stdin.readline()
"""
"""Forks while it holds the lock. "inside": dies then, and its child lives on. "outside": goes on,
and its child leaves the block."""

IO_ERROR = OSError(errno.EIO, os.strerror(errno.EIO))


def failing(*errors: tuple[int, OSError]) -> Callable[[int, int], None]:
    """Return a `flock` that fails for some operations."""
    by_operation = dict(errors)
    real = fcntl.flock

    def flock(file: int, operation: int) -> None:
        if operation in by_operation:
            raise by_operation[operation]
        real(file, operation)

    return flock


def _fail(*_: Any) -> Any:
    raise IO_ERROR


@pytest.fixture(autouse=True)
def _calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own system calls, which can be made to fail; `test_short_calls` compares them."""
    monkeypatch.setattr(short_calls, "_system", lambda: None)


# ------------------------------------------------------------- after a commit


@pytest.mark.parametrize("fields", [{}, {"receipts": (given(),)}], ids=["at once", "in steps"])
async def test_what_was_committed_is_told_so_when_the_lock_file_cannot_be_read(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    stamp = await begun(store)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", _fail)
        receipts = await store.commit([next_turn("i", stamp, outcome=outcome(), **fields)])

    assert [receipt.status for receipt in receipts] == ["accepted"]
    # Without events, nothing but its live row would stand in the way.
    [again] = await store.commit([next_turn("i", stamp)])
    assert again.status == "refused"
    assert await store.read_live("i") is None


async def test_nothing_is_written_twice_when_the_lock_file_cannot_be_read(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pread", _fail)
    answers = await asyncio.gather(
        *(store.deliver([message(text=text, if_absent="buffer")]) for text in ("a", "b"))
    )

    assert answers == [["buffered"], ["buffered"]]
    assert [one.body for one in await store.read_inbox("i")] == [b"a", b"b"]
    assert store.counters.halvings == 0


async def test_what_was_committed_is_told_so_when_the_lock_cannot_be_let_go(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", failing((fcntl.LOCK_UN, IO_ERROR)))
        assert await store.deliver([message(text="a", if_absent="buffer")]) == ["buffered"]
    assert await store.deliver([message(text="b", if_absent="buffer")]) == ["buffered"]

    assert [one.body for one in await store.read_inbox("i")] == [b"a", b"b"]


async def test_a_lock_file_that_cannot_be_read_tells_of_no_change(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pread", _fail)

    assert store.change_count(Hint.WORK) == store.change_count(Hint.WORK)


# ------------------------------------------------------------ before a commit


@pytest.mark.parametrize("blocking", [False, True], ids=["asked for", "waited for"])
async def test_a_lock_that_cannot_be_taken_is_trouble_that_is_waited_out(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, blocking: bool
) -> None:
    no_locks = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    at_once = BlockingIOError() if blocking else no_locks
    broken = failing((fcntl.LOCK_EX | fcntl.LOCK_NB, at_once), (fcntl.LOCK_EX, no_locks))
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", broken)
        patient = asyncio.create_task(store.deliver([message(text="a", if_absent="buffer")]))
        with pytest.raises(StoreUnavailableError, match=r"-lock cannot be locked \(No locks"):
            await store.deliver([message(text="b", if_absent="buffer")], patience_s=0.1)
        assert not patient.done()

    assert await patient == ["buffered"]
    assert [one.body for one in await store.read_inbox("i")] == [b"a"]


# ----------------------------------------------------------------------- forks


@pytest.fixture
def forked(path: Path) -> Iterator[Callable[[str], str]]:
    """Runs a process that forks while it has the lock; returns who of the two is left."""
    program: subprocess.Popen[str] | None = None

    def fork(where: str) -> str:
        nonlocal program
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", FORK, f"{path}-lock", where]
        program = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert program.stdout is not None
        if where == "inside":
            assert program.wait() == -signal.SIGKILL
        return program.stdout.readline().strip()

    yield fork
    assert program is not None
    program.communicate("\n")


def test_a_child_does_not_keep_the_lock_of_a_process_that_died(
    path: Path, forked: Callable[[str], str]
) -> None:
    assert forked("inside") == "child"

    lock = WriteLock(f"{path}-lock")
    with lock.within(0):
        lock.close()


def test_a_child_does_not_let_go_of_the_lock_of_its_parent(
    path: Path, forked: Callable[[str], str]
) -> None:
    assert forked("outside") == "parent"

    lock = WriteLock(f"{path}-lock")
    with pytest.raises(StoreUnavailableError, match="another process has held"), lock.within(0):
        pass
    lock.close()
