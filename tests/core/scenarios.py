"""What happens around each program, and how it must end: the outcome plain asyncio users expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from perdure.authoring.orchestration import Orchestration
from perdure.model.histories.events import KvEntry, SignalReceived
from tests.core import programs
from tests.core.harness import START_MS, Script, raw

Play = Callable[[Script], object]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A program, what the world does, and the last event."""

    name: str
    program: Orchestration[..., Any]
    args: tuple[Any, ...]
    play: Play
    ends: str
    gives: Any = None
    """The result, the failure's type, or the reason, by how it ends."""
    order: list[str] = field(default_factory=list)
    """Kinds of the history after the start, where they are worth stating."""
    started: dict[str, Any] = field(default_factory=dict)
    """Further fields of the start message."""

    def run(self) -> Script:
        script = Script(self.program, *self.args, started=self.started)
        self.play(script)
        return script


SCENARIOS: list[Scenario] = []


def _add(
    program: Orchestration[..., Any], args: tuple[Any, ...], **given: Any
) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        name = getattr(play, "__name__", "")
        SCENARIOS.append(Scenario(name=name, program=program, args=args, play=play, **given))
        return play

    return add


def completes(
    program: Orchestration[..., Any],
    *args: Any,
    gives: Any,
    order: str = "",
    started: dict[str, Any] | None = None,
) -> Callable[[Play], Play]:
    return _add(
        program,
        args,
        ends="completed",
        gives=gives,
        order=order.split(),
        started=started or {},
    )


def continues(
    program: Orchestration[..., Any], *args: Any, gives: Any, order: str = ""
) -> Callable[[Play], Play]:
    return _add(program, args, ends="continued_as_new", gives=gives, order=order.split())


def fails(program: Orchestration[..., Any], *args: Any, gives: str) -> Callable[[Play], Play]:
    return _add(program, args, ends="failed", gives=gives)


def is_cancelled(
    program: Orchestration[..., Any], *args: Any, gives: str = "enough", order: str = ""
) -> Callable[[Play], Play]:
    return _add(program, args, ends="cancelled", gives=gives, order=order.split())


KEPT = (KvEntry("a", raw(["old"]), START_MS - 20), KvEntry("b", raw(2), START_MS - 10))
UPPER = [word.upper() for word in programs.WORDS]
BACKWARDS = tuple(reversed(programs.WORDS))

# ------------------------------------------------------------------ awaiting


@completes(
    programs.awaits,
    gives="AB",
    order="activity_scheduled activity_completed activity_scheduled activity_completed completed",
)
def awaiting_runs_one_after_the_other(world: Script) -> None:
    world.say("a", "b")


@completes(programs.nests, gives=["A", "B", "C"])
def nested_coroutines_are_transparent(world: Script) -> None:
    world.say("a", "b", "c")


@completes(programs.catches, gives="ValueError: no")
def a_failed_activity_raises_at_the_await(world: Script) -> None:
    world.refuse("a")


@fails(programs.does_not_catch, gives="ActivityError")
def an_error_that_is_not_caught_fails_the_instance(world: Script) -> None:
    world.refuse("a")


# ---------------------------------------------------------- gather and tasks


@completes(programs.gathers, gives=["A", "B", "C"])
def gather_keeps_the_order_of_its_arguments(world: Script) -> None:
    world.say("c", "a", "b")


@completes(programs.gathers, gives=["A", "B", "C"])
def gather_takes_answers_that_come_together(world: Script) -> None:
    world.say_together("b", "c", "a")


@completes(programs.gathers_failures, gives=["A", "ActivityError", "C"])
def gather_returns_exceptions(world: Script) -> None:
    world.refuse("b")
    world.say("c", "a")


@completes(programs.gathers_until_one_fails, gives=["B", "C"])
def gather_raises_the_first_failure_and_the_others_go_on(world: Script) -> None:
    world.refuse("a")
    world.say("b", "c")


@completes(programs.gathers_gathers, gives=["A", "B", "C", "D"])
def gathers_can_be_gathered(world: Script) -> None:
    world.say("d", "a", "c", "b")


@completes(programs.cancels_a_gather, gives="cancelled")
def cancelling_a_gather_cancels_what_it_gathers(world: Script) -> None:
    world.say("b", "d")
    assert world.kinds.count("activity_cancelled") == 2


