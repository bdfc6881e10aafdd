"""What a turn changes: one value for one commit."""

import asyncio
import contextlib
import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from perdure.authoring.inline import inline
from perdure.authoring.orchestration import orchestration
from perdure.authoring.registry import BEHAVIOUR, activity_key, inline_key, orchestration_key
from perdure.core.identity import child_incarnation
from perdure.core.orchestrations.turn import run_turn
from perdure.core.turn_builder import TurnTerms
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    CancelRequested,
    ChildCompleted,
    Failure,
    MessageEvent,
    Parent,
    SignalReceived,
    Started,
    Terminated,
    TimerFired,
    UnreadableEventError,
    read_event,
    write_event,
)
from perdure.model.instances import DefinitionKey, Stamp, Status
from perdure.model.jobs import JobEnd, JobKey, JobPolicy
from perdure.model.messages import Delivery, Message
from perdure.model.options import ParentClose, Retry
from perdure.model.turns import Turn, has_more, with_more
from tests.core import programs
from tests.core.harness import ID, START_MS, Script, new_execution, raw
from tests.core.programs import child, number, say

PARENT = Parent("boss", 5, 2, 9)

COMMON = {
    *("instance_id", "stamp", "commit_id", "now_ms", "worker_id", "lease", "seize", "start"),
    *("seen_no", "consumed", "job_ends", "events", "jobs", "jobs_leased_until_ms"),
    *("next_due_ms", "outcome", "is_plain"),
}
"""What plain turns may have. All that asks whether a turn is plain knows of these."""


def read(delivery: Delivery) -> Any:
    return read_event(delivery.kind, delivery.body)


def first(script: Script) -> Turn:
    return script.turns[0]


def last(script: Script) -> Turn:
    return script.turns[-1]


# ---------------------------------------------------------------------- jobs


def test_a_call_becomes_a_job() -> None:
    @orchestration
    async def calls() -> None:
        patient = say.with_options(
            retry=Retry(max_attempts=5),
            timeout=timedelta(seconds=3),
            tag="gpu",
            session="cart-7",
        )
        await patient("a")

    [job] = first(Script(calls)).jobs

    assert (job.seq, job.queue) == (2, activity_key("say", "gpu"))
    assert job.input == b'{"word":"a"}'
    assert job.session == "cart-7"
    assert not job.leased
    policy = msgspec.json.decode(job.policy, type=JobPolicy)
    assert (policy.max_attempts, policy.timeout_ms) == (5, 3_000)


def test_an_inline_call_becomes_a_job_of_the_orchestrations_own_queue() -> None:
    script = Script(programs.runs_inline)

    [job] = first(script).jobs
    assert job.queue == inline_key("runs_inline", "1.0.0")
    assert json.loads(job.input) == {"word": "a"}


def test_jobs_are_leased_where_the_worker_takes_them() -> None:
    script = Script(programs.awaits)
    asked: list[DefinitionKey] = []

    def takes(queue: DefinitionKey) -> bool:
        asked.append(queue)
        return True

    script.takes = takes
    script.say("a")

    assert [job.leased for job in last(script).jobs] == [True]
    assert asked == [activity_key("say", None)]


def test_a_call_cancelled_in_a_later_turn_takes_its_job_away() -> None:
    script = Script(programs.races)
    script.say("b")

    assert last(script).jobs_gone == (2,)
    assert last(script).jobs == ()


def test_a_call_cancelled_in_the_same_turn_never_becomes_a_job() -> None:
    script = Script(programs.races_with_clean_up)

    turn = script.deliver(
        ActivityCompleted(schedule=3, result=raw("B")),
        CancelRequested(reason="enough"),
    )

    assert [kind for kind, _ in turn.events] == [
        "activity_completed",
        "activity_cancelled",
        "activity_scheduled",
        "cancel_requested",
        "activity_cancelled",
        "cancelled",
    ]
    assert turn.jobs == ()
    assert turn.jobs_gone == (2,)


