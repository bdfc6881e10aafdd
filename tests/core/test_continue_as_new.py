"""Continue-as-new: what one commit takes over, what it drops, and who may ask for it."""

import asyncio
import contextlib
import gc
import json
import weakref
from typing import Any

import pytest

from perdure.authoring.context import Context
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.authoring.registry import BEHAVIOUR, activity_key, orchestration_key
from perdure.core.identity import child_incarnation
from perdure.errors import NondeterminismError, UsageError
from perdure.model.histories.events import (
    ActivityCompleted,
    CancelRequested,
    ChildCompleted,
    Parent,
    SignalReceived,
    Started,
    Terminated,
    read_event,
    write_event,
)
from perdure.model.instances import Status
from perdure.model.messages import Delivery, Message
from perdure.model.turns import Continuation, Turn
from tests.core import programs
from tests.core.harness import ID, START_MS, Script, executions, new_execution, raw
from tests.core.programs import child, number, say

PARENT = Parent("boss", 5, 2, 9)


def read(delivery: Delivery) -> Any:
    return read_event(delivery.kind, delivery.body)


def continued(script: Script) -> Continuation:
    found = script.turns[-1].continued
    assert found is not None
    return found


def start_of(script: Script) -> Started:
    start = read_event(*continued(script).start)
    assert isinstance(start, Started)
    return start


# ------------------------------------------------------------------ one commit


def test_one_turn_ends_the_execution_and_begins_the_next() -> None:
    script = Script(programs.counts_down, started={"parent": PARENT})
    script.now_ms += 5_000
    script.say("a")

    turn = script.turns[-1]
    assert [kind for kind, _ in turn.events] == ["activity_completed", "continued_as_new"]
    assert turn.outcome is None
    assert (turn.jobs, turn.timers, turn.next_due_ms) == ((), (), None)
    assert continued(script).definition == orchestration_key("counts_down", "1.0.0")
    assert json.loads(continued(script).input) == {"left": 1}
    start = start_of(script)
    assert (start.name, start.version, start.behaviour) == ("counts_down", "1.0.0", BEHAVIOUR)
    assert (start.code, start.parent) == ("", PARENT)
    assert [(entry.key, bytes(entry.value), entry.updated_ms) for entry in start.kv] == [
        ("left", b"2", START_MS)
    ]
    assert bytes(start.report) == b'"2 left"'


def test_the_executions_of_an_instance_are_a_chain() -> None:
    first = Script(programs.counts_down)
    first.say("a")
    second = first.continued()
    second.now_ms += 60_000
    second.say("a")
    third = second.continued()
    third.say("a")

    assert start_of(first).previous == first.execution.digest().hex()
    assert start_of(second).previous == second.execution.digest().hex()
    assert [start_of(script).since_ms for script in (first, second)] == [START_MS, START_MS]
    assert third.result == "done in 3"
    for script in (first, second, third):
        script.check_every_beginning()


def test_a_continued_execution_can_be_replayed_by_itself() -> None:
    """What it took over is in its first event: the executions before may be pruned."""
    script = Script(programs.continues_leaving_everything)
    script.signal("number", 1)
    script.signal("other", 2)
    script.signal("number", 3)
    script.say("b")
    second = script.continued()

    assert second.result == [1, 2, 3, 1, "half"]
    second.check_every_beginning()


def test_an_execution_that_continues_in_its_first_turn_does_so_in_one_commit() -> None:
    turn = Script(programs.continues_at_once).turns[0]

    assert [kind for kind, _ in turn.events] == ["started", "continued_as_new"]
    assert turn.continued is not None


# ------------------------------------------------------------- what is left behind


def test_open_calls_and_timers_of_the_execution_are_dropped() -> None:
    script = Script(programs.continues_leaving_everything)
    script.takes = lambda _: True
    script.say("b")

    assert (script.turns[-1].jobs, script.turns[-1].timers) == ((), ())
    assert script.turns[-1].next_due_ms is None
    assert script.kinds.count("activity_cancelled") == 0, "the store drops them, nothing is said"