@completes(programs.makes_tasks, gives=["B", "C", "A"])
def tasks_run_side_by_side(world: Script) -> None:
    assert world.words == ["a", "b"]
    world.say("b", "a", "c")


@completes(programs.names_tasks, gives=["root", "first", "second", "task-9"])
def tasks_have_names_that_are_always_the_same(world: Script) -> None:
    world.say("a", "b")


@completes(programs.iterates_over_a_set_of_tasks, gives=list(programs.WORDS))
def a_set_of_tasks_has_the_order_of_creation(world: Script) -> None:
    world.say(*BACKWARDS)


@completes(programs.groups, gives=UPPER)
def a_task_group_waits_for_all(world: Script) -> None:
    world.say(*BACKWARDS)


@completes(programs.groups_with_a_failure, gives=["ActivityError"])
def a_failure_in_a_task_group_cancels_the_others(world: Script) -> None:
    world.say("b")
    world.refuse("f")
    assert world.kinds.count("activity_cancelled") == len(programs.WORDS) - 2


@completes(programs.groups_with_two_failures, gives=["activity", "while cancelled"])
def a_task_group_raises_all_failures_as_a_group(world: Script) -> None:
    world.refuse("a")


@completes(programs.groups_in_groups, gives=["A", "B", "C", "D"])
def task_groups_nest(world: Script) -> None:
    world.say("d", "b", "a", "c")


@completes(programs.cancels_a_task, gives=["not needed", "True"])
def cancelling_a_task_cancels_its_call_and_carries_the_message(world: Script) -> None:
    world.say("b")
    assert world.kinds.count("activity_cancelled") == 1


@completes(
    programs.makes_and_cancels_at_once,
    gives="B",
    order="activity_scheduled activity_completed completed",
)
def a_call_made_and_cancelled_at_once_leaves_no_trace(world: Script) -> None:
    world.say("b")


@completes(programs.leaves_tasks_behind, gives="D")
def tasks_left_behind_end_with_the_root(world: Script) -> None:
    world.say("b", "d")


# --------------------------------------------------------- waiting for several


@completes(programs.waits_for_all, gives=[list(programs.WORDS), []])
def wait_returns_when_all_are_done(world: Script) -> None:
    world.say(*BACKWARDS)


@completes(programs.waits_for_the_first, gives=[["c"], list("abdefghijkl")])
def wait_returns_at_the_first(world: Script) -> None:
    world.say("c")


@completes(programs.waits_for_an_exception, gives=[["d", "b"], list("acefghijkl")])
def wait_returns_at_the_first_exception(world: Script) -> None:
    world.say("d")
    world.refuse("b")


@completes(programs.waits_with_a_timeout, gives=[["b"], ["a", "c"]])
def wait_returns_at_its_timeout_and_cancels_nothing(world: Script) -> None:
    world.say("b")
    world.fire()


@completes(programs.waits_for_gathers, gives=list("hiabjckdlefg"))
def wait_returns_gathers_in_one_order(world: Script) -> None:
    world.say(*BACKWARDS)


@completes(programs.takes_calls_as_they_complete, gives=["C", "A", *UPPER[:1:-1][:-1], "B"])
def as_completed_gives_calls_in_the_order_of_answers(world: Script) -> None:
    world.say("c", "a", *[word for word in BACKWARDS if word not in "abc"], "b")


@completes(programs.takes_tasks_as_they_complete, gives=UPPER[::-1])
def as_completed_gives_tasks_in_the_order_of_answers(world: Script) -> None:
    world.say(*BACKWARDS)


@completes(programs.takes_as_completed_with_a_timeout, gives=["B", "late"])
def as_completed_times_out(world: Script) -> None:
    world.say("b")
    world.fire()


# ---------------------------------------------------------------------- time


@completes(programs.sleeps, gives=[10.0, 10.0])
def sleeping_moves_the_recorded_time_only(world: Script) -> None:
    world.fire()
    world.fire()


@completes(programs.sleeps_side_by_side, gives=[1, 2, 3])
def sleepers_wake_in_the_order_of_their_times(world: Script) -> None:
    for _ in range(3):
        world.fire()


@completes(
    programs.times_out,
    gives="A",
    order="timer_scheduled activity_scheduled activity_completed timer_cancelled completed",
)
def what_ends_in_time_cancels_the_timer(world: Script) -> None:
    world.say("a")


