"""Dead effects of deciders that a person puts back: what they return is an input after all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Never

import pytest

from perdure import ActivityContext, Client, Decision, Engine, Retry, activity, orchestration
from perdure.errors import ActivityError
from tests.engine.stage import Gate, RunningClock, Stage, idle, kinds, options, until
from tests.engine.test_effects import (
    SOON,
    Asked,
    Do,
    Doer,
    Done,
    Ended,
    Log,
    crash,
    settles,
)

DIED = "dead mail OSError"


class Post:
    """An activity that fails until it is repaired, and a decider that asks for it."""

    def __init__(self, retry: Retry = SOON) -> None:
        self.is_repaired = False
        self.runs: list[tuple[int, str]] = []
        self.gate: Gate | None = None

        @activity(retry=retry)
        async def mail(ctx: ActivityContext, id: str) -> Done:
            self.runs.append((ctx.attempt, ctx.idempotency_key))
            if not self.is_repaired:
                raise OSError("down")
            if self.gate is not None:
                await self.gate.pass_through()
            return Done(id, "sent")

        class Mailer(Doer):
            name = "mailer"

            def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
                asked = Decision.accept(Asked("x"))
                return asked if input.what == "end" else asked.effect(mail, input.id)

            def is_terminal(self, state: Log, /) -> bool:
                return len(state.asked) > 1

        self.mail: Any = mail
        self.mailer: Any = Mailer

    async def dies(self, engine: Engine) -> None:
        """Have the effect asked for, and wait until it is dead."""
        await engine.execute(self.mailer, Do("a"), correlation="cart-7")
        await settles(engine, self.mailer, "a", Log(("x",), (DIED,)))

    async def is_retried(self, client: Client) -> None:
        """Put the dead effect back."""
        assert await client.retry_dead_jobs(activity="mail", instance_id="mailer:a") == 1


async def test_a_retried_effect_delivers_its_result_as_an_input(stage: Stage) -> None:
    post = Post()
    engine = await stage.engine([post.mailer, post.mail])
    await post.dies(engine)
    post.is_repaired = True

    await post.is_retried(engine)

    await settles(engine, post.mailer, "a", Log(("x",), (DIED, "sent")))
    last = (await engine.events(post.mailer, "a"))[-1]
    assert (last.cause, last.input_tag, last.correlation) == ("retried:4", "Done", "cart-7")
    history = await engine.handle("a", post.mailer).history()
    assert kinds(history)[-3:] == ["effect_retried", "input_taken", "event_recorded"]
    assert (await engine.dead_jobs()).items == []


async def test_a_retry_has_all_attempts_before_it_and_the_same_key(stage: Stage) -> None:
    post = Post()
    engine = await stage.engine([post.mailer, post.mail])
    await post.dies(engine)
    post.is_repaired = True

    await post.is_retried(engine)
    await settles(engine, post.mailer, "a", Log(("x",), (DIED, "sent")))

    assert [attempt for attempt, _ in post.runs] == [1, 2, 3, 1]
    assert len({key for _, key in post.runs}) == 1


async def test_a_retried_effect_that_dies_again_is_told_and_listed_again(stage: Stage) -> None:
    post = Post()
    engine = await stage.engine([post.mailer, post.mail])
    await post.dies(engine)

    await post.is_retried(engine)

    await settles(engine, post.mailer, "a", Log(("x",), (DIED, DIED)))
    [dead] = (await engine.dead_jobs()).items
    assert (dead.activity, dead.attempts) == ("mail", 3)
    post.is_repaired = True
    await post.is_retried(engine)
    await settles(engine, post.mailer, "a", Log(("x",), (DIED, DIED, "sent")))


async def test_a_worker_without_the_decider_can_run_a_retried_effect(stage: Stage) -> None:
    """Its end goes by the inbox, and the owner's turn decides it."""
    post = Post()
    deciding = await stage.engine([post.mailer])
    mailing = await stage.engine([post.mail])
    await post.dies(deciding)

    await post.is_retried(mailing)
    await settles(deciding, post.mailer, "a", Log(("x",), (DIED, DIED)))
    post.is_repaired = True
    await post.is_retried(mailing)

    await settles(deciding, post.mailer, "a", Log(("x",), (DIED, DIED, "sent")))


async def test_a_worker_that_is_killed_while_it_retries_loses_nothing(stage: Stage) -> None:
    post = Post()
    clock = RunningClock()
    first = await stage.engine([post.mailer, post.mail], clock=clock)
    await post.dies(first)
    post.is_repaired, post.gate = True, Gate()
    await post.is_retried(first)
    await post.gate.reached()
    await crash(first)
    post.gate = None
    clock.advance(2 * options().lease_for)

    second = await stage.engine([post.mailer, post.mail], clock=clock)

    await settles(second, post.mailer, "a", Log(("x",), (DIED, "sent")))
    await idle(second)
    assert (await second.state(post.mailer, "a")).ended == (DIED, "sent")


async def test_a_retried_effect_of_an_instance_that_has_ended_is_run_for_itself(
    stage: Stage,
) -> None:
    post = Post()
    engine = await stage.engine([post.mailer, post.mail])
    await post.dies(engine)
    await engine.execute(post.mailer, Do("a", "end"))
    before = kinds(await engine.handle("a", post.mailer).history())
    post.is_repaired = True

    await post.is_retried(engine)
    await until(lambda: len(post.runs) == 4)
    await idle(engine)

    assert kinds(await engine.handle("a", post.mailer).history()) == before
    assert before[-1] == "completed"
    assert (await engine.dead_jobs()).items == []


