"""Effects that fail: nothing of them ends without a trace."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Never

import pytest

from perdure import Activity, ActivityContext, Decision, Engine, Retry, activity
from perdure.authoring.deciders.decider import DeadEffect
from perdure.jobs.attempts import read_policy
from perdure.model.options import EFFECT_RETRY
from tests import rows
from tests.engine.stage import PATIENCE, Gate, RunningClock, Stage, kinds, options, until
from tests.engine.test_effects import SOON, Asked, Do, Doer, Done, Ended, Log, crash, settles

LOST = r"effect 'work' of decider 'asking' failed for good, and no input came of it"


def asking(effect: Activity[..., Any], *, is_told: bool = False) -> type[Doer]:
    """Return a decider that asks for an effect, and hears of its failure or does not."""

    class Asking(Doer):
        name = "asking"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(effect, input.id)

        def on_dead(self, effect: DeadEffect, /) -> Do | Done | None:
            return super().on_dead(effect) if is_told else None

    return Asking


async def until_failed(engine: Engine, decider: type[Doer]) -> None:
    """Wait until the effect of instance `a` has failed for good."""

    async def has_failed() -> bool:
        return "activity_failed" in kinds(await engine.handle("a", decider).history())

    await until(has_failed)


async def test_an_effect_is_tried_again_by_default(stage: Stage) -> None:
    """The tutorial's own shape: a plain activity, whose mail server is away for a moment."""
    tries: list[int] = []

    @activity
    async def work(ctx: ActivityContext, id: str) -> Done:
        tries.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ConnectionError
        return Done(id, "sent")

    decider = asking(work)
    engine = await stage.engine([decider, work])
    await engine.execute(decider, Do("a"))

    async def is_done() -> bool:
        return bool((await engine.state(decider, "a")).ended)

    await until(is_done)
    assert tries == [1, 2]


@pytest.mark.parametrize(
    ("retry", "most"),
    [
        ("left out", EFFECT_RETRY.max_attempts),
        (None, 1),
        (Retry(max_attempts=1), 1),
        (Retry(max_attempts=7), 7),
    ],
    ids=["left out", "none", "once", "own"],
)
async def test_the_activitys_own_policy_rules_and_is_kept_with_the_job(
    stage: Stage, retry: Any, most: int
) -> None:
    given = {} if retry == "left out" else {"retry": retry}

    @activity(**given)
    async def work(id: str) -> None: ...

    stage.expect_log("no live worker serves")
    client = await stage.client()
    await client.execute(asking(work), Do("a"))
    [(policy,)] = rows.run(stage.url, "SELECT policy FROM jobs")

    assert read_policy(bytes(policy)).max_attempts == most


FAILURES = ["exhausted", "one attempt", "no retry", "timed out", "wrong value"]


def failing(how: str) -> Activity[..., Any]:
    """Return an activity that fails in some way."""
    policies: dict[str, Retry | None] = {
        "exhausted": SOON,
        "no retry": Retry(max_attempts=5, no_retry=(ValueError,)),
    }
    timeout = timedelta(milliseconds=10) if how == "timed out" else None

    @activity(retry=policies.get(how), timeout=timeout)
    async def work(id: str) -> Done:
        match how:
            case "timed out":
                await Gate().pass_through()
            case "wrong value":
                wrong: Any = "no input"
                return wrong  # type: ignore[no-any-return]  # which is the point
        raise ValueError("a secret")

    return work


@pytest.mark.parametrize("how", FAILURES)
async def test_an_effect_that_fails_is_a_dead_job_and_a_warning(stage: Stage, how: str) -> None:
    work = failing(how)
    decider = asking(work)
    stage.expect_log(LOST)
    engine = await stage.engine([decider, work])
    await engine.execute(decider, Do("a"))
    await until_failed(engine, decider)
    await until(lambda: stage.logged(LOST))
    [dead] = (await engine.dead_jobs()).items

    [warning] = stage.logged(LOST)
    attempts = 3 if how == "exhausted" else 1
    assert "instance 'a'" in warning
    assert f"after {attempts} attempt" in warning
    assert dead.failures[-1].partition(":")[0] in warning
    assert "a secret" not in warning
    assert (dead.instance_id, dead.activity, dead.attempts) == ("asking:a", "work", attempts)
    assert "it has 1 dead job" in await engine.handle("a", decider).explain()


@pytest.mark.parametrize("how", FAILURES)
async def test_an_effect_whose_failure_becomes_an_input_is_a_dead_job_without_a_warning(
    stage: Stage, how: str
) -> None:
    work = failing(how)
    decider = asking(work, is_told=True)
    engine = await stage.engine([decider, work])
    await engine.execute(decider, Do("a"))
    await until_failed(engine, decider)

    async def is_told() -> bool:
        return bool((await engine.state(decider, "a")).ended)

    await until(is_told)
    assert await engine.count_dead_jobs(instance_id="asking:a") == 1


