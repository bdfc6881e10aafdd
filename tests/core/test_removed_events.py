"""Whoever reads a history of which events were removed hears what the whole one says, or that it
needs what was removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.authoring.deciders.decider_definition import definition_of
from perdure.checking.decider_checks import armed_timers, waiting_effects
from perdure.checking.invariants import digest_of, history_problems
from perdure.checking.violations import open_schedules
from perdure.codec import Json
from perdure.core.deciders.answers import answer_again, has_taken, needs_history, read_receipt
from perdure.core.deciders.fold import domain_history, state_at, state_name, transitions
from perdure.core.deciders.snapshots import stand_for_removed
from perdure.core.summary import Stop, Summary
from perdure.errors import EventsRemovedError, NondeterminismError
from perdure.model.histories.events import StoredEvent, UnreadableEventError, write_event
from perdure.worker.old_events import removable
from tests.core.desk import Desk, facts
from tests.core.harness import GUARD
from tests.core.orders import Pay, Place, Remind
from tests.core.test_decider_state import STEPS, Snappy, busy, take_step

FAR = 2**62


def cuts_of(history: Sequence[StoredEvent]) -> list[int]:
    """Return after which events a history can be cut: all before the input of a decision."""
    return [
        after.seq - 1
        for before, after in pairwise(history)
        if after.kind == "input_taken" and before.seq > 1
    ]


def without(desk: Desk, history: Sequence[StoredEvent], upto: int) -> list[StoredEvent]:
    """Return a history of which the events up to one were removed, as housekeeping does it."""
    execution = desk.new()
    execution.replay([one for one in history if one.seq <= upto])
    kind, body = write_event(stand_for_removed(execution.fold, execution.notes))
    at_ms = next(one.at_ms for one in history if one.seq == upto)
    standing = StoredEvent(2, kind, at_ms, body)
    return [history[0], standing, *(one for one in history if one.seq > upto)]


def asked(ask: Callable[[], Any]) -> Any:
    """Return an answer, or that events were removed."""
    try:
        return ask()
    except EventsRemovedError:
        return EventsRemovedError


def check_answers(desk: Desk, whole: Sequence[StoredEvent], rest: Sequence[StoredEvent]) -> None:
    """Compare all that can be asked of a history with what the whole one says."""
    definition = desk.definition
    last = state_at(definition, whole, GUARD)[1]
    gone = last - sum(one.kind == "event_recorded" for one in rest)
    assert state_at(definition, rest, GUARD) == state_at(definition, whole, GUARD)
    for at in range(last + 1):
        told = asked(lambda: state_at(definition, rest, GUARD, at=at))  # noqa: B023
        assert told == (
            EventsRemovedError if 0 < at < gone else state_at(definition, whole, GUARD, at=at)
        )
        listed = asked(lambda: domain_history(definition, rest, after=at))  # noqa: B023
        named: dict[str, Any] = {"name_of": state_name, "after": at}
        led = asked(lambda: transitions(definition, rest, GUARD, **named))  # noqa: B023
        if at < gone:
            assert (listed, led) == (EventsRemovedError, EventsRemovedError)
        else:
            assert listed == domain_history(definition, whole, after=at)
            assert led == transitions(definition, whole, GUARD, **named)
    for input_id, kept in desk.receipts.items():
        receipt = read_receipt(kept)
        if needs_history(receipt):
            assert has_taken(rest, receipt, input_id)
            again = asked(lambda: answer_again(definition, receipt, rest, GUARD))  # noqa: B023
            assert again in (
                EventsRemovedError,
                answer_again(definition, receipt, whole, GUARD),
            )


def check_looks(desk: Desk, whole: Sequence[StoredEvent], rest: Sequence[StoredEvent]) -> None:
    """Compare what those find that read without the code, and what an execution knows."""
    assert digest_of(rest) == digest_of(whole)
    assert history_problems(rest) == []
    assert open_schedules(rest).keys() == open_schedules(whole).keys()
    assert waiting_effects(rest) == waiting_effects(whole)
    assert armed_timers(rest) == armed_timers(whole)
    assert Summary(rest).open.keys() == Summary(whole).open.keys()
    stop, stop_whole = (Stop(desk.id, Summary(one), None, "why", 7) for one in (rest, whole))
    assert (stop.events, stop.outcome, stop.deliveries) == (
        stop_whole.events,
        stop_whole.outcome,
        stop_whole.deliveries,
    )
    again, first = desk.new(), desk.new()
    again.replay(rest)
    first.replay(whole)
    assert facts(again) == facts(first)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.lists(st.integers(0, 7), min_size=25, max_size=25), st.integers(0, 99))
def test_every_answer_is_that_of_the_whole_history_or_that_events_were_removed(
    steps: list[tuple[str, Any]], picks: list[int], chosen: int
) -> None:
    desk = Desk(Snappy)
    for number, ((step, value), pick) in enumerate(zip(steps, picks, strict=False)):
        if desk.execution.notes.terminal is not None:
            break
        if step == "execute":
            desk.execute(value, input_id=f"i{number}")
        else:
            take_step(desk, step, value, pick)
    cuts = cuts_of(desk.history)
    if not cuts:
        return
    first = cuts[chosen % len(cuts)]

    once = without(desk, desk.history, first)
    last = [cut for cut in cuts if cut >= first][chosen % (len(cuts) - cuts.index(first))]
    twice = without(desk, once, last) if last > first else once

    for rest in (once, twice):
        check_answers(desk, desk.history, rest)
        check_looks(desk, desk.history, rest)


def test_what_was_removed_is_named_by_the_oldest_that_is_kept() -> None:
    desk = busy()
    rest = without(desk, desk.history, cuts_of(desk.history)[-1])

    with pytest.raises(EventsRemovedError, match="the oldest that is kept is version 5") as raised:
        domain_history(desk.definition, rest)

    assert raised.value.kept_after == 4
    [last] = domain_history(desk.definition, rest, after=4)
    assert (last.version, last.tag, last.started) == (5, "Shipped", ("d-o-1",))


def test_an_execution_goes_on_where_events_were_removed() -> None:
    desk = busy()
    twin = busy()
    desk.history = without(desk, desk.history, cuts_of(desk.history)[-1])
    desk.reload()

    for one in (desk, twin):
        one.execute(Pay("o-1", 7), input_id="late")
        one.complete(min(one.jobs))

    assert facts(desk.execution) == facts(twin.execution)


def test_missing_events_that_nothing_stands_for_are_refused_everywhere() -> None:
    desk = busy()
    broken = [one for one in desk.history if not 2 <= one.seq <= 6]

    for ask in (
        lambda: desk.new().replay(broken),
        lambda: state_at(desk.definition, broken, GUARD),
        lambda: domain_history(desk.definition, broken),
        lambda: transitions(desk.definition, broken, GUARD, name_of=state_name),
    ):
        with pytest.raises(NondeterminismError, match=r"events 2 to 6 .* put them back"):
            ask()
    assert history_problems(broken)


# ------------------------------------------------------------------ another schema


class Newer(Snappy):
    """Counts payments in cents, so that its state has another shape."""

    schema: ClassVar[int] = 2


class Translating(Newer):
    def upcast_state(self, schema: int, state: Json, /) -> Json:
        assert schema == 1
        return {**state, "paid": state["paid"] * 100}


def removed_by(decider: type[Snappy]) -> tuple[Desk, list[StoredEvent]]:
    desk = Desk(decider)
    desk.execute(Place("o-1", ["a"]))
    desk.execute(Pay("o-1", 3))
    desk.execute(Remind("o-1"))
    return desk, without(desk, desk.history, cuts_of(desk.history)[-1])


def test_a_state_of_an_earlier_schema_is_translated() -> None:
    _, rest = removed_by(Snappy)

    state, version = state_at(definition_of(Translating), rest, GUARD)

    assert (state.paid, state.reminders, version) == (300, 1, 3)


def test_a_state_that_the_code_cannot_read_is_never_guessed() -> None:
    _, older = removed_by(Snappy)
    _, newer = removed_by(Translating)

    with pytest.raises(NondeterminismError, match="has schema 1 and this code has 2: write upcast"):
        Desk(Newer).new().replay(older)
    with pytest.raises(NondeterminismError, match="has schema 2 and this code has 1; run newer"):
        Desk(Snappy).new().replay(newer)


def test_a_translation_that_fails_or_fits_no_state_is_told() -> None:
    class Failing(Newer):
        def upcast_state(self, schema: int, state: Json, /) -> Json:
            raise KeyError("total")

    class Wrong(Newer):
        def upcast_state(self, schema: int, state: Json, /) -> Json:
            return {"paid": "much"}

    _, rest = removed_by(Snappy)
    for decider, text in ((Failing, "KeyError: 'total'"), (Wrong, "PayloadError")):
        with pytest.raises(NondeterminismError, match=text):
            Desk(decider).new().replay(rest)


def test_what_is_kept_of_removed_events_may_be_damaged_and_is_named_then() -> None:
    desk, rest = removed_by(Snappy)
    standing = msgspec.json.decode(rest[1].body)
    standing["memory"] = {"open": "nothing"}
    damaged = [rest[0], rest[1]._replace(body=msgspec.json.encode(standing)), *rest[2:]]

    with pytest.raises(UnreadableEventError, match="which were removed, is damaged"):
        desk.new().replay(damaged)
    assert len(Summary(damaged).open) < len(Summary(rest).open)
    assert digest_of(damaged) != digest_of(rest)


# ------------------------------------------------------------------- what may go

KINDS = {"i": "input_taken", "e": "event_recorded", "x": "effect_scheduled"}


def stretch(letters: str) -> list[StoredEvent]:
    return [
        StoredEvent(seq, KINDS[letter], 1000 * seq, b"")
        for seq, letter in enumerate(letters, start=2)
    ]


@pytest.mark.parametrize(
    ("letters", "limits", "gone"),
    [
        ("ieieie", {}, 4),
        ("ieieie", {"most": 1}, 2),
        ("ieieie", {"most": 0}, 0),
        ("ieieie", {"upto": 5}, 4),
        ("ieieie", {"upto": 4}, 2),
        ("ieieie", {"before_ms": 5001}, 4),
        ("ieieie", {"before_ms": 5000}, 2),
        ("ieeeie", {"most": 2}, 0),
        ("ieexxie", {"most": 9}, 5),
        ("iiiie", {"most": 0}, 3),
        ("", {}, 0),
    ],
)
def test_what_goes_ends_with_a_decision_and_before_every_limit(
    letters: str, limits: dict[str, int], gone: int
) -> None:
    start = StoredEvent(1, "started", 0, b"")
    rows = stretch(letters)

    found = removable([start, *rows], **{"most": 9, "upto": 99, "before_ms": FAR, **limits})

    assert list(found) == rows[:gone]


def test_what_stands_for_removed_events_goes_with_the_next() -> None:
    desk = busy()
    first, second = cuts_of(desk.history)[:2]
    rest = without(desk, desk.history, first)

    assert not removable(rest, most=9, upto=second - 1, before_ms=FAR)
    found = removable(rest, most=9, upto=second, before_ms=FAR)

    assert [one.seq for one in found] == [2, *range(first + 1, second + 1)]