async def test_a_retry_that_runs_while_its_instance_ends_means_nothing(stage: Stage) -> None:
    post = Post()
    engine = await stage.engine([post.mailer, post.mail])
    await post.dies(engine)
    post.is_repaired, post.gate = True, Gate()
    await post.is_retried(engine)
    await post.gate.reached()

    await engine.execute(post.mailer, Do("a", "end"))
    post.gate.opened.set()
    await idle(engine)

    history = await engine.handle("a", post.mailer).history()
    assert kinds(history)[-1] == "completed"
    assert "effect_retried" not in kinds(history)


async def test_a_retry_of_an_earlier_incarnation_does_not_reach_the_next_one(
    stage: Stage,
) -> None:
    post = Post()
    engine = await stage.engine([post.mailer, post.mail])
    await post.dies(engine)
    post.is_repaired, post.gate = True, Gate()
    await post.is_retried(engine)
    await post.gate.reached()

    await (await stage.client()).handle("a", post.mailer).delete(force=True)
    await engine.execute(post.mailer, Do("a"))
    post.gate.opened.set()
    await settles(engine, post.mailer, "a", Log(("x",), ("sent",)))
    await idle(engine)

    assert (await engine.state(post.mailer, "a")).ended == ("sent",)


async def test_an_effect_may_be_retried_before_its_death_is_decided(stage: Stage) -> None:
    """Whoever has the decider is away: death and retry wait in one inbox, in order."""
    post = Post()
    first = await stage.engine([post.mailer])
    stage.expect_log("no live worker serves activity 'mail'")
    await first.execute(post.mailer, Do("a"))
    await until(lambda: stage.logged("no live worker serves activity 'mail'"))
    await first.close()
    mailing = await stage.engine([post.mail])

    async def is_dead() -> bool:
        return await mailing.count_dead_jobs() == 1

    await until(is_dead)
    post.is_repaired = True
    await post.is_retried(mailing)
    await until(lambda: len(post.runs) == 4)
    await idle(mailing)

    second = await stage.engine([post.mailer])

    await settles(second, post.mailer, "a", Log(("x",), (DIED, "sent")))


async def test_a_deadline_that_is_long_past_is_none_of_a_retry(stage: Stage) -> None:
    left: list[object] = []
    works: list[bool] = []

    @activity(retry=SOON, deadline=timedelta(hours=1))
    async def limited(ctx: ActivityContext, id: str) -> Done:
        left.append(ctx.deadline)
        if not works:
            raise OSError("down")
        return Done(id, "sent")

    class Limited(Doer):
        name = "limited"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(limited, input.id)

    engine = await stage.engine([Limited, limited])
    await engine.execute(Limited, Do("a"))
    await settles(engine, Limited, "a", Log(("x",), ("dead limited OSError",)))
    works.append(True)
    await engine.retry_dead_jobs()

    await settles(engine, Limited, "a", Log(("x",), ("dead limited OSError", "sent")))
    assert None not in left[:3]
    assert left[3:] == [None]


async def test_a_call_of_an_orchestration_stays_failed_when_its_job_is_retried(
    stage: Stage,
) -> None:
    post, gate = Post(), Gate()

    @activity
    async def wait() -> None:
        await gate.pass_through()

    @orchestration
    async def mailing() -> str:
        try:
            await post.mail("a")
        except ActivityError as error:
            await wait()
            return error.type_name
        return "sent"

    engine = await stage.engine([mailing, post.mail, wait])
    handle = await engine.start("m", mailing)
    await gate.reached()
    post.is_repaired = True
    assert await engine.retry_dead_jobs(activity="mail") == 1
    await until(lambda: len(post.runs) == 4)
    await idle(engine)
    gate.opened.set()

    assert await handle.result() == "OSError"
    assert "effect_retried" not in kinds(await handle.history())


@pytest.mark.parametrize("is_repaired", [True, False], ids=["returns", "dies again"])
async def test_effects_in_order_go_on_beside_one_that_is_retried(
    stage: Stage, is_repaired: bool
) -> None:
    works: list[bool] = []
    second = Gate()

    @activity(retry=SOON)
    async def step(id: str, number: int) -> Done:
        if number == 1 and not works:
            raise OSError("down")
        if number == 2:
            await second.pass_through()
        return Done(id, str(number))

    class Steps(Doer):
        name = "steps"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            first = Decision.accept(Asked("x")).effect(step, input.id, 1)
            return first.effect(step, input.id, 2).effect(step, input.id, 3).in_order()

    engine = await stage.engine([Steps, step])
    await engine.execute(Steps, Do("a"))
    died = "dead step OSError"
    await settles(engine, Steps, "a", Log(("x",), (died,)))
    await second.reached()
    works += [True] * is_repaired

    await engine.retry_dead_jobs()
    late = "1" if is_repaired else died
    await settles(engine, Steps, "a", Log(("x",), (died, late)))
    second.opened.set()

    await settles(engine, Steps, "a", Log(("x",), (died, late, "2", "3")))
    assert replace(await engine.state(Steps, "a"), ended=()) == Log(("x",))
