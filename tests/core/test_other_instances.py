"""Detached starts, refs, delays and the calls that must be started in time: what a turn says."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from perdure.authoring.context import Context
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.authoring.registry import BEHAVIOUR, activity_key, orchestration_key
from perdure.core.identity import child_id, child_incarnation
from perdure.core.orchestrations.execution import ExecutionId
from perdure.errors import (
    InstanceCancelledError,
    InstanceTerminatedError,
    InvalidIdError,
    NondeterminismError,
    PayloadError,
    UsageError,
)
from perdure.model.histories.events import (
    ActivityFailed,
    DetachedRefused,
    DetachedStarted,
    Started,
    read_event,
)
from perdure.model.jobs import JobPolicy
from perdure.model.messages import Delivery
from tests.core import programs
from tests.core.harness import ID, START_MS, Script
from tests.core.programs import Order, child, number, say

Use = Callable[[Context], Any]
AnyUse = Callable[[Any], Any]
"""A use that type checkers would refuse."""


def read(delivery: Delivery | None) -> Any:
    assert delivery is not None
    return read_event(delivery.kind, delivery.body)


def awaited(use: Use) -> Script:
    """Run an orchestration that awaits one thing and returns what that gives or raises."""

    @orchestration
    async def uses(ctx: Context) -> Any:
        try:
            return await use(ctx)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return Script(uses)


# ------------------------------------------------------------------------ detached


def test_a_detached_instance_is_started_without_a_parent() -> None:
    script = Script(programs.starts_detached)

    [start] = script.turns[0].children
    started = read_event(start.instance.start_kind, start.instance.start_body)
    assert start.instance.instance_id == "ship-1"
    assert start.instance.definition == orchestration_key("child", "1.0.0")
    assert start.instance.incarnation == child_incarnation(ID, 2)
    assert (start.instance.parent_id, start.instance.parent_incarnation) == (None, None)
    assert isinstance(started, Started)
    assert (started.parent, started.behaviour) == (None, BEHAVIOUR)
    assert json.loads(bytes(started.input)) == {"word": "a"}


def test_the_commit_that_starts_it_answers_the_owner() -> None:
    script = Script(programs.starts_detached)

    [start] = script.turns[0].children
    assert read(start.if_started) == DetachedStarted(schedule=2)
    refused = read(start.if_taken)
    assert isinstance(refused, DetachedRefused)
    assert (refused.schedule, refused.failure.type_name) == (2, "AlreadyExistsError")
    for answer in (start.if_started, start.if_taken):
        assert answer is not None
        assert (answer.instance_id, answer.incarnation, answer.execution) == ("i-1", 77, 1)


def test_a_detached_instance_goes_on_when_its_owner_ends() -> None:
    script = Script(programs.starts_detached_and_ends)

    assert script.turns[-1].outcome is not None
    assert script.turns[-1].deliveries == ()
    assert len(script.turns[-1].children) == 1


def test_a_detached_start_undone_in_the_same_stretch_leaves_no_trace() -> None:
    @orchestration
    async def changes_its_mind(ctx: Context) -> str:
        task = asyncio.create_task(ctx.start("ship-1", child, "a"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return "nothing"

    script = Script(changes_its_mind)

    assert script.kinds == ["started", "completed"]
    assert script.turns[0].children == ()


def test_ids_that_are_made_belong_to_the_execution() -> None:
    script = Script(programs.starts_detached)
    script.detached_starts(2)
    other = Script(programs.starts_detached, id=ID._replace(execution=2))
    other.detached_starts(2)

    [made], [made_later] = script.turns[-1].children, other.turns[-1].children
    assert made.instance.instance_id == child_id(ID, 2)
    assert made.instance.instance_id != made_later.instance.instance_id


def test_an_id_that_is_made_cannot_be_squatted() -> None:
    """It holds a random part of the owner's; and whoever has it all the same is not disturbed."""
    ids = {child_id(ExecutionId("i-1", incarnation, 1), 1) for incarnation in range(100)}
    assert len(ids) == 100

    script = Script(programs.has_children)
    [start, *_] = script.turns[0].children
    script.deliver(read(start.if_taken))
    assert script.failure.type_name == "ChildError"
    assert "is taken" in script.failure.message