def test_what_is_made_and_undone_in_one_stretch_leaves_no_trace() -> None:
    @orchestration
    async def changes_its_mind() -> str:
        async with asyncio.timeout(5):
            tasks = [
                asyncio.create_task(each)
                for each in (say("a"), child("a"), number.receive(), asyncio.sleep(9))
            ]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return "nothing"

    turn = first(Script(changes_its_mind))

    assert [kind for kind, _ in turn.events] == ["started", "completed"]
    assert (turn.jobs, turn.jobs_gone, turn.timers, turn.timers_gone) == ((), (), (), ())
    assert (turn.children, turn.deliveries) == ((), ())


def test_the_end_adds_no_jobs_or_timers() -> None:
    @orchestration
    async def leaves_everything() -> None:
        for each in (say("a"), asyncio.sleep(5)):
            asyncio.create_task(each)  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)

    turn = first(Script(leaves_everything))

    assert "activity_scheduled" in [kind for kind, _ in turn.events]
    assert (turn.jobs, turn.timers, turn.next_due_ms) == ((), (), None)
    assert turn.outcome is not None


# -------------------------------------------------------- timers and deadlines


def test_a_sleep_becomes_a_timer() -> None:
    script = Script(programs.sleeps)

    [timer] = first(script).timers
    assert (timer.key, timer.due_ms) == ("timer:2", START_MS + 1_500)
    assert read_event(timer.kind, timer.body) == TimerFired(schedule=2)
    assert first(script).next_due_ms == START_MS + 1_500


def test_a_timer_that_is_no_longer_needed_goes() -> None:
    script = Script(programs.times_out)
    script.say("a")

    assert last(script).timers_gone == ("timer:2",)


def test_the_next_due_time_is_that_of_the_earliest_open_timer() -> None:
    script = Script(programs.sleeps_side_by_side)

    assert last(script).next_due_ms == START_MS + 1_000
    script.fire()
    assert last(script).next_due_ms == START_MS + 2_000
    script.cancel()
    assert last(script).next_due_ms is None


@orchestration
async def hurries() -> str:
    try:
        return await say.with_options(deadline=timedelta(seconds=30))("a")
    except Exception as error:
        return str(error)


def test_a_deadline_is_a_timer_that_fails_the_call() -> None:
    script = Script(hurries)

    [timer] = first(script).timers
    late = read_event(timer.kind, timer.body)
    assert (timer.key, timer.due_ms) == ("deadline:2", START_MS + 30_000)
    assert isinstance(late, ActivityFailed)
    assert first(script).next_due_ms == START_MS + 30_000

    turn = script.deliver(late, timer_key="deadline:2")
    assert turn.jobs_gone == (2,)
    assert script.result == "activity 'say' failed: DeadlineExceeded: say did not end in time"
    script.check_every_beginning()


def test_a_result_in_time_removes_the_deadline() -> None:
    script = Script(hurries)
    script.say("a")

    assert last(script).timers_gone == ("deadline:2",)
    assert last(script).jobs_gone == ()


def test_a_cancelled_call_takes_its_deadline_along() -> None:
    script = Script(hurries)
    script.cancel()

    assert last(script).timers_gone == ("deadline:2",)
    assert last(script).jobs_gone == (2,)


def test_a_deadline_set_and_removed_in_one_turn_leaves_nothing() -> None:
    @orchestration
    async def waits_then_hurries() -> None:
        await number.receive()
        with contextlib.suppress(asyncio.CancelledError):
            await say.with_options(deadline=timedelta(seconds=30))("a")
        await say("b")

    script = Script(waits_then_hurries)
    turn = script.deliver(
        SignalReceived(name="number", value=raw(1)), CancelRequested(reason="enough")
    )

    assert [job.input for job in turn.jobs] == [b'{"word":"b"}']
    assert (turn.timers, turn.timers_gone, turn.jobs_gone) == ((), (), ())
    assert turn.next_due_ms is None


def test_a_timer_is_due_no_earlier_than_asked() -> None:
    @orchestration
    async def sleeps_a_little() -> None:
        await asyncio.sleep(0.0004)

    @orchestration
    async def hurries_a_little() -> None:
        await say.with_options(deadline=timedelta(microseconds=1))("a")

    assert first(Script(sleeps_a_little)).timers[0].due_ms == START_MS + 1
    assert first(Script(hurries_a_little)).timers[0].due_ms == START_MS + 1


# ------------------------------------------------------------------ children


