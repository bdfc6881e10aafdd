"""`execute`: decided and committed when it returns, each input once, in the order of callers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Never

import pytest

from perdure import (
    Accepted,
    AlreadyCompleted,
    Client,
    Decider,
    Decision,
    Engine,
    Rejected,
    orchestration,
)
from perdure.client.reading.info import Json
from perdure.errors import (
    AlreadyExistsError,
    InstanceEndedError,
    InstanceHeldError,
    InstanceNotFoundError,
    InvalidIdError,
    NotRegisteredError,
    PayloadError,
    ResultTimeoutError,
    UsageError,
    VersionConflictError,
)
from perdure.ids import fresh_id
from perdure.model.turns import TurnClaim
from tests.engine.shop import (
    Note,
    Noted,
    Order,
    OrderState,
    Paid,
    Pay,
    Place,
    Placed,
    Refused,
    Ship,
    Shipped,
)
from tests.engine.stage import Stage, kinds, transactions, until
from tests.sizes import WITHIN_S


@dataclass(frozen=True)
class Add:
    id: str
    by: int = 1


@dataclass(frozen=True)
class Added:
    by: int


class Counter(Decider[int, Add, Added, Never]):
    """Counts; replies what it had before."""

    name = "counter"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return input.id

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        return Decision.accept(Added(input.by)).reply(state)

    def evolve(self, state: int, event: Added, /) -> int:
        return state + event.by


async def lease(client: Client, instance_id: str, *, lease_ms: int = 600_000) -> int:
    """Take the lease of an instance, as a worker elsewhere would that then says nothing."""
    live = await client._core.store.read_live(instance_id)
    assert live is not None
    assert live.definition_no is not None
    token = fresh_id()
    claim = TurnClaim("elsewhere", ((live.definition_no, "x"),), 10, lease_ms, token)
    [claimed] = await client._core.store.claim_turns(claim)
    assert claimed.instance_id == instance_id
    return token


# ------------------------------------------------------------------- the outcomes


async def test_an_accepted_input_is_committed_when_execute_returns(stage: Stage) -> None:
    engine = await stage.engine([Order])
    other = await stage.client()

    placed = await engine.execute(Order, Place("o-1", 30))
    paid = await engine.execute(Order, Pay("o-1", "r-1"))

    assert placed == Accepted((Placed(30),), OrderState("placed", 30), 1)
    assert paid == Accepted((Paid("r-1"),), OrderState("paid", 30, "r-1"), 2, reply=30)
    assert await other.state(Order, "o-1") == OrderState("paid", 30, "r-1")


async def test_a_rejection_leaves_the_instance_as_it_is(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    before = await engine.handle("o-1", Order).history()

    assert await engine.execute(Order, Ship("o-1")) == Rejected(Refused("Ship while placed"))

    assert await engine.handle("o-1", Order).history() == before


async def test_a_rejected_first_input_leaves_no_instance(stage: Stage) -> None:
    engine = await stage.engine([Order])

    assert await engine.execute(Order, Place("o-1", 0)) == Rejected(Refused("nothing ordered"))

    assert await engine.count() == 0
    assert await engine.execute(Order, Place("o-1", 5)) == Accepted(
        (Placed(5),), OrderState("placed", 5), 1
    )


async def test_an_input_after_the_end_changes_nothing(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    await engine.execute(Order, Pay("o-1"))
    shipped = await engine.execute(Order, Ship("o-1"))
    before = await engine.handle("o-1", Order).history()

    assert await engine.execute(Order, Note("o-1", "late")) == AlreadyCompleted()

    assert isinstance(shipped, Accepted)
    assert shipped.events == (Shipped(),)
    assert await engine.handle("o-1", Order).history() == before
    with pytest.raises(InstanceEndedError, match="order:o-1"):
        await engine.send(Order, Note("o-1", "late"))


async def test_a_client_without_a_worker_decides_too(stage: Stage) -> None:
    client = await stage.client()

    first = await client.execute(Counter, Add("a", 3))
    second = await client.execute(Counter, Add("a", 4))

    assert first == Accepted((Added(3),), 3, 1, reply=0)
    assert second == Accepted((Added(4),), 7, 2, reply=3)


async def test_two_instances_of_one_id_under_two_deciders_are_two(stage: Stage) -> None:
    engine = await stage.engine([Order, Counter])
    await engine.execute(Order, Place("x"))
    await engine.execute(Counter, Add("x"))

    assert await engine.state(Counter, "x") == 1
    assert (await engine.state(Order, "x")).status == "placed"


async def test_what_decide_raises_reaches_the_caller_and_nobody_else(stage: Stage) -> None:
    class Touchy(Counter):
        name = "touchy"

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
            if input.by < 0:
                raise ZeroDivisionError("not less than nothing")
            return super().decide(state, input, now)

    engine = await stage.engine([Touchy])
    await engine.execute(Touchy, Add("a"))
    given = [engine.execute(Touchy, Add("a", by)) for by in (1, -1, 2, -1, 3)]

    answers = await asyncio.gather(*given, return_exceptions=True)

    assert [type(answer).__name__ for answer in answers] == [
        "Accepted",
        "ZeroDivisionError",
        "Accepted",
        "ZeroDivisionError",
        "Accepted",
    ]
    assert await engine.state(Touchy, "a") == 7


async def test_an_input_of_another_decider_is_refused(stage: Stage) -> None:
    engine = await stage.engine([Order])
    wrong: Any = Add("a")

    with pytest.raises(PayloadError, match=r"input of decider 'order'.*Add.*Place, Pay"):
        await engine.execute(Order, wrong)


# ---------------------------------------------------------------------- input ids


async def test_a_repeated_input_id_gets_the_first_outcome(stage: Stage) -> None:
    engine = await stage.engine([Order])
    first = await engine.execute(Order, Place("o-1", 30), input_id="req-1")
    await engine.execute(Order, Pay("o-1", "r-1"))

    again = await engine.execute(Order, Place("o-1", 30), input_id="req-1")

    assert again == first == Accepted((Placed(30),), OrderState("placed", 30), 1)
    assert len(await engine.events(Order, "o-1")) == 2


async def test_a_repeated_rejection_is_the_first_one(stage: Stage) -> None:
    engine = await stage.engine([Order])
    first = await engine.execute(Order, Ship("o-1"), input_id="req-1")
    await engine.execute(Order, Place("o-1"))
    await engine.execute(Order, Pay("o-1"))

    again = await engine.execute(Order, Ship("o-1"), input_id="req-1")

    assert again == first == Rejected(Refused("Ship while new"))


async def test_a_first_input_that_is_rejected_leaves_a_receipt_if_it_has_an_id(
    stage: Stage,
) -> None:
    engine = await stage.engine([Order])

    await engine.execute(Order, Place("o-1", 0), input_id="req-1")

    assert await engine.count() == 0
    assert set(await engine._core.store.deciders.read_receipts("order:o-1", ["req-1"])) == {"req-1"}


async def test_a_repeat_after_a_restart_gets_the_first_outcome(stage: Stage) -> None:
    engine = await stage.engine([Counter])
    first = await engine.execute(Counter, Add("a", 3), input_id="req-1")
    await engine.close()

    later = await stage.engine([Counter])

    assert await later.execute(Counter, Add("a", 3), input_id="req-1") == first
    assert await later.state(Counter, "a") == 3


async def test_an_input_id_given_by_many_at_once_is_decided_once(stage: Stage) -> None:
    one, two = await stage.engine([Counter]), await stage.client()
    given = [door.execute(Counter, Add("a", 3), input_id="req-1") for door in (one, two) * 10]

    answers = await asyncio.gather(*given)

    assert answers == [Accepted((Added(3),), 3, 1, reply=0)] * 20
    assert await one.state(Counter, "a") == 3


async def test_an_input_that_was_sent_is_not_decided_again_by_execute(stage: Stage) -> None:
    client = await stage.client()
    await client.send(Counter, Add("a", 3), input_id="req-1")

    answer = await client.execute(Counter, Add("a", 3), input_id="req-1")
    engine = await stage.engine([Counter])
    await until(lambda: engine._serving.claimer._fruitless)

    assert answer == Accepted((Added(3),), 3, 1, reply=0)
    assert await engine.state(Counter, "a") == 3
    assert await engine.inbox("counter:a") == []


async def test_an_input_that_was_executed_is_not_decided_again_by_send(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Counter, Add("a", 3), input_id="req-1")

    await client.send(Counter, Add("a", 3), input_id="req-1")

    assert await client.inbox("counter:a") == []


async def test_an_input_id_must_be_an_id(stage: Stage) -> None:
    client = await stage.client()

    with pytest.raises(InvalidIdError, match="input id ''"):
        await client.execute(Counter, Add("a"), input_id="")


# ------------------------------------------------------------------ expected version


async def test_an_expected_version_must_be_the_instances(stage: Stage) -> None:
    engine = await stage.engine([Counter])
    await engine.execute(Counter, Add("a"), expected_version=0)

    with pytest.raises(VersionConflictError, match="'a' is at version 1, not 0") as caught:
        await engine.execute(Counter, Add("a"), expected_version=0)

    assert (caught.value.expected, caught.value.found) == (0, 1)
    answer = await engine.execute(Counter, Add("a"), expected_version=1)
    assert isinstance(answer, Accepted)
    with pytest.raises(UsageError, match="expected_version must be a whole number"):
        await engine.execute(Counter, Add("a"), expected_version=-1)


async def test_of_many_that_expect_a_version_one_is_accepted(stage: Stage) -> None:
    one, two = await stage.engine([Counter]), await stage.client()
    given = [door.execute(Counter, Add("a"), expected_version=0) for door in (one, two) * 5]

    answers = await asyncio.gather(*given, return_exceptions=True)

    assert sum(isinstance(answer, Accepted) for answer in answers) == 1
    assert sum(isinstance(answer, VersionConflictError) for answer in answers) == 9


# ------------------------------------------------------------------- order and leases


async def test_execute_never_overtakes_what_was_sent_before(stage: Stage) -> None:
    client = await stage.client()
    for number in range(20):
        await client.send(Counter, Add("a", 1))
        answer = await client.execute(Counter, Add("a", 100))
        assert isinstance(answer, Accepted)
        assert answer.version == 2 * number + 2

    tags = [event.event.by for event in await client.events(Counter, "a")]
    assert tags == [1, 100] * 20


async def test_execute_at_a_busy_engine_never_overtakes_what_was_sent_before(stage: Stage) -> None:
    engine = await stage.engine([Counter])

    async def caller(number: int) -> None:
        for turn in range(10):
            await engine.send(Counter, Add("a", 1_000 * number + 2 * turn))
            await engine.execute(Counter, Add("a", 1_000 * number + 2 * turn + 1))

    await asyncio.gather(*(caller(number) for number in range(1, 6)))

    order = [event.event.by for event in await engine.events(Counter, "a")]
    for number in range(1, 6):
        own = [by for by in order if by // 1_000 == number]
        assert own == sorted(own)
    assert len(order) == 100


async def test_execute_does_not_wait_for_a_lease_elsewhere(stage: Stage) -> None:
    client = await stage.client()
    await client.send(Counter, Add("a", 1))
    await lease(client, "counter:a")

    async with asyncio.timeout(WITHIN_S):
        answer = await client.execute(Counter, Add("a", 10))

    assert answer == Accepted((Added(10),), 11, 2, reply=1)
    assert await client.inbox("counter:a") == []


async def test_a_rejection_from_memory_counts_only_if_nothing_newer_is_stored(
    stage: Stage,
) -> None:
    stage.expect_log("no live worker serves decider 'order'")
    one, two = await stage.client(), await stage.client()
    await one.execute(Order, Place("o-1"))
    await two.execute(Order, Pay("o-1"))

    answer = await one.execute(Order, Ship("o-1"))

    assert isinstance(answer, Accepted)
    assert answer.events == (Shipped(),)


async def test_a_version_conflict_from_memory_counts_only_if_nothing_newer_is_stored(
    stage: Stage,
) -> None:
    one, two = await stage.client(), await stage.client()
    await one.execute(Counter, Add("a"))
    await two.execute(Counter, Add("a"))

    answer = await one.execute(Counter, Add("a"), expected_version=2)

    assert isinstance(answer, Accepted)


# -------------------------------------------------------------------------- many at once


async def test_callers_of_one_instance_are_decided_one_after_another(stage: Stage) -> None:
    engine = await stage.engine([Counter])
    before = transactions(engine)

    answers = await asyncio.gather(*(engine.execute(Counter, Add("a")) for _ in range(50)))

    replies = [answer.reply for answer in answers if isinstance(answer, Accepted)]
    assert replies == list(range(50))
    assert await engine.state(Counter, "a") == 50
    assert transactions(engine) - before <= 10


async def test_many_instances_share_commits(stage: Stage) -> None:
    engine = await stage.engine([Counter])
    await asyncio.gather(*(engine.execute(Counter, Add(f"n-{i}")) for i in range(200)))
    before = transactions(engine)

    answers = await asyncio.gather(*(engine.execute(Counter, Add(f"n-{i}")) for i in range(200)))

    assert [answer.version for answer in answers if isinstance(answer, Accepted)] == [2] * 200
    assert transactions(engine) - before <= 20


@pytest.mark.parametrize("has_workers", [True, False])
async def test_two_processes_on_one_instance_decide_everything_once(
    stage: Stage, *, has_workers: bool
) -> None:
    doors: list[Client] = []
    for _ in range(2):
        doors.append(await (stage.engine([Counter]) if has_workers else stage.client()))

    async def hammer(door: Client) -> list[Any]:
        answers = []
        for _ in range(20):
            answers += await asyncio.gather(*(door.execute(Counter, Add("a")) for _ in range(5)))
        return answers

    both = await asyncio.gather(*(hammer(door) for door in doors))

    replies = sorted(answer.reply for answers in both for answer in answers)
    assert replies == list(range(200))
    assert await doors[0].state(Counter, "a") == 200


async def test_sends_and_executes_of_two_processes_are_all_decided_once(stage: Stage) -> None:
    one, two = await stage.engine([Counter]), await stage.engine([Counter])

    async def work(door: Engine) -> None:
        for _ in range(25):
            await door.send(Counter, Add("a"))
            await door.execute(Counter, Add("a"))

    await asyncio.gather(work(one), work(two))

    async def is_done() -> bool:
        return await one.state(Counter, "a") == 100

    await until(is_done)


# ------------------------------------------------------------------- trouble on the way


async def test_a_lost_answer_of_the_store_is_asked_for_again(stage: Stage) -> None:
    """The commit went through and its answer was lost: sent again it is the same commit."""
    engine = await stage.engine([Counter])
    store = engine._core.store
    sent: list[Any] = []
    commit = store.commit

    def remember(turns: Any) -> Any:
        sent.extend(turns)
        return commit(turns)

    store.commit = remember  # type: ignore[method-assign]  # to send it again
    answer = await engine.execute(Counter, Add("a", 3))

    [receipt] = await commit([sent[0]])

    assert answer == Accepted((Added(3),), 3, 1, reply=0)
    assert receipt.status == "accepted"
    assert await engine.state(Counter, "a") == 3


async def test_an_instance_that_cannot_decide_a_message_takes_no_inputs(stage: Stage) -> None:
    class Brittle(Counter):
        name = "brittle"

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
            if input.by < 0:
                raise ZeroDivisionError("not less than nothing")
            return super().decide(state, input, now)

    client = await stage.client()
    await client.send(Brittle, Add("a", -1))

    with pytest.raises(InstanceHeldError, match=r"'brittle:a'.*cannot be decided.*ZeroDivi"):
        await client.execute(Brittle, Add("a", 1))
    stage.expect_log("a turn of instance .* failed")
    stage.expect_log("is parked")
    engine = await stage.engine([Brittle])

    async def is_parked() -> bool:
        return (await engine.handle("a", Brittle).info()).status == "parked"

    await until(is_parked)
    with pytest.raises(InstanceHeldError, match=r"is parked.*ZeroDivisionError.*unpark"):
        await engine.execute(Brittle, Add("a", 1))
    [message] = [one for one in await engine.inbox("brittle:a") if one.kind == "input_taken"]
    await engine.drop_message("brittle:a", message.no)
    await engine.handle("a", Brittle).unpark()
    assert await engine.execute(Brittle, Add("a", 1)) == Accepted((Added(1),), 1, 1, reply=0)


async def test_an_id_of_an_orchestration_is_none_of_a_decider(stage: Stage) -> None:
    @orchestration
    async def other() -> None: ...

    client = await stage.client()
    await client.start("counter:a", other)

    for call in (client.execute, client.send):
        with pytest.raises(AlreadyExistsError, match=r"orchestration 'other'.*decider 'counter'"):
            await call(Counter, Add("a"))


async def test_an_orchestration_gets_no_id_of_a_decider_that_is_here(stage: Stage) -> None:
    @orchestration
    async def other() -> None: ...

    engine = await stage.engine([Counter, other])

    with pytest.raises(InvalidIdError, match="'counter:a' begins with 'counter:'"):
        await engine.start("counter:a", other)
    await engine.start("counting:a", other)


# --------------------------------------------------------------------- by name and JSON


async def test_inputs_can_be_given_by_name_and_as_json(stage: Stage) -> None:
    engine = await stage.engine([Order])

    placed = await engine.execute_json("order", "Place", {"order_id": "o-1", "amount": 5})
    rejected = await engine.execute_json("order", "Ship", {"order_id": "o-1"})
    await engine.send_json("order", "Note", {"order_id": "o-1", "text": "hello"})
    paid = await engine.execute_json("order", "Pay", {"order_id": "o-1"}, input_id="r")

    assert placed == {
        "outcome": "accepted",
        "events": [{"tag": "Placed", "event": {"amount": 5}}],
        "state": {"status": "placed", "amount": 5, "receipt": "", "notes": []},
        "version": 1,
        "reply": None,
    }
    assert rejected == {
        "outcome": "rejected",
        "tag": "Refused",
        "reason": {"why": "Ship while placed"},
    }
    assert paid["version"] == 3
    assert paid == await engine.execute_json("order", "Pay", {"order_id": "o-1"}, input_id="r")


async def test_a_client_that_does_not_have_the_decider_waits_for_a_worker(stage: Stage) -> None:
    await stage.engine([Order])
    client = await stage.client()
    place = {"order_id": "o-1", "amount": 5}

    placed = await client.execute_json("order", "Place", place, instance_id="o-1")
    rejected = await client.execute_json("order", "Ship", {"order_id": "o-1"}, instance_id="o-1")
    paid = await client.execute_json("order", "Pay", {"order_id": "o-1"}, instance_id="o-1")
    await client.send_json("order", "Ship", {"order_id": "o-1"}, instance_id="o-1")
    await client.handle("o-1", Order).result()
    late = await client.execute_json("order", "Ship", {"order_id": "o-1"}, instance_id="o-1")

    assert placed["events"] == [{"tag": "Placed", "event": {"amount": 5}}]
    assert (placed["version"], placed["state"]) == (1, None)
    assert rejected["reason"] == {"why": "Ship while placed"}
    assert paid["reply"] == 5
    assert late == {"outcome": "completed"}


async def test_a_decider_that_is_nowhere_is_waited_for_no_longer_than_asked(stage: Stage) -> None:
    client = await stage.client()

    with pytest.raises(NotRegisteredError, match="no decider named 'order'"):
        await client.execute_json("order", "Ship", {})
    with pytest.raises(ResultTimeoutError, match="no worker has decided it"):
        await client.execute_json(
            "order", "Ship", {}, instance_id="o-1", timeout=timedelta(milliseconds=20)
        )
    await client.drop_message("order:o-1", 2)


async def test_an_instance_id_that_is_not_the_inputs_is_refused(stage: Stage) -> None:
    engine = await stage.engine([Order])

    with pytest.raises(UsageError, match="is for instance 'o-1', not 'o-2'"):
        await engine.execute_json("order", "Ship", {"order_id": "o-1"}, instance_id="o-2")


@pytest.mark.parametrize(
    ("tag", "value", "why"),
    [
        ("Steal", {"order_id": "o-1"}, "'Steal'"),
        ("Place", {"order_id": "o-1", "amount": "much"}, "amount"),
        ("Place", {}, "order_id"),
        ("Place", ["o-1"], "Place"),
        ("Pay", {"order_id": "o-2"}, "is for instance 'o-2' of decider 'order', not 'o-1'"),
        ("Pay", {"order_id": ""}, "has no instance"),
    ],
)
async def test_what_is_no_input_is_refused_by_the_worker_and_holds_up_nobody(
    stage: Stage, tag: str, value: Json, why: str
) -> None:
    """A client without the decider's code cannot know better."""
    engine = await stage.engine([Order])
    client = await stage.client()
    await engine.execute(Order, Place("o-1", 5))

    await client.send_json("order", tag, value, instance_id="o-1")
    with pytest.raises(PayloadError, match=f"input {tag}: .*{why}"):
        await client.execute_json("order", tag, value, instance_id="o-1", input_id="r-1")
    with pytest.raises(PayloadError, match=f"input {tag}: .*{why}"):
        await engine.execute(Order, Pay("o-1"), input_id="r-1")
    history = await engine.handle("o-1", Order).history()
    paid = await engine.execute(Order, Pay("o-1"))

    assert kinds(history)[4:] == ["input_taken", "input_rejected"] * 2
    assert isinstance(paid, Accepted)
    assert [one.tag for one in await engine.events(Order, "o-1")] == ["Placed", "Paid"]