def test_options_say_under_which_id_when_and_what_is_started() -> None:
    shipping = child.with_options(instance_id="ship-9", version="2.1.0", delay=timedelta(minutes=2))
    script = awaited(lambda ctx: ctx.start(shipping, "a"))

    [start] = script.turns[0].children
    assert start.instance.instance_id == "ship-9"
    assert start.instance.definition == orchestration_key("child", "2.1.0")
    assert start.instance.visible_at_ms == START_MS + 120_000
    assert start.instance.created_ms == START_MS
    assert script.event(2).delay_ms == 120_000


def test_a_child_may_be_delayed() -> None:
    script = awaited(lambda ctx: child.with_options(delay=timedelta(seconds=1.5))("a"))

    [start] = script.turns[0].children
    assert start.instance.visible_at_ms == START_MS + 1_500
    assert awaited(lambda ctx: child("a")).turns[0].children[0].instance.visible_at_ms == 0


def test_a_delay_can_be_taken_back() -> None:
    late = child.with_options(delay=timedelta(minutes=5))

    assert late.options.delay == timedelta(minutes=5)
    assert late.with_options(instance_id="x").options.delay == timedelta(minutes=5)
    assert late.with_options(delay=None).options.delay is None


@pytest.mark.parametrize("delay", [timedelta(seconds=-1), -5, "5", True])
def test_a_delay_that_makes_no_sense_is_refused(delay: Any) -> None:
    with pytest.raises(
        ValueError, match=r"delay must (not be negative|be a timedelta or a number of seconds), got"
    ):
        child.with_options(delay=delay)


def test_a_name_alone_leaves_the_version_open() -> None:
    by_name = Orchestration.named("elsewhere", str)
    for script in (
        awaited(lambda ctx: by_name("a", n=1)),
        awaited(lambda ctx: ctx.start(by_name, "a", n=1)),
    ):
        [start] = script.turns[0].children
        started = read_event(start.instance.start_kind, start.instance.start_body)
        assert start.instance.definition == orchestration_key("elsewhere", "")
        assert isinstance(started, Started)
        assert started.version == ""


def test_a_name_with_a_version_is_that_version() -> None:
    pinned = Orchestration.named("elsewhere", str).with_options(version="2.0.0")
    script = awaited(lambda ctx: pinned("a"))

    assert script.turns[0].children[0].instance.definition == orchestration_key(
        "elsewhere", "2.0.0"
    )
    with pytest.raises(UsageError, match="'' of 'elsewhere' is not a semantic version"):
        pinned.with_options(version="")


WRONG: list[tuple[AnyUse, type[Exception], str]] = [
    (lambda ctx: ctx.start("x"), UsageError, "None is not an orchestration: ctx.start takes an"),
    (lambda ctx: ctx.start("x", say, "a"), UsageError, "is not an orchestration"),
    (lambda ctx: ctx.start(say, "a"), UsageError, "Orchestration.named"),
    (lambda ctx: ctx.start("", child, "a"), InvalidIdError, "instance id '' has 0 bytes"),
    (lambda ctx: ctx.start("x", child), UsageError, "missing a required argument: 'word'"),
    (lambda ctx: ctx.start("x", child, 5), PayloadError, "got int where str is annotated"),
    (lambda ctx: ctx.ref(5), InvalidIdError, "instance id 5 is int; it must be str"),
    (lambda ctx: ctx.ref("x", say), UsageError, "is not an orchestration: ctx.ref takes an"),
    (lambda ctx: ctx.ref("x").send("number", 5), UsageError, "'number' is not a signal: make one"),
    (lambda ctx: ctx.ref("x").send(number, "5"), PayloadError, "signal 'number': got str"),
    (lambda ctx: ctx.read_kv("x", "", int), InvalidIdError, "kv key '' has 0 bytes"),
    (lambda ctx: ctx.read_kv("", "x", int), InvalidIdError, "instance id '' has 0 bytes"),
]