def test_a_child_is_started_with_its_parent_on_record() -> None:
    script = Script(programs.has_a_failing_child)

    [start] = first(script).children
    started = read_event(start.instance.start_kind, start.instance.start_body)
    assert start.instance.instance_id == "kid"
    assert start.instance.definition == orchestration_key("child", "1.0.0")
    assert start.instance.incarnation == child_incarnation(ID, 2)
    assert (start.instance.parent_id, start.instance.parent_incarnation) == ("i-1", 77)
    assert isinstance(started, Started)
    assert started.parent == Parent("i-1", 77, 1, 2)
    assert started.behaviour == BEHAVIOUR


def test_a_taken_id_comes_back_as_the_childs_failure() -> None:
    script = Script(programs.has_a_failing_child)
    [start] = first(script).children
    assert start.if_taken is not None
    taken = read(start.if_taken)

    assert (start.if_taken.instance_id, start.if_taken.execution) == ("i-1", 1)
    script.deliver(taken)
    assert script.result == "kid not started"


def test_children_get_ids_of_their_own() -> None:
    script = Script(programs.has_children)
    script.child_completes(2, "A")
    other = Script(programs.has_children, id=ID._replace(execution=2))
    ids = [start.instance.instance_id for turn in script.turns for start in turn.children]
    ids += [start.instance.instance_id for start in first(other).children]

    assert len(set(ids)) == 4
    assert all(made.startswith("i-1/") for made in ids)


def test_a_child_that_is_given_up_is_cancelled() -> None:
    script = Script(programs.gives_up_a_child)
    script.fire()

    [delivery] = last(script).deliveries
    assert delivery.instance_id == script.event(3).instance_id
    assert delivery.incarnation == child_incarnation(ID, 3)
    assert read(delivery) == CancelRequested(reason="its parent no longer waits for it")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("cancel", CancelRequested(reason="its parent 'i-1' has ended")),
        ("terminate", Terminated(reason="its parent 'i-1' has ended")),
        ("abandon", None),
    ],
)
def test_children_of_an_ended_parent_are_closed_by_policy(
    policy: ParentClose, message: MessageEvent | None
) -> None:
    @orchestration
    async def leaves_a_child() -> None:
        call = child.with_options(on_parent_close=policy, instance_id="kid")("a")
        asyncio.create_task(call)  # noqa: RUF006 - left behind on purpose
        await say("b")

    script = Script(leaves_a_child)
    assert script.words == ["b", "a"]
    script.say("b")

    assert [read(delivery) for delivery in last(script).deliveries] == (
        [] if message is None else [message]
    )


def test_a_child_that_is_given_up_by_the_turn_that_would_start_it_is_not_started() -> None:
    @orchestration
    async def begins() -> None:
        await say("a")
        await child("b")

    script = Script(begins)
    done = ActivityCompleted(schedule=2, result=raw("a"))
    turn = script.deliver(done, CancelRequested(reason="enough"))

    assert script.kinds[-4:] == [
        "child_scheduled",
        "cancel_requested",
        "child_cancelled",
        "cancelled",
    ]
    assert (turn.children, turn.deliveries) == ((), ())


# ----------------------------------------------------------------------- the end


def test_a_parent_hears_a_result() -> None:
    script = Script(programs.child, "a", started={"parent": PARENT})
    script.say("a")

    [delivery] = last(script).deliveries
    assert (delivery.instance_id, delivery.incarnation, delivery.execution) == ("boss", 5, 2)
    assert read(delivery) == ChildCompleted(schedule=9, result=raw("A"))


def _fail(script: Script) -> None:
    script.refuse("a")


def _cancel(script: Script) -> None:
    script.cancel()


def _terminate(script: Script) -> None:
    script.terminate()


@pytest.mark.parametrize(
    ("end", "status", "says", "type_name"),
    [
        (_fail, Status.FAILED, "failed", "ActivityError"),
        (_cancel, Status.CANCELLED, "was cancelled", "Cancelled"),
        (_terminate, Status.TERMINATED, "was terminated", "Terminated"),
    ],
)
def test_a_parent_hears_of_every_other_end(
    end: Any, status: Status, says: str, type_name: str
) -> None:
    script = Script(programs.child, "a", started={"parent": PARENT})
    end(script)

    [delivery] = last(script).deliveries
    failed = read(delivery)
    assert (failed.schedule, failed.status, failed.failure.type_name) == (9, says, type_name)
    outcome = last(script).outcome
    assert outcome is not None
    assert outcome.status == status
    assert outcome.digest == script.execution.digest()


