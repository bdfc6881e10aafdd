"""Who looks after whom among the workers of a place, and what is freed when one is gone."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import ManualClock
from perdure.model.hints import KINDS
from perdure.model.turns import ProcessId, WorkerRow
from perdure.store.base import Store
from perdure.store.observer import Observer
from perdure.store.opening import open_store
from perdure.worker.neighbours import ALL_EVERY, ASK_EVERY, SWEEPS_ON_SERVER, Neighbours
from tests.contract.store_values import LEASE_MS, begun, claim_bound, claim_jobs, job
from tests.engine.stage import until

PLACE = "host boot"
OWN_PID = 100
PIDS = {"a": 1, "b": 2, "c": 3, "d": 4}


def row(worker_id: str, **fields: object) -> WorkerRow:
    pid = PIDS.get(worker_id, OWN_PID)
    plain = WorkerRow(worker_id, "host", pid, 1, 1, (), PLACE, born=pid * 10, lease_ms=LEASE_MS)
    return plain._replace(**fields)  # type: ignore[arg-type]  # Of a row, whatever it is.


class Watch:
    """A worker that looks after others, and processes that are gone when the test says so."""

    def __init__(self, store: Store, worker_id: str) -> None:
        self.gone: set[tuple[int, int]] = set()
        self.looked_at: list[int] = []
        self.freed = 0
        self.worker_id = worker_id
        self._store = store
        self.neighbours = Neighbours(
            store, worker_id=worker_id, freed=self._was_freed, is_gone=self._is_gone
        )
        pid = PIDS.get(worker_id, OWN_PID)
        self.neighbours.own = ProcessId(PLACE, pid, pid * 10)

    async def begin(self) -> None:
        """Look at all once, and ask the store once: what is known from now on is not the newest."""
        self.neighbours.learn(await self._store.beat(row(self.worker_id)))
        for _ in range(ASK_EVERY):
            await self.neighbours.look()
        self.looked_at.clear()

    def lose(self, *worker_ids: str) -> None:
        self.gone |= {(PIDS[worker_id], PIDS[worker_id] * 10) for worker_id in worker_ids}

    def _was_freed(self) -> None:
        self.freed += 1

    def _is_gone(self, pid: int, born: int) -> bool:
        self.looked_at.append(pid)
        return (pid, born) in self.gone


@pytest.fixture
async def watch(store: Store) -> Watch:
    for worker_id in PIDS:
        await store.beat(row(worker_id))
    watch = Watch(store, "b")
    await watch.begin()
    return watch


async def workers(store: Store) -> list[str]:
    return [found.worker_id for found in await store.read_workers(seen_since_ms=0)]


async def test_what_a_dead_neighbour_held_is_claimed_at_once(
    store: Store, clock: ManualClock, watch: Watch
) -> None:
    await begun(store, jobs=(job(2),))
    await claim_jobs(store, "c")
    watch.lose("c")

    await watch.neighbours.look()

    [claimed] = await claim_jobs(store, "b")
    assert (claimed.attempt, claimed.lost) == (2, 1)
    assert watch.freed == 1


async def test_what_a_living_neighbour_holds_stays(store: Store, watch: Watch) -> None:
    await begun(store, jobs=(job(2),))
    await claim_jobs(store, "c")

    for _ in range(ALL_EVERY + 1):
        await watch.neighbours.look()

    assert await claim_jobs(store, "b") == []
    assert watch.freed == 0
    assert await workers(store) == [*PIDS]


async def test_each_looks_after_the_next_one_alone_and_after_all_now_and_then(
    watch: Watch,
) -> None:
    for _ in range(ALL_EVERY - ASK_EVERY):
        await watch.neighbours.look()
    assert {*watch.looked_at} == {PIDS["c"]}
    watch.looked_at.clear()

    await watch.neighbours.look()

    assert watch.looked_at == [PIDS["c"], PIDS["d"], PIDS["a"]]


async def test_the_one_behind_a_dead_one_is_next(store: Store, watch: Watch) -> None:
    watch.lose("c", "d")

    for _ in range(SWEEPS_ON_SERVER):
        await watch.neighbours.look()

    assert await workers(store) == ["a", "b"]
    assert watch.looked_at[-1] == PIDS["a"]


async def test_the_last_of_the_ring_looks_after_the_first(store: Store, watch: Watch) -> None:
    last = Watch(store, "d")
    await last.begin()

    await last.neighbours.look()

    assert last.looked_at == [PIDS["a"]]


async def test_workers_of_one_process_do_not_look_after_each_other(
    store: Store, watch: Watch
) -> None:
    await store.beat(row("bb", pid=PIDS["b"], born=PIDS["b"] * 10))
    await watch.begin()
    watch.lose("b")

    await watch.neighbours.look()

    assert watch.looked_at == [PIDS["c"]]


@pytest.mark.parametrize(
    "other",
    [{"born": 31}, {"pid": 33}, {"place": "host another boot"}, {"place": ""}],
    ids=["same pid, later", "another pid", "another place", "nowhere"],
)
async def test_the_next_process_of_a_name_keeps_what_it_has(
    store: Store, watch: Watch, other: dict[str, object]
) -> None:
    """The old one is dead, and before that is noticed the new one has taken its name and work."""
    await store.beat(row("c", **other))
    await begun(store, jobs=(job(2),))
    await claim_jobs(store, "c")
    watch.lose("c")

    for _ in range(SWEEPS_ON_SERVER):
        await watch.neighbours.look()

    assert await claim_jobs(store, "b") == []
    assert await workers(store) == [*PIDS]
    assert watch.freed == 0


async def test_of_two_that_look_at_once_the_second_does_nothing(store: Store, watch: Watch) -> None:
    other = Watch(store, "a")
    await other.begin()
    for one in (watch, other):
        one.lose("c")
        for _ in range(ALL_EVERY + SWEEPS_ON_SERVER):
            await one.neighbours.look()

    assert watch.freed > 0
    assert other.freed == 0
    assert await workers(store) == ["a", "b", "d"]


async def test_a_sign_of_life_may_come_while_a_dead_one_is_freed(
    store: Store, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells of the neighbours anew: another one has freed the dead one meanwhile."""
    release = store.release_worker

    async def release_late(*args: Any, retires: bool, **options: Any) -> bool:
        if retires:
            watch.neighbours.learn([])
        return await release(*args, retires=retires, **options)

    monkeypatch.setattr(store, "release_worker", release_late)
    watch.lose("c")

    for _ in range(SWEEPS_ON_SERVER):
        await watch.neighbours.look()

    assert "c" not in await workers(store)


