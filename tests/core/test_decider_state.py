"""The state of a decider is the fold of its events, whichever way it comes into memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Never

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import definition_of
from perdure.authoring.deciders.decision import Accepted, Decision
from perdure.core.deciders.fold import domain_history, state_at
from perdure.errors import NondeterminismError, UsageError
from perdure.model.histories.events import StoredEvent, UnreadableEventError
from perdure.testing import observed_transitions
from tests.core.desk import Desk, facts
from tests.core.harness import GUARD, START_MS
from tests.core.orders import (
    NOON,
    Order,
    OrderState,
    Pay,
    PaymentFailed,
    Place,
    Remind,
    Ship,
    Snooze,
    Stock,
    Take,
)


def busy() -> Desk:
    """Return an order that has seen something of everything."""
    desk = Desk(Order)
    desk.execute(Place("o-1", ["a", "b"], key="k"), input_id="r-1", correlation="cart-7")
    desk.send(Place("o-1"), Remind("o-1"), correlation="cart-8")
    desk.return_input(4, Pay("o-1", 2))
    desk.now_ms += 1_000
    desk.fire("key:remind")
    desk.execute(Ship("o-1", 3))
    desk.end_child(desk.seq_of("child_scheduled"))
    return desk


def test_a_replay_of_every_beginning_is_what_the_live_one_was() -> None:
    desk = busy()
    seen = []
    again = Desk(Order)
    again.execute(Place("o-1", ["a", "b"], key="k"), input_id="r-1", correlation="cart-7")
    seen.append(facts(again.execution))
    again.send(Place("o-1"), Remind("o-1"), correlation="cart-8")
    seen.append(facts(again.execution))

    assert [facts(desk.replayed(length)) for length in desk.boundaries[:2]] == seen
    assert facts(desk.replayed()) == facts(desk.execution)


def test_an_instance_goes_on_after_a_reload_as_if_nothing_had_happened() -> None:
    steady, reloaded = Desk(Order), Desk(Order)
    for desk in (steady, reloaded):
        for value in (Place("o-1", ["a"]), Remind("o-1"), Pay("o-1", 3), Ship("o-1", 2)):
            desk.execute(value)
            if desk is reloaded:
                desk.reload()
        desk.check()

    assert steady.history == reloaded.history
    assert steady.timers == reloaded.timers
    assert steady.jobs == reloaded.jobs


# ------------------------------------------------------------------------- snapshots


def test_a_snapshot_is_kept_every_so_many_events() -> None:
    desk = Desk(Stock, "main")

    for number in range(7):
        desk.execute(Take(str(number), 1))

    assert [snapshot.version for snapshot in desk.snapshots] == [3, 6]
    assert [turn.snapshot is not None for turn in desk.turns] == [False, False, True] * 2 + [False]
    desk.check()


def test_events_of_one_turn_make_one_snapshot() -> None:
    desk = Desk(Stock, "main")

    desk.execute_all(*[Take(str(number), 1) for number in range(8)])

    assert [snapshot.version for snapshot in desk.snapshots] == [8]


def test_a_decider_may_say_when_a_snapshot_is_due() -> None:
    class Picky(Stock):
        name = "picky"
        snapshot_every = 0

        def should_snapshot(self, state: Any, version: int, /) -> bool:
            return version == 2

    desk = Desk(Picky, "main")
    for number in range(4):
        desk.execute(Take(str(number), 1))

    assert [snapshot.version for snapshot in desk.snapshots] == [2]
    assert desk.definition.schema == 1


def test_a_snapshot_of_another_schema_is_ignored() -> None:
    class Newer(Stock):
        schema = 2

    desk = Desk(Stock, "main")
    for number in range(3):
        desk.execute(Take(str(number), 1))
    [snapshot] = desk.snapshots

    other = Desk(Newer, "main").new()
    assert not other.restore(snapshot)
    other.replay(desk.history)

    assert other.state == desk.state


@pytest.mark.parametrize("body", [b"", b"{}", b'{"form":1,"state":5,"memory":{}}', b"\xff"])
def test_a_snapshot_that_cannot_be_read_is_ignored(body: bytes) -> None:
    desk = Desk(Stock, "main")
    for number in range(3):
        desk.execute(Take(str(number), 1))
    [snapshot] = desk.snapshots

    assert not desk.new().restore(snapshot._replace(body=body))


def test_a_snapshot_of_another_form_is_ignored() -> None:
    desk = Desk(Stock, "main")
    desk.execute_all(*[Take(str(number), 1) for number in range(3)])
    [snapshot] = desk.snapshots
    body = msgspec.json.decode(snapshot.body)

    newer = snapshot._replace(body=msgspec.json.encode({**body, "form": 99}))

    assert not desk.new().restore(newer)


def test_a_state_too_large_for_a_snapshot_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(Stock, "main")

    desk.execute_all(*[Take("x" * 800_000, 1) for _ in range(3)])

    assert desk.snapshots == []
    assert desk.execution.fold.version == 3
    assert "cannot be kept as a snapshot" in caplog.text


class Snappy(Order):
    name = "snappy"
    snapshot_every = 2


def test_a_snapshot_holds_open_effects_timers_and_what_waits() -> None:
    desk = Desk(Snappy)
    desk.execute(Place("o-1", ["a"], key="k"), correlation="cart-7")
    desk.execute(Ship("o-1", 3))

    [snapshot] = desk.snapshots
    restored = desk.restored(snapshot)

    assert facts(restored) == facts(desk.execution)
    assert restored.notes.key == "k"
    desk.execution = restored
    [first] = [seq for seq in desk.jobs if seq != 4]
    desk.complete(first)
    desk.check()


# --------------------------------------------------------- everything, in any order

STEPS = st.lists(
    st.one_of(
        st.builds(lambda n: ("execute", Pay("o-1", n)), st.integers(0, 9)),
        st.builds(lambda n: ("send", Ship("o-1", n)), st.integers(0, 3)),
        st.sampled_from(
            [
                ("execute", Place("o-1", ["a"], key="k")),
                ("send", Place("o-1")),
                ("execute", Remind("o-1")),
                ("send", Remind("o-1")),
                ("execute", Snooze("o-1", 3)),
                ("execute", PaymentFailed("o-1", "x")),
                ("reload", None),
                ("restore", None),
                ("complete", None),
                ("return", None),
                ("fail", None),
                ("fire", None),
                ("end", None),
                ("tick", None),
            ]
        ),
    ),
    max_size=25,
)


def take_step(desk: Desk, step: str, value: Any, pick: int) -> None:
    """Let something happen that can happen now."""
    effects = sorted(desk.jobs)
    children = [seq for seq, call in desk.execution.open.items() if seq not in desk.jobs]
    children = [seq for seq in children if desk.history[seq - 1].kind == "child_scheduled"]
    match step:
        case "execute":
            desk.execute(value)
        case "send":
            desk.send(value)
        case "reload" if desk.history:
            desk.reload()
        case "restore" if desk.snapshots:
            desk.execution = desk.restored(desk.snapshots[-1])
        case "complete" if effects:
            desk.complete(effects[pick % len(effects)])
        case "fail" if effects:
            desk.fail(effects[pick % len(effects)])
        case _:
            take_rarer_step(desk, step, pick, children)


def take_rarer_step(desk: Desk, step: str, pick: int, children: list[int]) -> None:
    match step:
        case "return":
            for seq in sorted(desk.jobs):
                if desk.jobs[seq].queue.name == "charge":
                    desk.return_input(seq, Pay("o-1", pick))
        case "fire" if desk.timers:
            keys = sorted(desk.timers, key=lambda key: (desk.timers[key].due_ms, key))
            desk.fire(keys[0])
        case "end" if children:
            desk.end_child(children[pick % len(children)], ("completed", "failed")[pick % 2])
        case "tick":
            desk.now_ms += 60_000


@settings(max_examples=150, deadline=None)
@given(STEPS, st.lists(st.integers(0, 7), min_size=25, max_size=25))
def test_live_replay_and_snapshot_always_agree(
    steps: list[tuple[str, Any]], picks: list[int]
) -> None:
    desk = Desk(Snappy)

    for (step, value), pick in zip(steps, picks, strict=False):
        if desk.execution.notes.terminal is not None:
            break
        take_step(desk, step, value, pick)
        desk.check()

    assert state_at(desk.definition, desk.history, GUARD)[0] == desk.execution.state


# ------------------------------------------------------------------ state at a version


def test_the_state_at_every_version_can_be_asked_for() -> None:
    desk = Desk(Order)
    states = [OrderState()]
    for value in (Place("o-1", ["a"]), Pay("o-1", 3), Ship("o-1")):
        outcome = desk.execute(value)
        assert isinstance(outcome, Accepted)
        states.append(outcome.state)

    found = [state_at(desk.definition, desk.history, GUARD, at=at) for at in range(4)]

    assert found == [(state, version) for version, state in enumerate(states)]
    assert state_at(desk.definition, desk.history, GUARD) == (states[-1], 3)


@pytest.mark.parametrize(("at", "text"), [(4, "is at version 3"), (-1, "is 0, before")])
def test_a_version_that_is_not_there_is_refused(at: int, text: str) -> None:
    desk = Desk(Order)
    for value in (Place("o-1", ["a"]), Pay("o-1", 3), Ship("o-1")):
        desk.execute(value)

    with pytest.raises(UsageError, match=text):
        state_at(desk.definition, desk.history, GUARD, at=at)


def test_the_history_says_where_each_event_came_from() -> None:
    desk = busy()

    found = domain_history(desk.definition, desk.history)

    assert [(each.version, each.tag, each.cause) for each in found] == [
        (1, "Placed", "client"),
        (2, "Reminded", "client"),
        (3, "Paid", "effect:4"),
        (4, "Reminded", "timer:remind"),
        (5, "Shipped", "client"),
    ]
    first, *_, last = found
    assert (first.input_id, first.correlation) == ("r-1", "cart-7")
    assert first.at == datetime.fromtimestamp(START_MS / 1000, NOON.tzinfo)
    assert first.input == Place("o-1", ["a", "b"], "k")
    assert first.effects == ("charge",)
    assert (last.effects, last.sent, last.started) == (
        ("pack",) * 3, ("stock:main",), ("d-o-1",),
    )  # fmt: skip
    assert found[2].correlation == "cart-7"


def test_transitions_are_read_off_the_history() -> None:
    desk = busy()

    assert observed_transitions(Order, [desk.history]) == [
        ("new", "Place", "placed"),
        ("placed", "Remind", "placed"),
        ("placed", "Pay", "paid"),
        ("paid", "Remind", "paid"),
        ("paid", "Ship", "shipped"),
    ]


# -------------------------------------------------------------------------- upcasting


@dataclass(frozen=True)
class Go:
    by: str


@dataclass(frozen=True)
class WentV1:
    tag: ClassVar[str] = "Went"
    kilometres: int = 1


@dataclass(frozen=True)
class WentV2:
    tag: ClassVar[str] = "Went"
    metres: int = 1_000


@dataclass(frozen=True)
class Stopped:
    pass


class Walk(Decider[int, Go, WentV1 | Stopped, Never]):
    name = "walk"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Go, /) -> str:
        return "w"

    def decide(self, state: int, input: Go, now: datetime, /) -> Decision[Go, Any, Never]:
        return Decision.accept(WentV1(3), Stopped())

    def evolve(self, state: int, event: WentV1 | Stopped, /) -> int:
        return state + (event.kilometres if isinstance(event, WentV1) else 0)


class WalkInMetres(Decider[int, Go, WentV2, Never]):
    name = "walk"
    event_versions = {WentV2: 2}  # noqa: RUF012 - a constant

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Go, /) -> str:
        return "w"

    def decide(self, state: int, input: Go, now: datetime, /) -> Decision[Go, WentV2, Never]:
        return Decision.accept(WentV2(500))

    def evolve(self, state: int, event: WentV2, /) -> int:
        return state + event.metres

    def upcast(self, tag: str, version: int, data: Any, /) -> tuple[str, Any]:
        if tag == "Stopped":
            return "Went", {"metres": 0}
        return tag, {"metres": data["kilometres"] * 1_000}


def test_older_events_are_read_in_todays_shape() -> None:
    desk = Desk(Walk, "w")
    desk.execute(Go("foot"))
    newer = Desk(WalkInMetres, "w")
    newer.history = desk.history
    newer.reload()

    assert newer.state == 3_000
    newer.execute(Go("foot"))

    assert newer.state == 3_500
    assert [event.event_version for event in newer.events if event.kind == "event_recorded"] == [  # type: ignore[attr-defined]  # of that kind
        1, 1, 2,
    ]  # fmt: skip
    newer.reload()
    assert newer.state == 3_500


def test_events_of_newer_code_are_not_guessed_at() -> None:
    newer = Desk(WalkInMetres, "w")
    newer.execute(Go("foot"))
    older = Desk(Walk, "w").new()

    with pytest.raises(NondeterminismError, match="shape 2 and this code knows it up to 1"):
        older.replay(newer.history)


def test_an_event_that_the_code_no_longer_has_blocks_the_instance() -> None:
    desk = Desk(Walk, "w")
    desk.execute(Go("foot"))

    class Forgetful(WalkInMetres):
        upcast = Decider.upcast

    with pytest.raises(NondeterminismError, match="cannot fold event 4, Stopped in shape 1"):
        Desk(Forgetful, "w").new().replay(desk.history)


def test_an_evolve_that_fails_on_what_is_recorded_blocks_the_instance() -> None:
    desk = Desk(Stock, "main")
    desk.execute(Take("a", 1))
    stored = desk.history[2]
    broken = stored._replace(body=stored.body.replace(b'"a"', b'"broken"'))

    with pytest.raises(NondeterminismError, match="RuntimeError: cannot evolve") as refused:
        desk.new().replay([*desk.history[:2], broken])

    assert refused.value.seq == 3


def test_a_damaged_event_is_unreadable() -> None:
    desk = Desk(Stock, "main")

    with pytest.raises(UnreadableEventError):
        desk.new().replay([StoredEvent(1, "started", 0, b"{")])


def test_immutable_states_are_recognised() -> None:
    assert definition_of(Order).has_immutable_state
    assert not definition_of(Stock).has_immutable_state


# ----------------------------------------------------------------- what evolve returns


@dataclass(frozen=True)
class Add:
    n: int


@dataclass(frozen=True)
class Added:
    n: int


class Forgetting(Decider[int, Add, Added, Never]):
    """Its `evolve` has no `return` for some numbers."""

    name = "forgetting"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return "one"

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        return Decision.accept(Added(input.n))

    def evolve(self, state: int, event: Added, /) -> int:
        if event.n != 13:
            return state + event.n
        return None  # type: ignore[return-value]  # what a forgotten return comes to


FORGOTTEN = (
    r"evolve of decider 'forgetting' \(.*Forgetting\) returned None for event Added: "
    r"return the new state \(int\)"
)


def test_an_evolve_that_returns_nothing_is_refused_and_nothing_is_recorded() -> None:
    desk = Desk(Forgetting, "one")
    desk.execute(Add(1))

    with pytest.raises(UsageError, match=FORGOTTEN):
        desk.execute(Add(13))

    assert desk.tags == ["Added"]
    assert desk.state == 1
    desk.check()


def test_a_message_whose_evolve_returns_nothing_fails_the_turn() -> None:
    desk = Desk(Forgetting, "one")
    desk.execute(Add(1))

    with pytest.raises(UsageError, match=FORGOTTEN):
        desk.send(Add(13))


def test_code_whose_evolve_returns_nothing_does_not_fit_the_history() -> None:
    class Whole(Forgetting):
        def evolve(self, state: int, event: Added, /) -> int:
            return state + event.n

    desk = Desk(Whole, "one")
    desk.execute(Add(13))

    with pytest.raises(NondeterminismError, match="return the new state"):
        Desk(Forgetting, "one").new().replay(desk.history)


def test_a_state_that_may_be_nothing_may_become_nothing() -> None:
    class Clearing(Decider[int | None, Add, Added, Never]):
        name = "clearing"

        def initial(self) -> int | None:
            return 0

        def instance_id(self, input: Add, /) -> str:
            return "one"

        def decide(
            self, state: int | None, input: Add, now: datetime, /
        ) -> Decision[Add, Added, Never]:
            return Decision.accept(Added(input.n))

        def evolve(self, state: int | None, event: Added, /) -> int | None:
            return None

    desk = Desk(Clearing, "one")

    desk.execute(Add(1))

    assert desk.state is None
