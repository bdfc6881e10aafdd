"""What happens around each program while its history is recorded.

The name of a world is the name of the file its history is kept in. Once that is recorded the world
is only documentation: the histories are replayed without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Raw

from perdure.authoring.orchestration import Orchestration
from perdure.core.orchestrations.execution import ExecutionId
from perdure.core.rewinding import Source, cut_at, fork_of, reset_of
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    Body,
    ChildCompleted,
    ChildFailed,
    Failure,
    MessageEvent,
    Parent,
    PromiseMade,
    SignalReceived,
    read_event,
)
from perdure.model.histories.paging import CallPlan, ForEachInput, PageInput
from perdure.model.histories.slot import StartedSlot
from perdure.model.messages import Message
from tests.core.harness import START_MS, Script, new_execution, raw
from tests.golden import programs

ID = ExecutionId("order-1", 7_700_000_077, 1)
ORDER = programs.Order(
    order_id=UUID("7c1e9f0a-2f4b-4f60-9f0e-1f2d3c4b5a69"),
    ordered_on=date(2026, 2, 28),
    lines=[
        programs.Line("chair", Decimal("129.00"), 4),
        programs.Line("Tisch, groß ≥ 2 m", Decimal(1)),
    ],
    notes={"to": "Zoë 🪑"},
    paid_at=datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC),
)


class World(Script):
    """A script in which some milliseconds pass before every message."""

    def __init__(self, *args: Any, begins_ms: int = START_MS, **kwargs: Any) -> None:
        self._begins_ms = begins_ms
        self.deployed_at = 0
        """How long the history was when other code took over."""
        super().__init__(*args, **kwargs)

    def message(self, event: MessageEvent, timer_key: str | None = None) -> Message:
        self.now_ms = max(self.now_ms, self._begins_ms) + 7
        return super().message(event, timer_key)

    def next_execution(self) -> World:
        """Begin the next execution, as the commit of the last turn has it."""
        continued = self.turns[-1].continued
        assert continued is not None
        start = read_event(*continued.start)
        unread = [read_event(kind, body) for _, kind, body in continued.unread]
        old = self.execution.id
        return World(
            self.orchestration,
            id=old._replace(execution=old.execution + 1),
            started={field: getattr(start, field) for field in start.__struct_fields__},
            unread=[event for event in unread if isinstance(event, MessageEvent)],
            begins_ms=self.now_ms,
        )

    def go_back(self, number: int, *, fork_as: str = "") -> World:
        """Begin the next execution with what happened up to an event, or another instance."""
        old = self.execution.id
        own = old._replace(execution=old.execution + 1)
        source = Source(old, list(self.history), self.has_ended)
        cut = cut_at(self.history, number)
        if fork_as:
            own = ExecutionId(fork_as, old.incarnation + 1, 1)
            begun = fork_of(source, cut, own, commit_id=5)
        else:
            begun = reset_of(source, cut, commit_id=5, reason="the bank was down")
        rewind = begun.rewind
        world = World.__new__(World)
        world.__dict__.update(self.__dict__)
        world.execution = new_execution(self.orchestration, id=own)
        world.history, world.turns, world.boundaries = list(rewind.prefix), [], []
        world.execution.replay(rewind.prefix)
        carried = [*([rewind.answer] if rewind.answer else []), *rewind.unread]
        bodies = [rewind.first, *(Body(kind, body) for _, kind, body in carried)]
        events = [read_event(kind, body) for kind, body in bodies]
        world.deliver(*[event for event in events if isinstance(event, MessageEvent)])
        return world

    def open_of(self, kind: str) -> int:
        """Return the open call of a kind."""
        [seq] = [seq for seq in self.open if self.event(seq).kind == kind]
        return seq

    def deploy(self, code: Orchestration[..., Any]) -> None:
        """Go on with other code, as a worker that was restarted would."""
        self.execution.tear_down()
        self.execution = self.replayed(by=code)
        self.deployed_at = len(self.history)
        self.orchestration = code


class Golden(NamedTuple):
    """A history to record."""

    name: str
    program: str
    """The program that replays it, by its name in the module."""
    replayed_by: tuple[str, ...]
    """Further programs that must replay it."""
    record: Callable[[], World]


GOLDEN: dict[str, Golden] = {}


def golden(
    program: Orchestration[..., Any],
    *args: Any,
    replayed_by: tuple[str, ...] = (),
    started: Mapping[str, Any] | None = None,
    unread: tuple[MessageEvent, ...] = (),
) -> Callable[[Callable[[World], World | None]], Callable[[World], World | None]]:
    """Register what happens around a program. The world may return the one that is recorded."""

    def add(play: Callable[[World], World | None]) -> Callable[[World], World | None]:
        def record() -> World:
            world = World(program, *args, id=ID, started=started, unread=unread)
            return play(world) or world

        name = play.__name__
        GOLDEN[name] = Golden(name, _name_of(program), replayed_by, record)
        return play

    return add


def _name_of(program: Orchestration[..., Any]) -> str:
    return next(name for name, found in vars(programs).items() if found is program)


# ------------------------------------------------------------------ activities


@golden(programs.does_nothing)
def nothing_is_asked_for(world: World) -> None:
    pass


@golden(programs.calls)
def activities_complete_one_after_the_other(world: World) -> None:
    world.say("a", "b")


@golden(programs.calls, started={"version": "", "started_by": "order-0"})
def a_detached_instance_of_an_open_version_completes(world: World) -> None:
    world.say("a", "b")


@golden(programs.calls)
def an_activity_completes_after_failures(world: World) -> None:
    failures = (Failure("OSError", "no route", at_ms=1), Failure("TimeoutError", "late", at_ms=2))
    done = ActivityCompleted(schedule=2, result=raw("A"), failures=failures)
    world.deliver(done)
    world.say("b")


@golden(programs.calls)
def an_activity_is_open(world: World) -> None:
    world.say("a")


@golden(programs.catches)
def a_failed_activity_is_caught(world: World) -> None:
    failures = (Failure("OSError", "no route", "Traceback …", 1), Failure("OSError", "gone"))
    world.deliver(ActivityFailed(schedule=2, failures=failures, attempts=3))


@golden(programs.catches)
def a_failure_comes_back_as_its_own_class(world: World) -> None:
    declined = Failure("CardDeclinedError", "stolen", details='["stolen"]')
    world.deliver(ActivityFailed(schedule=2, failures=(declined,)))


@golden(programs.calls)
def an_activity_fails_the_instance(world: World) -> None:
    world.refuse("a")


@golden(programs.calls_with_options)
def an_activity_with_all_options_completes(world: World) -> None:
    world.say("a")


@golden(programs.calls_with_options)
def an_activity_misses_its_deadline(world: World) -> None:
    world.now_ms += 3_600_000
    late = Failure("DeadlineExceeded", "say did not end in time")
    world.deliver(ActivityFailed(schedule=2, failures=(late,)), timer_key="deadline:2")
    world.say("b")


@golden(programs.calls_with_options)
def an_activity_is_started_too_late(world: World) -> None:
    world.now_ms += 60_000
    late = Failure("StartedTooLate", "no worker started say in time")
    world.deliver(ActivityFailed(schedule=2, failures=(late,)), timer_key="start:2")
    world.say("b")


@golden(programs.passes_values, ORDER)
def values_of_every_sort_pass(world: World) -> None:
    for seq in (2, 4):
        world.complete(seq, json.loads(bytes(world.event(2).input))["order"])


@golden(programs.looks_at_itself)
def ids_and_random_numbers_stay_the_same(world: World) -> None:
    world.answer_all(lambda event: json.loads(bytes(event.input))["word"])


# --------------------------------------------------------------------- inline


@golden(programs.runs_inline)
def inline_code_completes(world: World) -> None:
    world.complete(2, "a!")
    world.complete(4, "x")


@golden(programs.runs_inline)
def inline_code_fails(world: World) -> None:
    world.fail(2)


@golden(programs.gives_up_inline)
def inline_code_is_cancelled(world: World) -> None:
    world.fire()


# --------------------------------------------------------------------- timers


@golden(programs.sleeps)
def timers_fire_one_after_the_other(world: World) -> None:
    world.fire()
    world.fire()


@golden(programs.sleeps_side_by_side)
def timers_fire_in_the_order_of_their_times(world: World) -> None:
    for _ in range(3):
        world.fire()


@golden(programs.times_out)
def a_timer_is_cancelled_by_what_ends_in_time(world: World) -> None:
    world.say("a")


@golden(programs.times_out)
def an_activity_is_cancelled_by_a_timer(world: World) -> None:
    world.fire()
    world.say("late")


@golden(programs.times_out_in_a_timeout)
def timeouts_nest_and_are_moved(world: World) -> None:
    world.fire()
    world.fire()


@golden(programs.waits_for_one)
def wait_for_gets_its_answer(world: World) -> None:
    world.say("a")


@golden(programs.waits_for_one)
def wait_for_times_out(world: World) -> None:
    world.fire()
    world.say("late")


# -------------------------------------------------------------------- signals


@golden(programs.receives)
def signals_are_waited_for_kept_and_taken(world: World) -> None:
    world.signal("number", 1)
    world.signal("number", 2)
    world.signal("other", 9)
    world.say("a")
    world.signal("number", 3)


@golden(
    programs.receives, unread=tuple(SignalReceived(name="number", value=raw(n)) for n in (1, 2))
)
def signals_come_before_the_start(world: World) -> None:
    world.say("a")
    world.signal("number", 3)


@golden(programs.receives_in_a_loop)
def signals_are_iterated(world: World) -> None:
    world.deliver(*(SignalReceived(name="number", value=raw(n)) for n in (3, 2, 1)))
    world.signal("number", 0)


@golden(programs.receives_in_tasks)
def a_wait_of_three_is_cancelled(world: World) -> None:
    world.say("a")
    world.signal("number", 1)
    world.signal("number", 2)


@golden(programs.receives_in_time)
def a_wait_times_out_between_two_signals(world: World) -> None:
    world.signal("number", 1)
    world.fire()
    world.signal("number", 2)


@golden(programs.receives_an_order)
def a_signal_has_a_type(world: World) -> None:
    value = programs.approval.codec.encode(ORDER, "approval")
    world.signal("approval", json.loads(value))


# ------------------------------------------------------------------- children


@golden(programs.has_children)
def children_complete(world: World) -> None:
    for word in "acb":
        world.child_completes(world.asked(word), word.upper())


@golden(programs.has_a_child)
def a_child_fails(world: World) -> None:
    world.child_fails(2)


@golden(programs.has_a_child)
def a_child_was_cancelled(world: World) -> None:
    failure = Failure("InstanceCancelledError", "enough")
    world.deliver(ChildFailed(schedule=2, status="was cancelled", failure=failure))


@golden(programs.has_a_child)
def a_child_was_terminated(world: World) -> None:
    failure = Failure("InstanceTerminatedError", "stop")
    world.deliver(ChildFailed(schedule=2, status="was terminated", failure=failure))


@golden(programs.has_a_child)
def a_child_was_not_started(world: World) -> None:
    failure = Failure("AlreadyExistsError", "the id 'kid' is taken")
    world.deliver(ChildFailed(schedule=2, status="not started", failure=failure))


@golden(programs.gives_up_a_child)
def a_child_is_given_up(world: World) -> None:
    world.fire()


@golden(programs.leaves_children)
def children_are_left_open_in_three_ways(world: World) -> None:
    world.say("a")


@golden(programs.calls_by_name)
def a_child_is_known_by_name(world: World) -> None:
    world.child_completes(2, "A")


# ---------------------------------------------------------- detached, and refs


@golden(programs.starts_detached)
def detached_instances_are_started(world: World) -> None:
    world.detached_starts(2)
    world.detached_starts(4)
    world.say("c")


@golden(programs.starts_what_is_taken)
def a_detached_start_is_refused(world: World) -> None:
    world.detached_is_refused(2)
    world.say("b")


@golden(programs.gives_up_a_detached_start)
def a_detached_start_is_given_up(world: World) -> None:
    world.fire()
    world.detached_starts(3)
    world.say("late")


@golden(programs.starts_detached_and_ends)
def a_detached_start_is_the_last_wish(world: World) -> None:
    pass


@golden(programs.asks_others)
def other_instances_are_asked(world: World) -> None:
    world.complete(2, {"value": 5})
    world.complete(4)
    world.fail(6, "InstanceNotFoundError", "no instance 'other'")
    world.fail(8, "InstanceEndedError", "instance 'other' has ended (completed)")
    failure = {"type_name": "ValueError", "message": "no"}
    world.complete(10, {"status": "failed", "output": failure})
    world.complete(12, {"status": "cancelled", "reason": "enough"})
    world.complete(14, {"status": "completed", "output": {"any": ["json"]}})


# ------------------------------------------------------------- kv, and reports


@golden(programs.keeps_values)
def values_are_set_removed_and_cleared(world: World) -> None:
    world.say("a", "b")


@golden(programs.counts_in_kv)
def a_value_is_counted_over_many_turns(world: World) -> None:
    for value in (3, 4):
        world.signal("number", value)
    world.deliver(*(SignalReceived(name="number", value=raw(n)) for n in (1, 2)))


@golden(programs.prunes)
def values_are_pruned(world: World) -> None:
    world.fire()
    world.fire()
    world.say("a")


@golden(programs.reports)
def reports_are_made_and_taken_back(world: World) -> None:
    world.say("a", "b")


# --------------------------------------------------------- changes of the code


@golden(programs.greets_first, replayed_by=("greets_changed",))
def the_old_side_of_a_change_is_open(world: World) -> None:
    world.say("old a")


@golden(programs.greets_changed, replayed_by=("greets_retired",))
def the_new_side_of_a_change_completes(world: World) -> None:
    world.say("new a", "new b", "bye")


@golden(programs.greets_changed)
def a_change_comes_while_the_instance_is_open(world: World) -> None:
    world.say("new a", "new b")


def _greets_while_it_changes() -> World:
    world = World(programs.greets_first, id=ID)
    world.say("old a")
    world.deploy(programs.greets_changed)
    world.say("old b", "bye")
    return world


GOLDEN["a_change_was_deployed_in_between"] = Golden(
    "a_change_was_deployed_in_between", "greets_changed", (), _greets_while_it_changes
)


# ------------------------------------------------------------- continue as new


PARENT = Parent("batch-1", 5_500_000_055, 3, 12)


@golden(programs.counts_down, started={"parent": PARENT})
def continued_execution_1(world: World) -> None:
    world.say("a")


@golden(programs.counts_down, started={"parent": PARENT})
def continued_execution_2(world: World) -> World:
    world.say("a")
    second = world.next_execution()
    second.say("a")
    return second


@golden(programs.counts_down, started={"parent": PARENT})
def continued_execution_3(world: World) -> World:
    world.say("a")
    second = world.next_execution()
    second.say("a")
    third = second.next_execution()
    third.say("a")
    return third


def _leave_everything(world: World) -> None:
    world.signal("other", 8)
    world.signal("number", 7)
    world.detached_starts(world.kinds.index("detached_scheduled") + 1)
    world.say("b")


@golden(programs.continues_leaving_everything)
def everything_is_left_behind_1(world: World) -> None:
    _leave_everything(world)


@golden(programs.continues_leaving_everything)
def everything_is_left_behind_2(world: World) -> World:
    _leave_everything(world)
    second = world.next_execution()
    second.signal("number", 9)
    return second


@golden(programs.continues_pinned)
def another_version_is_asked_for_1(world: World) -> None:
    pass


@golden(programs.continues_pinned)
def another_version_is_asked_for_2(world: World) -> World:
    second = world.next_execution()
    second.say("a")
    return second


@golden(programs.cleans_up_before_it_continues)
def an_execution_cleans_up_and_continues(world: World) -> None:
    world.say("a", "clean")


@golden(programs.cleans_up_before_it_continues)
def a_cancel_comes_while_it_cleans_up(world: World) -> None:
    world.say("a")
    world.cancel()


@golden(programs.continues_although_cancelled)
def a_cancel_is_swallowed_by_continuing(world: World) -> None:
    world.cancel()


# ------------------------------------------------------- cancelled, failed, ended


@golden(programs.compensates)
def a_cancelled_instance_compensates(world: World) -> None:
    world.cancel()
    world.say("undo")
    world.fire()


@golden(programs.swallows_a_cancel)
def a_cancel_is_swallowed(world: World) -> None:
    world.cancel()
    world.say("b")


@golden(programs.compensates_in_a_group)
def a_group_compensates(world: World) -> None:
    world.cancel()
    world.say("undo b", "undo a")


@golden(programs.shields)
def a_shield_keeps_a_cancel_away(world: World) -> None:
    world.cancel()
    world.say("a")


@golden(programs.fails_in_compensation)
def a_compensation_fails(world: World) -> None:
    world.cancel()


@golden(programs.waits_for_everything)
def one_of_each_is_open(world: World) -> None:
    pass


@golden(programs.waits_for_everything)
def one_of_each_is_cancelled(world: World) -> None:
    world.cancel()


@golden(programs.waits_for_everything)
def one_of_each_is_terminated(world: World) -> None:
    world.terminate()


# ---------------------------------------------------------- races, groups, the rest


@golden(programs.races)
def the_second_of_three_wins(world: World) -> None:
    world.say("b")


@golden(programs.races)
def of_answers_in_one_turn_the_first_wins(world: World) -> None:
    world.say_together("c", "a")


@golden(programs.races_in_a_race)
def a_signal_wins_a_race_of_races(world: World) -> None:
    world.signal("number", 5)


@golden(programs.races_with_a_failure)
def a_failure_wins_a_race(world: World) -> None:
    world.refuse("b")


@golden(programs.races_with_clean_up)
def a_loser_cleans_up(world: World) -> None:
    world.say("b", "clean")


@golden(programs.races_for_kept_signals)
def a_kept_signal_does_not_lose(world: World) -> None:
    world.signal("other", 2)
    world.signal("number", 1)
    world.say("a")


@golden(programs.races_a_signal_against_time)
def a_signal_wins_against_time(world: World) -> None:
    world.signal("number", 5)


@golden(programs.races_a_signal_against_time)
def time_wins_against_a_signal(world: World) -> None:
    world.fire()
    world.signal("number", 6)


@golden(programs.gathers)
def answers_come_backwards(world: World) -> None:
    world.say("c", "b", "a")


@golden(programs.gathers)
def answers_come_together(world: World) -> None:
    world.say_together("b", "c", "a")


@golden(programs.gathers_failures)
def a_gather_collects_a_failure(world: World) -> None:
    world.refuse("b")
    world.say("c", "a")


@golden(programs.groups)
def a_group_completes(world: World) -> None:
    world.say("c", "a", "b")


@golden(programs.groups_with_a_failure)
def a_group_fails_and_the_code_goes_on(world: World) -> None:
    world.say("b")
    world.refuse("c")
    world.say("e")


@golden(programs.fails_in_a_group)
def a_group_fails_the_instance(world: World) -> None:
    pass


@golden(programs.waits_for_the_first)
def the_rest_of_a_wait_is_cancelled(world: World) -> None:
    world.say("c")


@golden(programs.takes_as_completed)
def answers_are_taken_as_they_come(world: World) -> None:
    world.say("c", "f", "a", "b", "e", "d")


@golden(programs.limits_with_a_semaphore)
def a_semaphore_lets_two_in(world: World) -> None:
    world.say("b", "a", "d", "c", "e")


@golden(programs.works_off_a_queue)
def a_queue_is_worked_off(world: World) -> None:
    world.say("b", "a", "c", "e", "d")


@golden(programs.leaves_a_generator)
def a_generator_is_left(world: World) -> None:
    world.say("a", "end", "c")


# ------------------------------------------------------------------- going back


def _go_some_way(world: World) -> None:
    world.say("a")
    world.signal("number", 3)
    world.child_completes(world.open_of("child_scheduled"), "below")
    world.fail(world.asked("pay"))


@golden(programs.draws_and_waits)
def an_instance_is_reset_to_what_it_failed_at(world: World) -> World:
    _go_some_way(world)
    again = world.go_back(len(world.history) - 2)
    again.say("pay")
    return again


@golden(programs.draws_and_waits)
def an_instance_is_reset_while_all_is_open(world: World) -> World:
    world.say("a")
    world.signal("number", 3)
    again = world.go_back(len(world.history))
    again.child_completes(again.open_of("child_scheduled"), "below")
    again.say("pay")
    return again


@golden(programs.draws_and_waits)
def an_instance_is_reset_twice(world: World) -> World:
    _go_some_way(world)
    second = world.go_back(4)
    second.child_completes(second.open_of("child_scheduled"), "below")
    third = second.go_back(len(second.history))
    third.say("pay")
    return third


@golden(programs.draws_and_waits)
def an_instance_is_forked(world: World) -> World:
    _go_some_way(world)
    other = world.go_back(6, fork_as="i-2")
    other.child_completes(other.open_of("child_scheduled"), "below")
    other.say("pay")
    return other


def _asked(update_id: str, sku: str, count: int) -> SignalReceived:
    value = {"article": sku, "price": "1", "amount": count}
    return SignalReceived(name="update:add", value=raw({"id": update_id, "value": value}))


@golden(programs.answers)
def updates_are_answered_and_refused(world: World) -> None:
    world.deliver(_asked("u-1", "chair", 1), _asked("u-2", "lamp", -1), _asked("u-3", "pen", 2))
    world.say("chair")
    world.say("pen")


@golden(programs.serves)
def updates_are_served_beside_other_work(world: World) -> None:
    world.deliver(_asked("u-1", "chair", 4))
    world.deliver(SignalReceived(name="update:add", value=raw({"id": "u-2", "value": "chair"})))
    world.say("while it serves")


@golden(programs.leaves_unanswered)
def an_update_is_left_unanswered(world: World) -> None:
    world.deliver(_asked("u-1", "chair", 4))


# --------------------------------------------------------------- very many items

REMIND = CallPlan(
    kind="activity",
    name="remind",
    before='{"invoice":',
    behind="}",
    policy=raw({"max_attempts": 2}),
    tag="mail",
    session="s",
    deadline_ms=60_000,
    start_within_ms=9_000,
)
CHECK = CallPlan("orchestration", "check", '{"invoice":', "}", version="2.0.0", delay_ms=5)
UNPAID = CallPlan("activity", "unpaid", '{"after":', "}")
ALL_UNPAID = ForEachInput(do=REMIND, pages=2, page_size=2, max_failures=1, source=UNPAID)


def items(*numbers: int) -> tuple[Raw, ...]:
    return tuple(raw({"number": number}) for number in numbers)


def source_page(*numbers: int, next: str | None) -> dict[str, Any]:
    return {"items": [{"number": number} for number in numbers], "next": next}


@golden(programs.hands_items_over)
def items_are_handed_over(world: World) -> None:
    world.child_completes(2, {"done": 1, "failed": 1, "failures": ["item 1: no"]})


@golden(programs.hands_a_source_over)
def too_many_items_fail_and_the_caller_knows(world: World) -> None:
    content = {
        "class": "perdure.errors.TooManyFailuresError",
        "args": ["too many"],
        "state": {"done": 5, "failed": 2, "failures": ["item 3: no", "item 4: no"]},
    }
    failure = Failure("TooManyFailuresError", "too many", details=json.dumps(content))
    world.deliver(ChildFailed(schedule=2, status="failed", failure=failure))


@golden(programs.hands_a_source_over)
def a_source_fails_and_the_caller_knows(world: World) -> None:
    world.child_fails(2)


@golden(programs.coordinates, ALL_UNPAID)
def a_source_is_read_to_its_end(world: World) -> None:
    world.complete(2, source_page(1, 2, 3, 4, 5, next="five"))  # pages 4 and 5
    world.child_completes(5, {"done": 2})  # then page 8, and 9 reads on
    world.complete(9, source_page(next="six"))
    world.child_completes(4, {"done": 1, "failed": 1, "failures": ["item 1: no"]})
    world.complete(11, source_page(6, next=None))
    world.child_completes(8, {"done": 1})
    world.child_completes(15, {"done": 1})


@golden(
    programs.coordinates,
    ForEachInput(do=CHECK, pages=3, page_size=1, max_failures=None, total=2, items=items(1, 2)),
)
def items_at_hand_are_done(world: World) -> None:
    answers = [ChildCompleted(schedule=seq, result=raw({"done": 1})) for seq in (3, 2)]
    world.deliver(*answers)


@golden(programs.coordinates, ALL_UNPAID)
def too_many_items_fail(world: World) -> None:
    world.complete(2, source_page(1, 2, 3, next="four"))
    world.child_completes(5, {"failed": 2, "failures": ["item 2: no", "item 3: no"]})


@golden(programs.coordinates, ALL_UNPAID)
def a_source_fails(world: World) -> None:
    world.complete(2, source_page(1, next="two"))
    world.fail(5)


@golden(programs.coordinates, ALL_UNPAID)
def items_are_cancelled(world: World) -> None:
    world.complete(2, source_page(1, 2, 3, next="four"))
    world.cancel()


def _is_full(world: World) -> None:
    """Let the next page of the source be too much for this history."""
    world.complete(2, source_page(1, next="two"))
    world.complete(5, {"items": list(range(600)), "next": "last"})
    world.child_completes(4, {"done": 1})


@golden(programs.coordinates, ALL_UNPAID)
def items_continue_as_new_1(world: World) -> None:
    _is_full(world)


@golden(programs.coordinates, ALL_UNPAID)
def items_continue_as_new_2(world: World) -> World:
    _is_full(world)
    continued = world.turns[-1].continued
    assert continued is not None
    start = read_event(*continued.start)
    following = World(
        programs.coordinates,
        ALL_UNPAID,
        id=world.execution.id._replace(execution=2),
        started={field: getattr(start, field) for field in start.__struct_fields__},
        begins_ms=world.now_ms,
    )
    following.child_completes(2, {"done": 2})
    return following


@golden(programs.does_a_page, PageInput(REMIND, 7, 1, items=items(1, 2, 3)))
def a_page_is_done(world: World) -> None:
    world.complete(3)
    world.fail(2)
    world.complete(4)


@golden(programs.does_a_page, PageInput(CHECK, 0, None, items=items(1, 2)))
def a_page_of_children_is_done(world: World) -> None:
    world.child_fails(2)
    world.child_completes(3)


@golden(programs.does_a_page, PageInput(REMIND, 0, 0, items=items(1, 2, 3)))
def a_page_is_given_up(world: World) -> None:
    world.complete(4)
    world.fail(3)


@golden(programs.does_a_page, PageInput(REMIND, 0, None, items=items(1, 2)))
def a_page_is_cancelled(world: World) -> None:
    world.complete(2)
    world.cancel()


@golden(
    programs.coordinates,
    ForEachInput(do=CHECK, pages=1, page_size=2, max_failures=0, results="sent", items=items(1, 2)),
    started={"parent": Parent("dunning-1", 4_400_000_044, 3, 17)},
)
def results_go_to_a_stream(world: World) -> None:
    world.child_completes(2, {"done": 2})


@golden(
    programs.does_a_page,
    PageInput(REMIND, 0, 1, "sent", "dunning-1", 4_400_000_044, items(1, 2, 3)),
)
def a_page_sends_its_results(world: World) -> None:
    world.complete(4, "third")
    world.fail(3)
    world.complete(2, "first")
    [sent] = world.turns[-1].forwarded
    assert sent[:4] == ("dunning-1", 4_400_000_044, "sent", (b'"first"', b'"third"'))


@golden(programs.makes_promises)
def promises_are_kept_late_and_rejected(world: World) -> None:
    keep = "promise:paid#1.{}"
    world.say(*[one.token[:6] for one in _made(world)])
    world.signal(keep.format(1), 1)
    world.fire()
    world.deliver(SignalReceived(name=keep.format(3), value=raw(None), rejected="no"))
    world.signal(keep.format(2), 2)


@golden(programs.makes_promises)
def promises_are_open(world: World) -> None:
    world.say(*[one.token[:6] for one in _made(world)])
    world.deliver(SignalReceived(name="promise:paid#1.3", value=raw(None), rejected="no"))


def _made(world: World) -> list[PromiseMade]:
    events = [read_event(one.kind, one.body) for one in world.history]
    return [one for one in events if isinstance(one, PromiseMade)]


NIGHT = StartedSlot("nightly", "2026-10-25T02:30:00+01:00")


@golden(programs.knows_its_slot, started={"slot": NIGHT})
def a_schedule_starts_an_instance_1(world: World) -> None:
    world.say("nightly 2026-10-25T02:30:00+01:00")


@golden(programs.knows_its_slot, started={"slot": NIGHT})
def a_schedule_starts_an_instance_2(world: World) -> World:
    world.say("nightly 2026-10-25T02:30:00+01:00")
    following = world.next_execution()
    following.say("nightly 2026-10-25T02:30:00+01:00")
    return following


@golden(programs.knows_its_origin)
def a_fork_of_a_reset_knows_its_origin(world: World) -> World:
    world.say("0 own", "1 own")
    second = world.go_back(4)
    second.say("1 own")
    other = second.go_back(len(second.history), fork_as="i-2")
    other.say("2 order-1 1", "3 order-1 2")
    return other
