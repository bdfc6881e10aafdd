"""What a decider's history says besides its state: what is open, which timers are armed, which
instance began it. Noted event by event, live and in a replay alike."""

from __future__ import annotations

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.core.deciders.due_times import DueTimes
from perdure.core.identity import ExecutionId
from perdure.limits import MAX_OPEN_CALLS
from perdure.model.histories.bookkeeping import Bookkeeping, KeptCall
from perdure.model.histories.digests import ChainedDigest
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    AskedEvent,
    Cancelled,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    Completed,
    EffectScheduled,
    Event,
    InputTaken,
    Parent,
    Started,
    Terminated,
    TimerArmed,
    TimerDisarmed,
    read_event,
    write_event,
)


class OpenCall(msgspec.Struct):
    """An effect or a started orchestration without an answer."""

    event: EffectScheduled | ChildScheduled
    at_ms: int
    """When it was asked for."""
    correlation: str = ""
    waits_for: int = 0
    """Number of the effect that must end before this one begins; 0: it has begun."""
    begun_ms: int = 0
    """When it began."""

    @property
    def start_by_ms(self) -> int | None:
        """When a worker must have taken it: counted from when it began."""
        if not isinstance(self.event, EffectScheduled) or self.event.start_by_ms is None:
            return None
        return self.event.start_by_ms + self.begun_ms - self.at_ms