@completes(programs.times_out, gives="LATE")
def what_does_not_end_in_time_is_cancelled(world: Script) -> None:
    world.fire()
    assert world.kinds[3:5] == ["timer_fired", "activity_cancelled"]
    world.say("late")


@completes(programs.times_out_at, gives="LATE")
def timeout_at_takes_a_point_in_loop_time(world: Script) -> None:
    world.fire()
    world.say("late")


@completes(programs.reschedules_a_timeout, gives="late True")
def a_timeout_can_be_rescheduled(world: Script) -> None:
    world.say("a")
    world.fire()


@completes(programs.times_out_in_a_timeout, gives=["inner", "outer"])
def each_timeout_catches_its_own(world: Script) -> None:
    world.fire()
    world.fire()


@completes(programs.waits_for_one, gives="A")
def wait_for_returns_what_comes_in_time(world: Script) -> None:
    world.say("a")


@completes(programs.waits_for_one, gives="LATE")
def wait_for_cancels_what_does_not(world: Script) -> None:
    world.fire()
    world.say("late")


@completes(programs.waits_for_a_task_no_longer, gives="AB")
def wait_for_leaves_alone_what_is_shielded(world: Script) -> None:
    world.say("a")
    world.fire()
    world.say("b")


@completes(
    programs.does_not_wait_at_all,
    gives="B",
    order="activity_scheduled activity_completed completed",
)
def wait_for_nothing_asks_for_nothing(world: Script) -> None:
    world.say("b")


@completes(programs.calls_later, gives=["first", "second"])
def callbacks_run_when_their_time_comes(world: Script) -> None:
    for _ in range(4):
        world.fire()


# -------------------------------------------------------- shield, locks, queues


@completes(programs.shields, gives=["let go", "A"])
def what_is_shielded_goes_on(world: Script) -> None:
    world.say("b", "a")


@completes(programs.waits_for_an_event, gives=["x", "y", "z"])
def an_event_wakes_all(world: Script) -> None:
    world.say("a")


@completes(
    programs.takes_turns_with_a_lock,
    gives=["a in", "a out", "b in", "b out", "c in", "c out"],
)
def a_lock_lets_one_in_at_a_time(world: Script) -> None:
    world.say("a", "b", "c")


@completes(programs.limits_with_a_semaphore, gives=3)
def a_semaphore_lets_so_many_in(world: Script) -> None:
    world.say("c", "a", "b")
    world.answer_all(lambda _: "")


@completes(programs.waits_for_a_condition, gives=["first", "x", "y", "z"])
def a_condition_wakes_who_waits(world: Script) -> None:
    world.say("a")


@completes(programs.meets_at_a_barrier, gives=[0, 1, 2])
def a_barrier_opens_when_all_have_come(world: Script) -> None:
    world.say("c", "b", "a")


@completes(programs.works_off_a_queue, gives=["B", "A", "C", "E", "D"])
def a_queue_is_worked_off(world: Script) -> None:
    world.say("b", "a", "c", "e", "d")


# --------------------------------------------- generators, managers, variables


@completes(programs.reads_a_generator, gives=["A", "B"])
def an_async_generator_is_read_to_its_end(world: Script) -> None:
    world.say("a", "b", "end")


@completes(programs.leaves_a_generator, gives=["A", "C"])
def an_async_generator_left_in_the_middle_cleans_up(world: Script) -> None:
    world.say("a")
    assert world.words == ["c", "end"]
    world.say("end", "c")


@completes(programs.closes_a_generator, gives=["A"])
def an_async_generator_can_be_closed(world: Script) -> None:
    world.say("a", "end")


@completes(programs.leaves_a_generator_by_an_error, gives="left C")
def an_error_leaves_an_async_generator(world: Script) -> None:
    world.say("a", "c")


@completes(programs.feeds_a_generator, gives=["A", "B", "C"])
def an_async_generator_can_be_sent_values(world: Script) -> None:
    world.say("a", "b", "c")


@completes(programs.manages, gives=["ENTER", "A"])
def context_managers_enter_and_exit(world: Script) -> None:
    world.say("enter", "a", "no a", "exit")


@completes(programs.stacks, gives=["A", "B", "C"])
def exit_stacks_unwind(world: Script) -> None:
    world.say("a", "b", "c", "last", "no c", "no b", "no a")


@completes(programs.sets_variables, gives=["unset", "a", "b", "root", "c", "c", "d", "c", "d"])
def each_task_has_its_own_context_variables(world: Script) -> None:
    world.say("b", "a", "c", "d")


