"""The oracle finds each kind of wrong answer, and finds nothing wrong with right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.chaos.oracle import violations
from tests.chaos.stored import Entry, Rejection, Stored
from tests.chaos.told import Begun, Line, StepTold, Told, WentBack

replace = msgspec.structs.replace


def call(mark: str, at: int, answer: str, account: str = "a", **facts: Any) -> list[Line]:
    """Return the lines of a call that takes one moment; *killed* is one that hears nothing."""
    told = {name: facts.pop(name) for name in ("recorded", "version", "balance") if name in facts}
    how = facts.pop("how", "execute")
    begun = Begun(mark=mark, client="c", how=how, account=account, at_ns=at, **facts)
    if answer == "killed":
        return [begun]
    if answer == "accepted":
        told.setdefault("recorded", mark)
    end: Any = answer
    return [begun, Told(mark=mark, how=how, answer=end, at_ns=at + 1, **told)]


STEPS = (
    StepTold("c.9/0", "accepted", 4, 15),
    StepTold("c.9/1", "rejected"),
    StepTold("c.9/2", "sent"),
)
ERRAND = Begun(
    mark="c.9",
    client="c",
    how="start",
    what="errand",
    amount=5,
    accounts=("a", "c", "b"),
    at_ns=70,
)

LINES: list[Line] = [
    *call("c.1", 10, "accepted", what="deposit", amount=20, version=1, balance=20),
    *call("c.2", 20, "accepted", what="withdraw", amount=7, version=2, balance=13, input_id="i"),
    *call("c.3", 30, "rejected", what="withdraw", amount=14),
    *call("c.4", 40, "accepted", what="transfer", amount=3, to="b", version=3, balance=10),
    *call("c.5", 45, "sent", how="send", account="b", what="withdraw", amount=9),
    *call("c.6", 50, "refused", account="b", what="deposit", amount=1),
    *call("c.7", 55, "killed", account="b", what="deposit", amount=1),
    *call("c.8", 60, "sent", how="send", account="b", what="deposit", amount=2),
    ERRAND,
    Told(mark="c.9", how="start", answer="started", at_ns=71),
    Begun(mark="c.9", client="c", how="result", what="errand", at_ns=72),
    Told(mark="c.9", how="result", answer="result", steps=STEPS, at_ns=80),
    *call(
        "c.10",
        90,
        "accepted",
        what="withdraw",
        amount=7,
        input_id="i",
        recorded="c.2",
        version=2,
        balance=13,
    ),
    Begun(mark="c.20", client="c", how="pledge", what="pledge", at_ns=100),
    Told(mark="c.20", how="pledge", answer="started", at_ns=101),
    *call("c.21", 102, "accepted", how="keep", account="c.20", what="pledge"),
    *call("c.22", 104, "rejected", how="keep", account="c.20", what="pledge"),
    *call("c.23", 104, "killed", how="keep", account="c.20", what="pledge"),
    Begun(mark="c.20", client="c", how="pledged", what="pledge", at_ns=110),
    Told(mark="c.20", how="pledged", answer="result", recorded="c.21", at_ns=111),
]
"""What callers were told that all went well with."""


def stored() -> Stored:
    """Return what the store holds then."""
    return Stored(
        entries={
            "a": [Entry("c.1", 20), Entry("c.2", -7), Entry("c.4", -3), Entry("c.9/0", 5)],
            "b": [Entry("c.4>", 3), Entry("c.8", 2), Entry("c.9/2", 5)],
        },
        rejections={"b": [Rejection("c.5", 1)]},
        errands={"c.9": STEPS},
        pledges={"c.20": "c.21"},
    )


def test_right_answers_are_right() -> None:
    assert violations(LINES, stored()) == []


# ------------------------------------------------------------------- what the store has


def recorded_twice(store: Stored) -> None:
    store.entries["a"].append(Entry("c.1", 20))


def recorded_under_both_marks(store: Stored) -> None:
    store.entries["a"].append(Entry("c.10", -7))


def rejected_twice(store: Stored) -> None:
    store.rejections["b"].append(Rejection("c.5", 1))


def step_taken_twice(store: Stored) -> None:
    store.entries["b"].append(Entry("c.9/2", 5))


def made_by_nobody(store: Stored) -> None:
    store.entries["b"].append(Entry("c.99", 5))


def another_amount(store: Stored) -> None:
    store.entries["b"][1] = Entry("c.8", 3)


def arrived_without_leaving(store: Stored) -> None:
    store.entries["b"].append(Entry("c.1>", 20))


def left_without_arriving(store: Stored) -> None:
    del store.entries["b"][0]
    store.rejections["b"] = [Rejection("c.5", 0)]


def lost(store: Stored) -> None:
    del store.entries["a"][1]


def another_place(store: Stored) -> None:
    store.entries["a"][:3] = [store.entries["a"][one] for one in (1, 0, 2)]


def not_decided(store: Stored) -> None:
    del store.entries["b"][1]


def refused_and_there(store: Stored) -> None:
    store.entries["b"].append(Entry("c.6", 1))


def rejected_and_there(store: Stored) -> None:
    store.entries["a"].append(Entry("c.3", -14))


def not_started(store: Stored) -> None:
    del store.errands["c.9"]


def not_ended(store: Stored) -> None:
    store.errands["c.9"] = None


def another_result(store: Stored) -> None:
    store.errands["c.9"] = (replace(STEPS[0], balance=16), *STEPS[1:])


def started_by_nobody(store: Stored) -> None:
    store.errands["c.98"] = ()


def step_lost(store: Stored) -> None:
    del store.entries["a"][3]


def another_was_first(store: Stored) -> None:
    store.pledges["c.20"] = "c.22"


def kept_by_nobody(store: Stored) -> None:
    store.pledges["c.20"] = "c.1"


def not_kept(store: Stored) -> None:
    store.pledges["c.20"] = None


def not_pledged(store: Stored) -> None:
    del store.pledges["c.20"]


def pledged_by_nobody(store: Stored) -> None:
    store.pledges["c.99"] = None


def rejected_with_enough(store: Stored) -> None:
    store.rejections["b"] = [Rejection("c.5", 3)]


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (recorded_twice, "twice: a: input c.1"),
        (recorded_under_both_marks, "twice: a: input i"),
        (rejected_twice, "twice: b: input c.5"),
        (step_taken_twice, "twice: c.9/2"),
        (made_by_nobody, "no caller: b has 5 by c.99"),
        (another_amount, "not as asked: b has 3 by c.8"),
        (arrived_without_leaving, "no caller: b has 20 by c.1>"),
        (left_without_arriving, "not arrived: c.4"),
        (left_without_arriving, "money: "),
        (lost, "not there: c.2"),
        (another_place, "not as told: c.1"),
        (another_place, "below zero: a had -7"),
        (another_place, "out of order: a"),
        (not_decided, "not there: c.8"),
        (refused_and_there, "refused and there: c.6"),
        (rejected_and_there, "rejected and there: c.3"),
        (not_started, "not there: c.9"),
        (not_ended, "not ended: errand c.9"),
        (another_result, "not as told: errand c.9"),
        (started_by_nobody, "no caller: errand c.98"),
        (step_lost, "not there: step c.9/0"),
        (rejected_with_enough, "wrongly rejected: c.5"),
        (another_was_first, "not as told: c.21 (keep, told accepted)"),
        (another_was_first, "not as told: c.22 (keep, told rejected)"),
        (another_was_first, "not as told: c.20 (pledged, told result)"),
        (kept_by_nobody, "no caller: pledge c.20 was kept by c.1"),
        (not_kept, "not as told: c.22 (keep, told rejected) was too late"),
        (not_pledged, "not there: c.20 (pledge, told started)"),
        (pledged_by_nobody, "no caller: pledge c.99"),
    ],
)
def test_what_is_stored_otherwise_is_found(plant: Callable[[Stored], None], found: str) -> None:
    store = stored()
    plant(store)

    problems = violations(LINES, store)

    assert any(one.startswith(found) for one in problems), problems


# ---------------------------------------------------------------------- what was told


def told(mark: str, **facts: Any) -> list[Line]:
    """Return the lines with another answer to one call."""
    return [
        replace(line, **facts)
        if isinstance(line, Told) and line.mark == mark and line.how != "start"
        else line
        for line in LINES
    ]


def begun(mark: str, **facts: Any) -> list[Line]:
    """Return the lines with another question."""
    return [
        replace(line, **facts) if isinstance(line, Begun) and line.mark == mark else line
        for line in LINES
    ]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (told("c.1", version=2), "not as told: c.1"),
        (told("c.1", balance=21), "not as told: c.1"),
        (told("c.4", recorded="c.1"), "another's answer: c.4"),
        (told("c.10", answer="rejected", recorded=""), "two answers: a: input i"),
        (begun("c.3", amount=10), "wrongly rejected: c.3"),
        (begun("c.3", what="deposit"), "wrongly rejected: c.3"),
        (told("c.7", answer="unknown"), None),
        ([*LINES, *call("c.11", 95, "strange", what="deposit")], "strange: c.11"),
        ([*LINES, *call("c.11", 95, "unanswered", how="update", what="deposit")], "unanswered: c"),
    ],
)
def test_what_is_told_otherwise_is_found(lines: list[Line], found: str | None) -> None:
    problems = violations(lines, stored())

    assert (found is None and not problems) or any(
        one.startswith(found or "?") for one in problems
    ), problems


def test_what_was_sent_before_and_is_decided_after_is_found() -> None:
    lines: list[Line] = [
        *call("c.1", 10, "sent", how="send", what="deposit", amount=1),
        *call("c.2", 20, "accepted", what="deposit", amount=2, version=1, balance=2),
    ]

    problems = violations(lines, Stored(entries={"a": [Entry("c.2", 2), Entry("c.1", 1)]}))

    assert [one.partition(":")[0] for one in problems] == ["overtaken"]


# ------------------------------------------------------------------ a database that went back

AFTER_COPY = [
    *call("c.1", 10, "accepted", what="deposit", amount=5, version=1, balance=5),
    *call("c.2", 20, "accepted", what="deposit", amount=6, version=2, balance=11),
    *call("c.3", 30, "accepted", what="deposit", amount=7, version=3, balance=18),
]
BACK = WentBack(copied_ns=15, ended_ns=40)


def held(*marks: str) -> Stored:
    amounts = {"c.1": 5, "c.2": 6, "c.3": 7, "c.4": 8}
    return Stored(entries={"a": [Entry(mark, amounts[mark]) for mark in marks]})


def test_what_was_told_after_the_copy_may_be_lost() -> None:
    assert violations([*AFTER_COPY, BACK], held("c.1")) == []


def test_what_was_told_before_the_copy_must_be_there() -> None:
    problems = violations([*AFTER_COPY, BACK], held())

    assert [one[:14] for one in problems] == ["not there: c.1"]


def test_what_is_told_after_the_loss_must_hold() -> None:
    later = call("c.4", 50, "accepted", what="deposit", amount=8, version=2, balance=13)

    assert violations([*AFTER_COPY, *later, BACK], held("c.1", "c.4")) == []
    problems = violations([*AFTER_COPY, *later, BACK], held("c.1"))
    assert [one[:14] for one in problems] == ["not there: c.4"]


def test_only_a_suffix_may_be_lost() -> None:
    problems = violations([*AFTER_COPY, BACK], held("c.1", "c.3"))

    assert [one[:9] for one in problems] == ["kept: c.3"]


def test_nothing_is_there_twice_because_the_database_went_back() -> None:
    problems = violations([*AFTER_COPY, BACK], held("c.1", "c.2", "c.2"))

    assert problems[0].startswith("twice: a: input c.2")