@pytest.mark.parametrize(("use", "kind", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_a_wrong_call_raises_at_the_call_and_asks_for_nothing(
    use: Use, kind: type[Exception], text: str
) -> None:
    script = awaited(use)

    assert script.kinds == ["started", "completed"]
    assert script.result.startswith(kind.__name__)
    assert text in script.result


# ---------------------------------------------------------------------------- refs


def test_a_ref_asks_by_a_job_of_a_built_in_activity() -> None:
    script = Script(programs.asks_others)

    [job] = script.turns[0].jobs
    assert job.queue == activity_key("perdure.send", None)
    assert json.loads(job.input) == {"instance_id": "other", "signal": "number", "value": 5}
    policy = msgspec.json.decode(job.policy, type=JobPolicy)
    assert policy.max_attempts is None
    answers = {"InstanceNotFoundError", "InstanceEndedError", "EventsRemovedError"}
    assert set(policy.no_retry) == answers
    script.complete(2)
    assert json.loads(script.turns[1].jobs[0].input) == {"instance_id": "other", "reason": "enough"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"status": "cancelled", "reason": "enough"}, InstanceCancelledError),
        ({"status": "terminated", "reason": "enough"}, InstanceTerminatedError),
    ],
)
def test_a_ref_raises_as_a_handle_does(answer: Any, kind: type[Exception]) -> None:
    script = awaited(lambda ctx: ctx.ref("other", child).result())
    script.complete(2, answer)

    assert script.result.startswith(f"{kind.__name__}: instance 'other' was")
    assert script.result.endswith(": enough")


def test_a_result_is_decoded_as_the_orchestration_says() -> None:
    @orchestration
    async def orders() -> Order:
        return Order(1, [])

    script = awaited(lambda ctx: ctx.ref("other", orders).result())
    script.complete(2, {"status": "completed", "output": {"order_id": 7, "lines": []}})
    wrong = awaited(lambda ctx: ctx.ref("other", orders).result())
    wrong.complete(2, {"status": "completed", "output": 5})

    assert "got Order where" in script.failure.message, "it is an Order, which Any cannot return"
    assert wrong.result.startswith("PayloadError")


def test_another_failure_of_a_built_in_activity_is_an_activity_error() -> None:
    script = awaited(lambda ctx: ctx.ref("other").send(number, 5))
    script.fail(2, "OSError", "no disk")

    assert script.result == "ActivityError: activity 'perdure.send' failed: OSError: no disk"


def test_a_value_of_another_instance_that_does_not_fit_names_the_key() -> None:
    script = awaited(lambda ctx: ctx.read_kv("other", "n", int))
    script.complete(2, {"value": "five"})

    assert script.result.startswith("PayloadError: kv['n'] of 'other' as int: ")


def test_a_started_instance_can_be_asked_through_its_ref() -> None:
    async def start_and_wait(ctx: Context) -> str:
        ref = await ctx.start("ship-1", child, "a")
        return await ref.result()

    script = awaited(start_and_wait)
    script.detached_starts(2)
    assert json.loads(bytes(script.event(4).input)) == {"instance_id": "ship-1"}
    script.complete(4, {"status": "completed", "output": "A"})

    assert script.result == "A"
    script.check_every_beginning()


def test_the_line_of_the_user_is_named_for_refs_and_starts() -> None:
    @orchestration(name="asks")
    async def then(ctx: Context) -> None:
        await say("a")

    def now(use: Use) -> Orchestration[..., Any]:
        @orchestration(name="asks")
        async def asks(ctx: Context) -> None:
            await use(ctx)

        return asks

    script = Script(then)
    uses: list[Use] = [
        lambda ctx: ctx.start("x", child, "a"),
        lambda ctx: ctx.ref("x").result(),
        lambda ctx: ctx.ref("x").cancel(),
        lambda ctx: ctx.read_kv("x", "a", int),
    ]
    for use in uses:
        with pytest.raises(NondeterminismError) as caught:
            script.replayed(by=now(use))
        assert str(caught.value.place).startswith("test_other_instances.py:")
        assert str(caught.value.place).endswith(" in <lambda>")