# ----------------------------------------------------------------- callbacks


@completes(programs.calls_back, gives=["soon", "first", "second"])
def callbacks_run_in_the_order_they_were_added(world: Script) -> None:
    world.say("a")


@completes(programs.starts_calls_in_callbacks, gives=["B"])
def a_callback_may_start_a_call(world: Script) -> None:
    world.say("a", "b")


@fails(programs.exits, gives="SystemExit")
def leaving_the_process_fails_the_instance_instead(world: Script) -> None:
    world.say("a")


@completes(programs.exits_in_a_task, gives="A 3")
def leaving_the_process_in_a_task_raises_where_it_is_awaited(world: Script) -> None:
    world.say("a")


@fails(programs.raises_a_group, gives="ExceptionGroup")
def a_group_of_exceptions_fails_the_instance(world: Script) -> None:
    pass


# --------------------------------------------------------------------- races


@completes(programs.races, gives=["second", "B"])
def the_first_answer_wins_a_race(world: Script) -> None:
    world.say("b")
    assert world.kinds[-2:] == ["activity_cancelled", "completed"]


@completes(programs.races, gives=["first", "A"])
def of_two_answers_in_one_turn_the_first_wins(world: Script) -> None:
    world.say_together("a", "b")


@completes(programs.races, gives=["second", "B"])
def of_two_answers_in_one_turn_the_first_wins_wherever_it_stands(world: Script) -> None:
    world.say_together("b", "a")


@completes(programs.races_many, gives=["7", "H"])
def many_can_race(world: Script) -> None:
    world.say("h")
    assert world.kinds.count("activity_cancelled") == len(programs.WORDS) - 1


@completes(programs.races_with_a_failure, gives="failed")
def a_failure_wins_a_race_too(world: Script) -> None:
    world.refuse("b")


@completes(programs.races_in_a_race, gives=[1, 0, "C"])
def races_nest(world: Script) -> None:
    world.say("c")
    assert world.kinds.count("activity_cancelled") == 3


@completes(programs.races_with_clean_up, gives=["CLEAN", "1", "B"])
def a_race_waits_until_losers_have_cleaned_up(world: Script) -> None:
    world.say("b", "clean")


@completes(programs.races_for_kept_signals, gives=[0, 1, 2])
def a_kept_signal_that_loses_a_race_is_not_lost(world: Script) -> None:
    world.signal("other", 2)
    world.signal("number", 1)
    world.say("a")


@completes(programs.races_for_kept_signals_in_races, gives=[0, 1, 2])
def a_kept_signal_that_loses_in_a_race_of_races_is_not_lost(world: Script) -> None:
    world.signal("other", 2)
    world.signal("number", 1)
    world.say("a")


@completes(programs.races_for_a_kept_signal_in_time, gives=[0, 1, 2])
def a_kept_signal_behind_a_timeout_wins_before_the_next_is_begun(world: Script) -> None:
    world.signal("other", 2)
    world.signal("number", 1)
    world.say("a")


@completes(programs.races_a_signal_against_time, gives="got 5")
def a_signal_in_time_wins_against_time(world: Script) -> None:
    world.signal("number", 5)


@completes(programs.races_a_signal_against_time, gives="late, then 6")
def a_signal_that_comes_late_goes_to_the_next_wait(world: Script) -> None:
    world.fire()
    world.signal("number", 6)


# ------------------------------------------------------------------- signals


@completes(programs.receives, gives=[1, 2, 3])
def signals_are_kept_until_somebody_waits(world: Script) -> None:
    world.signal("number", 1)
    world.signal("number", 2)
    world.signal("number", 3)
    world.say("a")


@completes(programs.receives, gives=[1, 2, 3])
def signals_come_in_their_order(world: Script) -> None:
    world.signal("number", 1)
    world.signal("other", 9)
    world.say("a")
    world.signal("number", 2)
    world.signal("number", 3)


@completes(programs.receives_in_a_loop, gives=[3, 2, 1])
def signals_can_be_iterated(world: Script) -> None:
    for value in (3, 2, 1, 0):
        world.signal("number", value)


@completes(programs.receives_in_several_tasks, gives=[["x", 1], ["y", 2], ["z", 3]])
def the_oldest_wait_gets_a_signal(world: Script) -> None:
    for value in (1, 2, 3):
        world.signal("number", value)


