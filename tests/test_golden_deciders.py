"""Histories of deciders that were recorded once fold for ever.

Each file under `golden/deciders/` is the history of one instance of a decider of
`golden/decider_programs.py`. If a test fails here, instances in databases could not be read: the
change is wrong, not the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.authoring.deciders.decider_definition import is_concrete
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.deciders.snapshots import stand_for_removed
from perdure.model.histories.events import (
    KINDS,
    LAST_KINDS,
    Body,
    EventsRemoved,
    InputTaken,
    MessageEvent,
    StoredEvent,
    read_event,
    write_event,
)
from tests.golden import decider_programs as programs
from tests.golden.decider_worlds import (
    GOLDEN_DECIDERS,
    OWN_CAUSES,
    AnyDecider,
    as_message,
    new_execution,
    run_turn,
)

FOLDER = Path(__file__).parent / "golden/deciders"


@dataclass(frozen=True)
class Record:
    """What a file holds."""

    name: str
    facts: dict[str, Any]
    history: tuple[StoredEvent, ...]

    @staticmethod
    def read(file: Path) -> Record:
        facts = json.loads(file.read_text(encoding="utf-8"))
        history = tuple(
            StoredEvent(event["seq"], event["kind"], event["at_ms"], event["body"].encode())
            for event in facts.pop("events")
        )
        return Record(file.stem, facts, history)

    @property
    def boundaries(self) -> list[int]:
        """How long the history was each time before a message came, and at its end."""
        return [n for n, event in enumerate(self.history) if _message_in(event) is not None] + [
            len(self.history)
        ]

    def execution(self, program: str | None = None) -> DeciderExecution:
        decider: AnyDecider = getattr(programs, program or self.facts["program"])
        return new_execution(decider, self.facts["instance_id"])


RECORDS = [Record.read(file) for file in sorted(FOLDER.glob("*.json"))]
ALSO = [(record, program) for record in RECORDS for program in record.facts["replayed_by"]]


def _message_in(stored: StoredEvent) -> MessageEvent | None:
    """Return the message that an event was; None if it followed from another one."""
    if not issubclass(KINDS[stored.kind], MessageEvent):
        return None
    event = read_event(stored.kind, stored.body)
    assert isinstance(event, MessageEvent)
    is_own = isinstance(event, InputTaken) and event.cause.startswith(OWN_CAUSES)
    return None if is_own else event


def go_on(execution: DeciderExecution, rest: tuple[StoredEvent, ...]) -> list[Body]:
    """Hand an execution the messages of a history, and return all that it records."""
    record: list[Body] = []
    for stored in rest:
        message = _message_in(stored)
        if message is not None:
            messages = [as_message(message, stored.at_ms)]
            record += run_turn(execution, messages, now_ms=stored.at_ms)
    return record


def bodies(events: list[Body] | tuple[StoredEvent, ...]) -> list[tuple[str, bytes]]:
    return [(event.kind, event.body) for event in events]


def check_end(execution: DeciderExecution, record: Record) -> None:
    """Compare an execution that has all of a history with what was known of it then."""
    facts = record.facts
    state = execution.definition.state.encode(execution.state, "state")
    assert json.loads(state) == facts["state"]
    assert execution.fold.version == facts["version"]
    assert list(execution.open) == facts["open"]
    assert dict(execution.timers) == facts["timers"]
    assert execution.digest().hex() == facts["digest"]
    assert (execution.notes.terminal is not None) == (record.history[-1].kind in LAST_KINDS)


@pytest.fixture(params=RECORDS, ids=lambda record: record.name)
def record(request: pytest.FixtureRequest) -> Record:
    found: Record = request.param
    return found


def test_a_recorded_history_folds_to_the_same_state_timers_and_digest(record: Record) -> None:
    execution = record.execution()

    execution.replay(record.history)

    check_end(execution, record)


def test_a_decider_decides_today_exactly_as_it_did_then(record: Record) -> None:
    """Byte for byte: what is recorded now must be readable by those who recorded it."""
    execution = record.execution()

    decided = go_on(execution, record.history)

    assert bodies(decided) == bodies(record.history)
    check_end(execution, record)


def test_every_beginning_of_a_recorded_history_folds_and_goes_on(record: Record) -> None:
    for length in record.boundaries:
        execution = record.execution()

        execution.replay(record.history[:length])
        decided = go_on(execution, record.history[length:])

        assert bodies(decided) == bodies(record.history[length:])
        check_end(execution, record)


@pytest.mark.parametrize(("record", "program"), ALSO, ids=[f"{r.name}-{p}" for r, p in ALSO])
def test_changed_code_folds_what_it_was_changed_for(record: Record, program: str) -> None:
    execution = record.execution(program)

    execution.replay(record.history)

    assert execution.state == {"piece": record.facts["state"]}
    assert execution.fold.version == record.facts["version"]


def test_every_world_has_its_file_and_every_file_its_world() -> None:
    assert sorted(GOLDEN_DECIDERS) == [record.name for record in RECORDS]


def test_every_decider_has_a_history() -> None:
    made = {name for name, found in vars(programs).items() if is_concrete(found)}

    assert made == {record.facts["program"] for record in RECORDS}


# ------------------------------------------------------------------ removed events

REMOVED = [Record.read(file) for file in sorted((FOLDER.parent / "removed").glob("*.json"))]


@pytest.mark.parametrize("record", REMOVED, ids=lambda record: record.name)
def test_what_stood_for_removed_events_then_is_gone_on_from_for_ever(record: Record) -> None:
    for length in range(2, len(record.history) + 1):
        execution = record.execution()
        execution.replay(record.history[:length])
    check_end(execution, record)

    begun = record.execution()
    begun.replay(record.history[:2])
    assert bodies(go_on(begun, record.history[2:])) == bodies(record.history[2:])
    check_end(begun, record)


@pytest.mark.parametrize("record", REMOVED, ids=lambda record: record.name)
def test_the_same_is_put_in_the_place_of_the_same_events(record: Record) -> None:
    [whole] = [one for one in RECORDS if one.name == record.name]
    removed = read_event(record.history[1].kind, record.history[1].body)
    assert isinstance(removed, EventsRemoved)
    execution = whole.execution()

    execution.replay(whole.history[: removed.upto])

    standing = stand_for_removed(execution.fold, execution.notes)
    assert write_event(standing) == (record.history[1].kind, record.history[1].body)
    assert whole.facts == record.facts
