"""Going back and branching off, from end to end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    Defined,
    Engine,
    Handle,
    Signal,
    Status,
    Update,
    activity,
    context,
    orchestration,
)
from perdure.authoring.registry import Registry
from perdure.checking.invariants import check
from perdure.errors import (
    AlreadyExistsError,
    InstanceCancelledError,
    InstanceFailedError,
    InstanceNotFoundError,
    InstanceRunningError,
    InstanceTerminatedError,
    PayloadError,
    UnexpectedCountError,
    UsageError,
)
from perdure.repair import Point, after, at_event, before
from tests.engine.accounts import Account, Deposit
from tests.engine.stage import Gate, Stage, idle, is_waiting, kinds, options, until, waits_for

COLD = options(hot_instances=0)

word = Signal("word", str)


@dataclass
class Outside:
    """What is around the orchestrations of one test."""

    is_down: bool = False
    calls: list[str] = field(default_factory=list)
    gate: Gate = field(default_factory=Gate)


outside = Outside()


@pytest.fixture(autouse=True)
def fresh_outside() -> None:
    global outside
    outside = Outside()


@activity
async def price(item: str) -> int:
    outside.calls.append(f"price {item}")
    return len(item)


@activity
async def charge(amount: int, order: str) -> str:
    outside.calls.append(f"charge {amount}")
    if outside.is_down:
        raise ConnectionError("the bank is down")
    return f"paid {amount} for {order}"


@activity
async def slow(item: str) -> str:
    outside.calls.append(f"slow {item}")
    await outside.gate.pass_through()
    return f"slowly {item}"


@orchestration
async def checkout(item: str) -> str:
    ctx = context()
    order = str(ctx.uuid())
    ctx.kv["order"] = order
    amount = await price(item)
    ctx.kv["amount"] = amount
    ctx.report("charging")
    paid = await charge(amount, order)
    ctx.kv["paid"] = paid
    ctx.report("done")
    return paid


@orchestration
async def talk(count: int) -> list[str]:
    heard = []
    for _ in range(count):
        heard.append(await word.receive())
        context().kv["heard"] = len(heard)
        await price(heard[-1])
    return heard


@orchestration
async def fetch(item: str) -> str:
    return await slow(item)


@orchestration
async def below(item: str) -> str:
    return f"{await slow(item)} in {context().instance_id}"


@orchestration
async def above(item: str) -> str:
    first = await price(item)
    return f"{first} {await below(item)}"


@orchestration
async def above_named(item: str) -> str:
    await price(item)
    return await below.with_options(instance_id=f"{context().instance_id}-below")(item)


@orchestration
async def twice(left: int) -> str:
    await price("x" * left)
    if left > 1:
        twice.continue_as_new(left - 1)
    return await charge(left, "twice")


ALL: list[Defined] = [price, charge, slow, checkout, talk, fetch, below, above, above_named, twice]


async def failed(stage: Stage, id: str = "c-1", *, cold: bool = False) -> Handle[str]:
    """Return an instance whose bank was down, and is up again."""
    engine = await stage.engine(ALL, options=COLD) if cold else await stage.engine(ALL)
    outside.is_down = True
    handle = await engine.start(id, checkout, "book")
    with pytest.raises(InstanceFailedError):
        await handle.result()
    outside.is_down = False
    return handle


# ------------------------------------------------------------------------ reset


@pytest.mark.parametrize("cold", [False, True], ids=["hot", "cold"])
async def test_what_failed_goes_on_from_just_before_what_it_failed_at(
    stage: Stage, cold: bool
) -> None:
    handle = await failed(stage, cold=cold)
    order = (await handle.kv())["order"]

    await handle.reset(reason="the bank was down")

    assert await handle.result() == f"paid 4 for {order}"
    assert outside.calls == ["price book", "charge 4", "charge 4"]
    assert kinds(await handle.history(1))[-2:] == ["activity_failed", "failed"]
    recorded = await handle.history()
    [back] = [event for event in recorded if event.kind == "went_back"]
    assert back.data["reason"] == "the bank was down"
    assert (await handle.info()).execution == 2


async def test_the_row_says_that_it_was_reset_and_why(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", checkout, "book")
    await handle.result()
    await engine.close()
    client = await stage.client()
    handle = client.handle("c-1", checkout)

    await handle.reset(before(charge), reason="wrong card")

    info = await handle.info()
    assert info.status is Status.RUNNING
    assert info.ended_at is None
    assert info.output is None
    assert info.reason == "reset to event 3: wrong card"
    # What it keeps went back with it.
    assert list(await handle.kv()) == ["order"]
    assert (await handle.report()).value is None  # type: ignore[union-attr]  # it had one


async def test_a_result_before_the_point_is_kept(stage: Stage) -> None:
    handle = await failed(stage)

    await handle.reset(before(charge))
    await handle.result()

    assert outside.calls == ["price book", "charge 4", "charge 4"]
    assert (await handle.kv())["amount"] == 4


async def test_a_call_is_made_again_from_its_start(stage: Stage) -> None:
    handle = await failed(stage)
    order = (await handle.kv())["order"]

    await handle.reset(before(price))
    await handle.result()

    assert outside.calls == ["price book", "charge 4", "price book", "charge 4"]
    # It starts over, so its ids are new.
    assert (await handle.kv())["order"] != order


async def test_a_result_can_be_edited(stage: Stage) -> None:
    handle = await failed(stage)

    await handle.reset(after(price).returning(7))
    paid = await handle.result()

    assert paid.startswith("paid 7")
    [edited] = [event for event in await handle.history() if event.data.get("edited")]
    assert edited.data["result"] == 7


async def test_the_result_of_a_call_that_failed_can_be_put_in_its_place(stage: Stage) -> None:
    handle = await failed(stage)

    await handle.reset(after(charge).returning("paid in cash"))

    assert await handle.result() == "paid in cash"
    assert outside.calls == ["price book", "charge 4"]


async def test_code_that_raised_gets_the_same_message_again(stage: Stage) -> None:
    @orchestration
    async def breaks(item: str) -> int:
        found = await price(item)
        raise RuntimeError(f"a bug, with {found}")

    @orchestration(name="breaks")
    async def mended(item: str) -> int:
        return await price(item)

    engine = await stage.engine([breaks, price])
    with pytest.raises(InstanceFailedError):
        await (await engine.start("b-1", breaks, "book")).result()
    await engine.close()
    engine = await stage.engine([mended, price])
    handle = engine.handle("b-1", mended)

    await handle.reset()

    assert await handle.result() == 4
    assert outside.calls == ["price book"]


async def test_what_was_stopped_goes_on_as_if_nobody_had_asked(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    for no, error in (("f-1", InstanceCancelledError), ("f-2", InstanceTerminatedError)):
        outside.gate = Gate()
        handle = await engine.start(no, fetch, "it")
        await outside.gate.reached()
        await (handle.cancel() if no == "f-1" else handle.terminate())
        with pytest.raises(error):
            await handle.result()
        outside.gate = Gate()
        outside.gate.opened.set()

        await handle.reset()

        assert await handle.result() == "slowly it"


@pytest.mark.parametrize("point", [None, at_event(1), at_event(2)], ids=["none", "1", "2"])
@pytest.mark.parametrize("way", ["reset", "fork"])
async def test_what_was_stopped_before_its_first_turn_begins_when_it_goes_back(
    stage: Stage, point: Point | None, way: str
) -> None:
    client = await stage.client()
    handle = await client.start("c-1", checkout, "book")
    await handle.terminate("too early")
    assert kinds(await handle.history()) == ["started", "terminated"]

    assert (await handle.plan(point)).kept_events == 0
    if way == "fork":
        handle = await handle.fork("c-2", point)
    else:
        await handle.reset(point)
        # And again, before a worker has come.
        await handle.terminate("too early once more")
        await handle.reset(point)

    await stage.engine(ALL)
    order = await handle.wait_kv("order")
    assert await handle.result() == f"paid 4 for {order}"


async def test_every_event_of_a_history_is_a_point(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", checkout, "book")
    await handle.result()
    events = len(await handle.history())

    for number in range(1, events + 1):
        other = await handle.fork(f"fork-{number}", at_event(number))
        assert (await other.result()).startswith("paid 4")
        await handle.reset(at_event(min(number, len(await handle.history()))))
        assert (await handle.result()).startswith("paid 4")

    assert (await handle.info()).execution == events + 1
    assert await check(engine._core.store) == []


async def test_a_running_instance_is_reset_and_late_results_reach_nobody(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("f-1", fetch, "it")
    first = outside.gate
    await first.reached()
    outside.gate = second = Gate()

    await handle.reset(before(slow))
    await second.reached()
    first.opened.set()
    await idle(engine)
    assert (await handle.info()).status is Status.RUNNING
    second.opened.set()

    assert await handle.result() == "slowly it"
    assert outside.calls == ["slow it", "slow it"]


async def test_a_reset_call_has_another_idempotency_key(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("f-1", fetch, "it")
    await outside.gate.reached()
    [first] = await handle.jobs()
    outside.gate = Gate()

    await handle.reset(at_event(2))
    await outside.gate.reached()

    [second] = await handle.jobs()
    assert second.key != first.key
    outside.gate.opened.set()
    await handle.result()


async def test_signals_behind_the_point_come_again_in_order(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("t-1", talk, 4)
    for one in ("a", "b", "c", "d"):
        await handle.send(word, one)
    assert await handle.result() == ["a", "b", "c", "d"]

    await handle.reset(before(price, nth=0))

    assert await handle.result() == ["a", "b", "c", "d"]
    await handle.reset(before(price, nth=2))
    assert await handle.result() == ["a", "b", "c", "d"]


async def test_signals_that_wait_stay_behind_those_that_come_again(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("t-1", talk, 4)
    await handle.send(word, "a")
    await handle.send(word, "b")
    await until(lambda: len(outside.calls) == 2)
    await idle(engine)
    await engine.close()
    client = await stage.client()
    handle = client.handle("t-1", talk)
    await handle.send(word, "c")

    await handle.reset(at_event(2))
    await handle.send(word, "d")

    await stage.engine(ALL)
    assert await handle.result() == ["a", "b", "c", "d"]


async def test_a_timer_keeps_its_time(stage: Stage) -> None:
    @orchestration
    async def naps() -> str:
        await price("x")
        await asyncio.sleep(timedelta(days=30).total_seconds())
        return "rested"

    engine = await stage.engine([naps, price])
    handle = await engine.start("n-1", naps)
    await waits_for(handle, "timer")
    [due] = [event.data["due_ms"] for event in await handle.history() if "due_ms" in event.data]

    await handle.reset(at_event(4))
    await until(lambda: is_again(handle))

    [timer] = [one for one in await engine.inbox("n-1") if one.kind == "timer_fired"]
    assert round(timer.at.timestamp() * 1000) == due
    await handle.terminate()


async def is_again(handle: Handle[Any]) -> bool:
    return "went_back" in kinds(await handle.history())


# --------------------------------------------------------------------- children


async def test_a_child_that_was_open_is_stopped_and_started_again_under_another_id(
    stage: Stage,
) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("a-1", above_named, "it")
    await outside.gate.reached()
    outside.gate = Gate()
    outside.gate.opened.set()

    await handle.reset(at_event(4))
    result = await handle.result()

    assert result.startswith("slowly it in a-1-below~")
    await until(lambda: ended_as(engine.handle("a-1-below"), Status.CANCELLED))


async def ended_as(handle: Handle[Any], status: Status) -> bool:
    return (await handle.info()).status is status


async def test_a_child_whose_id_is_given_by_the_code_can_be_called_again(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    outside.gate.opened.set()
    handle = await engine.start("a-1", above_named, "it")
    assert await handle.result() == "slowly it in a-1-below"

    await handle.reset(before(below))

    assert (await handle.result()).startswith("slowly it in a-1-below~")


async def test_a_child_that_had_ended_is_a_result(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    outside.gate.opened.set()
    handle = await engine.start("a-1", above, "it")
    result = await handle.result()

    await handle.reset(after(below))

    assert await handle.result() == result
    assert outside.calls == ["price it", "slow it"]


async def test_a_parent_hears_of_a_reset_child_once(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    parent = await engine.start("a-1", above, "it")
    await outside.gate.reached()
    child = await only_child(engine, parent)
    outside.gate = Gate()
    await child.reset(before(slow))
    outside.gate.opened.set()
    assert (await parent.result()).startswith("2 slowly it")

    await child.reset(before(slow))

    assert (await child.result()).startswith("slowly it")
    assert (await parent.info()).status is Status.COMPLETED


async def only_child(engine: Engine, parent: Handle[Any]) -> Handle[Any]:
    [child] = (await parent.tree()).children
    return engine.handle(child.info.instance_id)


# ------------------------------------------------------------------------- fork


async def test_a_fork_goes_on_beside_the_original(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("f-1", fetch, "it")
    await outside.gate.reached()

    other = await handle.fork("f-2", at_event(2))
    await until(lambda: outside.calls == ["slow it", "slow it"])
    outside.gate.opened.set()

    assert await handle.result() == "slowly it"
    assert await other.result() == "slowly it"
    assert (await handle.info()).execution == 1
    assert (await other.info()).parent_id is None


async def test_an_explanation_tells_from_where_an_instance_goes_on(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("f-1", fetch, "it")
    await outside.gate.reached()

    other = await handle.fork("f-2", at_event(2))
    anew = await handle.fork("f-3", at_event(1))
    await handle.reset(at_event(2), reason="the shelf was empty")
    for one in (handle, other, anew):
        await waits_for(one, "activity 'slow'")

    reset = ", execution 2, reset to event 2 of execution 1: the shelf was empty) waits for"
    assert reset in await handle.explain()
    assert ", forked at event 2 of 'f-1') waits for" in await other.explain()
    assert ", forked at the start of 'f-1') waits for" in await anew.explain()
    outside.gate.opened.set()
    for one in (handle, other, anew):
        await one.result()
        assert "forked" not in await one.explain()


async def test_a_fork_draws_other_ids_behind_the_point(stage: Stage) -> None:
    @orchestration
    async def draws() -> list[str]:
        ctx = context()
        drawn = [str(ctx.uuid()), str(ctx.random.random())]
        await price("x")
        return [*drawn, str(ctx.uuid()), str(ctx.random.random()), ctx.instance_id]

    engine = await stage.engine([draws, price])
    handle = await engine.start("d-1", draws)
    first = await handle.result()

    second = await (await handle.fork("d-2", after(price))).result()

    assert second[:2] == first[:2]
    assert not set(second[2:]) & set(first[2:])
    assert second[4] == "d-2"


async def test_a_prefix_that_names_the_old_id_still_fits_a_fork(stage: Stage) -> None:
    @orchestration
    async def names_itself() -> str:
        first = await charge(1, context().instance_id)
        return f"{first}, {await charge(2, context().instance_id)}"

    engine = await stage.engine([names_itself, charge])
    handle = await engine.start("n-1", names_itself)
    await handle.result()

    other = await handle.fork("n-2", before(charge))

    assert await other.result() == "paid 1 for n-1, paid 2 for n-2"


@pytest.mark.parametrize("hot", [100, 0])
async def test_code_is_told_whose_id_it_had_before_it_was_forked(stage: Stage, hot: int) -> None:
    def told() -> str:
        origin = context().origin
        return "none" if origin is None else f"{origin.instance_id} {origin.execution}"

    @orchestration
    async def looks_back() -> list[str]:
        seen = [told()]
        for _ in range(3):
            # As arguments: they are compared with what is recorded, where nothing was taken over.
            await charge(len(seen), seen[-1])
            seen.append(told())
        return seen

    engine = await stage.engine([looks_back, charge], options=options(hot_instances=hot))
    handle = await engine.start("l-1", looks_back)
    assert await handle.result() == ["none"] * 4

    # The code stood still at the call before the point, whose result it gets again.
    fork = await handle.fork("l-2", before(charge, nth=1))
    assert await fork.result() == ["none", "l-1 1", "l-1 1", "l-1 1"]
    await fork.reset(before(charge))
    assert await fork.result() == ["none", "l-1 1", "l-2 1", "l-2 1"]
    again = await handle.fork("l-3", at_event(1))
    assert await again.result() == ["none"] * 4


async def test_a_fork_does_not_take_an_id_that_is_taken(stage: Stage) -> None:
    handle = await failed(stage)

    with pytest.raises(AlreadyExistsError, match="c-1"):
        await handle.fork("c-1")


async def test_a_fork_of_a_fork_of_a_reset_goes_on(stage: Stage) -> None:
    handle = await failed(stage)
    await handle.reset()
    paid = await handle.result()

    second = await (await handle.fork("c-2", before(charge))).result()
    third = await handle.fork("c-3", after(price))
    await third.result()
    fourth = await third.fork("c-4", before(charge))

    assert second == paid
    assert await fourth.result() == paid


# ------------------------------------------------------------------------- plan


async def test_a_plan_tells_what_is_kept_and_what_runs_again(stage: Stage) -> None:
    handle = await failed(stage)
    events = len(await handle.history())

    plan = await handle.plan()

    assert plan.kept_events == events - 2
    assert plan.dropped_events == 2
    assert plan.runs_again == ("charge",)
    assert plan.mismatch is None
    assert plan.checked
    assert (await handle.info()).status is Status.FAILED


async def test_a_plan_shows_where_the_code_does_not_fit(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", checkout, "book")
    await handle.result()
    await engine.close()

    @orchestration(name="checkout")
    async def changed(item: str) -> str:
        return await charge(1, item)

    engine = await stage.engine([changed, charge, price])
    plan = await engine.handle("c-1").plan(before(charge))

    assert plan.mismatch is not None
    assert "no longer matches its history" in plan.mismatch


async def test_a_plan_names_calls_whose_arguments_would_differ(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", checkout, "book")
    await handle.result()
    await engine.close()

    @orchestration(name="checkout")
    async def changed(item: str) -> str:
        context().kv["order"] = str(context().uuid())
        amount = await price(f"{item}!")
        return await charge(amount + 1, item)

    engine = await stage.engine([changed, charge, price])
    plan = await engine.handle("c-1").plan(at_event(3))
    await engine.handle("c-1").reset(after(price))

    assert plan.inputs_kept == ("price",)
    assert await engine.handle("c-1", changed).result() == "paid 5 for book"


# -------------------------------------------------------------- several, and at once


async def test_two_resets_before_a_worker_comes_keep_what_was_kept(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", checkout, "book")
    await handle.result()
    await engine.close()
    client = await stage.client()
    handle = client.handle("c-1", checkout)

    await handle.reset(before(charge))
    kept = len(await handle.history())
    await handle.reset(at_event(kept + 1))
    await handle.reset(after(price).returning(9))

    await stage.engine(ALL)
    assert (await handle.result()).startswith("paid 9")
    assert outside.calls == ["price book", "charge 4", "charge 9"]
    assert (await handle.info()).execution == 4


@pytest.mark.parametrize("way", ["reset", "fork"])
async def test_an_answer_that_no_worker_has_taken_since_a_reset_comes_again(
    stage: Stage, way: str
) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", checkout, "book")
    await handle.result()
    await engine.close()
    client = await stage.client()
    handle = client.handle("c-1", checkout)
    await handle.reset(before(charge))
    waiting = at_event(len(await handle.history()) + 1)

    if way == "fork":
        handle = await handle.fork("c-2", waiting)
    else:
        await handle.reset(waiting)

    await stage.engine(ALL)
    assert (await handle.result()).startswith("paid 4")
    assert outside.calls.count("price book") == 1


async def test_a_worker_elsewhere_drops_what_it_has_in_memory(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("t-1", talk, 2)
    await handle.send(word, "a")
    await until(lambda: heard(handle, 1))
    await idle(engine)
    client = await stage.client()

    await client.handle("t-1").reset(at_event(2))
    await client.handle("t-1").send(word, "b")

    assert await handle.result() == ["a", "b"]


async def heard(handle: Handle[Any], count: int) -> bool:
    return bool(await handle.kv("heard") == count)


async def test_of_a_reset_and_a_turn_at_once_one_comes_first(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    handles = [await engine.start(f"t-{no}", talk, 3) for no in range(20)]

    async def speak(handle: Handle[Any]) -> None:
        for one in "abc":
            await handle.send(word, one)

    await asyncio.gather(
        *(speak(handle) for handle in handles),
        *(client.handle(handle.instance_id).reset(at_event(1)) for handle in handles),
    )

    for handle in handles:
        assert await handle.result() == ["a", "b", "c"]


async def test_an_instance_that_was_reset_continues_as_new(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    outside.is_down = True
    handle = await engine.start("w-1", twice, 3)
    with pytest.raises(InstanceFailedError):
        await handle.result()
    outside.is_down = False

    await handle.reset()
    assert await handle.result() == "paid 1 for twice"
    assert (await handle.info()).execution == 4

    await handle.reset(at_event(1))
    assert await handle.result() == "paid 1 for twice"


async def test_a_blocked_instance_goes_back_to_where_the_code_fits(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("t-1", talk, 2)
    await handle.send(word, "a")
    await until(lambda: heard(handle, 1))
    await idle(engine)
    await engine.close()

    @orchestration(name="talk")
    async def changed(count: int) -> list[str]:
        first = await word.receive()
        return [first, await charge(1, first)]

    stage.expect_log("is blocked")
    engine = await stage.engine([changed, charge])
    handle = engine.handle("t-1")
    await handle.send(word, "b")
    await until(lambda: ended_as(handle, Status.BLOCKED))
    with pytest.raises(UsageError, match="needs no reset"):
        await handle.reset()

    await handle.reset(at_event(2))

    assert await handle.result() == ["a", "paid 1 for a"]


async def test_all_that_failed_are_reset_or_none(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    outside.is_down = True
    handles = [await engine.start(f"c-{no}", checkout, "book") for no in range(5)]
    for handle in handles:
        with pytest.raises(InstanceFailedError):
            await handle.result()
    outside.is_down = False

    with pytest.raises(UnexpectedCountError):
        await engine.reset_all(expect=4, status="failed", name="checkout")
    assert await engine.count(status="failed") == 5
    assert await engine.reset_all(expect=1, status="failed", ids=["c-0"]) == 1
    # As after one that was broken off: what is left is found.
    assert await engine.reset_all(expect=4, status="failed", reason="down") == 4

    for handle in handles:
        assert (await handle.result()).startswith("paid 4")
        assert (await handle.info()).execution == 2


# ---------------------------------------------------------------------- updates


add = Update("add", int, int)


@orchestration
async def adds(count: int) -> int:
    total = 0
    for _ in range(count):
        request = await add.receive()
        total += request.value
        request.answer(total)
    return total


async def test_updates_that_were_answered_are_taken_again_and_their_answers_stand(
    stage: Stage,
) -> None:
    engine = await stage.engine([adds])
    handle = await engine.start("u-1", adds, 3)
    first = await handle.update(add, 1, update_id="one")
    second = await handle.update(add, 2, update_id="two")

    plan = await handle.plan(at_event(2))
    await handle.reset(at_event(2))
    third = await handle.update(add, 3, update_id="three")

    assert plan.updates_answered == ("one", "two")
    assert plan.refused is None
    assert (first, second, third) == (1, 3, 6)
    assert await handle.result() == 6
    assert await handle.update(add, 2, update_id="two") == 3


async def test_a_reset_behind_which_callers_were_answered_must_name_the_event(
    stage: Stage,
) -> None:
    @orchestration
    async def asks(count: int) -> int:
        await price("x")
        request = await add.receive()
        request.answer(request.value)
        return await price("y")

    engine = await stage.engine([asks, price])
    handle = await engine.start("u-1", asks, 1)
    await handle.update(add, 1, update_id="one")
    await handle.result()

    plan = await handle.plan(before(price, nth=0))
    with pytest.raises(UsageError, match="update 'one' was answered behind this point"):
        await handle.reset(before(price, nth=0))

    assert plan.refused is not None
    assert await (await handle.fork("u-2", before(price, nth=0))).result() == 1
    await handle.reset(at_event(5))
    assert await handle.result() == 1


# ---------------------------------------------------------------------- refused


async def test_what_cannot_be_reset_is_refused_with_a_sentence(stage: Stage) -> None:
    engine = await stage.engine(Registry([*ALL, Account]))
    await engine.execute(Account, Deposit("n-1", 1))
    handle = await engine.start("c-1", checkout, "book")
    await handle.result()
    running = await engine.start("t-1", talk, 1)
    await until(lambda: is_waiting(engine, "t-1"))

    with pytest.raises(UsageError, match="its events are facts"):
        await engine.handle("n-1", Account).reset(at_event(1))
    with pytest.raises(InstanceNotFoundError):
        await engine.handle("nobody").reset(at_event(1))
    with pytest.raises(InstanceRunningError, match="failed at nothing"):
        await running.reset()
    with pytest.raises(UsageError, match="failed at nothing"):
        await handle.reset()
    with pytest.raises(UsageError, match="has no event 99"):
        await handle.reset(at_event(99))
    with pytest.raises(UsageError, match="'slow' was not called"):
        await handle.reset(before(slow))
    with pytest.raises(UsageError, match="'charge' was called once"):
        await handle.reset(before(charge, nth=1))
    with pytest.raises(UsageError, match="is no point"):
        await handle.reset("charge")  # type: ignore[arg-type]
    with pytest.raises(PayloadError):
        after(price).returning("many")  # type: ignore[arg-type]
    await running.terminate()


async def test_one_that_has_not_begun_has_nothing_to_go_back_to(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("c-1", checkout, "book")

    with pytest.raises(UsageError, match="has not begun"):
        await handle.reset(at_event(1))
    await handle.terminate()