@completes(programs.stops_receiving, gives=[1, 2])
def a_wait_that_was_given_up_gets_nothing(world: Script) -> None:
    world.say("a")
    world.signal("number", 1)
    world.signal("number", 2)


@completes(programs.receives_in_time, gives=[1, -1, 2])
def each_wait_may_have_its_timeout(world: Script) -> None:
    world.signal("number", 1)
    world.fire()
    world.signal("number", 2)


# ------------------------------------------------------------ children, inline


@completes(programs.has_children, gives=["A", "B", "C"])
def children_are_awaited_like_any_call(world: Script) -> None:
    for word in "acb":
        world.child_completes(world.asked(word), word.upper())


@completes(programs.has_a_failing_child, gives="kid failed")
def a_failing_child_raises_at_the_await(world: Script) -> None:
    world.child_fails(world.asked("a"))


@completes(programs.has_a_failing_child, gives="kid was terminated")
def a_terminated_child_says_so(world: Script) -> None:
    world.child_fails(world.asked("a"), "was terminated")


@completes(programs.gives_up_a_child, gives="gave up")
def a_child_can_be_given_up(world: Script) -> None:
    world.fire()
    assert "child_cancelled" in world.kinds


@completes(programs.runs_inline, gives=["a!", "x"])
def inline_calls_are_recorded(world: Script) -> None:
    world.complete(2, "a!")
    world.complete(4, "x")


@completes(programs.runs_inline, gives=["no"])
def a_failed_inline_call_raises_at_the_await(world: Script) -> None:
    world.fail(2)


# ---------------------------------------------------------------- cancellation


@is_cancelled(
    programs.compensates,
    order="activity_scheduled cancel_requested activity_cancelled activity_scheduled "
    "activity_completed timer_scheduled timer_fired cancelled",
)
def a_cancelled_instance_compensates_durably(world: Script) -> None:
    world.cancel()
    world.say("undo")
    world.fire()


@completes(programs.swallows_a_cancel, gives="enough B")
def a_cancel_can_be_swallowed(world: Script) -> None:
    world.cancel()
    world.say("b")


@is_cancelled(programs.compensates_in_a_group)
def every_task_of_a_group_compensates(world: Script) -> None:
    world.cancel()
    world.say("undo b", "undo a")


@is_cancelled(programs.is_cancelled_in_a_timeout)
def a_cancel_in_a_timeout_is_no_timeout(world: Script) -> None:
    world.cancel()
    world.say("undo")


@is_cancelled(programs.is_cancelled_in_a_timeout)
def a_cancel_stays_one_when_the_timeout_comes_too(world: Script) -> None:
    world.cancel()
    world.fire()


@completes(programs.is_cancelled_in_a_timeout, gives="late")
def a_timeout_stays_one_when_compensation_takes_time(world: Script) -> None:
    world.fire()
    world.say("undo")


@completes(programs.uncancels, gives="0 B")
def a_cancel_can_be_undone(world: Script) -> None:
    world.cancel()
    world.say("b")


@completes(programs.shields_from_a_cancel, gives="A")
def a_shield_keeps_a_cancel_away(world: Script) -> None:
    world.cancel()
    world.say("a")


@fails(programs.fails_in_compensation, gives="ValueError")
def a_failure_in_compensation_is_a_failure(world: Script) -> None:
    world.cancel()


@fails(programs.cancels_itself, gives="CancelledError")
def a_cancelled_task_that_is_awaited_fails_an_instance_nobody_cancelled(world: Script) -> None:
    pass


# -------------------------------------------------------------- what it keeps by key


@completes(
    programs.keeps_values,
    gives=[
        4, ["a", "b", "c", "d"], 0, 5, None,
        {"b": [1, 2, 3], "d": "A", "e": 5}, False, "gone",
    ],
    order="kv_set kv_set kv_set kv_set activity_scheduled activity_completed kv_set kv_set "
    "kv_removed kv_removed activity_scheduled activity_completed completed",
)  # fmt: skip
def values_are_kept_and_iterated_in_one_order(world: Script) -> None:
    world.say("a", "b")
    assert world.values == {"b": [1, 2, 3], "d": "A", "e": 5}


@completes(programs.counts_in_kv, gives=13)
def a_value_read_and_written_over_many_turns_counts_once(world: Script) -> None:
    for value in (3, 4, 6):
        world.signal("number", value)