class DeciderNotes:
    """The bookkeeping of one execution."""

    __slots__ = (
        "cause",
        "correlation",
        "definition",
        "digest",
        "due_times",
        "following",
        "has_effects",
        "id",
        "instance_id",
        "is_closing",
        "key",
        "last_seq",
        "now_ms",
        "open",
        "parent",
        "since_ms",
        "snapshot_version",
        "started_by",
        "terminal",
        "timers",
    )

    def __init__(self, definition: DeciderDefinition, id: ExecutionId) -> None:
        self.definition = definition
        self.id = id
        self.instance_id = id.instance_id
        self.parent: Parent | None = None
        self.since_ms = 0
        self.started_by = ""
        self.last_seq = 0
        self.now_ms = 0
        self.terminal: AskedEvent | Terminated | None = None
        """The last event, once there is one."""
        self.is_closing = False
        """Whether the state is terminal: it ends when its effects have ended."""
        self.open: dict[int, OpenCall] = {}
        self.has_effects = 0
        """How many of the open calls are effects."""
        self.following: dict[int, int] = {}
        """By number of an effect, the one that waits for it."""
        self.timers: dict[str, int] = {}
        """Due times of armed timers, by key."""
        self.due_times = DueTimes()
        self.cause = ""
        """What gave the input that was taken last: a client, a timer, an effect, a decider."""
        self.correlation = ""
        """What the input that was taken last belongs to."""
        self.key: str | None = None
        """The business key, as far as it is known here."""
        self.snapshot_version = 0
        """At which version the last snapshot was made."""
        self.digest = ChainedDigest()
        """The hash over all events so far."""

    @property
    def is_completed(self) -> bool:
        """Whether it takes no more inputs."""
        return self.is_closing or self.terminal is not None

    @property
    def room(self) -> int:
        """How much more may be open."""
        return MAX_OPEN_CALLS - len(self.open) - len(self.timers)

    def open_effect(self, seq: int) -> EffectScheduled:
        """Return an open effect."""
        event = self.open[seq].event
        assert isinstance(event, EffectScheduled)
        return event

    # -------------------------------------------------------------------- the notes

    def note(self, event: Event, seq: int, *, is_replaying: bool = False) -> None:
        """Keep in mind what an event means for later; the state is the fold's."""
        match event:
            case InputTaken(cause=cause, correlation=correlation):
                self.cause, self.correlation = cause, correlation
                if cause.startswith("timer:"):
                    self._forget_timer(cause.removeprefix("timer:"))
            case EffectScheduled():
                self._open_effect(event, seq, is_replaying=is_replaying)
            case ChildScheduled():
                self.open[seq] = OpenCall(event, self.now_ms, self.correlation)
            case ActivityCompleted(schedule=schedule) | ActivityFailed(schedule=schedule):
                self._close_effect(schedule, is_replaying=is_replaying)
            case ChildCompleted(schedule=schedule) | ChildFailed(schedule=schedule):
                del self.open[schedule]
            case TimerArmed(key=key, due_ms=due_ms):
                self.timers[key] = due_ms
                self.due_times.set(f"key:{key}", due_ms)
            case TimerDisarmed(key=key):
                self._forget_timer(key)
            case _:
                self._note_edge(event)

    def _note_edge(self, event: Event) -> None:
        """Keep in mind how it began, and how it ended."""
        if isinstance(event, Started):
            self.parent, self.started_by = event.parent, event.started_by
            self.since_ms = event.since_ms or self.now_ms
        elif isinstance(event, Completed | Cancelled | Terminated):
            self.terminal = event

    def _forget_timer(self, key: str) -> None:
        self.timers.pop(key, None)
        self.due_times.drop(f"key:{key}")

    def _open_effect(self, event: EffectScheduled, seq: int, *, is_replaying: bool) -> None:
        # One that has ended already is not waited for.
        waits_for = event.after if event.after in self.open else 0
        if waits_for:
            self.following[waits_for] = seq
        self.open[seq] = OpenCall(event, self.now_ms, self.correlation, waits_for)
        self.has_effects += 1
        if event.deadline_ms is not None:
            self.due_times.set(f"deadline:{seq}", event.deadline_ms)
        if not waits_for:
            self._begin(seq, is_replaying=is_replaying)

    def _begin(self, seq: int, *, is_replaying: bool) -> None:
        """An effect waits for a worker from now on."""
        call = self.open[seq]
        call.begun_ms = self.now_ms
        if call.start_by_ms is not None and is_replaying:
            # Whether it has a timer, or was started long ago, is not recorded.
            self.due_times.set(f"start:{seq}", call.start_by_ms)

    def _close_effect(self, seq: int, *, is_replaying: bool) -> None:
        call = self.open.pop(seq)
        self.has_effects -= 1
        self.due_times.drop(f"deadline:{seq}")
        self.due_times.drop(f"start:{seq}")
        next_seq = self.following.pop(seq, None)
        if next_seq is not None:
            # If this one had not begun, what it waited for still has to end.
            self.open[next_seq].waits_for = call.waits_for
            if call.waits_for:
                self.following[call.waits_for] = next_seq
            else:
                self._begin(next_seq, is_replaying=is_replaying)
        elif call.waits_for:
            del self.following[call.waits_for]

    # ---------------------------------------------------------------- for snapshots

    def memory(self) -> Bookkeeping:
        """Return all that is noted."""
        kept = []
        for seq, call in self.open.items():
            kind, body = write_event(call.event)
            kept.append(
                KeptCall(
                    seq=seq,
                    kind=kind,
                    body=body.decode(),
                    at_ms=call.at_ms,
                    correlation=call.correlation,
                    waits_for=call.waits_for,
                    begun_ms=call.begun_ms,
                )
            )
        return Bookkeeping(
            open=tuple(kept),
            timers=dict(self.timers),
            digest=self.digest.value().hex(),
            now_ms=self.now_ms,
            since_ms=self.since_ms,
            started_by=self.started_by,
            parent=self.parent,
            correlation=self.correlation,
            key=self.key,
        )

    def recall(self, memory: Bookkeeping, seq: int) -> None:
        """Know again what a snapshot kept as of an event."""
        self.last_seq = seq
        self.digest = ChainedDigest(bytes.fromhex(memory.digest))
        self.since_ms, self.started_by = memory.since_ms, memory.started_by
        self.parent, self.key = memory.parent, memory.key
        for kept in memory.open:
            self._recall_call(kept)
        for key, due_ms in memory.timers.items():
            self.timers[key] = due_ms
            self.due_times.set(f"key:{key}", due_ms)
        self.now_ms, self.correlation = memory.now_ms, memory.correlation

    def _recall_call(self, kept: KeptCall) -> None:
        event = read_event(kept.kind, kept.body.encode())
        assert isinstance(event, EffectScheduled | ChildScheduled), "checked when it was read"
        call = OpenCall(event, kept.at_ms, kept.correlation, kept.waits_for, kept.begun_ms)
        self.open[kept.seq] = call
        if isinstance(event, ChildScheduled):
            return
        self.has_effects += 1
        if kept.waits_for:
            self.following[kept.waits_for] = kept.seq
        if event.deadline_ms is not None:
            self.due_times.set(f"deadline:{kept.seq}", event.deadline_ms)
        if call.start_by_ms is not None and not kept.waits_for:
            self.due_times.set(f"start:{kept.seq}", call.start_by_ms)