def test_outcomes_keep_what_people_ask_for() -> None:
    completed = Script(programs.child, "a")
    completed.say("a")
    failed = Script(programs.child, "a")
    failed.refuse("a")
    cancelled = Script(programs.child, "a")
    cancelled.cancel("not needed")

    outcomes = [last(script).outcome for script in (completed, failed, cancelled)]
    assert [outcome and outcome.reason for outcome in outcomes] == [
        None,
        "activity 'say' failed: ValueError: no",
        "not needed",
    ]
    assert outcomes[0] is not None
    assert outcomes[0].output == b'"A"'
    assert outcomes[1] is not None
    assert outcomes[1].output is not None
    assert msgspec.json.decode(outcomes[1].output, type=Failure).type_name == "ActivityError"


def test_termination_does_not_ask_the_code() -> None:
    script = Script(programs.compensates)
    script.terminate("for good")

    assert script.kinds == ["started", "activity_scheduled", "terminated"]
    script.check_every_beginning()


# ------------------------------------------------------------ messages and order


def test_history_reads_message_what_it_caused_next_message() -> None:
    @orchestration
    async def answers_each() -> list[str]:
        async def follow(word: str) -> str:
            return await say(word) + await say(word + "2")

        return list(await asyncio.gather(follow("a"), follow("b")))

    script = Script(answers_each)
    turn = script.say_together("b", "a")

    assert [kind for kind, _ in turn.events] == [
        "activity_completed",
        "activity_scheduled",
        "activity_completed",
        "activity_scheduled",
    ]
    assert [json.loads(job.input)["word"] for job in turn.jobs] == ["b2", "a2"]
    assert [job.seq for job in turn.jobs] == [5, 7]


def test_events_are_numbered_without_gap_and_messages_are_consumed() -> None:
    script = Script(programs.gathers)
    turn = script.say_together("c", "a", "b")

    assert script.execution.last_seq == len(script.history) == 8
    assert turn.consumed == (2, 3, 4)
    assert turn.stamp == Stamp(77, 1, 5)


@pytest.mark.parametrize(
    "message",
    [
        ActivityCompleted(schedule=2, result=raw("again")),
        ActivityFailed(schedule=2, failures=(Failure("ValueError", "no"),)),
        ActivityCompleted(schedule=99, result=raw("of nothing")),
        TimerFired(schedule=3),
        ChildCompleted(schedule=3, result=raw("not a child")),
        Started(name="gathers", version="1.0.0", behaviour=1, input=msgspec.Raw(b"{}")),
    ],
    ids=lambda message: f"{message.kind} {getattr(message, 'schedule', '')}",
)
def test_what_means_nothing_any_more_is_dropped_and_consumed(message: MessageEvent) -> None:
    script = Script(programs.gathers)
    script.say("a")

    turn = script.deliver(message)

    assert turn.events == ()
    assert turn.consumed == (3,)
    script.say("b", "c")
    assert script.result == ["A", "B", "C"]


def test_a_result_that_comes_twice_in_one_turn_counts_once() -> None:
    script = Script(programs.gathers)
    answer = ActivityCompleted(schedule=2, result=raw("A"))

    turn = script.deliver(answer, answer)

    assert len(turn.events) == 1
    assert turn.consumed == (2, 3)


def test_a_result_after_the_cancellation_is_dropped() -> None:
    script = Script(programs.times_out)
    script.fire()

    turn = script.complete(3, "too late")

    assert turn.events == ()
    assert turn.consumed == (3,)


def test_a_second_cancel_is_dropped() -> None:
    script = Script(programs.swallows_a_cancel)
    script.cancel("first")

    turn = script.cancel("second")

    assert turn.events == ()
    script.say("b")
    assert script.result == "first B"