def test_awaited_children_are_closed_by_policy_and_detached_ones_left_alone() -> None:
    script = Script(programs.continues_leaving_everything)
    script.say("b")

    closed = {delivery.instance_id: read(delivery) for delivery in script.turns[-1].deliveries}
    why = "its parent 'i-1' has continued as new"
    assert closed == {"cancel": CancelRequested(reason=why), "terminate": Terminated(reason=why)}
    seq = script.kinds.index("child_scheduled") + 1
    [to_first] = [each for each in script.turns[-1].deliveries if each.instance_id == "cancel"]
    assert to_first.incarnation == child_incarnation(ID, seq)


def test_a_detached_start_in_the_turn_that_continues_is_honoured() -> None:
    """Elsewhere the history said started and nothing was started."""
    script = Script(programs.continues_leaving_everything)
    script.say("b")

    [start] = script.turns[-1].children
    assert start.instance.instance_id == "ship-2"
    assert start.if_started is not None
    assert start.if_started.execution == 1, "the answer is for who asked, and that one has ended"


def test_values_and_report_of_the_last_turn_are_committed_too() -> None:
    @orchestration
    async def keeps_and_continues(ctx: Context, n: int = 0) -> None:
        ctx.kv["n"] = n
        ctx.report(n)
        keeps_and_continues.continue_as_new(n + 1)

    turn = Script(keeps_and_continues).turns[0]

    assert [(change.key, change.value) for change in turn.kv] == [("n", b"0")]
    assert turn.report == b"0"


# ----------------------------------------------------------------------- messages


def test_unread_signals_go_to_the_next_execution_in_their_order() -> None:
    script = Script(programs.continues_leaving_everything)
    for name, value in (("number", 1), ("other", 2), ("number", 3)):
        script.now_ms += 10
        script.signal(name, value)
    script.now_ms += 100
    script.execution = script.replayed()
    script.say("b")

    unread = continued(script).unread
    assert [read_event(kind, body) for _, kind, body in unread] == [
        SignalReceived(name="number", value=raw(1)),
        SignalReceived(name="other", value=raw(2)),
        SignalReceived(name="number", value=raw(3)),
    ]
    assert [at_ms - START_MS for at_ms, *_ in unread] == [10, 20, 30]


def test_signals_that_were_received_are_not_carried_over() -> None:
    @orchestration
    async def receives_one_each(left: int = 1) -> int:
        got = await number.receive()
        if left:
            receives_one_each.continue_as_new(left - 1)
        return got

    script = Script(receives_one_each)
    script.deliver(*(SignalReceived(name="number", value=raw(each)) for each in (1, 2)))

    assert continued(script).unread == (), "the second was not taken from the inbox at all"
    assert script.turns[-1].consumed == (2,)


def test_messages_behind_the_one_that_continues_stay_for_the_next_execution() -> None:
    """A cancel or a signal for the instance is for whichever execution it has."""
    script = Script(programs.counts_down)
    turn = script.deliver(
        ActivityCompleted(schedule=script.asked("a"), result=raw("A")),
        SignalReceived(name="number", value=raw(1)),
        CancelRequested(reason="enough"),
        Terminated(reason="stop"),
    )

    assert turn.consumed == (2,)
    assert [kind for kind, _ in turn.events] == ["activity_completed", "continued_as_new"]


def test_a_cancel_that_was_swallowed_does_not_reach_the_next_execution() -> None:
    script = Script(programs.continues_although_cancelled)
    script.cancel()
    second = script.continued()

    assert second.execution.cancel_reason is None
    second.say("a")
    assert second.result == "done"
    third = script.continued()
    third.cancel("again")
    assert third.kinds[-2:] == ["activity_cancelled", "continued_as_new"], "a new one does"


def test_nothing_follows_the_event_that_continues() -> None:
    script = Script(programs.counts_down)
    script.say("a")

    turn = script.signal("number", 1)

    assert (turn.events, turn.consumed) == ((), ())
    assert script.kinds[-1] == "continued_as_new"


