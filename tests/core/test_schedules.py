"""What a schedule decides: slots, overlap, what was missed, what people ask for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Accepted, Every, Orchestration, Rejected, Schedule
from perdure.authoring.schedules import facts
from perdure.authoring.schedules.decider import ScheduleDecider
from perdure.authoring.schedules.facts import ScheduleState
from perdure.authoring.schedules.spec import jitter_of, slots_after
from perdure.limits import (
    MAX_BACKFILL_SLOTS,
    MAX_BACKFILLS,
    MAX_SCHEDULE_RUNS,
    SLOTS_PER_TURN,
)
from perdure.model.histories.events import ChildScheduled, Started, read_event
from tests.core.desk import Desk

HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
BASE = datetime(2026, 1, 1, tzinfo=UTC)
BASE_MS = round(BASE.timestamp() * 1000)
report = Orchestration.named("report", None)


class Case:
    """A schedule that fires every hour, from midnight on."""

    def __init__(self, schedule: Schedule[..., Any] | None = None, **options: Any) -> None:
        self.schedule = (schedule or Schedule("hourly", Every(HOUR), report)).with_options(
            **options
        )
        self.desk = Desk(ScheduleDecider, self.schedule.name)
        self.desk.now_ms = BASE_MS
        self.declare(self.schedule)

    def declare(self, schedule: Schedule[..., Any], *, by_code: bool = True) -> Any:
        return self.desk.execute(
            facts.DeclareSchedule(name=schedule.name, spec=schedule.spec, by_code=by_code)
        )

    @property
    def state(self) -> ScheduleState:
        found: ScheduleState = self.desk.execution.state
        return found

    def at(self, hours: float) -> Case:
        self.desk.now_ms = BASE_MS + round(hours * HOUR_MS)
        return self

    def tick(self, hours: float | None = None) -> list[str]:
        """Let the timer come, at a time or when it is due; return the hours that were started."""
        if hours is not None:
            self.at(hours)
        return started(self.desk.fire("key:tick").children)

    def end(self, hour: int, status: str = "completed") -> list[str]:
        """End what was started for an hour; return what that starts."""
        wanted = f"hourly@{(BASE + hour * HOUR).isoformat()}"
        [seq] = [
            seq
            for seq, call in self.desk.execution.open.items()
            if isinstance(call.event, ChildScheduled) and call.event.instance_id == wanted
        ]
        return started(self.desk.end_child(seq, status).children)

    def events(self, kind: type[Any]) -> list[Any]:
        found = []
        for row in self.desk.history:
            event: Any = read_event(row.kind, row.body)
            if row.kind == "event_recorded" and event.tag == kind.__name__:
                found.append(self.desk.definition.read_event(event))
        return found


def started(children: Sequence[Any]) -> list[str]:
    return [child.instance.instance_id.removeprefix("hourly@")[11:16] for child in children]


# ------------------------------------------------------------------------------ slots


def test_a_slot_a_start_and_the_next_timer_are_one_turn() -> None:
    case = Case()
    case.tick(1)

    turn = case.desk.turns[-1]
    [child] = turn.children
    assert child.instance.instance_id == "hourly@2026-01-01T01:00:00+00:00"
    [timer] = turn.timers
    assert timer.due_ms == BASE_MS + 2 * HOUR_MS
    begun = read_event(child.instance.start_kind, child.instance.start_body)
    assert isinstance(begun, Started)
    assert begun.slot is not None
    assert (begun.slot.schedule, begun.slot.at) == ("hourly", "2026-01-01T01:00:00+00:00")


def test_a_clock_that_goes_back_fires_no_slot_again() -> None:
    case = Case(overlap="allow")
    assert case.tick(1) == ["01:00"]
    assert case.tick(2) == ["02:00"]
    case.at(0.5)

    assert case.declare(case.schedule.with_options(overlap="skip")).events
    assert case.desk.timers["key:tick"].due_ms == BASE_MS + 3 * HOUR_MS


def test_a_timer_that_comes_early_fires_nothing() -> None:
    case = Case()
    message = case.desk.due("key:tick")
    case.at(0.5)

    assert started(case.desk.run([message]).children) == []
    assert case.desk.timers["key:tick"].due_ms == BASE_MS + HOUR_MS


def test_a_schedule_at_its_end_sets_no_timer() -> None:
    case = Case(ends_at=BASE + 1.5 * HOUR)
    case.tick(1)

    assert "key:tick" not in case.desk.timers


def test_jitter_delays_the_start_and_not_the_slot() -> None:
    case = Case(jitter=timedelta(minutes=10))
    case.tick(1)

    [child] = case.desk.turns[-1].children
    slot = next(slots_after(case.schedule.spec, BASE_MS))
    jitter_ms = jitter_of("hourly", slot, case.schedule.spec)
    assert 0 < jitter_ms <= 600_000
    assert child.instance.visible_at_ms == BASE_MS + HOUR_MS + jitter_ms
    assert child.instance.instance_id.endswith("T01:00:00+00:00")


# ---------------------------------------------------------------------------- overlap


@pytest.mark.parametrize(
    ("overlap", "at_two", "after_the_end", "at_three"),
    [
        ("skip", [], [], ["03:00"]),
        ("queue", [], ["02:00"], []),
        ("cancel", [], ["02:00"], []),
        ("terminate", [], ["02:00"], []),
        ("allow", ["02:00"], [], ["03:00"]),
    ],
)
def test_a_slot_that_comes_before_the_end(
    overlap: Any, at_two: list[str], after_the_end: list[str], at_three: list[str]
) -> None:
    case = Case(overlap=overlap)
    case.tick(1)

    assert case.tick(2) == at_two
    assert case.at(2.5).end(1) == after_the_end
    if overlap in ("queue", "cancel", "terminate"):
        case.end(2)
        at_three = ["03:00"]
    assert case.tick(3) == at_three


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel", "terminate", "allow"])
def test_a_slot_that_comes_after_the_end_is_started(overlap: Any) -> None:
    case = Case(overlap=overlap)
    case.tick(1)
    case.at(1.5).end(1)

    assert case.tick(2) == ["02:00"]


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel", "terminate", "allow"])
def test_an_end_at_the_same_time_counts_in_the_order_it_comes(overlap: Any) -> None:
    case = Case(overlap=overlap)
    case.tick(1)
    end, tick = case.at(2), case.desk.due("key:tick")
    assert end.end(1) == []

    assert started(case.desk.run([tick]).children) == ["02:00"]


@pytest.mark.parametrize(
    ("how", "kind"), [("cancel", "cancel_requested"), ("terminate", "terminated")]
)
def test_what_runs_is_stopped_in_the_commit_of_the_slot_and_once(how: Any, kind: str) -> None:
    case = Case(overlap=how)
    case.tick(1)
    case.tick(2)

    [delivery] = case.desk.turns[-1].deliveries
    assert delivery.kind == kind
    assert delivery.instance_id == "hourly@2026-01-01T01:00:00+00:00"
    case.tick(3)
    assert case.desk.turns[-1].deliveries == ()
    assert case.end(1) == ["03:00"]
    assert [one.slot[11:16] for one in case.events(facts.SlotSkipped)] == ["02:00"]


def test_of_several_that_wait_the_newest_is_started() -> None:
    case = Case(overlap="queue")
    for hour in (1, 2, 3, 4):
        case.tick(hour)

    assert case.end(1) == ["04:00"]


def test_no_more_than_a_thousand_of_a_schedule_run() -> None:
    case = Case(Schedule("hourly", Every(timedelta(seconds=1)), report), overlap="allow")
    for second in range(1, MAX_SCHEDULE_RUNS + 3):
        case.tick(second / 3600)

    assert len(case.state.running) == MAX_SCHEDULE_RUNS
    assert len(case.events(facts.SlotSkipped)) == 2


# ----------------------------------------------------------------------------- missed


def test_of_missed_slots_the_newest_is_started() -> None:
    case = Case(missed="latest")

    assert case.tick(7.2) == ["07:00"]
    assert case.desk.timers["key:tick"].due_ms == BASE_MS + 8 * HOUR_MS


def test_missed_slots_are_let_go() -> None:
    case = Case(missed="none")

    assert case.tick(7.2) == []
    assert case.tick() == ["08:00"]


def test_missed_slots_are_started_each() -> None:
    case = Case(missed="all", overlap="allow")

    assert case.tick(4.2) == ["01:00", "02:00", "03:00", "04:00"]


def test_missed_slots_are_started_a_hundred_at_a_time() -> None:
    case = Case(missed="all", overlap="allow", within=timedelta(days=30))

    assert len(case.tick(250.5)) == SLOTS_PER_TURN == 100
    assert len(case.tick(250.5)) == 100
    assert len(case.tick(250.5)) == 50
    assert case.desk.timers["key:tick"].due_ms == BASE_MS + 251 * HOUR_MS


@pytest.mark.parametrize("missed", ["latest", "all"])
def test_what_was_missed_too_long_ago_is_let_go(missed: Any) -> None:
    case = Case(missed=missed, overlap="allow", within=2 * HOUR)

    assert case.tick(20.5) == (["20:00"] if missed == "latest" else ["19:00", "20:00"])


def test_a_slot_up_to_ten_seconds_late_was_not_missed() -> None:
    case = Case(missed="none")

    assert case.tick(1 + 10 / 3600) == ["01:00"]


def test_of_many_missed_and_stopped_ones_only_the_last_is_started() -> None:
    case = Case(missed="all", overlap="cancel")

    assert case.tick(4.2) == ["04:00"]
    assert case.desk.turns[-1].deliveries == ()


# ---------------------------------------------------------------------------- declared


def test_the_same_again_leaves_no_trace() -> None:
    case = Case()
    before = len(case.desk.history)

    assert isinstance(case.declare(case.schedule), Rejected)
    assert len(case.desk.history) == before


def test_what_is_due_is_started_under_what_was_said_before() -> None:
    case = Case()
    case.at(1.001)

    case.declare(Schedule("hourly", Every(2 * HOUR), report))

    assert started(case.desk.turns[-1].children) == ["01:00"]
    assert case.desk.timers["key:tick"].due_ms == BASE_MS + 2 * HOUR_MS


def test_a_change_starts_nothing_for_times_before_it() -> None:
    case = Case(missed="all", overlap="allow")
    case.tick(5)
    case.at(5.5).declare(Schedule("hourly", Every(HOUR / 60), report))

    assert started(case.desk.turns[-1].children) == []


def test_the_lower_version_of_two_does_not_count() -> None:
    old, new = report.with_options(version="1.0.0"), report.with_options(version="1.1.0")
    case = Case(Schedule("hourly", Every(HOUR), new))

    refused = case.declare(Schedule("hourly", Every(2 * HOUR), old))

    assert refused == Rejected(facts.Outranked(version="1.1.0"))
    assert isinstance(case.declare(Schedule("hourly", Every(3 * HOUR), new)), Accepted)


def test_a_name_of_another_orchestration_is_refused_unless_code_says_both() -> None:
    case = Case()
    other = Schedule("hourly", Every(HOUR), Orchestration.named("other", None))

    assert isinstance(case.declare(other, by_code=False), Rejected)
    assert isinstance(case.declare(other), Accepted)


def test_pause_survives_what_code_declares() -> None:
    case = Case()
    case.desk.execute(facts.PauseSchedule(name="hourly", reason="migration"))
    case.declare(case.schedule.with_options(overlap="queue"))

    assert case.state.paused == "migration"
    assert "key:tick" not in case.desk.timers
    case.at(9.5).desk.execute(facts.ResumeSchedule(name="hourly"))
    assert case.tick() == ["10:00"]


def test_what_waits_does_not_begin_during_a_pause() -> None:
    case = Case(overlap="queue")
    case.tick(1)
    case.tick(2)
    case.desk.execute(facts.PauseSchedule(name="hourly", reason=""))

    assert case.end(1) == []
    case.desk.execute(facts.ResumeSchedule(name="hourly"))
    assert started(case.desk.turns[-1].children) == ["02:00"]


# ----------------------------------------------------------------------------- by hand


def test_the_same_trigger_twice_starts_one() -> None:
    case = Case()
    asked = facts.TriggerSchedule(name="hourly", trigger_id="t-1")

    first: Any = case.desk.execute(asked)
    fired = case.state.last
    again: Any = case.at(0.5).desk.execute(asked)

    assert first.reply == again.reply == "hourly@trigger#t-1"
    assert again.events == ()
    assert case.state.last == fired
    assert sum(len(turn.children) for turn in case.desk.turns) == 1
    assert case.state.running == ("hourly@trigger#t-1",)


def test_an_id_that_is_taken_is_no_run() -> None:
    case = Case()
    case.tick(1)
    case.end(1, status="not started")

    assert case.state.running == ()


def test_a_backfill_starts_a_range_a_hundred_at_a_time() -> None:
    case = Case()
    asked: Any = case.desk.execute(
        facts.BackfillSchedule(
            name="hourly", from_ms=BASE_MS - 150 * HOUR_MS, before_ms=BASE_MS, overlap="allow"
        )
    )

    assert asked.reply == 150
    assert len(case.desk.turns[-1].children) == 100
    assert len(case.desk.fire("key:backfill").children) == 50
    assert case.state.backfills == ()
    assert "key:backfill" not in case.desk.timers
    assert case.state.decided_ms == BASE_MS


def test_a_backfill_in_a_queue_goes_one_after_another() -> None:
    case = Case()
    case.desk.execute(
        facts.BackfillSchedule(
            name="hourly", from_ms=BASE_MS, before_ms=BASE_MS + 3 * HOUR_MS, overlap="queue"
        )
    )
    assert started(case.desk.turns[-1].children) == ["00:00"]

    assert case.end(0) == ["01:00"]
    assert case.end(1) == ["02:00"]
    assert case.end(2) == []
    assert case.state.backfills == ()


def backfill_of(hours: int, overlap: Any = "allow") -> facts.BackfillSchedule:
    before_ms = BASE_MS + hours * HOUR_MS
    return facts.BackfillSchedule(
        name="hourly", from_ms=BASE_MS, before_ms=before_ms, overlap=overlap
    )


def test_too_long_a_backfill_is_refused() -> None:
    case = Case()
    assert isinstance(case.desk.execute(backfill_of(MAX_BACKFILL_SLOTS)), Accepted)

    refused = Case().desk.execute(backfill_of(MAX_BACKFILL_SLOTS + 1))

    assert isinstance(refused, Rejected)
    assert "10,000" in refused.reason.why


def test_too_many_backfills_are_refused() -> None:
    case = Case()
    for _ in range(MAX_BACKFILLS):
        assert isinstance(case.desk.execute(backfill_of(2, "queue")), Accepted)

    refused = case.desk.execute(backfill_of(2, "queue"))

    assert isinstance(refused, Rejected)
    assert len(case.state.backfills) == MAX_BACKFILLS


def test_a_deleted_schedule_has_no_timer_and_what_it_started_goes_on() -> None:
    case = Case()
    case.tick(1)
    case.desk.execute(facts.DeleteSchedule(name="hourly"))

    turn = case.desk.turns[-1]
    assert turn.outcome is not None
    assert turn.deliveries == ()


def test_nothing_is_asked_of_a_schedule_that_is_not_there() -> None:
    desk = Desk(ScheduleDecider, "hourly")

    asked = desk.execute(facts.TriggerSchedule(name="hourly", trigger_id="t"))

    assert asked == Rejected(facts.NoSchedule())
    assert desk.turns[-1].vanishes
