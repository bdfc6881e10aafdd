"""What every store tells people: counts, depths, and what instances and jobs say of themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.clock import ManualClock
from perdure.model.admin import (
    PAGE_MAX,
    DeadJob,
    ExecutionRow,
    InstanceStats,
    KvRow,
    LeaseCount,
    QueueDepth,
    ReportRow,
    RunningJob,
    SessionRow,
    StoreTotals,
)
from perdure.model.histories.events import Body, Failure
from perdure.model.instances import DefinitionKey, Stamp, Status
from perdure.model.jobs import JobBeat, JobEnd, JobFailures, JobKey
from perdure.model.turns import (
    ChildStart,
    Continuation,
    JobClaim,
    KvChange,
    SessionClaim,
    SlotUse,
    WorkerRow,
)
from perdure.store.base import Store
from perdure.store.sql import worker_rows
from tests.contract.store_values import (
    LEASE_MS,
    ORCHESTRATION,
    QUEUE,
    STARTED,
    accepted,
    begun,
    claim,
    claim_jobs,
    first_turn,
    job,
    message,
    new_instance,
    next_turn,
    timer,
    token,
    turn_of,
)
from tests.contract.test_lists import EVERYTHING, ids_of, one_of_each, started

CONTINUED = Body("continued_as_new", b"{}")
GPU = DefinitionKey("activity", "say_hello", "gpu")
LEASE = timedelta(milliseconds=LEASE_MS)
SECOND = timedelta(seconds=1)


def worker(worker_id: str) -> WorkerRow:
    return WorkerRow(worker_id, "host", 1, 1, 1, (), lease_ms=LEASE_MS)


async def continued(store: Store, instance_id: str, stamp: Stamp, *, now_ms: int = 3) -> Stamp:
    """End an execution and begin the next; return the stamp after the first turn of that one."""
    turn = next_turn(
        instance_id,
        stamp,
        now_ms=now_ms,
        events=(CONTINUED,),
        continued=Continuation(ORCHESTRATION, STARTED, b"null", ()),
    )
    await accepted(store, turn)
    [claimed] = [one for one in await claim(store) if one.instance_id == instance_id]
    begin = turn_of(claimed, now_ms=now_ms + 1)
    await accepted(store, begin)
    return begin.next_stamp


async def dead(store: Store, instance_id: str = "i", seq: int = 2) -> JobKey:
    """Let a job of a new instance run out of attempts."""
    await begun(store, instance_id, jobs=(job(seq, input=b"in", policy=b'{"max_attempts":1}'),))
    [claimed] = await claim_jobs(store)
    end = JobEnd(
        key=claimed.key,
        token=claimed.token,
        kind="activity_failed",
        body=b"{}",
        failure=Failure("ValueError", "no"),
        is_dead=True,
    )
    assert await store.end_jobs([end]) == [True]
    return claimed.key


async def claim_session(store: Store, owner: str) -> list[JobKey]:
    """Claim jobs that have a session."""
    numbers = await store.intern((QUEUE,))
    terms = SessionClaim(owner, LEASE_MS, (), 10)
    claim = JobClaim("w1", tuple(numbers), 10, LEASE_MS, token(), terms)
    return [claimed.key for claimed in await store.claim_jobs(claim)]


class TestInstancesInDetail:
    """What is known of single instances."""

    async def test_executions_are_told_by_their_histories(self, store: Store) -> None:
        stamp = await begun(store)
        second = await continued(store, "i", stamp, now_ms=10)
        await continued(store, "i", second, now_ms=20)

        assert await store.admin.read_executions("i") == [
            ExecutionRow(
                execution=1, first_at_ms=2, last_at_ms=10, events=2, last_kind=CONTINUED.kind
            ),
            ExecutionRow(
                execution=2, first_at_ms=11, last_at_ms=20, events=2, last_kind=CONTINUED.kind
            ),
            ExecutionRow(
                execution=3, first_at_ms=21, last_at_ms=21, events=1, last_kind=STARTED.kind
            ),
        ]
        [row] = await store.admin.list_instances(EVERYTHING, limit=1)
        assert row.execution == 3

    async def test_an_instance_without_a_turn_has_no_executions_to_tell_of(
        self, store: Store
    ) -> None:
        await store.start([new_instance()])

        assert await store.admin.read_executions("i") == []
        assert await store.admin.read_executions("never") == []

    async def test_children_are_those_of_the_present_incarnation(self, store: Store) -> None:
        start = new_instance("parent")
        family = {"parent_id": "parent", "parent_incarnation": start.incarnation}
        children = [new_instance(name, **family, created_ms=9) for name in ("b", "a")]
        turn = first_turn(
            start, children=tuple(ChildStart(child, message("parent")) for child in children)
        )
        await accepted(store, turn)
        await started(store, "stranger", parent_id="parent", parent_incarnation=7)
        await started(store, "grandchild", parent_id="a", parent_incarnation=7)

        rows = await store.admin.read_children(["never", "parent", "parent"])

        assert ids_of(rows) == ["a", "b"]
        assert rows[0].parent_incarnation == start.incarnation
        assert await store.admin.read_children(["b"]) == []
        assert await store.admin.read_children([]) == []

    async def test_stats_count_what_is_stored(self, store: Store, clock: ManualClock) -> None:
        stamp = await begun(store)
        third = next_turn(
            "i",
            await continued(store, "i", stamp),
            events=(Body("x", b"12345"),),
            jobs=(job(2), job(3)),
            timers=(timer(4, clock() + 9),),
            kv=(KvChange("k", b"123"), KvChange("l", b"45")),
        )
        await accepted(store, third)
        await store.deliver([message(), message()])

        assert await store.admin.instance_stats("i") == InstanceStats(
            executions=2,
            events=2,
            event_bytes=len(STARTED.body) + 5,
            messages=2,
            timers=1,
            jobs=2,
            kv_keys=2,
            kv_bytes=5,
        )

    async def test_an_instance_before_its_first_turn_has_one_execution(self, store: Store) -> None:
        await store.start([new_instance()])

        stats = await store.admin.instance_stats("i")

        assert stats is not None
        assert (stats.executions, stats.events, stats.event_bytes) == (1, 0, 0)
        assert (stats.messages, stats.timers, stats.jobs) == (1, 0, 0)

    async def test_what_was_never_started_has_no_stats(self, store: Store) -> None:
        await store.deliver([message("unborn", if_absent="buffer")])

        assert await store.admin.instance_stats("unborn") is None
        assert await store.admin.instance_stats("never") is None

    async def test_kv_is_read_in_order_of_its_keys(self, store: Store) -> None:
        changes = tuple(KvChange(key, key.encode()) for key in ("b", "ä", "a", "B", "%"))
        await begun(store, kv=changes, now_ms=7)

        everything = await store.admin.read_kv("i")

        assert list(everything) == ["%", "B", "a", "b", "ä"]
        assert everything["ä"] == KvRow("ä".encode(), 7)
        assert await store.admin.read_kv("i", "b") == {"b": KvRow(b"b", 7)}
        assert await store.admin.read_kv("i", "c") == {}
        assert await store.admin.read_kv("i", "") == {}
        assert await store.admin.read_kv("never") == {}

    async def test_reports_come_in_the_order_asked(self, store: Store) -> None:
        await begun(store, "a", report=b"1", now_ms=7)
        await begun(store, "b")
        stamp = await begun(store, "c", report=b"1")
        await accepted(store, next_turn("c", stamp, report=b"2", now_ms=8))

        assert await store.admin.read_reports(["c", "never", "a", "b", "c"]) == [
            ReportRow(2, b"2", 8),
            None,
            ReportRow(1, b"1", 7),
            None,
            ReportRow(2, b"2", 8),
        ]
        assert await store.admin.read_reports([]) == []


class TestTotals:
    """How much there is in all."""

    async def test_an_empty_store_counts_nothing(self, store: Store) -> None:
        assert await store.admin.totals() == StoreTotals(
            instances=dict.fromkeys(map(str, Status), 0),
            executions=0,
            events=0,
            messages=0,
            timers=0,
            jobs=0,
            dead_jobs=0,
            unborn=0,
        )

    async def test_every_status_is_counted(self, store: Store) -> None:
        await one_of_each(store)
        await started(store, "another", "third")

        totals = await store.admin.totals()

        assert totals.instances == {
            **dict.fromkeys(map(str, Status), 1),
            Status.RUNNING.value: 3,
        }

    async def test_everything_else_is_counted(self, store: Store, clock: ManualClock) -> None:
        await dead(store, "d")
        stamp = await begun(store, "c")
        await continued(store, "c", stamp)
        jobs = (job(2), job(3, session="s"))
        await begun(store, "i", jobs=jobs, timers=(timer(4, clock()), timer(5, clock())))
        await store.deliver([message("i"), message("unborn", if_absent="buffer")])

        totals = await store.admin.totals()

        assert totals.instances["running"] == 3
        assert (totals.executions, totals.events) == (4, 5)
        assert (totals.messages, totals.timers) == (3, 2)
        assert (totals.jobs, totals.dead_jobs, totals.unborn) == (2, 1, 1)

    async def test_every_definition_is_known_by_its_number(self, store: Store) -> None:
        assert await store.admin.definitions() == {}
        orchestration, gpu = await store.intern([ORCHESTRATION, GPU])

        assert await store.admin.definitions() == {orchestration: ORCHESTRATION, gpu: GPU}


class TestHeldLeases:
    """What the leases that are held say of the workers that hold them."""

    async def test_leases_are_counted_by_worker_and_definition(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, "a", jobs=(job(2), job(3), job(4, queue=GPU)))
        await store.start([new_instance("b"), new_instance("c")])
        await claim(store, "w2", limit=1)
        await claim_jobs(store, "w1", queues=(QUEUE, GPU))

        held = await store.admin.count_leases([worker("w1"), worker("w2")])

        assert held.is_whole
        assert set(held.counts) == {
            LeaseCount("w1", QUEUE, 2),
            LeaseCount("w1", GPU, 1),
            LeaseCount("w2", ORCHESTRATION, 1),
        }

    async def test_only_what_is_under_a_lease_of_a_named_worker_counts(
        self, store: Store, clock: ManualClock
    ) -> None:
        now = clock()
        await begun(store, "later", timers=(timer(2, now + 5),), next_due_ms=now + 5)
        await begun(store, "open", jobs=(job(2),))
        await store.start([new_instance("of another")])
        await claim(store, "w2")

        assert (await store.admin.count_leases([worker("w1")])).counts == ()
        clock.advance(LEASE)
        assert (await store.admin.count_leases([worker("w2")])).counts == ()

    async def test_jobs_of_sessions_count_for_their_worker(
        self, store: Store, clock: ManualClock
    ) -> None:
        await begun(store, jobs=(job(2, session="s"), job(3, session="s"), job(4)))
        await claim_jobs(store, "w1", sessions=SessionClaim("w1", LEASE_MS, (), 1))

        held = await store.admin.count_leases([worker("w1"), worker("w2")])

        assert held.counts == (LeaseCount("w1", QUEUE, 3),)

    async def test_a_count_ends_after_so_many_rows_and_says_so(
        self, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(worker_rows, "LEASES_LOOKED_AT", 2)
        await begun(store, jobs=(job(2), job(3), job(4)))
        await claim_jobs(store, "w1", limit=2)
        two = await store.admin.count_leases([worker("w1")])
        await claim_jobs(store, "w1")

        three = await store.admin.count_leases([worker("w1")])

        assert (two.counts, two.is_whole) == ((LeaseCount("w1", QUEUE, 2),), True)
        assert not three.is_whole

    async def test_a_sign_of_life_tells_how_busy_the_slots_are(self, store: Store) -> None:
        busy = worker("w1")._replace(
            definitions=(ORCHESTRATION, QUEUE),
            slots=(SlotUse("async", 1_000, 3, 0), SlotUse("threaded", 32, 32, 7)),
        )
        await store.beat(busy)

        assert await store.read_workers(seen_since_ms=0) == [busy]


class TestQueueDepths:
    """What waits for workers."""

    async def test_what_nothing_waits_for_is_left_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.intern([GPU])
        await begun(store)
        await store.deliver([message("unborn", if_absent="buffer")])

        assert await store.admin.queue_depths() == []

    async def test_turns_wait_ready_later_or_leased(self, store: Store, clock: ManualClock) -> None:
        now = clock()
        await store.start([new_instance("leased")])
        await claim(store)
        await store.start([new_instance("ready")])
        clock.advance(SECOND)
        await store.start([new_instance("ready too")])
        await begun(store, "later", timers=(timer(2, now + 9_000),), next_due_ms=now + 9_000)

        assert await store.admin.queue_depths() == [
            QueueDepth(definition=ORCHESTRATION, ready=2, later=1, leased=1, oldest_ready_ms=now)
        ]
        clock.advance(LEASE)
        assert await store.admin.queue_depths() == [
            QueueDepth(definition=ORCHESTRATION, ready=4, later=0, leased=0, oldest_ready_ms=now)
        ]

    async def test_jobs_wait_ready_later_or_leased(self, store: Store, clock: ManualClock) -> None:
        now = clock()
        await begun(store, jobs=(job(2), job(3), job(4, session="s"), job(5, queue=GPU)))
        first, second = await claim_jobs(store)
        back = JobEnd(key=second.key, token=second.token, retry_at_ms=now + 5_000)
        await store.end_jobs([back])

        assert await store.admin.queue_depths() == [
            QueueDepth(definition=QUEUE, ready=1, later=1, leased=1, oldest_ready_ms=now),
            QueueDepth(definition=GPU, ready=1, later=0, leased=0, oldest_ready_ms=now),
        ]
        clock.advance(LEASE)
        plain, _ = await store.admin.queue_depths()
        assert (plain.ready, plain.later, plain.leased) == (3, 0, 0)
        assert first.attempt == 1


class TestJobsInDetail:
    """What is known of jobs that run, of dead ones, and of sessions."""

    async def test_running_jobs_tell_their_progress(self, store: Store, clock: ManualClock) -> None:
        stamp = await begun(store, jobs=(job(2), job(3)))
        first, second = await claim_jobs(store, "w7")
        await accepted(store, next_turn("i", stamp, jobs=(job(4),), events=(Body("x", b""),)))
        clock.advance(SECOND)
        await store.beat_jobs([JobBeat(second.key, second.token, None, b"50")])

        assert await store.admin.read_progress("i") == [
            RunningJob(
                key=first.key, queue=QUEUE, attempt=1, worker_id="w7", progress=None, beat_ms=None
            ),
            RunningJob(
                key=second.key,
                queue=QUEUE,
                attempt=1,
                worker_id="w7",
                progress=b"50",
                beat_ms=clock(),
            ),
        ]
        assert await store.admin.read_progress("never") == []

    async def test_sessions_tell_their_owners(self, store: Store, clock: ManualClock) -> None:
        await begun(store, jobs=(job(2, session="s2"), job(3, session="s1")))
        await claim_session(store, "home")

        assert await store.admin.read_sessions() == [
            SessionRow("s1", "home", clock() + LEASE_MS, clock()),
            SessionRow("s2", "home", clock() + LEASE_MS, clock()),
        ]

    async def test_a_store_without_sessions_has_none(self, store: Store) -> None:
        assert await store.admin.read_sessions() == []

    async def test_a_dead_job_is_kept_whole(self, store: Store, clock: ManualClock) -> None:
        created_ms = clock()
        key = await dead(store)

        [job] = await store.admin.read_dead_jobs(limit=10)

        assert job == DeadJob(
            key=key,
            queue=QUEUE,
            input=b"in",
            policy=b'{"max_attempts":1}',
            attempts=1,
            lost=0,
            failures=job.failures,
            created_ms=created_ms,
            died_ms=clock(),
        )
        assert job.failures in (JobFailures(), JobFailures(1, (Failure("ValueError", "no"),)))

    async def test_dead_jobs_are_paged_by_their_keys(self, store: Store) -> None:
        keys = {await dead(store, name) for name in ("a", "b", "c", "d", "e")}
        read: list[JobKey] = []
        after: JobKey | None = None
        while page := await store.admin.read_dead_jobs(limit=2, after=after):
            assert len(page) <= 2
            read += [job.key for job in page]
            after = page[-1].key

        assert len(read) == 5
        assert set(read) == keys
        everything = await store.admin.read_dead_jobs(limit=2**70)
        assert [job.key for job in everything] == read
        assert await store.admin.read_dead_jobs(limit=0) == []
        assert await store.admin.read_dead_jobs(limit=-1) == []
        assert len(everything) <= PAGE_MAX


class TestSecret:
    """What tokens are signed with."""

    async def test_a_store_has_one_secret_of_32_bytes(self, store: Store) -> None:
        secret = await store.admin.read_secret()

        assert len(secret) == 32
        assert len(set(secret)) > 8
        assert await store.admin.read_secret() == secret
