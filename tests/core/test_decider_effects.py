"""Effects of deciders, what they give back, and what else a decision sets going."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Never

import msgspec
import pytest

from perdure.authoring.activity import activity
from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decision import Decision
from perdure.authoring.deciders.members import encode_returned_input
from perdure.authoring.registry import activity_key, decider_key, orchestration_key
from perdure.errors import DefinitionError, PayloadError
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    Failure,
    InputTaken,
    Parent,
    read_event,
)
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import JobPolicy
from perdure.model.options import EFFECT_RETRY
from tests.core.desk import Desk
from tests.core.harness import START_MS, raw
from tests.core.orders import Order, Pay, Place, Ship


def placed() -> Desk:
    desk = Desk(Order)
    desk.execute(Place("o-1", ["a"]), correlation="cart-7")
    return desk


def shipped(parcels: int) -> Desk:
    desk = placed()
    desk.complete(4)
    desk.execute(Ship("o-1", parcels), correlation="cart-8")
    return desk


# --------------------------------------------------------------------------- effects


def test_an_effect_is_a_job_with_the_options_of_its_activity() -> None:
    desk = placed()

    job = desk.jobs[4]

    assert job.queue == activity_key("charge", None)
    assert job.input == b'{"order_id":"o-1","amount":1}'
    policy = msgspec.json.decode(job.policy, type=JobPolicy)
    assert (policy.max_attempts, policy.returns_input) == (3, True)
    assert desk.timers["deadline:4"].due_ms == START_MS + 600_000


def test_an_effect_that_returns_nothing_is_no_input() -> None:
    desk = placed()
    desk.execute(Pay("o-1", 1))

    scheduled = desk.last("effect_scheduled")
    assert not scheduled.returns_input
    before = desk.state
    desk.complete(desk.seq_of("effect_scheduled", 1))
    assert desk.state is before
    assert desk.kinds[-1] == "activity_completed"


def test_a_job_is_leased_where_the_worker_takes_it() -> None:
    desk = Desk(Order)
    asked: list[DefinitionKey] = []

    def takes(queue: DefinitionKey) -> bool:
        asked.append(queue)
        return True

    desk.takes = takes

    desk.execute(Place("o-1"))

    assert desk.jobs[4].leased
    assert asked == [activity_key("charge", None)]


def test_what_an_effect_returns_is_decided_as_an_input() -> None:
    desk = placed()

    turn = desk.return_input(4, Pay("o-1", 9))

    taken = read_event(*turn.events[1])
    assert isinstance(taken, InputTaken)
    assert (taken.tag, taken.cause, taken.correlation) == ("Pay", "effect:4", "cart-7")
    assert desk.state.paid == 9
    assert turn.timers_gone[0] == "deadline:4"
    desk.check()


def test_what_a_worker_writes_of_a_result_is_read_by_the_owner() -> None:
    """The worker that ran it may not know the decider."""
    desk = placed()

    result = msgspec.Raw(encode_returned_input(Pay("o-1", 9)))
    desk.deliver(ActivityCompleted(schedule=4, result=result))

    assert desk.state.paid == 9
    assert encode_returned_input(None) == b"null"


def test_an_effect_that_returns_none_instead_of_an_input_gives_none() -> None:
    desk = placed()

    desk.complete(4, None)

    assert desk.kinds[-1] == "activity_completed"


def test_a_result_that_comes_twice_counts_once() -> None:
    desk = placed()
    desk.return_input(4, Pay("o-1", 9))

    turn = desk.return_input(4, Pay("o-1", 9))

    assert turn.events == ()
    assert turn.consumed
    assert desk.state.paid == 9


def test_a_result_that_is_no_input_fails_the_turn_with_what_it_is() -> None:
    desk = placed()

    with pytest.raises(PayloadError, match="result of effect 'charge'"):
        desk.complete(4, {"amount": 3})


def test_a_returned_input_that_is_rejected_is_on_record_and_the_effect_is_done() -> None:
    desk = placed()

    desk.return_input(4, Place("o-1"))

    assert desk.kinds[-3:] == ["activity_completed", "input_taken", "input_rejected"]
    assert desk.execution.notes.has_effects == 0
    desk.check()


# ------------------------------------------------------------------------- dead effects


def test_a_dead_effect_delivers_its_failure_as_an_input() -> None:
    desk = placed()

    desk.fail(4, "CardDeclined", "no money")

    assert desk.state.status == "given up"
    taken: Any = desk.last("input_taken")
    assert taken.cause == "dead:4"
    assert msgspec.json.decode(taken.input)["why"] == "CardDeclined: no money"
    assert desk.kinds[-1] == "completed"


def test_a_dead_effect_that_nobody_minds_is_on_record() -> None:
    desk = placed()
    desk.complete(4)
    desk.execute(Pay("o-1", 1))

    desk.fail(desk.seq_of("effect_scheduled", 1))

    assert desk.kinds[-1] == "activity_failed"
    desk.check()


def test_an_effect_past_its_deadline_is_dead_and_its_job_gone() -> None:
    desk = placed()

    turn = desk.fire("deadline:4")

    assert turn.jobs_gone == (4,)
    assert turn.jobs_buried == (), "an input came of it"
    assert desk.state.status == "given up"
    failed: Any = desk.last("activity_failed")
    assert failed.failures[0].type_name == "DeadlineExceeded"


def test_an_effect_that_nobody_began_in_time_is_dead() -> None:
    desk = shipped(1)
    [seq] = desk.jobs

    assert desk.timers[f"start:{seq}"].due_ms == START_MS + 60_000
    turn = desk.fire(f"start:{seq}")

    [buried] = turn.jobs_buried
    assert (buried.seq, buried.unqueued) == (seq, None)
    assert (buried.failure.type_name, buried.failure.at_ms) == ("StartedTooLate", desk.now_ms)
    assert turn.jobs_gone == (seq,)
    assert desk.jobs == {}
    desk.check()


def test_a_start_timer_that_brought_nothing_is_forgotten() -> None:
    desk = shipped(1)
    [seq] = desk.jobs
    desk.now_ms = desk.timers[f"start:{seq}"].due_ms
    del desk.timers[f"start:{seq}"]

    turn = desk.run([])

    assert turn.next_due_ms == START_MS + 30 * 60_000


# ----------------------------------------------------------------------------- in order


def test_effects_in_order_begin_one_after_the_other() -> None:
    desk = shipped(3)
    first, second, third = desk.execution.open.keys() - {desk.seq_of("child_scheduled")}
    assert set(desk.jobs) == {first}
    desk.check()

    desk.complete(first)
    assert set(desk.jobs) == {second}
    desk.reload()
    desk.complete(second)
    assert set(desk.jobs) == {third}
    desk.check()

    policy = msgspec.json.decode(desk.jobs[third].policy, type=JobPolicy)
    assert (policy.max_attempts, policy.correlation) == (EFFECT_RETRY.max_attempts, "cart-8")
    desk.complete(third)
    assert desk.jobs == {}


def test_a_failed_effect_lets_the_next_one_begin() -> None:
    desk = shipped(2)
    [first] = desk.jobs

    desk.fail(first)

    assert len(desk.jobs) == 1
    assert first not in desk.jobs


def test_the_time_to_begin_counts_from_when_it_is_its_turn() -> None:
    desk = shipped(2)
    [first] = desk.jobs
    desk.now_ms += 3_600_000

    desk.complete(first)

    [second] = desk.jobs
    assert desk.timers[f"start:{second}"].due_ms == desk.now_ms + 60_000


@activity(deadline=timedelta(minutes=1))
async def quick(n: int) -> None: ...


@activity
async def slow(n: int) -> None: ...


@activity
async def speak(n: int) -> str:
    return ""


@activity
def mumble(n):  # type: ignore[no-untyped-def]  # the point
    return n


@dataclass(frozen=True)
class Go:
    how: str


@dataclass(frozen=True)
class Gone:
    pass


class Runner(Decider[int, Go, Gone, Never]):
    name = "runner"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Go, /) -> str:
        return "r"

    def decide(self, state: int, input: Go, now: datetime, /) -> Decision[Go, Gone, Never]:
        decision = Decision.accept(Gone())
        match input.how:
            case "speak":
                return decision.effect(speak, 1)  # type: ignore[call-overload,no-any-return]  # the point
            case "mumble":
                return decision.effect(mumble, 1)
        return decision.effect(slow, 1).effect(quick, 2).effect(slow, 3).in_order()

    def evolve(self, state: int, event: Gone, /) -> int:
        return state + 1


def test_one_that_is_late_before_its_turn_does_not_let_the_next_overtake() -> None:
    desk = Desk(Runner, "r")
    desk.execute(Go("in order"))
    assert set(desk.jobs) == {4}

    turn = desk.fire("deadline:5")
    [buried] = turn.jobs_buried
    assert buried.failure.type_name == "DeadlineExceeded"
    assert buried.unqueued is not None
    assert (buried.unqueued.queue, buried.unqueued.input) == (buried.queue, b'{"n":2}')
    assert turn.jobs_gone == ()
    assert set(desk.jobs) == {4}
    desk.check()

    desk.complete(4)
    assert set(desk.jobs) == {6}
    desk.check()


def test_one_that_is_late_in_the_turn_in_which_it_begins_is_dead_and_never_queued() -> None:
    desk = Desk(Runner, "r")
    desk.execute(Go("in order"))
    late = desk.due("deadline:5")

    turn = desk.run([desk.message(ActivityCompleted(schedule=4, result=raw(None))), late])

    [buried] = turn.jobs_buried
    assert buried.unqueued is not None
    assert buried.unqueued.seq == 5
    assert turn.jobs_gone == ()
    assert [job.seq for job in turn.jobs] == [6]
    desk.check()


def test_an_effect_must_return_inputs_or_nothing() -> None:
    with pytest.raises(DefinitionError, match=r"returns str, which is no input .* \(Go\)"):
        Desk(Runner, "r").execute(Go("speak"))
    with pytest.raises(DefinitionError, match="does not say what it returns: annotate it"):
        Desk(Runner, "r").execute(Go("mumble"))


# ---------------------------------------------------------------- sending, starting


def test_an_input_for_another_decider_starts_it_or_is_delivered() -> None:
    desk = shipped(1)

    turn = desk.turns[-1]
    [sent, _] = turn.children
    new = sent.instance
    assert (new.instance_id, new.definition) == ("stock:main", decider_key("stock"))
    assert sent.if_taken is None
    [delivery] = new.messages
    taken = read_event(delivery.kind, delivery.body)
    assert taken == InputTaken(
        tag="Take",
        input=raw({"order_id": "o-1", "parcels": 1}),
        cause="decider:order:o-1",
        correlation="cart-8",
    )
    assert desk.last("input_sent").instance_id == "stock:main"


def test_an_orchestration_is_started_as_a_child_that_goes_on_by_itself() -> None:
    desk = shipped(1)

    _, child = desk.turns[-1].children
    seq = desk.seq_of("child_scheduled")
    assert child.instance.instance_id == "d-o-1"
    assert child.instance.definition == orchestration_key("deliver", "1.0.0")
    started: Any = read_event(child.instance.start_kind, child.instance.start_body)
    assert started.parent == Parent("order:o-1", 77, 1, seq)
    assert desk.last("child_scheduled").on_parent_close == "abandon"


def test_how_a_started_orchestration_ends_may_be_an_input() -> None:
    desk = shipped(1)
    seq = desk.seq_of("child_scheduled")

    desk.end_child(seq, "failed")

    taken: Any = desk.last("input_taken")
    assert taken.cause == f"ended:{seq}"
    assert desk.state.status == "given up"
    # The effect that is under way still has to end.
    assert desk.execution.notes.terminal is None
    desk.check()


def test_an_end_that_the_decider_does_not_mind_is_on_record() -> None:
    desk = shipped(1)

    desk.end_child(desk.seq_of("child_scheduled"))

    assert desk.kinds[-1] == "child_completed"
    desk.check()


def test_the_end_of_a_decider_tells_whoever_waits_for_it() -> None:
    desk = Desk(Order)
    start = desk.start_message()
    started = read_event(start.kind, start.body)
    from perdure.model.histories.events import write_event

    boss = Parent("boss", 5, 2, 9)
    body = write_event(msgspec.structs.replace(started, parent=boss)).body
    desk.run([start._replace(body=body), desk.sent(Place("o-1"))])

    desk.deliver(ActivityFailed(schedule=4, failures=(Failure("E", "no"),)))

    [delivery] = desk.turns[-1].deliveries
    assert (delivery.instance_id, delivery.incarnation, delivery.kind) == (
        "boss", 5, "child_completed",
    )  # fmt: skip
