"""Recorded facts in a few words: what an event is about, and the value that matters in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from perdure.client.reading.as_json import as_json, shown_time
from perdure.client.reading.info import HistoryEvent, Json
from perdure.clock import to_datetime
from perdure.codec import by_position_and_name
from perdure.model.histories.events import SignalReceived
from perdure.model.promises import promise_name
from perdure.model.updates import UPDATE_PREFIX

_SUBJECTS = ("name", "tag", "key", "instance_id", "change", "activity", "cause")
_ASKED = ("schedule", "wait", "effect")
_VALUES = ("rejected", "input", "result", "value", "event", "reason")

_TEXTS = ("rejected", "reason")
"""Values that are words for people."""


def names_in(events: Sequence[HistoryEvent]) -> dict[int, str]:
    """Return what each event of a history is about, by its number."""
    return {event.seq: own_subject(event) for event in events if own_subject(event)}


def own_subject(event: HistoryEvent) -> str:
    """Return what an event says itself that it is about."""
    found = next((str(event.data[one]) for one in _SUBJECTS if event.data.get(one)), "")
    return promise_name(found) or found


def subject_of(event: HistoryEvent, names: Mapping[int, str]) -> str:
    """Return what an event is about; of a result, what was called."""
    if own_subject(event):
        return own_subject(event)
    asked = answered_by(event)
    return "" if asked is None else names.get(asked, "")


def answered_by(event: HistoryEvent) -> int | None:
    """Return the number of the call or wait that an event answers or ends; None: it does not."""
    for name in _ASKED:
        if isinstance(asked := event.data.get(name), int):
            return asked
    return None


def own_names(event: HistoryEvent) -> set[str]:
    """Return all names and ids under which an event is found."""
    found = {text for one in _SUBJECTS if isinstance(text := event.data.get(one), str)}
    return found | {own_subject(event)} | {one.removeprefix(UPDATE_PREFIX) for one in found}


def value_of(event: HistoryEvent) -> str:
    """Return the value that matters in an event."""
    data = event.data
    failure = data.get("failure") or (data.get("failures") or [None])[-1]
    if isinstance(failure, dict) and not data.get("result"):
        return f"{failure.get('type_name')}: {failure.get('message')}"
    if isinstance(data.get("due_ms"), int):
        return f"due {shown_time(to_datetime(data['due_ms']))}"
    for name in _VALUES:
        if data.get(name) not in (None, ""):
            return data[name] if name in _TEXTS else value_text(_arguments(data[name]))
    return str(data.get("damaged", ""))


def message_text(kind: str, data: Json) -> str:
    """Return what a message in an inbox is: its kind, or the update that it asks."""
    name = str(data.get("name")) if isinstance(data, Mapping) else ""
    if kind == SignalReceived.kind and name.startswith(UPDATE_PREFIX):
        return f"update {name.removeprefix(UPDATE_PREFIX)}"
    return kind.replace("_", " ")


def value_text(value: Json) -> str:
    """Return a stored value on one line, for people."""
    return json.dumps(as_json(value), ensure_ascii=False)


def _arguments(value: Json) -> Json:
    """Return arguments as people see them: those by position under their numbers."""
    if not isinstance(value, dict) or not by_position_and_name(value)[0]:
        return value
    by_position, by_name = by_position_and_name(value)
    return {str(place): one for place, one in enumerate(by_position)} | by_name