async def test_an_effect_that_its_deadline_ends_is_dead_and_its_retry_has_none(
    stage: Stage,
) -> None:
    gate = Gate()
    deadlines: list[datetime | None] = []

    @activity(deadline=PATIENCE)
    async def work(ctx: ActivityContext, id: str) -> Done:
        deadlines.append(ctx.deadline)
        if len(deadlines) == 1:
            await gate.pass_through()
        return Done(id, "sent")

    stage.expect_log(LOST + r".* DeadlineExceeded; dead_jobs\(\) has it")
    decider = asking(work)
    clock = RunningClock()
    engine = await stage.engine([decider, work], clock=clock)
    await engine.execute(decider, Do("a"))
    await gate.reached()
    clock.advance(PATIENCE)
    await until(lambda: stage.logged(LOST))
    [dead] = (await engine.dead_jobs(activity="work", prefix="asking:")).items
    assert (dead.attempts, dead.input) == (1, {"id": "a"})
    assert dead.failures == ("DeadlineExceeded: work did not end in time",)
    assert "it has 1 dead job" in await engine.handle("a", decider).explain()
    counted = engine.telemetry.snapshot()
    assert counted.value("perdure_dead_jobs_total", activity="work", tag="default") == 1

    assert await engine.retry_dead_jobs(activity="work") == 1

    await settles(engine, decider, "a", Log(("x",), ("sent",)))
    assert deadlines[0] is not None
    assert deadlines[1:] == [None]
    assert len(stage.logged(LOST)) == 1


async def test_an_effect_that_nobody_starts_in_time_is_a_dead_job(stage: Stage) -> None:
    @activity(start_within=timedelta(milliseconds=50))
    async def work(id: str) -> Done:
        return Done(id, "sent")

    stage.expect_log(LOST + r".* StartedTooLate; dead_jobs\(\) has it")
    stage.expect_log("no live worker serves")
    decider = asking(work)
    deciding = await stage.engine([decider])
    await deciding.execute(decider, Do("a"))
    await until(lambda: stage.logged(LOST))
    [dead] = (await deciding.dead_jobs()).items
    assert (dead.activity, dead.attempts) == ("work", 0)

    await deciding.retry_dead_job(dead.key)
    await stage.engine([work])

    await settles(deciding, decider, "a", Log(("x",), ("sent",)))


async def test_an_effect_whose_deadline_becomes_an_input_is_no_dead_job(stage: Stage) -> None:
    """The turn that ends it knows of the input."""
    gate = Gate()

    @activity(deadline=timedelta(milliseconds=50))
    async def work(id: str) -> None:
        await gate.pass_through()

    decider = asking(work, is_told=True)
    engine = await stage.engine([decider, work])
    await engine.execute(decider, Do("a"))

    await settles(engine, decider, "a", Log(("x",), ("dead work DeadlineExceeded",)))
    assert await engine.count_dead_jobs() == 0


async def test_an_effect_of_a_completed_instance_that_is_late_is_a_dead_job(stage: Stage) -> None:
    gate = Gate()

    @activity(deadline=timedelta(milliseconds=50))
    async def work(id: str) -> None:
        await gate.pass_through()

    class Asking(asking(work)):  # type: ignore[misc]  # a class made by a function
        def is_terminal(self, state: Any, /) -> bool:
            return bool(state.asked)

    stage.expect_log(LOST)
    engine = await stage.engine([Asking, work])
    await engine.execute(Asking, Do("a"))
    await engine.handle("a", Asking).result()

    await until(lambda: stage.logged(LOST))
    assert await engine.count_dead_jobs() == 1


async def test_an_effect_of_a_completed_instance_fails_with_a_warning(stage: Stage) -> None:
    """Its decider decides nothing any more, so `on_dead` is not asked."""
    work = failing("one attempt")

    class Asking(asking(work, is_told=True)):  # type: ignore[misc]  # a class made by a function
        def is_terminal(self, state: Any, /) -> bool:
            return bool(state.asked)

    stage.expect_log(LOST)
    engine = await stage.engine([Asking, work])
    await engine.execute(Asking, Do("a"))
    await engine.handle("a", Asking).result()

    await until(lambda: stage.logged(LOST))
    assert await engine.count_dead_jobs() == 1


async def test_an_effect_that_was_put_back_and_fails_at_once_is_dead_again(stage: Stage) -> None:
    is_final = False

    @activity(retry=Retry(max_attempts=1))
    async def work(id: str) -> Done:
        raise (LookupError if is_final else OSError)("no")

    decider = asking(work)
    stage.expect_log(LOST)
    engine = await stage.engine([decider, work])
    await engine.execute(decider, Do("a"))
    await until_failed(engine, decider)
    [dead] = (await engine.dead_jobs()).items

    is_final = True
    await engine.retry_dead_job(dead.key)

    async def is_dead_again() -> bool:
        found = (await engine.dead_jobs()).items
        return [one.failures for one in found] == [("LookupError: no",)]

    await until(is_dead_again)
    await until(lambda: len(stage.logged(LOST)) == 2)


async def test_a_dead_effect_tells_as_many_attempts_as_its_dead_job(stage: Stage) -> None:
    """Runs that were lost with their workers are attempts too."""
    told: list[int] = []
    gate = Gate()

    @activity(retry=None)
    async def work(ctx: ActivityContext, id: str) -> None:
        if ctx.attempt == 1:
            await gate.pass_through()
        raise OSError

    class Asking(asking(work)):  # type: ignore[misc]  # a class made by a function
        def on_dead(self, effect: DeadEffect, /) -> Do | Done | None:
            told.append(effect.attempts)
            return Done(effect.instance_id, "dead")

    clock = RunningClock()
    first = await stage.engine([Asking, work], clock=clock)
    await first.execute(Asking, Do("a"))
    await gate.reached()
    await crash(first)
    clock.advance(2 * options().lease_for)
    second = await stage.engine([Asking, work], clock=clock)
    await until_failed(second, Asking)
    [dead] = (await second.dead_jobs()).items

    assert (dead.attempts, dead.lost) == (2, 1)
    assert told == [2]
