"""Effects: activities that decisions ask for, and what comes back of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Never

import pytest

from perdure import (
    Accepted,
    ActivityContext,
    AlreadyCompleted,
    Client,
    Decider,
    Decision,
    Engine,
    Handle,
    Retry,
    activity,
)
from perdure.authoring.deciders.decider import DeadEffect
from perdure.authoring.deciders.decision import Acceptance
from perdure.errors import DefinitionError, InstanceEndedError, UsageError
from tests.engine.shop import Basket, BasketState, Bought, Buy, ChargeFailed, charge
from tests.engine.stage import Gate, RunningClock, Stage, kinds, options, until

SOON = Retry(max_attempts=3, first_delay=timedelta(0), jitter=0)


async def settles(client: Client, decider: Any, instance_id: str, expected: Any) -> None:
    """Wait until an instance has a state."""

    async def look() -> bool:
        return bool(await client.state(decider, instance_id) == expected)

    await until(look)


async def until_state(client: Client, decider: Any, instance_id: str, holds: Any) -> Any:
    """Wait until a state is as wanted, and return it."""
    found: list[Any] = []

    async def look() -> bool:
        found[:] = [await client.state(decider, instance_id)]
        return bool(holds(found[0]))

    await until(look)
    return found[0]


# --------------------------------------------------------------- deciders of these tests


@dataclass(frozen=True)
class Do:
    id: str
    what: str = ""


@dataclass(frozen=True)
class Done:
    id: str
    what: str


@dataclass(frozen=True)
class Asked:
    what: str


@dataclass(frozen=True)
class Ended:
    what: str


@dataclass(frozen=True)
class Log:
    asked: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


class Doer(Decider[Log, Do | Done, Asked | Ended, Never]):
    """Asks for the effects of a subclass, and takes note of what comes back."""

    def initial(self) -> Log:
        return Log()

    def instance_id(self, input: Do | Done, /) -> str:
        return input.id

    def decide(
        self, state: Log, input: Do | Done, now: datetime, /
    ) -> Decision[Do | Done, Asked | Ended, Never]:
        if isinstance(input, Done):
            return Decision.accept(Ended(input.what))
        return self.ask(input)

    def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
        raise NotImplementedError

    def evolve(self, state: Log, event: Asked | Ended, /) -> Log:
        if isinstance(event, Asked):
            return replace(state, asked=(*state.asked, event.what))
        return replace(state, ended=(*state.ended, event.what))

    def on_dead(self, effect: DeadEffect, /) -> Do | Done | None:
        return Done(effect.instance_id, f"dead {effect.activity} {effect.type_name}")


# ------------------------------------------------------------------------------- results


async def test_what_an_effect_returns_is_the_next_input(stage: Stage) -> None:
    engine = await stage.engine([Basket, charge])

    answer = await engine.execute(Basket, Buy("b-1", "book"))
    state = await until_state(engine, Basket, "b-1", lambda state: state.settled)

    assert answer == Accepted((Bought("book"),), BasketState(items=("book",)), 1)
    assert len(state.settled) == 1
    [_, settled] = await engine.events(Basket, "b-1")
    assert (settled.tag, settled.input_tag) == ("Settled", "Charged")
    assert settled.cause == "effect:4"
    history = await engine.handle("b-1", Basket).history()
    assert kinds(history) == [
        "started",
        "input_taken",
        "event_recorded",
        "effect_scheduled",
        "activity_completed",
        "input_taken",
        "event_recorded",
    ]


async def test_an_effect_that_returns_nothing_is_just_over(stage: Stage) -> None:
    engine = await stage.engine([Basket, charge])
    await engine.execute(Basket, Buy("b-1", "free"))

    async def is_over() -> bool:
        return not await engine.handle("b-1", Basket).jobs()

    await until(is_over)
    assert await engine.state(Basket, "b-1") == BasketState(items=("free",))
    assert "waits for its next input" in await engine.handle("b-1", Basket).explain()


async def test_an_effect_knows_whose_it_is_and_which_attempt(stage: Stage) -> None:
    seen: list[tuple[str, int, str, str, str, datetime]] = []

    @activity(retry=SOON)
    async def work(ctx: ActivityContext, id: str) -> Done:
        seen.append(
            (
                ctx.instance_id,
                ctx.attempt,
                ctx.idempotency_key,
                ctx.orchestration,
                ctx.orchestration_version,
                ctx.scheduled_at,
            )
        )
        if ctx.attempt < 3:
            raise ConnectionError
        return Done(id, ctx.idempotency_key)

    class Worker(Doer):
        name = "worker"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(work, input.id)

    engine = await stage.engine([Worker, work])
    before = datetime.now(UTC)
    await engine.execute(Worker, Do("a"))
    state = await until_state(engine, Worker, "a", lambda state: state.ended)

    assert [one[:2] for one in seen] == [("worker:a", 1), ("worker:a", 2), ("worker:a", 3)]
    assert {one[2] for one in seen} == set(state.ended)
    assert {one[3:5] for one in seen} == {("worker", "")}
    assert all(before - timedelta(seconds=1) < one[5] < datetime.now(UTC) for one in seen)


async def test_options_of_an_effect_are_those_of_the_activity(stage: Stage) -> None:
    ran: list[tuple[str | None, str | None]] = []

    @activity
    async def work(ctx: ActivityContext, id: str) -> None:
        ran.append((ctx.tag, ctx.session))

    class Tagged(Doer):
        name = "tagged"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            special = work.with_options(tag="gpu", session="s-1", deadline=timedelta(hours=1))
            return Decision.accept(Asked("x")).effect(special, input.id)

    stage.expect_log("no live worker serves activity 'work' with tag 'gpu'")
    engine = await stage.engine([Tagged, work])
    await engine.execute(Tagged, Do("a"))
    explained = await engine.handle("a", Tagged).explain()
    await until(lambda: stage.logged("no live worker serves activity 'work'"))
    await stage.engine([work], options=options(tags=[None, "gpu"]))
    await until(lambda: ran)

    assert "no live worker serves activity 'work' with tag 'gpu'" in explained
    assert ran == [("gpu", "s-1")]


async def test_an_effect_goes_on_from_its_last_heartbeat(stage: Stage) -> None:
    @activity(retry=SOON)
    async def copy(ctx: ActivityContext, id: str) -> Done:
        page = ctx.last_details(int) or 0
        ctx.heartbeat(page + 1)
        if page < 2:
            raise ConnectionError
        return Done(id, f"from page {page}")

    class Copier(Doer):
        name = "copier"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(copy, input.id)

    engine = await stage.engine([Copier, copy])
    await engine.execute(Copier, Do("a"))

    await settles(engine, Copier, "a", Log(("x",), ("from page 2",)))


async def test_a_failure_that_is_final_is_not_tried_again(stage: Stage) -> None:
    tries: list[int] = []

    @activity(retry=replace(SOON, no_retry=(LookupError,)))
    async def find(ctx: ActivityContext, id: str) -> None:
        tries.append(ctx.attempt)
        raise KeyError(id)

    class Finder(Doer):
        name = "finder"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(find, input.id)

    engine = await stage.engine([Finder, find])
    await engine.execute(Finder, Do("a"))

    await settles(engine, Finder, "a", Log(("x",), ("dead find KeyError",)))
    assert tries == [1]


async def test_an_effect_past_its_deadline_is_dead(stage: Stage) -> None:
    gate = Gate()

    @activity(deadline=timedelta(milliseconds=50))
    async def slow(id: str) -> None:
        await gate.pass_through()

    class Patient(Doer):
        name = "patient"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(slow, input.id)

    engine = await stage.engine([Patient, slow])
    await engine.execute(Patient, Do("a"))
    state = await until_state(engine, Patient, "a", lambda state: state.ended)

    assert state.ended == ("dead slow DeadlineExceeded",)
    assert await engine.handle("a", Patient).jobs() == []


async def test_an_effect_may_run_in_a_thread(stage: Stage) -> None:
    @activity
    def work(id: str) -> Done:
        return Done(id, "from a thread")

    class Threaded(Doer):
        name = "threaded"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(work, input.id)

    engine = await stage.engine([Threaded, work])
    await engine.execute(Threaded, Do("a"))

    await settles(engine, Threaded, "a", Log(("x",), ("from a thread",)))


async def test_a_worker_that_does_not_know_the_decider_can_run_its_effects(stage: Stage) -> None:
    deciding = await stage.engine([Basket])
    stage.expect_log("no live worker serves activity 'charge'")
    await deciding.execute(Basket, Buy("b-1", "book"))
    await until(lambda: stage.logged("no live worker serves activity 'charge'"))
    await stage.engine([charge])

    await until_state(deciding, Basket, "b-1", lambda state: state.settled)


async def test_effects_of_a_client_without_a_worker_are_run_by_workers(stage: Stage) -> None:
    client = await stage.client()
    stage.expect_log("no live worker serves activity 'charge'")
    stage.expect_log("no live worker serves decider 'basket'")
    await client.execute(Basket, Buy("b-1", "book"))
    await until(lambda: len(stage.logged("no live worker serves")) == 2)
    await stage.engine([Basket, charge])

    state = await until_state(client, Basket, "b-1", lambda state: state.settled)
    answer = await client.execute(Basket, Buy("b-1", "pen"))

    assert isinstance(answer, Accepted)
    assert answer.state == replace(state, items=("book", "pen"))


async def test_an_input_for_another_instance_is_sent_there(stage: Stage) -> None:
    @activity
    async def work(id: str) -> Done:
        return Done("other", id)

    class Routing(Doer):
        name = "routing"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(work, input.id)

    engine = await stage.engine([Routing, work])
    await engine.execute(Routing, Do("a"))

    async def has_come() -> bool:
        return await engine.count(ids=["routing:other"]) == 1

    await until(has_come)
    await settles(engine, Routing, "other", Log((), ("a",)))
    assert await engine.state(Routing, "a") == Log(("x",))


# ------------------------------------------------------------------------------ in order


async def test_effects_in_order_wait_for_each_other(stage: Stage) -> None:
    first, log = Gate(), []

    @activity
    async def step(id: str, what: str) -> None:
        log.append(f"begin {what}")
        if what == "one":
            await first.pass_through()
        log.append(f"end {what}")

    class Ordered(Doer):
        name = "ordered"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            decision = Decision.accept(Asked("x"))
            return (
                decision.effect(step, input.id, "one")
                .effect(step, input.id, "two")
                .effect(step, input.id, "three")
                .in_order()
            )

    engine = await stage.engine([Ordered, step])
    await engine.execute(Ordered, Do("a"))
    await first.reached()
    explained = await engine.handle("a", Ordered).explain()
    first.opened.set()
    await until(lambda: len(log) == 6)

    assert "effect 'step', after the one before it" in explained
    assert log == ["begin one", "end one", "begin two", "end two", "begin three", "end three"]


# --------------------------------------------------------------------------- dead effects


async def test_a_dead_effect_delivers_its_failure_as_an_input(stage: Stage) -> None:
    engine = await stage.engine([Basket, charge])
    await engine.execute(Basket, Buy("b-1", "broken"))

    state = await until_state(engine, Basket, "b-1", lambda state: state.lost)

    assert state.lost == ("ValueError: no such card",)
    [_, lost] = await engine.events(Basket, "b-1")
    assert lost.cause == "dead:4"
    assert lost.input == ChargeFailed("b-1", "ValueError: no such card")


async def test_a_dead_effect_is_listed_counted_and_can_be_retried(stage: Stage) -> None:
    works: list[bool] = []

    @activity(retry=SOON)
    async def flaky(id: str) -> Done:
        if not works:
            raise ConnectionError("down")
        return Done(id, "late")

    class Flaky(Doer):
        name = "flaky"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(flaky, input.id)

    engine = await stage.engine([Flaky, flaky])
    await engine.execute(Flaky, Do("a"))
    await settles(engine, Flaky, "a", Log(("x",), ("dead flaky ConnectionError",)))
    [dead] = (await engine.dead_jobs()).items

    assert (dead.instance_id, dead.activity, dead.attempts) == ("flaky:a", "flaky", 3)
    assert (await engine.dead_jobs(prefix="flaky:", activity="flaky")).items == [dead]
    assert (await engine.dead_jobs(instance_id="flaky:b")).items == []
    assert await engine.count_dead_jobs(prefix="flaky:") == 1
    assert await engine.count_dead_jobs(activity="other") == 0
    with pytest.raises(UsageError, match="no filter 'name'; known: activity, tag"):
        await engine.count_dead_jobs(name="flaky")  # type: ignore[call-arg]  # refused here too
    assert "it has 1 dead job" in await engine.handle("a", Flaky).explain()
    works.append(True)
    assert await engine.retry_dead_jobs(activity="flaky", instance_id="flaky:a") == 1
    await settles(engine, Flaky, "a", Log(("x",), ("dead flaky ConnectionError", "late")))
    assert await engine.handle("a", Flaky).jobs() == []
    assert (await engine.dead_jobs()).items == []


async def test_a_decider_without_on_dead_goes_on(stage: Stage) -> None:
    @activity(retry=None)
    async def broken(id: str) -> None:
        raise ValueError("never")

    class Deaf(Doer):
        name = "deaf"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(broken, input.id)

        def on_dead(self, effect: DeadEffect, /) -> Do | Done | None:
            return None

    stage.expect_log("effect 'broken' of decider 'deaf' failed for good")
    engine = await stage.engine([Deaf, broken])
    await engine.execute(Deaf, Do("a"))

    async def has_failed() -> bool:
        return "activity_failed" in kinds(await engine.handle("a", Deaf).history())

    await until(has_failed)
    answer = await engine.execute(Deaf, Do("a"))
    assert isinstance(answer, Accepted)


# -------------------------------------------------------------------------------- crashes


async def crash(engine: Engine) -> None:
    """End the signs of life of an engine as a crash would: nothing is given back or renewed."""
    serving = engine._serving
    await serving._end_loops(list(serving._tasks))
    await asyncio.to_thread(serving._leases.stop)


async def test_effects_that_were_open_at_a_crash_are_run_by_the_next_worker(stage: Stage) -> None:
    gate = Gate()
    ran: list[int] = []

    @activity
    async def work(ctx: ActivityContext, id: str, number: int) -> Done:
        if ctx.worker_id == "first":
            await gate.pass_through()
        ran.append(number)
        return Done(id, str(number))

    class Crashing(Doer):
        name = "crashing"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            decision: Acceptance[Do | Done, Asked | Ended] = Decision.accept(Asked("x"))
            for number in range(5):
                decision = decision.effect(work, input.id, number)
            return decision

    clock = RunningClock()
    first = await stage.engine([Crashing, work], options=options(name="first"), clock=clock)
    answer = await first.execute(Crashing, Do("a"), input_id="req-1")
    await gate.reached()
    await crash(first)
    clock.advance(2 * options().lease_for)
    second = await stage.engine([Crashing, work], clock=clock)

    state = await until_state(second, Crashing, "a", lambda state: len(state.ended) == 5)

    assert sorted(state.ended) == ["0", "1", "2", "3", "4"]
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert await second.execute(Crashing, Do("a"), input_id="req-1") == answer
    assert len((await second.state(Crashing, "a")).asked) == 1


async def test_a_completed_instance_waits_for_its_last_effects_and_takes_no_inputs(
    stage: Stage,
) -> None:
    gate = Gate()

    @activity
    async def say_goodbye(id: str) -> None:
        await gate.pass_through()

    class Short(Doer):
        name = "short"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(say_goodbye, input.id)

        def is_terminal(self, state: Log, /) -> bool:
            return bool(state.asked)

    engine = await stage.engine([Short, say_goodbye])
    await engine.execute(Short, Do("a"))
    await gate.reached()

    assert await engine.execute(Short, Do("a")) == AlreadyCompleted()
    assert (await engine.handle("a", Short).info()).status == "running"
    gate.opened.set()
    await engine.handle("a", Short).result()
    assert (await engine.handle("a", Short).info()).status == "completed"


async def test_nothing_is_sent_to_an_instance_that_has_completed_and_waits_for_its_effects(
    stage: Stage,
) -> None:
    gate = Gate()

    @activity
    async def say_goodbye(id: str) -> None:
        await gate.pass_through()

    class Short(Doer):
        name = "short"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(say_goodbye, input.id)

        def is_terminal(self, state: Log, /) -> bool:
            return bool(state.asked)

    engine = await stage.engine([Short, say_goodbye])
    elsewhere = await stage.client()
    await engine.execute(Short, Do("a"), input_id="req-1")
    await gate.reached()

    with pytest.raises(InstanceEndedError, match=r"'short:a' has ended \(completed\)"):
        await engine.send(Short, Do("a"))
    await engine.send(Short, Do("a"), input_id="req-1")
    await elsewhere.send(Short, Do("a"), input_id="req-2")
    handle = engine.handle("a", Short)
    await until(lambda: has_rejected(handle))
    gate.opened.set()
    await handle.result()

    [rejected] = [event for event in await handle.history() if event.kind == "input_rejected"]
    assert rejected.data["tag"] == "perdure.completed"
    assert await engine.execute(Short, Do("a"), input_id="req-2") == AlreadyCompleted()


async def has_rejected(handle: Handle[Any]) -> bool:
    return any(event.kind == "input_rejected" for event in await handle.history())


async def test_terminating_stops_the_effects_that_run(stage: Stage) -> None:
    gate = Gate()
    stopped = asyncio.Event()

    @activity
    async def endless(id: str) -> None:
        try:
            await gate.pass_through()
        finally:
            stopped.set()

    class Endless(Doer):
        name = "endless"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(endless, input.id)

    engine = await stage.engine([Endless, endless])
    await engine.execute(Endless, Do("a"))
    await gate.reached()

    await engine.handle("a", Endless).terminate("enough")

    await stopped.wait()
    assert (await engine.handle("a", Endless).info()).status == "terminated"
    assert await engine.execute(Endless, Do("a")) == AlreadyCompleted()


async def test_an_effect_that_returns_no_input_is_refused_when_it_is_decided(stage: Stage) -> None:
    @activity
    async def counts(id: str) -> int:
        return 1

    class Wrong(Doer):
        name = "wrong"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            wrong: Any = counts
            return Decision.accept(Asked("x")).effect(wrong, input.id)

    engine = await stage.engine([Wrong, counts])

    with pytest.raises(DefinitionError, match=r"effect 'counts' of decider 'wrong' returns int"):
        await engine.execute(Wrong, Do("a"))