def test_history_behind_the_event_that_continues_is_found() -> None:
    script = Script(programs.counts_down)
    script.say("a")
    extra = write_event(CancelRequested(reason="late"))
    last = script.history[-1]
    script.history.append(last._replace(seq=last.seq + 1, kind=extra.kind, body=extra.body))

    with pytest.raises(NondeterminismError) as caught:
        script.replayed()
    assert (caught.value.recorded, caught.value.asked) == ("cancel requested: late", "nothing more")


# ------------------------------------------------------------- parents and children


def test_a_child_that_continues_still_answers_its_parent() -> None:
    script = Script(programs.counts_down, 1, started={"parent": PARENT})
    script.say("a")
    assert script.turns[-1].deliveries == (), "the parent waits on"
    second = script.continued()
    second.say("a")

    [delivery] = second.turns[-1].deliveries
    assert (delivery.instance_id, delivery.incarnation, delivery.execution) == ("boss", 5, 2)
    assert read(delivery) == ChildCompleted(schedule=9, result=raw("done in 2"))


def _fail(script: Script) -> None:
    script.refuse("a")


def _cancel(script: Script) -> None:
    script.cancel()


def _terminate(script: Script) -> None:
    script.terminate()


@pytest.mark.parametrize(
    ("end", "status"),
    [(_fail, Status.FAILED), (_cancel, Status.CANCELLED), (_terminate, Status.TERMINATED)],
)
def test_the_parent_of_a_continued_child_hears_of_every_end(end: Any, status: Status) -> None:
    script = Script(programs.counts_down, started={"parent": PARENT})
    script.say("a")
    second = script.continued()
    end(second)

    [delivery] = second.turns[-1].deliveries
    assert read(delivery).schedule == 9
    assert (second.turns[-1].outcome or pytest.fail("no end")).status == status


@orchestration
async def has_a_child_each(left: int = 1) -> str:
    said = await child("a")
    if left:
        has_a_child_each.continue_as_new(left - 1)
    return said


def test_children_of_different_executions_never_share_an_id() -> None:
    first = Script(has_a_child_each)
    first.child_completes(2, "A")
    second = first.continued()

    [before], [now] = first.turns[0].children, second.turns[0].children
    assert before.instance.instance_id != now.instance.instance_id
    assert before.instance.incarnation != now.instance.incarnation


def test_a_childs_answer_is_for_the_execution_that_asked() -> None:
    """The address is kept with the child: whoever runs either of them need not remember it."""
    first = Script(has_a_child_each)
    first.child_completes(2, "A")
    second = first.continued()
    [start] = second.turns[0].children
    started = read_event(start.instance.start_kind, start.instance.start_body)
    assert isinstance(started, Started)
    kid = Script(child, "a", started={"parent": started.parent})
    kid.say("a")

    [answer] = kid.turns[-1].deliveries
    assert (answer.instance_id, answer.execution) == ("i-1", 2)
    late = Message(8, START_MS, answer.kind, answer.body, execution=1)
    assert second.deliver_messages([late]).events == (), "of the execution before"
    second.deliver_messages([Message(9, START_MS, answer.kind, answer.body, answer.execution)])
    assert second.result == "A"


# ------------------------------------------------------------------------ versions


def begun(version: str | None, prefers: str) -> Script:
    @orchestration(name="upgrades", version="1.0.0")
    async def upgrades(ctx: Context, pin: bool = False) -> None:
        await say("a")
        if pin:
            upgrades.with_options(version="1.5.0").continue_as_new()
        upgrades.continue_as_new()

    return Script(upgrades, version is not None, prefer=lambda _: prefers)


def test_a_plain_continue_moves_to_the_version_that_the_worker_prefers() -> None:
    script = begun(None, prefers="2.0.0")
    script.say("a")

    assert continued(script).definition == orchestration_key("upgrades", "2.0.0")
    assert (start_of(script).version, script.event(len(script.history)).version) == (
        "2.0.0",
        "2.0.0",
    )


def test_a_version_that_is_asked_for_is_where_it_goes_on() -> None:
    script = begun("1.5.0", prefers="2.0.0")
    script.say("a")

    assert continued(script).definition == orchestration_key("upgrades", "1.5.0")


def test_without_a_preference_it_stays_on_the_recorded_version() -> None:
    script = Script(programs.counts_down, version="0.9.0", started={"version": "0.9.0"})
    script.say("a")

    assert start_of(script).version == "0.9.0"


