"""The determinism check: what was recorded beside what the code asks for now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.clock import to_datetime
from perdure.codec import NOT_STORED, ValueCodec
from perdure.core.orchestrations.ending import Continuing
from perdure.core.orchestrations.pending import Ask, PendingCall
from perdure.errors import NondeterminismError
from perdure.model.histories.events import (
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
    ContinuedAsNew,
    DetachedRefused,
    DetachedScheduled,
    DetachedStarted,
    Event,
    Failed,
    InlineScheduled,
    KvPruned,
    KvRemoved,
    KvSet,
    Patched,
    PromiseMade,
    Reported,
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
    UpdateAnswered,
    read_event,
)
from perdure.model.histories.rows import read_row

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
    """Return whether the code asks for what is recorded.

    What is on record counts: an ask that differs in what makes no difference gets that event.

    Args:
        ask: What the code asks for.
        stored: What is recorded at that place.
        returns: How the result of the orchestration is stored.
    """
    asked = ask.event
    if stored.kind != asked.kind:
        return False
    recorded = read_row(stored)
    if recorded == asked:
        return True
    match recorded, asked:
        case Failed(failure=then), Failed(failure=now):
            # Messages and tracebacks may hold addresses and line numbers.
            return then.type_name == now.type_name
        case Completed(result=before), Completed(result=after):
            return returns.same(bytes(before), bytes(after))
        case KvSet(key=old_key, value=old), KvSet(key=key, value=new):
            return old_key == key and _canonical(old) == _canonical(new)
        case UpdateAnswered(answer=old), UpdateAnswered(answer=new):
            # The words of a refusal may be ours, and change with the version.
            is_refusal = recorded.refusal is not None, asked.refusal is not None
            if recorded.update_id != asked.update_id or len(set(is_refusal)) > 1:
                return False
            ask.event = recorded
            return _canonical(old) == _canonical(new)
        case Reported(), Reported():
            ask.event = recorded
            return True
        case ContinuedAsNew(), ContinuedAsNew():
            return _is_same_continuation(ask, recorded, asked)
    return isinstance(recorded, _CALLS) and _is_same_call(ask, recorded, asked)


_CALLS = (ActivityScheduled, InlineScheduled, ChildScheduled, DetachedScheduled)
_OPTIONS = ("deadline_ms", "start_by_ms", "delay_ms")
"""What is recorded of a call and may change: when it is too late, or not yet time."""


def _is_same_call(ask: Ask, recorded: Any, asked: Any) -> bool:
    """Compare two calls of one kind: the recorded input may lack what has a default today."""
    assert isinstance(ask, PendingCall)
    request: Any = ask.request
    options = {name: getattr(asked, name) for name in _OPTIONS if hasattr(asked, name)}
    aligned = msgspec.structs.replace(recorded, input=asked.input, **options)
    if aligned != asked or not request.same_input(bytes(recorded.input), bytes(asked.input)):
        return False
    ask.event = recorded
    return True


def matches_kept(ask: Ask, stored: StoredEvent) -> bool:
    """Return whether the code makes the call that is recorded in what was taken over from another
    execution, of the same kind and name. Its arguments may name what was another there."""
    if stored.kind != ask.event.kind:
        return False
    recorded = read_row(stored)
    match recorded, ask.event:
        case KvSet(key=old_key), KvSet(key=key):
            if old_key != key:
                return False
        case (
            (ActivityScheduled() | InlineScheduled() | ChildScheduled() | DetachedScheduled()),
            (ActivityScheduled() | InlineScheduled() | ChildScheduled() | DetachedScheduled()),
        ) if isinstance(ask, PendingCall):
            if recorded.name != ask.event.name:
                return False
            request: Any = ask.request
            ask.request = msgspec.structs.replace(request, input=bytes(recorded.input))
        case _:
            return False
    ask.event = recorded
    return True


def _is_same_continuation(ask: Ask, recorded: ContinuedAsNew, asked: ContinuedAsNew) -> bool:
    """Compare where two executions go on: a version that the code did not name was the choice of
    the worker that was there."""
    assert isinstance(ask, Continuing)
    if ask.request.version not in (None, recorded.version):
        return False
    if not ask.request.same_input(bytes(recorded.input), bytes(asked.input)):
        return False
    ask.event = recorded
    return True


def _canonical(value: msgspec.Raw) -> bytes:
    """Return a JSON value so that equal ones have equal bytes, whatever the order of keys."""
    return msgspec.json.encode(msgspec.json.decode(value), order="sorted")


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
    short = f"recorded is {then}, and the code asks for {now}"
    if recorded is not None and asked is not None and now == then:
        short = f"recorded is {then} with other arguments or options than the code asks for"
        now, then = _with_payload(asked.event), _with_payload_stored(recorded)
    place = "" if asked is None or asked.place is None else str(asked.place)
    rows = [(" ", event.seq, _stored(event), "same") for event in _before(history, seq)]
    rows.append((">", seq, then, f"{now}    {place}".rstrip()))
    width = max(_MIN_COLUMN, *(len(left) for _, _, left, _ in rows))
    where = f" at {place}" if place else ""
    lines = [
        f"{instance_id} no longer matches its history at event {seq}: {short}{where}",
        "",
        _heading(history, code, width),
        *(f"{mark} {at:>3} {left:<{width}} {at:>3} {right}" for mark, at, left, right in rows),
        "",
        *_advice(code, _cure(recorded, asked)),
    ]
    return NondeterminismError(
        "\n".join(lines), seq=seq, recorded=then, asked=now, place=place or None
    )


def summary(event: Event) -> str:
    """Return an event in a few words."""
    kind = event.kind.replace("_", " ")
    match event:
        case ChildScheduled() | DetachedScheduled():
            return f"{kind} {_versioned(event.name, event.version)} as {event.instance_id}"
        case ContinuedAsNew(version=version):
            return _versioned(kind, version)
        case TimerScheduled(due_ms=due_ms):
            return f"timer until {_time(due_ms)}"
        case Failed(failure=failure):
            return _cut(f"failed {failure.type_name}: {failure.message}")
        case CancelRequested(reason=reason) | Cancelled(reason=reason) | Terminated(reason=reason):
            return _cut(f"{kind}: {reason}")
        case KvSet(key=key) | KvRemoved(key=key):
            return f"{kind} {key!r}"
        case KvPruned(before_ms=before_ms):
            return f"kv pruned before {_time(before_ms)}"
        case Patched(change=change):
            return f"patched {change!r}"
        case UpdateAnswered(update_id=update_id, refusal=refusal):
            return f"update {update_id!r} {'answered' if refusal is None else 'refused'}"
    return f"{kind}{_subject(event)}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def _subject(event: Event) -> str:
    """Return what an event is about: a name, or the number of the event that it answers."""
    match event:
        case Started(name=name) | ActivityScheduled(name=name) | InlineScheduled(name=name):
            return f" {name}"
        case SignalReceived(name=name) | SignalAwaited(name=name) | SignalTaken(name=name):
            return f" {name}"
        case PromiseMade(name=name):
            return f" {name}"
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
            | DetachedStarted(schedule=schedule)
            | DetachedRefused(schedule=schedule)
        ):
            return f" (of {schedule})"
    return ""


def _versioned(name: str, version: str) -> str:
    return f"{name}@{version}" if version else name


def _time(at_ms: int) -> str:
    return f"{to_datetime(at_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _heading(history: Sequence[StoredEvent], code: Code, width: int) -> str:
    started = to_datetime(history[0].at_ms)
    left = f"    recorded  {started:%Y-%m-%d %H:%M}  code {_source(code.then)}"
    return f"{left:<{width + 7}}asked now  code {_source(code.now)}"


def _source(digest: str) -> str:
    """Return the part of a digest that is about the source, without the Python version."""
    return digest.partition("-")[0] or "?"


def _before(history: Sequence[StoredEvent], seq: int) -> Sequence[StoredEvent]:
    return history[max(0, seq - 1 - NEIGHBOURS) : seq - 1]


def _cure(recorded: StoredEvent | None, asked: Ask | None) -> list[str]:
    """Return what mends a change that is known for what it is; nothing for others."""
    if recorded is None or asked is None:
        return []
    now = asked.event
    if isinstance(now, Failed) and now.failure.message.endswith(NOT_STORED):
        parameter = now.failure.message.removesuffix(NOT_STORED)
        return [
            f"The stored input has no value for a parameter that is new, {parameter}: give it a",
            "default, which instances take that began before it was there.",
        ]
    try:
        then = read_row(recorded)
    except UnreadableEventError:
        return []
    match then, now:
        case ActivityScheduled(), ActivityScheduled():
            decorator = "activity"
        case ChildScheduled(), ChildScheduled():
            decorator = "orchestration"
        case _:
            return []
    if then.name == now.name or bytes(then.input) != bytes(now.input):
        return []
    return [
        f'If "{then.name}" was only renamed, keep the name that is recorded:',
        f'@{decorator}(name="{then.name}").',
    ]


def _advice(code: Code, cure: list[str]) -> list[str]:
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
            *(cure or _KEEP_BOTH),
        ]
    else:
        why = [f'It is not recorded with which code of "{code.name}" this instance started.']
    return [
        *why,
        "The instance is blocked. Nothing was lost and nothing ran twice. It goes on by itself",
        "when a worker comes whose code asks for what is recorded.",
    ]


_KEEP_BOTH = [
    'Code that keeps both sides fits all instances: if ctx.patched("..."): the new one, '
    "else: the old one."
]


def _stored(event: StoredEvent) -> str:
    try:
        return summary(read_event(event.kind, event.body))
    except UnreadableEventError:
        return f"{event.kind} (unreadable)"


_PAYLOADS = ("input", "result", "value", "answer")
"""Where events have what they carry."""


def _with_payload(event: Event) -> str:
    """Return an event with what it carries; used when the short forms are equal."""
    payload = next(
        (getattr(event, name) for name in _PAYLOADS if hasattr(event, name)),
        None,
    )
    options = [
        f"{name}={getattr(event, name)!r}"
        for name in ("tag", "session", "signal", "schedule", "on_parent_close")
        if getattr(event, name, None) is not None
    ]
    text = "" if payload is None else bytes(payload).decode("utf-8", "replace")
    return " ".join([summary(event), _cut(text), *options])


def _with_payload_stored(event: StoredEvent) -> str:
    return _with_payload(read_event(event.kind, event.body))