async def test_what_is_no_input_begins_no_instance(stage: Stage) -> None:
    engine = await stage.engine([Order])
    client = await stage.client()

    with pytest.raises(PayloadError, match="input Steal"):
        await client.execute_json("order", "Steal", {}, instance_id="o-1")
    with pytest.raises(PayloadError, match="input Place of decider 'order'"):
        await client.send_json("order", "Place", {"amount": float("nan")}, instance_id="o-1")

    with pytest.raises(InstanceNotFoundError):
        await engine.state(Order, "o-1")


# ------------------------------------------------------------------------ without commit


async def test_a_dry_run_shows_the_decision_and_writes_nothing(stage: Stage) -> None:
    stage.expect_log("no live worker serves decider 'order'")
    client = await stage.client()
    before = transactions(client)

    new = await client.dry_run(Order, Place("o-1", 30))

    assert new.outcome == Accepted((Placed(30),), OrderState("placed", 30), 1)
    assert list(new.timers) == ["payment"]
    assert transactions(client) == before
    assert await client.count() == 0
    await client.execute(Order, Place("o-1", 30))
    paid = await client.dry_run(Order, Pay("o-1", "r"))
    assert paid.outcome == Accepted((Paid("r"),), OrderState("paid", 30, "r"), 2, reply=30)
    assert paid.cancelled_timers == ("payment",)
    refused = await client.dry_run(Order, Ship("o-1"))
    assert refused.outcome == Rejected(Refused("Ship while placed"))
    with pytest.raises(VersionConflictError):
        await client.dry_run(Order, Pay("o-1"), expected_version=7)
    assert await client.state(Order, "o-1") == OrderState("placed", 30)