@completes(programs.counts_in_kv, gives=10)
def a_value_read_and_written_within_one_turn_counts_once(world: Script) -> None:
    world.deliver(*(SignalReceived(name="number", value=raw(each)) for each in (1, 2, 3, 4)))


@completes(programs.prunes, gives=[["first"], []])
def values_are_pruned_by_the_recorded_time_they_were_set(world: Script) -> None:
    world.fire()
    world.fire()
    world.say("a")
    assert world.kinds.count("kv_pruned") == 2


@completes(
    programs.clears,
    gives=[{}, 0],
    order="kv_set kv_set kv_cleared kv_set activity_scheduled activity_completed kv_cleared "
    "completed",
)
def values_are_cleared_at_once(world: Script) -> None:
    world.say("a")


@completes(programs.keeps_values_in_tasks, gives=["a", "b", "c", "d", "last", "b"])
def values_set_in_tasks_come_in_the_order_of_answers(world: Script) -> None:
    world.say("d", "a")
    world.say_together("c", "b")


@completes(
    programs.takes_values_over,
    gives=[{"a": ["old"], "b": 2}, "half", {"a": ["old", "again"]}],
    started={"kv": KEPT, "report": raw("half")},
)
def values_and_the_report_of_the_execution_before_are_there(world: Script) -> None:
    world.say("a")


@completes(
    programs.reads_values_of_others,
    gives=[5, None, "no instance 'nobody'"],
)
def values_of_others_are_read_by_a_call(world: Script) -> None:
    assert world.event(2).name == "perdure.read_kv"
    world.complete(2, {"value": 5})
    world.complete(4, {})
    world.fail(6, "InstanceNotFoundError", "no instance 'nobody'")


# ------------------------------------------------------- what it says of itself


@completes(
    programs.reports,
    gives=[None, {"done": 1}, {"order_id": 1, "lines": ["x"]}, None],
    order="reported reported activity_scheduled activity_completed reported activity_scheduled "
    "activity_completed reported completed",
)
def a_report_is_recorded_and_can_be_taken_back(world: Script) -> None:
    assert world.report == {"done": 1}
    world.say("a", "b")
    assert world.report is None


# ------------------------------------------------------------ changes of the code


@completes(
    programs.is_patched,
    gives=["NEW A", "NEW B", "BYE"],
    order="patched activity_scheduled activity_completed activity_scheduled activity_completed "
    "patched activity_scheduled activity_completed completed",
)
def a_change_is_recorded_once(world: Script) -> None:
    world.say("new a", "new b", "bye")


# ------------------------------------------------------------- detached, and refs


@completes(
    programs.starts_detached,
    gives=["ship-1", "i-1", "C"],
    order="detached_scheduled detached_started detached_scheduled detached_started "
    "activity_scheduled activity_completed completed",
)
def a_detached_start_is_answered_and_what_follows_fits(world: Script) -> None:
    world.detached_starts(2)
    world.detached_starts(4)
    world.say("c")


@completes(programs.starts_many_detached, gives=["ship-a", "ship-b", "ship-c"])
def detached_starts_can_be_gathered(world: Script) -> None:
    for seq in (4, 2, 3):
        world.detached_starts(seq)


@completes(
    programs.starts_what_is_taken,
    gives="instance 'ship-1' already exists and was not started again; use another id, or reach "
    "who has it with ctx.ref('ship-1') B",
)
def a_detached_start_of_a_taken_id_raises_at_the_await(world: Script) -> None:
    world.detached_is_refused(2)
    world.say("b")


@completes(
    programs.gives_up_a_detached_start,
    gives="LATE",
    order="timer_scheduled detached_scheduled timer_fired activity_scheduled detached_started "
    "activity_completed completed",
)
def a_detached_start_that_was_given_up_is_started_all_the_same(world: Script) -> None:
    world.fire()
    world.detached_starts(3)
    world.say("late")


@completes(programs.starts_detached_and_ends, gives="ended", order="detached_scheduled completed")
def a_detached_start_is_honoured_when_the_owner_ends_at_once(world: Script) -> None:
    assert [start.instance.instance_id for start in world.turns[-1].children] == ["ship-1"]


