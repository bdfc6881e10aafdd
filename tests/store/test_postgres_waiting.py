"""Who waits for a row that somebody else has locked: an open transaction of a user's may hold one
for as long as it likes, and all that share a transaction with whoever waits for it wait too."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeAlias

import asyncpg
import pytest

from perdure.clock import ManualClock
from perdure.model.instances import Status
from perdure.model.jobs import JobBeat
from perdure.model.turns import Hold, TurnClaim
from perdure.store.base import JobLease, Store, TurnLease
from perdure.store.postgres import lane
from perdure.store.postgres.connection import PACKAGE
from perdure.store.postgres.functions import LOADS, WRITES
from perdure.store.sql.statement_files import text_of
from tests.contract.store_values import (
    LEASE_MS,
    ORCHESTRATION,
    accepted,
    begun,
    claim,
    claim_jobs,
    first_turn,
    given,
    job,
    new_instance,
    token,
)
from tests.engine.stage import until
from tests.sizes import WITHIN_S
from tests.store.plans import NAMES

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


# ----------------------------------------------------------------------- the list

OF_COMMITS = {*LOADS, *WRITES}
"""Run only when the live row of the instance is locked, and that is not waited for (try_live), but
by who has nothing else to do: inside a transaction of a user's. All other rows of an instance are
changed under that lock. What a start or a removal finds without one, another is just making or
removing, and nobody can go on before it is known whether it does."""

MAY_WAIT = {
    "lock_live": "in a transaction of a user's alone; others put off what they cannot have",
    "lock_instances": "the same, for one that has ended",
    "lock_feed": "giving positions takes a moment, and removing has to know where they are",
    "unpark_live": "under lock_instances",
    "unpark_instance": "under lock_instances",
    "end_lease": "under lock_instances",
    "drop_message": "under lock_instances",
    "drop_receipt": "under lock_instances",
    "delete_executions": "under lock_instances",
    "delete_feed_of_executions": "under lock_instances and lock_feed",
    "delete_removed_events": "under lock_instances",
    "delete_removed_feed": "under lock_instances and lock_feed",
    "delete_dead_jobs": "under lock_instances",
    "delete_old_receipts": "under lock_instances",
    "delete_old_stream_rows": "under lock_instances and lock_stream_heads",
    "delete_old_unborn": "under lock_instances",
    "delete_old_dead_jobs": "dead jobs are changed only by people, in a moment",
    "delete_idle_sessions": "nobody uses them any more",
    "lease_turns": "find_turns has locked them",
    "lease_jobs": "find_jobs has locked them",
    "clear_starts": "find_jobs has locked them",
    "take_sessions": "of two that claim jobs of one session the second has to know who gets it",
    "advance_feed": "under the lease of the reader",
    "release_feed": "under the lease of the reader",
    "set_reader": "a person asks for it, or the reader under its lease",
    "forget_reader": "a person asks for it",
    "wake_stranded_turns": "a wrong clock is rare, and each of them locks for a moment",
    "wake_stranded_jobs": "the same",
    "cut_sessions": "the same",
    "claim_feed": "a name that is new is inserted; what is there is skipped if it is locked",
    "beat": "the row of a worker is its own",
    "retire": "the row of a worker is its own",
    "forget_presence": "the mark of a worker that is no more, which all remove in a moment",
    "take_arrivals": "under lock_live",
    "revive_instances": "in the commit of a reset, under lock_live or the row that it makes",
    "forget_unheard": "in the commit of a reset, under the row that it makes",
    "rewind_streams": "in the commit of a reset, under lock_live and lock_stream_heads",
    "delete_streams": "with the instance that is removed or replaced, under its row",
    "delete_stream_heads": "with the instance that is removed or replaced, under its row",
    "keep_stream_rows": "in the commit that ends the job, under lock_stream_heads",
    "put_stream_heads": "indexes are in the order of commits, so the second sender has to wait",
    "lock_stream_heads": "whoever touches rows of a stream has its head first, for a moment",
    "delete_stream_rows": "under lock_stream_heads",
    "delete_take_backs": "under lock_stream_heads",
    "move_stream_rows": "under lock_stream_heads",
    "advance_stream_head": "under lock_stream_heads",
    "delete_arrivals": "whoever moves them is alone; the rest is taken under lock_live",
}
"""All other statements that wait, and why they may."""


def waits(name: str) -> bool:
    """Return whether a statement may wait for a row that is there."""
    text = text_of(PACKAGE, name)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    if re.search(r"FOR (NO KEY )?(UPDATE|SHARE)\b(?!( OF \w+)? SKIP LOCKED)", text):
        return True
    changes = re.search(r"\bUPDATE perdure\.|\bDELETE FROM perdure\.|DO UPDATE\b", text)
    return bool(changes) and ("SKIP LOCKED" not in text or "DO UPDATE" in text)


def test_what_may_wait_for_a_row_is_on_the_list_with_its_reason() -> None:
    found = {name for name in NAMES if waits(name)}

    assert found - OF_COMMITS == {*MAY_WAIT} - OF_COMMITS
    assert {*MAY_WAIT} & OF_COMMITS <= {"lock_live"}


# --------------------------------------------------------------------- what does not


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@asynccontextmanager
async def holding(raw: Connection, table: str, instance_id: str) -> AsyncIterator[None]:
    """A transaction of a user's that has a row of an instance locked, and stays open."""
    async with raw.transaction():
        text = f"SELECT FROM perdure.{table} WHERE instance_id = $1 FOR UPDATE"
        assert await raw.fetch(text, instance_id)
        async with asyncio.timeout(WITHIN_S):
            yield


