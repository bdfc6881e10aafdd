"""The determinism check: what was recorded beside what the code asks for now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.clock import to_datetime
from perdure.codec import ValueCodec
from perdure.core.pending import Ask, PendingCall
from perdure.errors import NondeterminismError
from perdure.model.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    Cancelled,
    CancelRequested,
    ChildCancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    Completed,
    Event,
    Failed,
    InlineScheduled,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    SignalWaitCancelled,
    Started,
    StoredEvent,
    Terminated,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
    UnreadableEventError,
    read_event,
)

NEIGHBOURS = 3
"""How many matching events are shown above the one that differs."""

_MIN_COLUMN = 42
_SHOWN_CHARS = 60


class Code(NamedTuple):
    """Digest of an orchestration's code when the instance started, and now."""

    name: str
    then: str
    now: str


def matches(ask: Ask, stored: StoredEvent, returns: ValueCodec[Any]) -> bool:
    """Tell whether the code asks for what is recorded.

    What is on record counts: an ask that differs in what makes no difference gets that event.

    Args:
        ask: What the code asks for.
        stored: What is recorded at that place.
        returns: How the result of the orchestration is stored.
    """
    asked = ask.event
    if stored.kind != asked.kind:
        return False
    recorded = read_event(stored.kind, stored.body)
    if recorded == asked:
        return True
    match recorded, asked:
        case Failed(failure=then), Failed(failure=now):
            # Messages and tracebacks may hold addresses and line numbers.
            return then.type_name == now.type_name
        case Completed(result=before), Completed(result=after):
            return returns.same(bytes(before), bytes(after))
        case (
            ActivityScheduled() | InlineScheduled() | ChildScheduled(),
            ActivityScheduled() | InlineScheduled() | ChildScheduled(),
        ):
            return _is_same_call(ask, recorded, asked)
    return False


def _is_same_call(ask: Ask, recorded: Any, asked: Any) -> bool:
    """Compare two calls: the recorded input may lack what has a default today, and a deadline
    is an option, which may change."""
    assert isinstance(ask, PendingCall)
    request: Any = ask.request
    aligned = msgspec.structs.replace(recorded, input=asked.input)
    if isinstance(asked, ActivityScheduled):
        aligned = msgspec.structs.replace(aligned, deadline_ms=asked.deadline_ms)
    if aligned != asked or not request.same_input(bytes(recorded.input), bytes(asked.input)):
        return False
    ask.event = recorded
    return True


def mismatch(
    instance_id: str,
    code: Code,
    history: Sequence[StoredEvent],
    seq: int,
    asked: Ask | None,
) -> NondeterminismError:
    """Return the error for event number `seq`, where code and history part.

    Args:
        instance_id: The instance.
        code: Digests of its code.
        history: All recorded events.
        seq: Number of the event that does not fit; may be one past the end.
        asked: What the code asked for there, or None if it asked for nothing more.
    """
    recorded = history[seq - 1] if seq <= len(history) else None
    now = "nothing more" if asked is None else summary(asked.event)
    then = "nothing more" if recorded is None else _stored(recorded)
    if recorded is not None and asked is not None and now == then:
        now, then = _with_payload(asked.event), _with_payload_stored(recorded)
    place = "" if asked is None or asked.place is None else str(asked.place)
    rows = [(" ", event.seq, _stored(event), "same") for event in _before(history, seq)]
    rows.append((">", seq, then, f"{now}    {place}".rstrip()))
    width = max(_MIN_COLUMN, *(len(left) for _, _, left, _ in rows))
    lines = [
        f"{instance_id} no longer matches its history at event {seq}",
        "",
        _heading(history, code, width),
        *(f"{mark} {at:>3} {left:<{width}} {at:>3} {right}" for mark, at, left, right in rows),
        "",
        *_advice(code),
    ]
    return NondeterminismError(
        "\n".join(lines), seq=seq, recorded=then, asked=now, place=place or None
    )