DIFFERENCES: list[tuple[Use, Use, str, str]] = [
    (
        lambda ctx: ctx.start("a", child, "x"),
        lambda ctx: ctx.start("b", child, "x"),
        "detached scheduled child@1.0.0 as a",
        "detached scheduled child@1.0.0 as b",
    ),
    (
        lambda ctx: ctx.start("a", child, "x"),
        lambda ctx: ctx.start("a", child, "y"),
        'detached scheduled child@1.0.0 as a {"word":"x"}',
        'detached scheduled child@1.0.0 as a {"word":"y"}',
    ),
    (
        lambda ctx: ctx.start("a", child, "x"),
        lambda ctx: ctx.start("a", child.with_options(version="2.0.0"), "x"),
        "detached scheduled child@1.0.0 as a",
        "detached scheduled child@2.0.0 as a",
    ),
    (
        lambda ctx: ctx.start("a", child, "x"),
        lambda ctx: child.with_options(instance_id="a")("x"),
        "detached scheduled child@1.0.0 as a",
        "child scheduled child@1.0.0 as a",
    ),
    (
        lambda ctx: ctx.start("a", Orchestration.named("child", str), word="x"),
        lambda ctx: ctx.start("a", child, "x"),
        "detached scheduled child as a",
        "detached scheduled child@1.0.0 as a",
    ),
    (
        lambda ctx: ctx.ref("a").result(),
        lambda ctx: ctx.ref("b").result(),
        'activity scheduled perdure.result {"instance_id":"a"}',
        'activity scheduled perdure.result {"instance_id":"b"}',
    ),
]


@pytest.mark.parametrize(
    ("before", "after", "recorded", "asked"), DIFFERENCES, ids=[d[3] for d in DIFFERENCES]
)
def test_a_difference_is_found_and_both_sides_are_shown(
    before: Use, after: Use, recorded: str, asked: str
) -> None:
    @orchestration(name="asks")
    async def then(ctx: Context) -> None:
        await before(ctx)

    @orchestration(name="asks")
    async def now(ctx: Context) -> None:
        await after(ctx)

    with pytest.raises(NondeterminismError) as caught:
        Script(then).replayed(by=now)
    assert (caught.value.recorded, caught.value.asked) == (recorded, asked)


def test_a_changed_delay_is_no_difference() -> None:
    def asks(late: timedelta | None) -> Orchestration[..., Any]:
        @orchestration(name="asks")
        async def starts(ctx: Context) -> None:
            await ctx.start("a", child.with_options(delay=late), "x")
            await child.with_options(instance_id="b", delay=late)("x")

        return starts

    script = Script(asks(timedelta(minutes=1)))
    script.detached_starts(2)

    script.replayed(by=asks(None))
    script.replayed(by=asks(timedelta(minutes=2)))


@pytest.mark.parametrize("again", [DetachedStarted(schedule=2), DetachedStarted(schedule=99)])
def test_an_answer_that_nobody_waits_for_is_dropped(again: DetachedStarted) -> None:
    script = Script(programs.starts_detached)
    script.detached_starts(2)

    assert script.deliver(again).events == ()


def test_a_second_answer_in_the_history_is_found() -> None:
    script = Script(programs.starts_detached)
    script.detached_starts(2)
    again = script.history[2]
    script.history.insert(3, again._replace(seq=4))

    with pytest.raises(NondeterminismError) as caught:
        script.replayed()
    assert caught.value.recorded == "detached started (of 2)"


# ---------------------------------------------------------- started in time, sessions


def _hurries(**options: Any) -> Orchestration[..., Any]:
    @orchestration(name="hurries")
    async def hurries() -> str:
        try:
            return await say.with_options(**options)("a")
        except Exception as error:
            return str(error)

    return hurries


IN_TIME = timedelta(seconds=30)