def test_the_preferred_version_may_differ_at_replay() -> None:
    script = begun(None, prefers="2.0.0")
    script.say("a")

    execution = new_execution(script.orchestration, prefer=lambda _: "3.0.0")
    execution.replay(script.history)

    assert execution.digest() == script.execution.digest()


def test_another_version_that_is_asked_for_is_found_at_replay() -> None:
    def pinned(version: str) -> Orchestration[[], None]:
        @orchestration(name="pinned")
        async def pins() -> None:
            pins.with_options(version=version).continue_as_new()

        return pins

    script = Script(pinned("2.0.0"))

    with pytest.raises(NondeterminismError) as caught:
        script.replayed(by=pinned("3.0.0"))
    assert caught.value.recorded == "continued as new@2.0.0"
    assert caught.value.asked == "continued as new@3.0.0"
    assert str(caught.value.place).endswith(" in pins")


def test_other_arguments_are_found_at_replay() -> None:
    def continuing(n: int) -> Orchestration[..., None]:
        @orchestration(name="goes_on")
        async def goes_on(left: int = 0) -> None:
            goes_on.continue_as_new(n)

        return goes_on

    script = Script(continuing(1))

    with pytest.raises(NondeterminismError) as caught:
        script.replayed(by=continuing(2))
    assert caught.value.recorded == 'continued as new@1.0.0 {"left":1}'
    assert caught.value.asked == 'continued as new@1.0.0 {"left":2}'


def test_a_new_parameter_with_a_default_is_no_difference() -> None:
    @orchestration(name="goes_on")
    async def goes_on(left: int = 0) -> None:
        goes_on.continue_as_new(1)

    @orchestration(name="goes_on")
    async def goes_on_with_more(left: int = 0, more: str = "x") -> None:
        goes_on_with_more.continue_as_new(1, more="x")

    Script(goes_on).replayed(by=goes_on_with_more)


def test_a_name_known_from_elsewhere_can_be_continued_as_too() -> None:
    """Two versions of one orchestration may live in two modules that do not know each other."""
    script = Script(_hands_over, prefer=lambda _: "7.0.0")

    assert continued(script).definition == orchestration_key("_hands_over", "7.0.0")
    assert json.loads(continued(script).input) == {"$args": [5]}


@orchestration
async def _hands_over(n: int = 0) -> None:
    Orchestration.named("_hands_over", str).continue_as_new(5)


# ------------------------------------------------------------- an open version


def test_a_start_without_a_version_gets_the_one_that_was_chosen() -> None:
    script = Script(programs.looks_at_itself, "a", version="1.2.3", started={"version": ""})
    first = script.turns[0]

    assert script.event(1).version == "1.2.3"
    assert first.definition == orchestration_key("looks_at_itself", "1.2.3")
    script.say("a")
    assert script.result[-1] == "1.2.3"
    assert script.turns[-1].definition is None, "it is chosen once"
    script.check_every_beginning()


def test_a_start_with_a_version_leaves_nothing_to_choose() -> None:
    script = Script(programs.looks_at_itself, "a")

    assert script.turns[0].definition is None


def test_the_recorded_version_is_what_the_code_sees() -> None:
    """A worker may run a recorded version on the code of another one."""
    script = Script(programs.looks_at_itself, "a", started={"version": "1.1.0"}, version="1.1.0")
    script.say("a")

    assert script.result[-1] == "1.1.0"
    replayed = new_execution(programs.looks_at_itself)
    replayed.replay(script.history)
    assert replayed.version == "1.1.0"


def test_inline_calls_belong_to_the_recorded_version() -> None:
    script = Script(programs.runs_inline, started={"version": "1.1.0"}, version="1.1.0")

    assert script.turns[0].jobs[0].queue.variant == "1.1.0"


# --------------------------------------------------------------------- wrong calls


def error_in(program: Orchestration[..., Any]) -> str:
    failure = Script(program).failure
    assert failure.type_name == "UsageError"
    return failure.message


