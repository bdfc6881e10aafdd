"""Hearing at once of what others commit to an SQLite file, and going on where that cannot be."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.model.hints import Hint
from perdure.store.opening import open_store
from perdure.store.sqlite import file_lock, file_watch
from perdure.store.sqlite.store import SqliteStore
from tests.contract.store_values import begun, latest, new_instance, next_turn, outcome
from tests.engine.stage import until
from tests.sizes import WITHIN_S

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel has no inotify"
)


class Ear:
    """Listens to a store, and keeps count."""

    def __init__(self, store: SqliteStore, kind: Hint) -> None:
        self.heard = 0
        self._rung = asyncio.Event()
        self.stop = store.listen_changes(kind, self._hear)

    def _hear(self) -> None:
        self.heard += 1
        self._rung.set()

    async def ring(self) -> None:
        """Wait until it was called since the last time."""
        async with asyncio.timeout(WITHIN_S):
            await self._rung.wait()
        self._rung.clear()


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Callable[[], Any]]:
    clock = ManualClock()
    stores = []

    async def open_one() -> SqliteStore:
        store = open_store(f"sqlite:///{tmp_path}/a.db", clock=clock)
        assert isinstance(store, SqliteStore)
        await store.open()
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        await store.close()


async def test_who_listens_is_called_for_its_kind_of_hints_only(opened: Any) -> None:
    store, other = await opened(), await opened()
    work, news = Ear(store, Hint.WORK), Ear(store, Hint.NEWS)

    await other.start([new_instance("a")])
    await work.ring()
    stamp = await begun(other, "b")
    await other.commit([next_turn("b", stamp, outcome=outcome())])
    await news.ring()

    assert (work.heard, news.heard) == (1, 1)
    assert await store.read_ends(["a", "b"]) != {}


async def test_own_commits_ring_for_others_and_not_for_us(opened: Any) -> None:
    store, other = await opened(), await opened()
    own, theirs = Ear(store, Hint.WORK), Ear(other, Hint.WORK)

    await store.start([new_instance("a")])
    await theirs.ring()
    await other.start([new_instance("b")])
    await own.ring()

    assert (own.heard, theirs.heard) == (1, 1)


async def test_the_file_is_touched_only_for_those_who_listen(opened: Any) -> None:
    store, other = await opened(), await opened()
    touched: list[int] = []

    def touch(file: int) -> None:
        touched.append(file)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "utime", touch)
        await store.start([new_instance("a")])
        own = Ear(store, Hint.WORK)
        await store.start([new_instance("b")])
        assert touched == []

        news = Ear(other, Hint.NEWS)
        await store.start([new_instance("c")])
        assert touched == []

        work = Ear(other, Hint.WORK)
        await store.start([new_instance("d")])
        assert len(touched) == 1

        for ear in (own, news, work):
            ear.stop()
        await store.start([new_instance("e")])
        assert len(touched) == 1


async def test_who_has_died_listens_no_more(tmp_path: Path, opened: Any) -> None:
    store = await opened()
    program = (
        "import asyncio, os, sys\n"
        "from perdure.model.hints import Hint\n"
        "from perdure.store.opening import open_store\n"
        "async def main():\n"
        "    store = open_store(sys.argv[1])\n"
        "    await store.open()\n"
        "    heard = asyncio.Event()\n"
        "    store.listen_changes(Hint.WORK, heard.set)\n"
        "    print('listens', flush=True)\n"
        "    await heard.wait()\n"
        "    print('heard', flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, f"sqlite:///{tmp_path}/a.db"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(WITHIN_S):
        assert await process.stdout.readline() == b"listens\n"
        assert store._lock._has_listeners(Hint.WORK)
        await store.start([new_instance("a")])
        assert await process.stdout.readline() == b"heard\n"
        await process.wait()

    assert not store._lock._has_listeners(Hint.WORK)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_child_does_not_listen_in_its_parents_place(opened: Any) -> None:
    store, other = await opened(), await opened()
    ear = Ear(store, Hint.WORK)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if store._lock.file < 0 else 1)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    await other.start([new_instance("a")])
    await ear.ring()


async def test_a_removed_lock_file_is_no_reason_to_be_deaf(tmp_path: Path, opened: Any) -> None:
    store, other = await opened(), await opened()
    (tmp_path / "a.db-lock").unlink()
    ear = Ear(store, Hint.WORK)

    await other.start([new_instance("a")])

    await ear.ring()


async def test_where_nothing_can_be_watched_the_numbers_still_tell(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_system", lambda: None)
    store, other = await opened(), await opened()
    ear = Ear(store, Hint.WORK)
    before = store.change_count(Hint.WORK)

    await other.start([new_instance("a")])

    assert not store._lock._has_listeners(Hint.WORK)
    assert not other._lock._has_listeners(Hint.WORK)
    assert store.change_count(Hint.WORK) != before
    assert not store.hears_changes(Hint.WORK)
    ear.stop()
    assert ear.heard == 0


async def test_a_store_hears_of_changes_while_it_listens(opened: Any) -> None:
    store = await opened()

    before = store.hears_changes(Hint.WORK)
    ears = [Ear(store, Hint.WORK), Ear(store, Hint.WORK)]
    ears.pop().stop()
    meanwhile = (store.hears_changes(Hint.WORK), store.hears_changes(Hint.NEWS))
    ears.pop().stop()

    assert not before
    assert meanwhile == (True, False)
    assert not store.hears_changes(Hint.WORK)


async def test_who_cannot_say_that_it_listens_hears_nothing(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems know no such locks."""
    monkeypatch.setattr(file_lock, "_SET_LOCK", None)
    store = await opened()

    ear = Ear(store, Hint.WORK)

    assert not store.hears_changes(Hint.WORK)
    ear.stop()


async def test_what_stops_listening_leaves_nothing_open(opened: Any) -> None:
    store = await opened()
    before = set(os.listdir("/proc/self/fd"))
    ears = [Ear(store, kind) for kind in (Hint.WORK, Hint.NEWS, Hint.NEWS)]
    for ear in ears:
        ear.stop()

    assert set(os.listdir("/proc/self/fd")) == before


async def test_closing_a_store_that_listens_lets_go_of_the_watch(opened: Any) -> None:
    store = await opened()
    stop = Ear(store, Hint.NEWS).stop

    await store.close()
    stop()

    assert store._watch._loops == {}


async def test_a_hint_that_came_while_nobody_listened_is_seen_by_comparing(opened: Any) -> None:
    store, other = await opened(), await opened()
    before = store.change_count(Hint.NEWS)
    stamp = await begun(other)
    await other.commit([next_turn("i", await latest(other), report=b"1")])

    assert stamp is not None
    await until(lambda: store.change_count(Hint.NEWS) != before)