def summary(event: Event) -> str:
    """Return an event in a few words."""
    match event:
        case Started(name=name) | ActivityScheduled(name=name):
            return f"{event.kind.replace('_', ' ')} {name}"
        case InlineScheduled(name=name) | SignalReceived(name=name):
            return f"{event.kind.replace('_', ' ')} {name}"
        case SignalAwaited(name=name) | SignalTaken(name=name):
            return f"{event.kind.replace('_', ' ')} {name}"
        case ChildScheduled(name=name, version=version, instance_id=child_id):
            return f"child scheduled {name}@{version} as {child_id}"
        case TimerScheduled(due_ms=due_ms):
            return f"timer until {to_datetime(due_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3]
        case Failed(failure=failure):
            return f"failed {failure.type_name}: {failure.message}"[:_SHOWN_CHARS]
        case CancelRequested(reason=reason) | Cancelled(reason=reason) | Terminated(reason=reason):
            return f"{event.kind.replace('_', ' ')}: {reason}"[:_SHOWN_CHARS]
        case (
            ActivityCompleted(schedule=schedule)
            | ActivityFailed(schedule=schedule)
            | ActivityCancelled(schedule=schedule)
            | TimerFired(schedule=schedule)
            | TimerCancelled(schedule=schedule)
            | SignalWaitCancelled(schedule=schedule)
            | ChildCompleted(schedule=schedule)
            | ChildFailed(schedule=schedule)
            | ChildCancelled(schedule=schedule)
        ):
            return f"{event.kind.replace('_', ' ')} (of {schedule})"
    return event.kind.replace("_", " ")


def _heading(history: Sequence[StoredEvent], code: Code, width: int) -> str:
    started = to_datetime(history[0].at_ms)
    left = f"    recorded  {started:%Y-%m-%d %H:%M}  code {_source(code.then)}"
    return f"{left:<{width + 7}}asked now  code {_source(code.now)}"


def _source(digest: str) -> str:
    """Return the part of a digest that is about the source, without the Python version."""
    return digest.partition("-")[0] or "?"


def _before(history: Sequence[StoredEvent], seq: int) -> Sequence[StoredEvent]:
    return history[max(0, seq - 1 - NEIGHBOURS) : seq - 1]


def _advice(code: Code) -> list[str]:
    if code.then and code.then == code.now:
        why = [
            f'The code of "{code.name}" is the same as when the instance started, so a value that',
            "differs between runs decided here: time, random, the environment, the order of a set.",
        ]
    elif code.then and _source(code.then) == _source(code.now):
        why = [
            f'The code of "{code.name}" is the same as when the instance started, but Python is '
            f"another ({code.then} -> {code.now}),",
            "and asyncio starts some tasks in another order there. A worker with the Python of the "
            "start finishes it.",
        ]
    elif code.then:
        why = [
            f'The code of "{code.name}" changed after this instance started '
            f"({_source(code.then)} -> {_source(code.now)}).",
        ]
    else:
        why = [f'It is not recorded with which code of "{code.name}" this instance started.']
    return [
        *why,
        "The instance is blocked. Nothing was lost and nothing ran twice. It goes on by itself",
        "when a worker comes whose code asks for what is recorded.",
    ]


def _stored(event: StoredEvent) -> str:
    try:
        return summary(read_event(event.kind, event.body))
    except UnreadableEventError:
        return f"{event.kind} (unreadable)"


def _with_payload(event: Event) -> str:
    """Return an event with what it carries; used when the short forms are equal."""
    payload = getattr(event, "input", getattr(event, "result", None))
    options = [
        f"{name}={getattr(event, name)!r}"
        for name in ("tag", "session", "signal", "schedule", "on_parent_close")
        if getattr(event, name, None) is not None
    ]
    text = "" if payload is None else bytes(payload).decode("utf-8", "replace")
    return " ".join([summary(event), text[:_SHOWN_CHARS], *options])


def _with_payload_stored(event: StoredEvent) -> str:
    return _with_payload(read_event(event.kind, event.body))