@completes(
    programs.asks_others,
    gives=[
        "InstanceNotFoundError: no instance 'other'",
        "InstanceEndedError: instance 'other' has ended (completed), it takes no messages",
        "InstanceFailedError: instance 'other' failed: ValueError: no",
        "A",
        {"any": ["json"]},
    ],
)
def other_instances_are_asked_by_calls(world: Script) -> None:
    world.complete(2)
    world.fail(4, "InstanceNotFoundError", "no instance 'other'")
    ended = "instance 'other' has ended (completed), it takes no messages"
    world.fail(6, "InstanceEndedError", ended)
    failure = {"type_name": "ValueError", "message": "no"}
    world.complete(8, {"status": "failed", "output": failure})
    world.complete(10, {"status": "completed", "output": "A"})
    world.complete(12, {"status": "completed", "output": {"any": ["json"]}})


# --------------------------------------------------------------- continue as new


@continues(
    programs.counts_down,
    gives={"left": 1},
    order="kv_set reported activity_scheduled activity_completed continued_as_new",
)
def an_execution_continues_with_other_arguments(world: Script) -> None:
    world.say("a")


@completes(programs.counts_down, 0, gives="done in 1")
def an_execution_that_does_not_continue_completes(world: Script) -> None:
    world.say("a")


@continues(programs.continues_at_once, gives={}, order="continued_as_new")
def an_execution_may_continue_in_its_first_turn(world: Script) -> None:
    pass


@continues(
    programs.cleans_up_before_it_continues,
    gives={"left": 0},
    order="activity_scheduled activity_completed activity_scheduled activity_completed "
    "continued_as_new",
)
def finally_blocks_run_before_the_next_execution(world: Script) -> None:
    world.say("a", "clean")


@is_cancelled(programs.cleans_up_before_it_continues)
def a_cancel_while_it_cleans_up_before_it_continues_wins(world: Script) -> None:
    world.say("a")
    world.cancel()


@continues(programs.continues_in_a_group, gives={"left": 0})
def the_body_of_a_task_group_may_continue(world: Script) -> None:
    world.say("c")
    assert world.kinds.count("activity_cancelled") == 2


@fails(programs.continues_while_another_fails, gives="BaseExceptionGroup")
def a_failure_beside_a_continue_fails_the_instance(world: Script) -> None:
    world.say("b")


@completes(programs.changes_its_mind, gives="A")
def what_the_code_did_last_decides(world: Script) -> None:
    world.say("a")


@continues(programs.continues_leaving_everything, gives={"left": 0})
def everything_that_is_open_is_left_behind(world: Script) -> None:
    world.signal("other", 8)
    world.signal("number", 7)
    world.detached_starts(world.kinds.index("detached_scheduled") + 1)
    world.say("b")
    assert "child_cancelled" not in world.kinds


@continues(programs.continues_although_cancelled, gives={"left": 0})
def an_execution_may_swallow_a_cancel_and_continue(world: Script) -> None:
    world.cancel()


@continues(programs.lasts, gives={"round": 1})
def everything_that_lasts_happens_at_once(world: Script) -> None:
    world.signal("number", 3)
    world.detached_starts(3)
    world.say("t")
    world.signal("number", 5)
    world.complete(4)
    world.signal("other", 1)
    world.signal("other", 2)
    world.now_ms += 1_000
    world.signal("number", 8)
    assert world.values == {"got 1": 0, "send": "None", "wait": "1"}
    assert world.report == {"last": "wait", "keys": ["send", "wait"]}


@completes(programs.drains, gives=6)
def kept_signals_are_drained_in_one_turn(world: Script) -> None:
    for value in (1, 2, 3):
        world.signal("number", value)
    world.say("a")


# -------------------------------------------------------------- itself, payloads


@completes(
    programs.passes_values,
    programs.Order(1, ["x"]),
    gives={"order_id": 3, "lines": []},
)
def values_arrive_as_they_are_annotated(world: Script) -> None:
    world.complete(2, {"order_id": 2, "lines": []})
    world.complete(4, {"order_id": 3, "lines": []})


@completes(
    programs.does_everything,
    gives=[
        "child T2", "signal 2", "race (0, 1)", "activity T1", "G1", "y", "w", "x", "z",
        "sleep None",
    ],
)  # fmt: skip
def everything_happens_at_once(world: Script) -> None:
    world.child_completes(world.asked("t2"), "T2")
    world.signal("number", 2)
    world.signal("number", 1)
    world.say("t1", "g1", "end", "m", "y", "no m")
    world.fire()
