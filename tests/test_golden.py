"""Histories that were recorded once replay for ever.

Each file under `golden/` is the history of one execution of a program of `golden/programs.py`. If a
test fails here, instances that sleep in databases would not wake up: the change is wrong, not the
file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.authoring.orchestration import Orchestration
from perdure.core.guard import Guard
from perdure.core.orchestrations.execution import Execution, ExecutionId
from perdure.model.histories.events import (
    KINDS,
    LAST_KINDS,
    Body,
    Failed,
    MessageEvent,
    SignalReceived,
    Started,
    StoredEvent,
    read_event,
)
from tests.core.harness import SECRET
from tests.golden import programs
from tests.golden.worlds import GOLDEN
from tools import record_golden

GUARD = Guard(watch_calls=True)
FOLDER = Path(__file__).parent / "golden"


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
    def started(self) -> Started:
        event = read_event(self.history[0].kind, self.history[0].body)
        assert isinstance(event, Started)
        return event

    @property
    def boundaries(self) -> list[int]:
        """How long the history was each time before a message came, and at its end.

        Only since the program was deployed that replays it.
        """
        first = self.facts["deployed_at"]
        messages = [n for n, event in enumerate(self.history) if n >= first and _is_message(event)]
        return [*messages, len(self.history)]

    def execution(self, program: str | None = None) -> Execution:
        """Return the execution before its first event."""
        code: Orchestration[..., Any] = getattr(programs, program or self.facts["program"])
        facts = self.facts
        number = ExecutionId(facts["instance_id"], facts["incarnation"], facts["execution"])
        return Execution(code, number, self.started.code, GUARD, secret=SECRET)


RECORDS = [Record.read(file) for file in sorted(FOLDER.glob("*.json"))]
BY_NAME = {record.name: record for record in RECORDS}
ALSO = [(record, program) for record in RECORDS for program in record.facts["replayed_by"]]
CONTINUED = [
    record for record in RECORDS if record.facts["execution"] > 1 and record.started.origin is None
]


def _is_message(event: StoredEvent) -> bool:
    return issubclass(KINDS[event.kind], MessageEvent)


@pytest.fixture(params=RECORDS, ids=lambda record: record.name)
def record(request: pytest.FixtureRequest) -> Record:
    found: Record = request.param
    return found


def values(execution: Execution) -> dict[str, Any]:
    return {
        key: json.loads(bytes(entry.value)) for key, entry in sorted(execution.scope.kv.items())
    }


def check_end(execution: Execution, record: Record) -> None:
    """Compare an execution that has all of a history with what was known of it then."""
    report = execution.scope.report
    assert execution.digest().hex() == record.facts["digest"]
    assert list(execution.open) == record.facts["open"]
    assert values(execution) == record.facts["kv"]
    assert (None if report is None else json.loads(report)) == record.facts["report"]
    assert (execution.terminal is not None) == (record.history[-1].kind in LAST_KINDS)


def go_on(execution: Execution, rest: tuple[StoredEvent, ...]) -> list[Body]:
    """Hand an execution the messages of a history, and return all that it records."""
    record: list[Body] = []
    with execution.entered():
        for event, at_ms in _messages(rest):
            execution.scope.now_ms = at_ms
            execution.advance(event, record)
    return record


def _messages(history: tuple[StoredEvent, ...]) -> Iterator[tuple[MessageEvent, int]]:
    for stored in history:
        event = read_event(stored.kind, stored.body)
        if isinstance(event, SignalReceived):
            event = msgspec.structs.replace(event, wait=None)  # as it was before it was recorded
        if isinstance(event, MessageEvent):
            yield event, stored.at_ms


def bodies(events: list[Body] | tuple[StoredEvent, ...]) -> list[tuple[str, bytes]]:
    """Return kinds and bytes, without the lines of code of a failure."""
    return [(event.kind, _without_traceback(event.kind, event.body)) for event in events]


def _without_traceback(kind: str, body: bytes) -> bytes:
    if kind != Failed.kind:
        return body
    failure = json.loads(body)["failure"]
    kept = {name: failure.get(name) for name in ("type_name", "message", "at_ms", "details")}
    return json.dumps(kept, sort_keys=True).encode()


# -------------------------------------------------------------------- replaying


def test_a_recorded_history_replays_to_the_same_digest_and_state(record: Record) -> None:
    execution = record.execution()

    execution.replay(record.history)

    check_end(execution, record)
    assert execution.tear_down() == []


def test_code_asks_today_for_exactly_what_it_asked_for_then(record: Record) -> None:
    """Byte for byte: what is recorded now must be readable by those who recorded it."""
    execution, deployed_at = record.execution(), record.facts["deployed_at"]

    execution.replay(record.history[:deployed_at])
    asked = go_on(execution, record.history[deployed_at:])

    assert bodies(asked) == bodies(record.history[deployed_at:])
    assert execution.tear_down() == []


def test_every_beginning_of_a_recorded_history_replays_and_goes_on(record: Record) -> None:
    for length in record.boundaries:
        execution = record.execution()

        execution.replay(record.history[:length])
        asked = go_on(execution, record.history[length:])

        assert bodies(asked) == bodies(record.history[length:])
        assert list(execution.open) == record.facts["open"]
        assert values(execution) == record.facts["kv"]
        assert execution.tear_down() == []


@pytest.mark.parametrize(("record", "program"), ALSO, ids=[f"{r.name}-{p}" for r, p in ALSO])
def test_changed_code_replays_what_it_was_changed_for(record: Record, program: str) -> None:
    execution = record.execution(program)

    execution.replay(record.history)

    check_end(execution, record)
    assert execution.tear_down() == []


@pytest.mark.parametrize("record", CONTINUED, ids=lambda record: record.name)
def test_a_recorded_execution_names_the_digest_of_the_one_before(record: Record) -> None:
    number = record.facts["execution"]
    before = BY_NAME[f"{record.name.removesuffix(str(number))}{number - 1}"]

    assert record.started.previous == before.facts["digest"]
    assert record.started.since_ms == (before.started.since_ms or before.history[0].at_ms)
    assert record.started.parent == before.started.parent
    assert {entry.key for entry in record.started.kv} == set(before.facts["kv"])
    assert json.loads(bytes(record.started.report)) == before.facts["report"]


# ----------------------------------------------------------------- completeness


def test_every_kind_of_event_is_in_a_recorded_history() -> None:
    files = [json.loads(file.read_text(encoding="utf-8")) for file in FOLDER.rglob("*.json")]
    seen = {event["kind"] for facts in files for event in facts["events"]}

    assert sorted(set(KINDS) - seen) == []


def test_every_world_has_its_file_and_every_file_its_world() -> None:
    assert sorted(GOLDEN) == [record.name for record in RECORDS]


def test_every_program_has_a_history() -> None:
    made = {name for name, found in vars(programs).items() if isinstance(found, Orchestration)}
    used = {record.facts["program"] for record in RECORDS} | {program for _, program in ALSO}

    assert made - used == {"child"}


def test_a_recorded_history_is_not_recorded_over_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record_golden, "FOLDER", tmp_path)
    record_golden.main([])
    changed = tmp_path / "an_activity_is_open.json"
    changed.write_text("kept")
    capsys.readouterr()

    record_golden.main([])

    assert changed.read_text() == "kept"
    assert capsys.readouterr().out == ""
    record_golden.main(["--again", "an_activity_is_open"])
    assert json.loads(changed.read_text())["program"] == "calls"