def test_messages_after_the_end_are_dropped_and_consumed() -> None:
    script = Script(programs.gathers)

    turn = script.deliver(
        *(ActivityCompleted(schedule=seq, result=raw("x")) for seq in (2, 3, 4)),
        SignalReceived(name="number", value=raw(1)),
        CancelRequested(reason="late"),
        Terminated(reason="late"),
    )

    assert [kind for kind, _ in turn.events][-1] == "completed"
    assert turn.consumed == (2, 3, 4, 5, 6, 7)
    assert turn.outcome is not None
    assert turn.outcome.status == Status.COMPLETED


def test_messages_for_another_execution_are_dropped() -> None:
    script = Script(programs.gathers)
    kind, body = write_event(ActivityCompleted(schedule=2, result=raw("of the one before")))

    turn = script.deliver_messages([Message(7, START_MS, kind, body, execution=2)])

    assert (turn.events, turn.consumed) == ((), (7,))


def test_a_damaged_message_is_not_guessed_at() -> None:
    script = Script(programs.gathers)

    with pytest.raises(UnreadableEventError):
        script.deliver_messages([Message(7, START_MS, "activity_completed", b"{]")])
    with pytest.raises(UnreadableEventError):
        script.deliver_messages([Message(7, START_MS, "from_the_future", b"{}")])


def test_time_never_runs_backwards() -> None:
    script = Script(programs.looks_at_itself, "a")
    script.now_ms -= 60_000
    script.say("a")

    assert last(script).now_ms == START_MS
    assert script.result[0] == script.result[4]


def test_what_a_wrong_clock_has_recorded_is_not_waited_for() -> None:
    """The next turn is at the time of the clock, which is right again, and so are its timers."""
    script = Script(programs.looks_at_itself, "a")
    script.now_ms -= 60_001
    script.say("a")

    assert last(script).now_ms == START_MS - 60_001
    assert script.result[0] > script.result[4]
    script.check_every_beginning()


def test_a_turn_carries_the_terms_it_was_run_under() -> None:
    execution = new_execution(programs.sleeps)
    started = Started(name="sleeps", version="1.0.0", behaviour=1, input=msgspec.Raw(b"{}"))
    terms = TurnTerms(Stamp(77, 1, 1), 3, "w", 4, 0, lambda _: False, lease=8)

    turn = run_turn(
        execution, [Message(1, START_MS, *write_event(started))], terms, now_ms=START_MS
    )

    assert (turn.stamp, turn.lease, turn.commit_id, turn.seen_no) == (terms.stamp, 8, 3, 4)
    assert (turn.worker_id, turn.instance_id) == ("w", "i-1")


def test_a_turn_that_ends_an_attempt_which_has_sent_something_is_not_plain() -> None:
    """All others of this floor are compared by the harness."""
    script = Script(programs.gathers)
    message = Message(0, START_MS, *write_event(ActivityCompleted(schedule=2, result=raw("a"))))
    end = JobEnd(key=JobKey("i-1", 1, 1, 2), token=1, kind=message.kind, body=message.body)
    sent = msgspec.structs.replace(end, sent=())

    def turn_of(ends: tuple[JobEnd, ...]) -> Turn:
        terms = TurnTerms(Stamp(1, 1, 2), 3, "w", 4, 0, lambda _: True, job_ends=ends)
        return run_turn(script.execution, [message], terms, now_ms=START_MS)

    assert turn_of((end,)).is_plain
    assert not turn_of((sent,)).is_plain


@pytest.mark.parametrize("name", sorted(set(Turn.__struct_fields__) - COMMON))
def test_a_turn_with_what_few_have_is_not_plain(name: str) -> None:
    plain = msgspec.structs.replace(first(Script(programs.gathers)), is_plain=True)

    assert not has_more(plain)
    assert has_more(with_more(plain, **{name: "something"}))
    assert not with_more(plain, **{name: "something"}).is_plain


def test_an_inline_call_can_be_found_by_its_number() -> None:
    """The worker runs the callable of the coroutine that asked for it."""

    @orchestration
    async def runs_a_closure() -> int:
        factor = 6
        return await inline(lambda: factor * 7, name="times", returns=int)

    script = Script(runs_a_closure)
    request: Any = getattr(script.execution.open[2], "request", None)

    assert request.encode(request.run()) == b"42"
    script.complete(2, 42)
    assert script.result == 42
