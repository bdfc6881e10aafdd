from __future__ import annotations

import msgspec

from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityScheduled,
    CancelRequested,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    Event,
    Failure,
    Started,
    StoredEvent,
    write_event,
)
from perdure.model.instances import Stamp
from perdure.model.turns import Turn
from perdure.turns.tally import ChildEnd, ExecutionTally

NULL = msgspec.Raw(b"null")
STARTED = Started(name="x", version="1.0.0", behaviour=1, input=NULL)


def child(name: str) -> ChildScheduled:
    return ChildScheduled(name=name, version="1.0.0", instance_id=name, input=NULL)


TURNS: list[tuple[int, list[Event]]] = [
    (1_000, [STARTED, child("a"), child("b"), child("c"), child("d")]),
    (3_000, [ChildCompleted(schedule=2, result=NULL), ActivityScheduled(name="s", input=NULL)]),
    (
        4_000,
        [ChildFailed(schedule=3, status="was cancelled", failure=Failure("Cancelled", ""))],
    ),
    (5_000, [ActivityCompleted(schedule=7, result=NULL), ChildCancelled(schedule=4)]),
    (6_000, [CancelRequested(reason="enough")]),
]


def turns() -> list[Turn]:
    made, seq = [], 1
    for now_ms, events in TURNS:
        turn = Turn(
            instance_id="i",
            stamp=Stamp(1, 1, seq),
            commit_id=1,
            now_ms=now_ms,
            worker_id="w",
            events=tuple(write_event(event) for event in events),
        )
        made.append(turn)
        seq += len(events)
    return made


def history() -> list[StoredEvent]:
    events = [(turn.now_ms, body) for turn in turns() for body in turn.events]
    return [StoredEvent(no, body.kind, at, body.body) for no, (at, body) in enumerate(events, 1)]


def test_turns_bytes_and_cancels_add_up() -> None:
    tally = ExecutionTally()
    for turn in turns():
        tally.add(turn)

    assert tally.turns == 5
    assert tally.bytes == sum(len(event.body) for event in history())
    assert tally.cancels == 1
    assert tally.since_ms == 1_000


def test_a_history_tells_what_its_turns_told() -> None:
    live, read = ExecutionTally(), ExecutionTally()
    for turn in turns():
        live.add(turn)

    read.read(history())

    for name in ExecutionTally.__slots__:
        assert getattr(read, name) == getattr(live, name), name


def test_children_end_with_their_outcome_and_duration() -> None:
    tally = ExecutionTally()

    ended = [end for turn in turns() for end in tally.add(turn)]

    assert ended == [
        ChildEnd("a", "completed", 2_000),
        ChildEnd("b", "cancelled", 3_000),
        ChildEnd("c", "given up", 4_000),
    ]
    assert tally.children == {5: ("d", 1_000)}


def test_a_child_called_before_a_replay_is_known_after_it() -> None:
    first, *others = turns()
    tally = ExecutionTally()
    tally.read(history()[: len(first.events)])

    ended = [end for turn in others for end in tally.add(turn)]

    assert [end.name for end in ended] == ["a", "b", "c"]