def test_a_task_of_its_own_cannot_continue() -> None:
    @orchestration
    async def continues_in_a_task() -> None:
        async def inner() -> None:
            continues_in_a_task.continue_as_new()

        await asyncio.create_task(inner())

    text = error_in(continues_in_a_task)

    assert text.startswith("continues_in_a_task.continue_as_new(...) was called in a task of its")
    assert "let that task await this one" in text


def test_a_callback_cannot_continue() -> None:
    seen: list[str] = []

    @orchestration
    async def continues_in_a_callback() -> None:
        def call_back() -> None:
            try:
                continues_in_a_callback.continue_as_new()
            except UsageError as error:
                seen.append(str(error))

        asyncio.get_running_loop().call_soon(call_back)
        await asyncio.sleep(0)

    Script(continues_in_a_callback)

    assert "in a task of its own" in seen[0]


def test_another_orchestration_cannot_be_continued_as() -> None:
    @orchestration
    async def continues_as_another() -> None:
        programs.counts_down.continue_as_new(3)

    text = error_in(continues_as_another)

    assert "counts_down.continue_as_new(...) was called in an instance of 'continues_as_an" in text
    assert "await ctx.start(counts_down, ...)" in text


def test_arguments_are_checked_at_the_call() -> None:
    @orchestration
    async def continues_wrongly(n: int = 0) -> list[str]:
        seen = []
        for wrong in ((1, 2), ("x",)):
            try:
                continues_wrongly.continue_as_new(*wrong)
            except UsageError as error:
                seen.append(str(error))
        return seen

    assert Script(continues_wrongly).result == [
        "continues_wrongly(n: int = 0) -> list[str]: too many positional arguments",
        "continues_wrongly(n): got str where int is annotated; pass int, or annotate str",
    ]


def test_outside_an_orchestration_it_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"client\.start\(counts_down, \.\.\.\)"):
        programs.counts_down.continue_as_new(3)


def test_except_exception_does_not_catch_it() -> None:
    @orchestration
    async def catches_exceptions() -> None:
        try:
            catches_exceptions.continue_as_new()
        except Exception:
            await say("a")

    assert Script(catches_exceptions).kinds == ["started", "continued_as_new"]


@orchestration
async def swallows() -> str:
    with contextlib.suppress(BaseException):
        swallows.continue_as_new()  # the line that is named
    return await say("a")


def test_code_that_swallows_it_and_completes_is_told_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script(swallows)
    assert caplog.records == []  # A finally block may wait for something before it goes on.

    script.say("a")

    assert script.result == "A"
    [record] = caplog.records
    code = swallows.fn.__code__
    line = code.co_firstlineno + 3
    assert f"called continue_as_new at test_continue_as_new.py:{line} in swallows:" in (
        record.getMessage()
    )
    assert (record.levelname, record.__dict__["definition"]) == ("WARNING", "swallows")

    caplog.clear()
    replayed = script.replayed()
    assert replayed.terminal is not None
    assert caplog.records == []


def test_code_that_fails_instead_is_not_told_that_it_completed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @orchestration
    async def fails_instead() -> None:
        try:
            fails_instead.continue_as_new()
        finally:
            raise ValueError("no")

    assert Script(fails_instead).kinds == ["started", "failed"]
    assert caplog.records == []


# --------------------------------------------------------------------- what remains


def test_a_continued_execution_is_freed_without_the_collector() -> None:
    """An instance that never ends leaves an execution behind every time."""
    script = Script(programs.counts_down)
    script.say("a")
    gone = weakref.ref(script.execution)
    gc.disable()
    try:
        script.execution.tear_down()
        executions.clear()
        del script
        assert gone() is None
    finally:
        gc.enable()


def test_a_job_of_the_execution_is_never_one_of_the_next() -> None:
    first = Script(programs.counts_down)
    first.say("a")
    second = first.continued()

    [job] = second.turns[0].jobs
    assert job.queue == activity_key("say", None)
    kind, body = write_event(ActivityCompleted(schedule=job.seq, result=raw("late")))
    turn: Turn = second.deliver_messages([Message(9, START_MS, kind, body, execution=1)])
    assert (turn.events, turn.consumed) == ((), (9,))