async def with_jobs(store: Store, *instance_ids: str) -> list[JobLease]:
    for instance_id in instance_ids:
        await accepted(store, first_turn(new_instance(instance_id), jobs=(job(),)))
    return [JobLease(one.key, one.token) for one in await claim_jobs(store)]


async def ends_of(raw: Connection, what: str, table: str) -> dict[str, int]:
    text = f"SELECT instance_id, {what} FROM perdure.{table}"  # noqa: S608 - a test's own
    return {str(one[0]): int(one[1]) for one in await raw.fetch(text)}


async def test_a_locked_instance_keeps_no_other_lease_from_being_renewed_and_is_not_lost(
    store: Store, raw: Connection, clock: ManualClock
) -> None:
    await store.start([new_instance("i"), new_instance("j")])
    turns = [TurnLease(one.instance_id, one.lease) for one in await claim(store)]
    jobs = await with_jobs(store, "k")
    clock.advance(timedelta(milliseconds=LEASE_MS - 1))

    async with holding(raw, "live", "i"):
        lost = await store.renew(turns, jobs, lease_ms=LEASE_MS)
        ends = await ends_of(raw, "lease_until_ms", "live")
        until_ms = clock() + LEASE_MS

    assert lost == ([], [])
    assert (ends["j"], ends["i"]) == (until_ms, clock() + 1)
    assert (await ends_of(raw, "visible_at_ms", "jobs"))["k"] == until_ms


async def test_a_lease_that_runs_out_while_its_row_is_locked_is_not_lost_before_somebody_has_it(
    store: Store, raw: Connection, clock: ManualClock
) -> None:
    await store.start([new_instance("i"), new_instance("j")])
    turns = [TurnLease(one.instance_id, one.lease) for one in await claim(store)]
    jobs = await with_jobs(store, "k", "l")
    locked = {one.key.instance_id: one for one in jobs}["k"]
    clock.advance(timedelta(milliseconds=LEASE_MS))

    async with holding(raw, "live", "i"):
        lost_turns, _ = await store.renew(turns, [], lease_ms=LEASE_MS)
    async with holding(raw, "jobs", "k"):
        _, lost_jobs = await store.renew([], jobs, lease_ms=LEASE_MS)

    assert [one.instance_id for one in lost_turns] == ["j"]
    assert lost_jobs == [one for one in jobs if one != locked]
    assert await store.renew(turns, jobs, lease_ms=LEASE_MS) == (turns, jobs)


async def test_what_running_jobs_say_is_kept_of_those_that_nobody_has_locked(
    store: Store, raw: Connection
) -> None:
    jobs = await with_jobs(store, "k", "l")

    async with holding(raw, "jobs", "k"):
        await store.beat_jobs([JobBeat(*one, details=b"half") for one in jobs])

    said = await raw.fetch("SELECT instance_id FROM perdure.jobs WHERE details IS NOT NULL")
    assert [one[0] for one in said] == ["l"]


async def test_turns_are_given_back_beside_one_that_is_locked_and_that_one_when_it_is_free(
    store: Store, raw: Connection
) -> None:
    await store.start([new_instance("i"), new_instance("j")])
    turns = [TurnLease(one.instance_id, one.lease) for one in await claim(store)]

    async with holding(raw, "live", "i"):
        releasing = asyncio.ensure_future(store.release_turns(turns))

        async def is_given_back() -> bool:
            return not (await ends_of(raw, "lease", "live"))["j"]

        await until(is_given_back)
        assert not releasing.done()
    await releasing

    assert await ends_of(raw, "lease", "live") == {"i": 0, "j": 0}
    assert await ends_of(raw, "attempts", "live") == {"i": 0, "j": 0}


async def test_blocked_instances_are_claimed_beside_one_that_is_locked(
    store: Store, raw: Connection
) -> None:
    [number] = await store.intern([ORCHESTRATION])
    for instance_id in ("i", "j"):
        stamp = await begun(store, instance_id)
        await store.hold([Hold(instance_id, stamp, 0, Status.BLOCKED, "c1/1", "does not fit")])

    async def tried() -> list[str]:
        claim = TurnClaim("w2", ((number, "c2/2"),), 9, LEASE_MS, token())
        return [one.instance_id for one in await store.claim_blocked(claim)]

    async with holding(raw, "live", "i"):
        assert await tried() == ["j"]

    assert await tried() == ["i"]


async def test_what_is_asked_of_a_locked_instance_is_put_off_and_holds_up_nobody(
    store: Store, raw: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as outcomes of inputs that were rejected: they share a transaction with renewals."""
    begin = lane.BEGIN.replace(f"lock_timeout = '{lane.LOCK_WITHIN}'", "lock_timeout = '10min'")
    monkeypatch.setattr(lane, "BEGIN", begin)
    stamp = await begun(store, "i")

    async with holding(raw, "live", "i"):
        unparking = asyncio.ensure_future(store.unpark("i"))
        settling = asyncio.ensure_future(store.deciders.settle_inputs("i", [given()]))
        deleting = asyncio.ensure_future(store.admin.delete([("i", stamp.incarnation)], force=True))
        assert await store.renew([], [], lease_ms=LEASE_MS) == ([], [])
        assert [one.done() for one in (unparking, settling, deleting)] == [False] * 3

    assert not await unparking
    assert await settling == [given().outcome]
    assert await deleting is not None


async def test_who_reads_the_feed_is_not_waited_for(store: Store, raw: Connection) -> None:
    """A handler may run in the transaction that has moved the checkpoint."""
    await store.feed.claim_feed("name", lease=token(), lease_ms=LEASE_MS)

    async with raw.transaction(), asyncio.timeout(WITHIN_S):
        await raw.execute("SELECT FROM perdure.checkpoints FOR UPDATE")
        taken: Any = await store.feed.claim_feed("name", lease=token(), lease_ms=LEASE_MS)

    assert taken is None