def test_a_call_that_is_not_started_in_time_fails_and_its_job_goes() -> None:
    script = Script(_hurries(start_within=IN_TIME, deadline=timedelta(minutes=5)))

    first = script.turns[0]
    start = {timer.key: timer for timer in first.timers}["start:2"]
    late = read_event(start.kind, start.body)
    assert (start.due_ms, first.next_due_ms) == (START_MS + 30_000, START_MS + 30_000)
    assert first.jobs[0].start_by_ms == script.event(2).start_by_ms == START_MS + 30_000
    assert isinstance(late, ActivityFailed)

    script.now_ms += 30_000
    turn = script.deliver(late, timer_key="start:2")
    assert turn.jobs_gone == (2,)
    assert turn.timers_gone == ("deadline:2",)
    assert script.result == "activity 'say' failed: StartedTooLate: no worker started say in time"
    script.check_every_beginning()


def test_a_deadline_takes_the_start_timer_along() -> None:
    script = Script(_hurries(start_within=IN_TIME, deadline=timedelta(seconds=10)))
    deadline = {timer.key: timer for timer in script.turns[0].timers}["deadline:2"]
    late: Any = read_event(deadline.kind, deadline.body)

    turn = script.deliver(late, timer_key="deadline:2")

    assert (turn.jobs_gone, turn.timers_gone) == ((2,), ("start:2",))


def test_a_job_that_is_leased_in_the_commit_has_no_start_timer() -> None:
    @orchestration
    async def waits_first() -> None:
        await number.receive()
        await say.with_options(start_within=IN_TIME)("a")

    script = Script(waits_first)
    script.takes = lambda _: True
    turn = script.signal("number", 1)

    assert (turn.timers, turn.next_due_ms) == ((), None)
    assert turn.jobs[0].leased


def test_an_answer_or_a_cancel_takes_the_start_timer_along() -> None:
    answered = Script(_hurries(start_within=IN_TIME))
    answered.say("a")
    cancelled = Script(_hurries(start_within=IN_TIME))
    cancelled.cancel()

    assert answered.turns[-1].timers_gone == ("start:2",)
    assert (cancelled.turns[-1].timers_gone, cancelled.turns[-1].jobs_gone) == (("start:2",), (2,))


def test_a_job_that_was_started_wakes_its_owner_at_most_once_in_vain() -> None:
    """The store removes the timer when a worker takes the job; the owner is not told."""
    script = Script(_hurries(start_within=IN_TIME))
    script.signal("other", 1)
    assert script.turns[-1].next_due_ms == START_MS + 30_000

    script.now_ms += 30_000
    woken = script.deliver()

    assert (woken.events, woken.next_due_ms) == ((), None)


def test_a_start_timer_that_is_due_is_not_forgotten_before_a_claim_shows_that_it_is_gone() -> None:
    script = Script(_hurries(start_within=IN_TIME))
    script.now_ms += 30_000

    assert script.signal("other", 1).next_due_ms == START_MS + 30_000


def test_a_start_timer_is_counted_after_a_replay() -> None:
    script = Script(_hurries(start_within=IN_TIME))

    assert script.replayed().calls.next_due_ms() == START_MS + 30_000


def test_a_changed_start_limit_is_no_difference_and_what_is_on_record_counts() -> None:
    script = Script(_hurries(start_within=IN_TIME))

    without = script.replayed(by=_hurries())
    other = script.replayed(by=_hurries(start_within=timedelta(hours=1)))

    assert without.calls.next_due_ms() == other.calls.next_due_ms() == START_MS + 30_000


def test_a_job_with_a_session_is_never_leased_in_the_commit() -> None:
    @orchestration
    async def waits_first() -> None:
        await number.receive()
        await say.with_options(session="cart-7", start_within=IN_TIME)("a")

    asked: list[object] = []

    def takes(queue: object) -> bool:
        asked.append(queue)
        return True

    script = Script(waits_first)
    script.takes = takes
    turn = script.signal("number", 1)

    assert (turn.jobs[0].session, turn.jobs[0].leased) == ("cart-7", False)
    assert asked == [], "no room is promised"
    assert [timer.key for timer in turn.timers] == [f"start:{turn.jobs[0].seq}"]
