"""How a worker notices what other processes leave in the store, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from perdure import Engine, activity, orchestration
from perdure.authoring.registry import GivenDefinitions, activity_key
from perdure.client.reading import watch
from perdure.errors import StoreError
from perdure.ids import fresh_id
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import JobEnd
from perdure.model.turns import JobClaim, TurnClaim
from perdure.store.sqlite import file_watch
from perdure.worker import claims
from tests.contract.store_values import message
from tests.engine.stage import SELDOM, Gate, Stage, options, until, waits_for
from tests.engine.test_shared_turns import hold_commits
from tests.sizes import WITHIN_S

RESTING = options(poll_max=SELDOM, lease_for=2 * SELDOM)


@activity
async def double(number: int) -> int:
    return 2 * number


@activity
def threaded(number: int) -> int:
    return number


@orchestration
async def doubled(number: int) -> int:
    return await double(number)


async def test_work_of_others_is_noticed_soon_by_a_worker_that_had_none_for_long(
    stage: Stage,
) -> None:
    engine = await stage.engine([doubled, double], options=RESTING)
    client = await stage.client()
    claimer = engine._serving.claimer
    await until(lambda: claimer._quiet > 4)

    async with asyncio.timeout(WITHIN_S):
        assert await (await client.start(doubled, 2)).result() == 4


async def test_a_worker_that_is_told_of_nothing_compares_now_and_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the kernel tells nothing, and polls are seldom."""
    monkeypatch.setattr(file_watch, "_system", lambda: None)
    stage = Stage(f"sqlite:///{tmp_path / 'deaf.db'}")
    engine = await stage.engine([doubled, double], options=RESTING)
    client = await stage.client()
    claimer = engine._serving.claimer
    await until(lambda: claimer._quiet)
    claimer._quiet = 20  # As after a long silence.

    # The first wait may have begun before; by polls alone the others take far too long.
    await until(lambda: claimer._quiet > 23)
    assert await (await client.start(doubled, 2)).result() == 4

    await stage.close()
    await stage.look_over()


async def test_a_worker_that_is_told_of_changes_does_not_wait_until_it_compares(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "COMPARE_MAX_S", 60.0)
    stage = Stage(postgres_url)
    client = await stage.client()
    engine = await stage.engine([doubled, double], options=RESTING)
    claimer = engine._serving.claimer
    await until(lambda: claimer._seen_changes > 0 < claimer._quiet)
    claimer._quiet = 20  # As after a long silence.
    await until(lambda: claimer._quiet > 20)

    async with asyncio.timeout(WITHIN_S):
        assert await (await client.start(doubled, 2)).result() == 4

    await stage.close()
    await stage.look_over()


async def test_who_waits_for_a_result_hears_of_it_at_once_if_the_store_is_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOOK_MIN_S", 60.0)
    monkeypatch.setattr(watch, "LOOK_MAX_S", 60.0)
    stage = Stage(postgres_url)
    client = await stage.client()
    gate = Gate()

    @activity
    async def stand() -> str:
        await gate.pass_through()
        return "passed"

    @orchestration
    async def standing() -> str:
        return await stand()

    await stage.engine([standing, stand])
    async with asyncio.timeout(WITHIN_S):
        result = asyncio.ensure_future((await client.start(standing)).result())
        await gate.reached()
        gate.opened.set()
        assert await result == "passed"

    await stage.close()
    await stage.look_over()


async def test_a_call_goes_to_another_worker_and_back_without_waiting_for_the_poll(
    stage: Stage,
) -> None:
    """The worker that has the instance is idle meanwhile, and so is the other one before."""
    engine = await stage.engine([doubled], options=RESTING)
    other = await stage.engine([double], options=RESTING)
    await until(lambda: engine._serving.claimer._quiet > 4 < other._serving.claimer._quiet)

    async with asyncio.timeout(WITHIN_S):
        assert await (await engine.start(doubled, 2)).result() == 4


async def test_changes_that_bring_nothing_are_heeded_less_and_less(stage: Stage) -> None:
    engine = await stage.engine([doubled, double], options=RESTING)
    client = await stage.client()
    counter = "perdure_claims_total"
    await until(lambda: engine._serving.claimer._quiet)
    before = engine.telemetry.snapshot().value(counter, kind="turns")

    for number in range(300):
        await client._core.store.deliver([message("nobody", str(number), if_absent="buffer")])

    asked = engine.telemetry.snapshot().value(counter, kind="turns") - before
    assert asked < 100


async def test_a_server_is_asked_less_and_less_while_nothing_happens(postgres_url: str) -> None:
    """Fifty workers that each ask once a second, for nothing, are a load."""
    poll = timedelta(milliseconds=10)
    often = options(poll_min=poll, poll_max=poll)
    async with Engine(postgres_url, [doubled, double], options=often) as engine:
        claimer = engine._serving.claimer
        await until(lambda: claimer._quiet)
        asked_s: list[float] = [claimer._claimed_s]

        def has_asked(times: int) -> bool:
            if claimer._claimed_s != asked_s[-1]:
                asked_s.append(claimer._claimed_s)
            return len(asked_s) > times

        await until(lambda: has_asked(7))

    assert asked_s[-1] - asked_s[0] > 30 * poll.total_seconds()