async def test_a_history_reads_input_and_then_what_it_caused(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1"))
    await engine.execute(Order, Note("o-1", "hello"))

    history = await engine.handle("o-1", Order).history()

    assert kinds(history) == [
        "started",
        "input_taken",
        "event_recorded",
        "timer_armed",
        "input_taken",
        "event_recorded",
    ]
    assert history[-1].data["tag"] == Noted.__name__


async def test_a_rejection_that_another_process_kept_first_is_the_one_that_counts(
    stage: Stage,
) -> None:
    """Both have looked for a receipt before either of them keeps one."""
    one, two = await stage.client(), await stage.client()
    read = two._core.store.deciders.read_receipts
    is_first = [True]

    async def read_late(instance_id: str, input_ids: Any) -> Any:
        found = await read(instance_id, input_ids)
        if is_first.pop() if is_first else False:
            await one.execute(Timed, Tell("t"), input_id="req-1")
        return found

    two._core.store.deciders.read_receipts = read_late  # type: ignore[method-assign]  # to be late
    late = await two.execute(Timed, Tell("t"), input_id="req-1")
    again = await one.execute(Timed, Tell("t"), input_id="req-1")

    assert late == again


@dataclass(frozen=True)
class Tell:
    id: str


@dataclass(frozen=True)
class NotAt:
    time: datetime


class Timed(Decider[int, Tell, Added, NotAt]):
    """Rejects everything, and says when."""

    name = "timed"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Tell, /) -> str:
        return input.id

    def decide(self, state: int, input: Tell, now: datetime, /) -> Decision[Tell, Added, NotAt]:
        return Decision.reject(NotAt(now))

    def evolve(self, state: int, event: Added, /) -> int:
        return state


@pytest.mark.parametrize("who", ["the sender", "another client"])
async def test_code_that_fits_goes_on_with_what_other_code_was_blocked_on(
    stage: Stage, who: str
) -> None:
    client = await stage.client()
    await client.execute(Counter, Add("a", 3))
    await client.send(Counter, Add("a", 4))

    class Broken(Counter):
        def evolve(self, state: int, event: Added, /) -> int:
            raise KeyError("no longer known")

    stage.expect_log("is blocked")
    broken = await stage.engine([Broken])

    async def is_blocked() -> bool:
        return (await client.handle("a", Counter).info()).status == "blocked"

    await until(is_blocked)
    await broken.close()
    caller = client if who == "the sender" else await stage.client()

    assert await caller.execute(Counter, Add("a", 5)) == Accepted((Added(5),), 12, 3, reply=7)
    assert (await client.handle("a", Counter).info()).status == "running"