async def test_sessions_of_a_lasting_name_wait_for_its_next_process(
    store: Store, clock: ManualClock, watch: Watch
) -> None:
    await store.beat(row("c", is_lasting=True))
    await watch.begin()
    watch.lose("c")
    await begun(store, jobs=(job(2, session="s"),))
    await claim_bound(store, "c")

    for _ in range(SWEEPS_ON_SERVER):
        await watch.neighbours.look()

    assert [found.owner for found in await store.admin.read_sessions()] == ["c"]


def counts(store: Store) -> tuple[int, ...]:
    return tuple(store.change_count(kind) for kind in KINDS)


async def test_one_that_has_just_come_is_known_soon(
    store: Store, watch: Watch, url: str, clock: ManualClock
) -> None:
    elsewhere = open_store(url, clock=clock)
    await elsewhere.open()
    try:
        await elsewhere.beat(row("bc", pid=5, born=50), is_first=True)
        await until(lambda: counts(store) != watch.neighbours._seen_changes)
        for _ in range(ASK_EVERY):
            await watch.neighbours.look()
    finally:
        await elsewhere.close()

    assert watch.looked_at[-1] == 5


async def test_as_long_as_nothing_changes_the_store_is_asked_nothing(
    store: Store, watch: Watch
) -> None:
    asked: list[object] = []
    counts = {watch.neighbours._seen_changes}
    store.observer = Observer(ended=lambda what, _: asked.append(what), failed=asked.append)

    for _ in range(2 * ALL_EVERY):
        await watch.neighbours.look()
        counts.add(watch.neighbours._seen_changes)

    # A server's notifications begin at some time, and then something may have changed.
    assert len(asked) == len(counts) - 1