@pytest.mark.parametrize("failing", ["claim_turns", "claim_jobs"])
async def test_what_one_half_of_a_claim_has_leased_is_worked_on_though_the_other_half_fails(
    stage: Stage, failing: str
) -> None:
    """Else it would be leased to us, unknown to us, until the end of the lease."""
    stage.expect_log("a loop of the worker failed and is started again: claims")
    whole: GivenDefinitions = [doubled] if failing == "claim_turns" else [double]
    half: GivenDefinitions = [double] if failing == "claim_turns" else [doubled]
    client = await stage.client()
    await stage.engine(whole)
    worker = await stage.engine(half)
    store = worker._serving.claimer._store
    refused = asyncio.Event()

    async def refuse(claim: object) -> NoReturn:
        refused.set()
        raise StoreError("refused by the test")

    setattr(store, failing, refuse)
    async with asyncio.timeout(WITHIN_S):
        assert await (await client.start(doubled, 2)).result() == 4
    delattr(store, failing)

    assert refused.is_set()


async def test_no_two_claims_of_one_moment_may_take_a_suspect(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if jobs that begin meanwhile leave no room for others of their kind."""
    monkeypatch.setattr(claims.Claimer, "run", _rest)
    engine = await stage.engine([doubled, double, threaded])
    claimer, jobs, store = engine._serving.claimer, engine._serving.jobs, engine._core.store
    await until(lambda: claimer._queues)
    asked: list[TurnClaim | JobClaim] = []
    for name in ("claim_turns", "claim_jobs"):
        monkeypatch.setattr(store, name, _noting(getattr(store, name), asked))
    queue = activity_key("threaded", None)

    def fill() -> None:
        while reservation.takes(queue):
            taken.append(queue)

    for rounds in range(6):
        reservation, taken = jobs.reserve(), list[DefinitionKey]()
        asked.clear()
        claimer._rounds = rounds
        asyncio.get_running_loop().call_soon(fill)
        await claimer._claim()
        reservation.drop()

        assert taken
        assert [claim.takes_suspect for claim in asked].count(True) <= 1


def _noting(ask: Callable[[Any], Any], asked: list[Any]) -> Callable[[Any], Any]:
    def note(claim: Any) -> Any:
        asked.append(claim)
        return ask(claim)

    return note


async def test_the_next_suspect_comes_when_the_end_of_the_last_one_is_stored(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may kill the process, and an end that is not stored is lost with that."""
    await lost_jobs_of_two(stage)
    monkeypatch.setattr(claims.Claimer, "run", _rest)
    worker = await stage.engine([noted])
    claimer, store = worker._serving.claimer, worker._core.store
    await until(lambda: claimer._queues)
    asked, opened = asyncio.Event(), asyncio.Event()
    end_jobs = store.end_jobs

    async def end_late(ends: Sequence[JobEnd]) -> list[bool]:
        asked.set()
        await opened.wait()
        return await end_jobs(ends)

    monkeypatch.setattr(store, "end_jobs", end_late)
    begun.clear()
    await claim_often(claimer)
    await asked.wait()

    await claim_often(claimer)
    assert len(begun) == 1

    opened.set()
    await until(worker._serving.jobs.suspects.may_come)
    await claim_often(claimer)
    await until(lambda: len(begun) == 2)
    await until(lambda: not worker._serving.turns.background.tasks)


begun: list[int] = []


@activity
async def noted(number: int) -> None:
    begun.append(number)


@orchestration
async def noting(number: int) -> None:
    await noted(number)


async def lost_jobs_of_two(stage: Stage) -> None:
    """Leave two jobs behind that were lost so often that they are suspects."""
    stage.allow_log("no live worker serves activity 'noted'")
    asking = await stage.engine([noting])
    for number in range(2):
        await waits_for(await asking.start(noting, number), "noted")
    store = asking._core.store
    queues = tuple(await store.intern([activity_key("noted", None)]))
    for _ in range(3):
        found = await store.claim_jobs(JobClaim("dead", queues, 2, 0, fresh_id(), suspect_after=9))
        assert len(found) == 2


async def claim_often(claimer: claims.Claimer) -> None:
    """Claim until each kind of claim may have taken a suspect."""
    for _ in range(6):
        claimer._rounds += 1
        await claimer._claim()


async def _rest(_: claims.Claimer) -> None:
    await asyncio.Event().wait()


async def test_a_lease_that_was_lost_takes_no_newer_one_of_its_instance_along(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn was claimed again while the store was asked about the lease before."""
    engine = await stage.engine([doubled, double])
    gate = hold_commits(monkeypatch, engine)
    handle = await (await stage.client()).start(doubled, 2)
    await gate.reached.wait()
    [lease] = engine._serving.turns.leases()

    engine._serving.turns.lose([lease._replace(lease=lease.lease - 1)])
    assert engine._serving.turns.leases() == [lease]
    engine._serving.turns.lose([lease])
    assert engine._serving.turns.leases() == []

    gate.opened.set()
    assert await handle.result() == 4
