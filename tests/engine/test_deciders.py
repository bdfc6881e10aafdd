"""Deciders on the worker: sending, reading, watching, stopping, parking."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Never

import pytest

from perdure import (
    Accepted,
    BlockingClient,
    Decider,
    Decision,
    Rejected,
    Signal,
    describe,
    orchestration,
)
from perdure.errors import (
    DefinitionError,
    InstanceNotFoundError,
    NondeterminismError,
    PerdureError,
    UsageError,
)
from tests.engine.shop import (
    Basket,
    Buy,
    Note,
    Noted,
    Order,
    OrderState,
    Pay,
    Place,
    Placed,
    Refused,
    Ship,
    charge,
)
from tests.engine.stage import Stage, idle, kinds, options, until
from tests.sizes import WITHIN_S


@dataclass(frozen=True)
class Add:
    id: str
    by: int = 1


@dataclass(frozen=True)
class Added:
    by: int


class Counter(Decider[int, Add, Added, Never]):
    """Counts."""

    name = "counter"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return input.id

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        return Decision.accept(Added(input.by))

    def evolve(self, state: int, event: Added, /) -> int:
        return state + event.by


async def reaches(client: Any, decider: Any, instance_id: str, state: Any) -> None:
    async def look() -> bool:
        try:
            return bool(await client.state(decider, instance_id) == state)
        except InstanceNotFoundError:
            return False

    await until(look)


# -------------------------------------------------------------------------------- sending


async def test_a_sent_input_starts_the_instance_and_is_decided(stage: Stage) -> None:
    engine = await stage.engine([Order])

    await engine.send(Order, Place("o-1", 5), correlation="cart-7")
    await reaches(engine, Order, "o-1", OrderState("placed", 5))

    [placed] = await engine.events(Order, "o-1")
    assert (placed.event, placed.version, placed.seq) == (Placed(5), 1, 3)
    assert (placed.input, placed.cause, placed.correlation) == (Place("o-1", 5), "client", "cart-7")
    assert abs(placed.at - datetime.now(UTC)) < timedelta(minutes=1)


async def test_sent_inputs_are_decided_in_order(stage: Stage) -> None:
    client = await stage.client()
    for number in range(1_200):
        await client.send(Counter, Add("a", number))

    engine = await stage.engine([Counter])
    await reaches(engine, Counter, "a", sum(range(1_200)))

    assert [one.event.by for one in await engine.events(Counter, "a")] == list(range(1_200))


async def test_execute_takes_a_long_inbox_first(stage: Stage) -> None:
    client = await stage.client()
    for number in range(1_200):
        await client.send(Counter, Add("a", number))

    answer = await client.execute(Counter, Add("a", 7))

    assert answer == Accepted((Added(7),), sum(range(1_200)) + 7, 1_201)


async def test_a_sent_input_with_an_id_is_decided_once(stage: Stage) -> None:
    engine = await stage.engine([Counter])
    for _ in range(3):
        await engine.send(Counter, Add("a", 5), input_id="req-1")
        await engine.send(Counter, Add("a", 1))

    await reaches(engine, Counter, "a", 8)


async def test_a_rejected_sent_input_is_on_record(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    await engine.send(Order, Ship("o-1"), input_id="req-1")

    async def is_rejected() -> bool:
        return kinds(await engine.handle("o-1", Order).history())[-1] == "input_rejected"

    await until(is_rejected)
    last = (await engine.handle("o-1", Order).history())[-1]
    assert last.data == {"tag": "Refused", "reason": {"why": "Ship while placed"}}
    again = await engine.execute(Order, Ship("o-1"), input_id="req-1")
    assert again == Rejected(Refused("Ship while placed"))


async def test_a_sent_first_input_that_is_rejected_leaves_no_instance(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.send(Order, Ship("o-1"), input_id="req-1")

    async def is_gone() -> bool:
        return await engine.count() == 0

    await until(is_gone)
    assert await engine._core.store.read_live("order:o-1") is None
    again = await engine.execute(Order, Ship("o-1"), input_id="req-1")
    assert again == Rejected(Refused("Ship while new"))


async def test_a_decision_sends_inputs_to_other_deciders(stage: Stage) -> None:
    class Relay(Counter):
        name = "relay"

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
            return Decision.accept(Added(input.by)).send(Counter, Add(input.id, 10 * input.by))

    engine = await stage.engine([Relay, Counter])
    await engine.execute(Relay, Add("a", 1))
    answer = await engine.execute(Counter, Add("a", 5))

    assert answer == Accepted((Added(5),), 15, 2)
    [sent, _] = await engine.events(Counter, "a")
    assert sent.cause == "decider:relay:a"
    [relayed] = await engine.events(Relay, "a")
    assert relayed.sent == ("counter:a",)


async def test_a_decider_of_another_worker_is_left_alone_and_shown(stage: Stage) -> None:
    engine = await stage.engine([Counter])
    client = await stage.client()
    await client.send(Order, Place("o-1"))
    await idle(engine)

    info = await client.handle("o-1", Order).info()
    [queue] = [one for one in await client.queues() if one.kind == "decider"]

    assert info.unclaimed == "needs decider order"
    assert (queue.name, queue.version, queue.ready) == ("order", None, 1)
    assert queue.unclaimed == "needs decider order"
    assert "unclaimed: needs decider order" in await client.handle("o-1", Order).explain()


# ------------------------------------------------------------------------------- reading


async def test_a_state_can_be_read_at_any_version(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", 5))
    await engine.execute(Order, Note("o-1", "x"))
    await engine.execute(Order, Pay("o-1", "r"))
    await engine.execute(Order, Ship("o-1"))

    states = [await engine.state(Order, "o-1", at=at) for at in range(5)]

    assert [state.status for state in states] == ["new", "placed", "placed", "paid", "shipped"]
    assert await engine.state(Order, "o-1") == states[4]
    with pytest.raises(UsageError, match="at=5: the instance is at version 4"):
        await engine.state(Order, "o-1", at=5)
    with pytest.raises(UsageError, match="at=-1"):
        await engine.state(Order, "o-1", at=-1)


async def test_the_state_of_an_unknown_instance_is_an_error(stage: Stage) -> None:
    client = await stage.client()

    with pytest.raises(InstanceNotFoundError, match="'order:o-1'"):
        await client.state(Order, "o-1")
    with pytest.raises(InstanceNotFoundError, match="'order:o-1'"):
        await client.events(Order, "o-1")


async def test_a_mutable_state_that_was_handed_out_cannot_change_what_is_decided(
    stage: Stage,
) -> None:
    class Lister(Decider[list[int], Add, Added, Never]):
        name = "lister"

        def initial(self) -> list[int]:
            return []

        def instance_id(self, input: Add, /) -> str:
            return input.id

        def decide(
            self, state: list[int], input: Add, now: datetime, /
        ) -> Decision[Add, Added, Never]:
            return Decision.accept(Added(input.by))

        def evolve(self, state: list[int], event: Added, /) -> list[int]:
            state.append(event.by)
            return state

    engine = await stage.engine([Lister])
    first = await engine.execute(Lister, Add("a", 1))
    assert isinstance(first, Accepted)
    first.state.append(100)
    (await engine.state(Lister, "a")).append(200)

    second = await engine.execute(Lister, Add("a", 2))

    assert isinstance(second, Accepted)
    assert second.state == [1, 2]
    assert first.state == [1, 100]


async def test_lists_and_counts_show_instances_of_deciders(stage: Stage) -> None:
    engine = await stage.engine([Order])
    for number in range(3):
        await engine.execute(Order, Place(f"o-{number}"))
    await engine.execute(Order, Pay("o-1"))
    await engine.execute(Order, Ship("o-1"))

    [ended] = (await engine.instances(status="completed")).items

    assert (ended.instance_id, ended.kind, ended.name) == ("order:o-1", "decider", "order")
    assert await engine.count(name="order") == 3
    assert await engine.count(name="order", status="running") == 2
    await engine.handle("o-1", Order).result()


async def test_explain_says_what_an_instance_waits_for(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    waiting = await engine.handle("o-1", Order).explain()
    await engine.execute(Order, Pay("o-1"))
    free = await engine.handle("o-1", Order).explain()
    await engine.execute(Order, Ship("o-1"))
    over = await engine.handle("o-1", Order).explain()

    assert waiting.startswith("order:o-1 (decider order) waits for timer 'payment' due 20")
    assert free == "order:o-1 (decider order) waits for its next input."
    assert over.startswith("order:o-1 (decider order) completed at 20")


async def test_observed_inputs_are_kept_with_what_they_came_to(stage: Stage) -> None:
    class Watched(Order):
        name = "watched"
        observe_inputs = True

    engine = await stage.engine([Watched])
    await engine.execute(Watched, Ship("o-1"), input_id="r-0")
    await engine.execute(Watched, Place("o-1"))
    await engine.execute(Watched, Ship("o-1"))
    await engine.send(Watched, Note("o-1", "sent"))
    await engine.execute(Watched, Pay("o-1"), input_id="r-1")
    await engine.execute(Watched, Ship("o-1"))
    await engine.execute(Watched, Note("o-1", "late"))

    seen = await engine.observations(Watched, "o-1")

    assert [(one.no, one.tag, one.outcome) for one in seen] == [
        (1, "Ship", "rejected"),
        (2, "Place", "accepted"),
        (3, "Ship", "rejected"),
        (4, "Note", "accepted"),
        (5, "Pay", "accepted"),
        (6, "Ship", "accepted"),
        (7, "Note", "completed"),
    ]
    assert seen[0].rejection == {"why": "Ship while new"}
    assert (seen[0].input_id, seen[4].input_id) == ("r-0", "r-1")
    assert seen[3].input == {"order_id": "o-1", "text": "sent"}
    page = await engine.observations(Watched, "o-1", after=5, limit=1)
    assert [one.no for one in page] == [6]


async def test_without_the_option_nothing_is_observed(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))

    assert await engine.observations(Order, "o-1") == []


async def test_what_instances_did_can_be_drawn(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    await engine.execute(Order, Pay("o-1"))
    await engine.execute(Order, Ship("o-1"))

    seen = await engine.transitions(Order, "o-1")

    assert [(before, after) for before, _, after in seen] == [
        ("new", "placed"),
        ("placed", "paid"),
        ("paid", "shipped"),
    ]
    picture = describe(Order, observed=seen)
    assert "s1 --> s2 : Pay" in picture.mermaid()
    assert 'label="Pay"' in picture.dot()


async def test_decisions_are_counted(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    await engine.execute(Order, Ship("o-1"))
    await engine.execute(Order, Pay("o-1"))
    await engine.execute(Order, Ship("o-1"))
    snapshot = engine.telemetry.snapshot()

    def inputs(outcome: str) -> float:
        return snapshot.value("perdure_decider_inputs_total", decider="order", outcome=outcome)

    assert (inputs("accepted"), inputs("rejected")) == (3, 1)
    assert snapshot.value("perdure_decider_events_total", decider="order") == 3
    assert snapshot.value("perdure_decider_ends_total", status="completed") == 1
    assert snapshot.value("perdure_orchestration_starts_total") == 0


# -------------------------------------------------------------- stopping and trouble


async def test_cancel_and_terminate_end_an_instance(stage: Stage) -> None:
    engine = await stage.engine([Order])
    for order_id in ("cancelled", "terminated"):
        await engine.execute(Order, Place(order_id))

    await engine.handle("cancelled", Order).cancel("changed my mind")
    await engine.handle("terminated", Order).terminate("enough")

    async def have_ended() -> bool:
        return await engine.count(status="running") == 0

    await until(have_ended)
    statuses = {one.instance_id: one.status for one in (await engine.instances()).items}
    assert statuses == {"order:cancelled": "cancelled", "order:terminated": "terminated"}


async def test_a_deleted_instance_can_begin_again(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", 5), input_id="req-1")
    await engine.handle("o-1", Order).delete(force=True)

    answer = await engine.execute(Order, Place("o-1", 7), input_id="req-1")

    assert answer == Accepted((Placed(7),), OrderState("placed", 7), 1)


async def test_an_instance_whose_decide_raises_for_a_message_is_parked_and_others_go_on(
    stage: Stage,
) -> None:
    class Brittle(Counter):
        name = "brittle"

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
            if input.by == 13:
                raise ZeroDivisionError("unlucky")
            return super().decide(state, input, now)

    stage.expect_log("a turn of instance .* failed")
    stage.expect_log("is parked")
    engine = await stage.engine([Brittle])
    for instance_id in ("a", "b", "c"):
        await engine.send(Brittle, Add(instance_id, 13 if instance_id == "b" else 1))

    async def is_parked() -> bool:
        return (await engine.handle("b", Brittle).info()).status == "parked"

    await until(is_parked)
    await reaches(engine, Brittle, "a", 1)
    await reaches(engine, Brittle, "c", 1)
    assert (await engine.handle("b", Brittle).info()).reason == "ZeroDivisionError: unlucky"
    assert engine.health.restarts == 0


async def test_code_that_cannot_fold_the_history_blocks_until_code_that_can_comes(
    stage: Stage,
) -> None:
    client = await stage.client()
    await client.execute(Counter, Add("a", 3))
    await client.send(Counter, Add("a", 4))

    class Broken(Counter):
        def evolve(self, state: int, event: Added, /) -> int:
            raise KeyError("no longer known")

    stage.expect_log("is blocked")
    with pytest.raises(NondeterminismError, match="cannot fold event 3, Added"):
        await client.state(Broken, "a")
    broken = await stage.engine([Broken])

    async def is_blocked() -> bool:
        return (await client.handle("a", Counter).info()).status == "blocked"

    await until(is_blocked)
    await broken.close()
    await stage.engine([Counter])

    await reaches(client, Counter, "a", 7)


async def test_decide_that_looks_at_a_clock_is_refused(stage: Stage) -> None:
    class Careless(Counter):
        name = "careless"

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
            return Decision.accept(Added(random.randint(1, 6)))

    engine = await stage.engine([Careless])

    with pytest.raises(NondeterminismError, match="random"):
        await engine.execute(Careless, Add("a"))

    assert await engine.count() == 0


async def test_an_activity_called_inside_decide_is_refused(stage: Stage) -> None:
    class Calling(Counter):
        name = "calling"

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
            called = charge("a", "b")
            return Decision.accept(Added(len(repr(called))))

    engine = await stage.engine([Calling])

    with pytest.raises(UsageError, match=r"\.effect\(charge"):
        await engine.execute(Calling, Add("a"))


async def test_a_class_that_is_wrong_is_refused_when_it_is_handed_over(stage: Stage) -> None:
    class Nameless(Decider[int, Add, Added, Never]):
        pass

    wrong: Any = Nameless
    with pytest.raises(DefinitionError, match="has no name"):
        await stage.engine([wrong])
    with pytest.raises(DefinitionError, match="has no name"):
        await (await stage.client()).execute(wrong, Add("a"))


async def test_instances_move_between_engines(stage: Stage) -> None:
    one, two = await stage.engine([Counter]), await stage.engine([Counter])
    for number in range(20):
        door = (one, two)[number % 2]
        await door.execute(Counter, Add("a"))
        await door.send(Counter, Add("a", 100))

    await reaches(one, Counter, "a", 2_020)


async def test_without_memory_everything_still_works(stage: Stage) -> None:
    engine = await stage.engine([Counter, Basket, charge], options=options(hot_instances=0))
    for _ in range(5):
        await engine.execute(Counter, Add("a"))
    await asyncio.gather(*(engine.execute(Basket, Buy(f"b-{i}", "book")) for i in range(5)))

    async def all_settled() -> bool:
        states = [await engine.state(Basket, f"b-{i}") for i in range(5)]
        return all(state.settled for state in states)

    await until(all_settled)
    assert await engine.state(Counter, "a") == 5


async def test_an_orchestration_takes_no_notice_of_an_input(stage: Stage) -> None:
    go = Signal("go", str)

    @orchestration
    async def waiting() -> str:
        return await go.receive()

    client = await stage.client()
    handle = await client.start("counter:a", waiting)
    with pytest.raises(Exception, match="already exists"):
        await client.send(Counter, Add("a"))
    await handle.send(go, "on")
    await stage.engine([waiting])

    assert await handle.result() == "on"


def test_the_blocking_client_gives_inputs_too(url: str) -> None:
    with BlockingClient(url, create=True) as client:
        first = client.execute(Counter, Add("a", 3))
        client.send(Counter, Add("a", 4))
        second = client.execute(Counter, Add("a", 5))

        assert first == Accepted((Added(3),), 3, 1)
        assert second == Accepted((Added(5),), 12, 3)
        assert client.state(Counter, "a", at=2) == 7
        assert [one.event for one in client.events(Counter, "a")] == [Added(3), Added(4), Added(5)]
        assert client.dry_run(Counter, Add("a", 1)).outcome == Accepted((Added(1),), 13, 4)
        assert client.key_holder(Order, "x") is None


async def test_notes_of_an_order_come_in_order(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    given = [engine.execute(Order, Note("o-1", str(number))) for number in range(30)]

    answers = await asyncio.gather(*given)

    texts = [answer.events for answer in answers if isinstance(answer, Accepted)]
    assert texts == [(Noted(str(number)),) for number in range(30)]
    assert (await engine.state(Order, "o-1")).notes == tuple(str(number) for number in range(30))


async def test_an_evolve_that_is_not_pure_is_found_before_a_crash_finds_it(stage: Stage) -> None:
    seen: list[int] = []

    class Impure(Counter):
        name = "impure"

        def evolve(self, state: int, event: Added, /) -> int:
            seen.append(event.by)
            return len(seen)

        def is_terminal(self, state: int, /) -> bool:
            return state >= 2

    stage.expect_log("evolve of decider 'impure' is not pure")
    stage.expected_mismatches = 1
    engine = await stage.engine([Impure])
    await engine.execute(Impure, Add("a"))
    await engine.execute(Impure, Add("a"))

    await until(lambda: engine._serving.turns.shadow.mismatches)


async def test_an_ended_instance_of_a_decider_cannot_be_restarted(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    await engine.handle("o-1", Order).terminate()

    with pytest.raises(UsageError, match="has no start to repeat"):
        await engine.handle("o-1", Order).restart()


async def test_inputs_that_wait_when_an_engine_closes_are_decided_or_refused(stage: Stage) -> None:
    engine = await stage.engine([Counter])
    given = [asyncio.ensure_future(engine.execute(Counter, Add("a"))) for _ in range(20)]
    await asyncio.sleep(0)
    await engine.close()

    async with asyncio.timeout(WITHIN_S):
        answers = await asyncio.gather(*given, return_exceptions=True)

    later = await stage.client()
    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    if accepted:
        assert await later.state(Counter, "a") == len(accepted)
    refused = [answer for answer in answers if not isinstance(answer, Accepted)]
    assert all(isinstance(answer, PerdureError) for answer in refused)
