"""Run a decider: inputs in, decisions out, as one value for one commit.

Unlike an orchestration a decider is not run again over its history: its state is the fold of the
events it recorded, and what it waits for can be read off the history too. Live, every recorded
event goes through the same notes as in a replay, so that both come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.decision import AlreadyCompleted, Rejected
from perdure.clock import not_before, to_datetime
from perdure.core.deciders.answers import UNREADABLE, Answer, DirectInput, UnreadableReceipt
from perdure.core.deciders.decide import AcceptedInput, Refused, run_decide
from perdure.core.deciders.ends import (
    OWN,
    UnheededFailure,
    answer_of,
    input_of_effect,
    input_of_end,
    input_of_retried,
    read_input,
    why_unreadable,
)
from perdure.core.deciders.fold import Fold
from perdure.core.deciders.follow_ups import begin_effect, complete_if_done, send_input
from perdure.core.deciders.notes import DeciderNotes
from perdure.core.deciders.outcomes import (
    answer_again,
    note_completed,
    note_refused,
    refuse,
    refuse_key,
    take_too_late,
)
from perdure.core.deciders.recording import record_accepted
from perdure.core.deciders.replaying import replaying
from perdure.core.deciders.snapshots import read_snapshot, snapshot_if_due
from perdure.core.deciders.turn import KEYED, DeciderChanges
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.core.turn_builder import TurnTerms
from perdure.errors import UniqueKeyError, VersionConflictError
from perdure.model.feeds import StoredSnapshot
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    Cancelled,
    CancelRequested,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    EffectRetried,
    EffectScheduled,
    Event,
    InputRejected,
    InputTaken,
    Parent,
    Started,
    StoredEvent,
    Terminated,
)
from perdure.model.messages import Message
from perdure.model.turns import Turn


class DeciderExecution:
    """A decider's instance in memory. It has the face of an orchestration's execution.

    *Making one.* `DeciderExecution(definition, id, code, guard)` has not begun. Bring it to where
    the stored history ends with `replay(history)`, or with `restore(snapshot)` and
    `replay(history_after)`: if the former returns False the snapshot cannot be used, and then
    `replay(whole_history)` is to be called on the same object. A new instance is neither replayed
    nor restored: its first run takes the `Started` message.

    *A turn.* `give(direct)` hands over inputs of `execute`, at most once before each run. Then
    `run(messages, terms, now_ms=...)` applies the messages in order, decides the direct inputs
    after them, and returns the `Turn` to be committed. Afterwards:

    - `answers` has one `Answer` for each direct input, in order: an `outcome` that counts once the
      turn is committed, or an `error` to be raised to that caller (the exception of `decide` or
      `evolve`, `NondeterminismError`, `VersionConflictError`, `UniqueKeyError`, `PayloadError`).
      An input with an error has left nothing in the turn.
    - `is_unchanged` tells that nothing has to be committed for these answers to be true: all
      inputs were rejected, failed, or came too late. If the turn has `receipts` or `observations`,
      keep them with `store.deciders.settle_inputs`. A rejection from a state in memory must still
      be checked against the stored stamp.
    - `turn.seize` is set if there were direct inputs.
    - `turn.vanishes`: a first turn that accepted nothing. Its events are empty, and the object is
      of no use any more: drop it whatever the store says. With `terms.start` there is nothing to
      commit (`is_unchanged`); a claimed turn is committed, and takes the instance away.
    - After a run the object is ahead of the store until the commit is accepted. Refused: drop it.

    *Errors.* An exception of user code while a message is applied leaves `run` as it is (a
    `NondeterminismError` if the guard saw something); the object is spoiled then and must be
    dropped, and the instance be parked or blocked. In `replay` everything that user code cannot
    read or fold is a `NondeterminismError`.

    *A taken business key.* If the store answers KEY_TAKEN, make the execution anew, set
    `taken_keys = {turn.unique.key: holder}` (the holder's stored id) and run the same again: inputs
    that want such a key are refused by themselves, a direct one with `UniqueKeyError`, a message
    with an `InputRejected` on record and a warning, and all others go on.

    *Completion.* When `is_terminal` becomes true the instance is *completed*: `is_completed`, no
    timers, key freed, every further input is answered `AlreadyCompleted`; one that comes as a
    message is rejected on record. Effects that were asked for still run. `terminal` is set, and the
    turn has an outcome, when the last of them has ended: in the same turn if there is none. Inputs
    that effects return then mean nothing.

    *Stopping.* A decider has no code that could be asked to stop: a cancel request ends it as
    cancelled at once, a termination as terminated; open effects are dropped in both.

    *Its parts.* The `fold` has the state; the `notes` have what else the history says, `open` calls
    by number and `timers` by key among it. `DeciderChanges` collects what a turn changes.
    """

    __slots__ = (
        "__weakref__",
        "_changes",
        "_code",
        "_direct",
        "answers",
        "definition",
        "execution",
        "fold",
        "id",
        "instance_id",
        "is_answering",
        "is_unchanged",
        "name",
        "notes",
        "open",
        "taken_keys",
        "timers",
        "unheeded",
    )

    version = ""
    """Deciders have none."""

    _changes: DeciderChanges
    """Of the turn that runs, or ran last."""

    def __init__(
        self, definition: DeciderDefinition, id: ExecutionId, code: str, guard: Guard
    ) -> None:
        self.definition = definition
        self.id = id
        self.instance_id = id.instance_id
        self.execution = id.execution
        self.name = definition.name
        self.notes = DeciderNotes(definition, id)
        self.open = self.notes.open
        self.timers = self.notes.timers
        self.fold = Fold(definition, guard)
        self.answers: tuple[Answer, ...] = ()
        self.is_answering = False
        """Whether the turn has come to its direct inputs: what stops it there is theirs."""
        self.is_unchanged = True
        self.taken_keys: Mapping[str, str] = {}
        """Business keys that other instances have, with the stored ids of those."""
        self.unheeded: list[UnheededFailure] = []
        """Effects whose failure the turn took, and made nothing of."""
        self._code = code
        self._direct: tuple[DirectInput, ...] = ()

    @property
    def state(self) -> Any:
        """The fold of the events so far. Not to be changed: see `definition.copy_state`."""
        return self.fold.state

    @property
    def last_seq(self) -> int:
        """Number of its newest event."""
        return self.notes.last_seq

    @property
    def parent(self) -> Parent | None:
        """The call that it answers to."""
        return self.notes.parent

    @property
    def since_ms(self) -> int:
        """When it started."""
        return self.notes.since_ms

    @property
    def started_by(self) -> str:
        """The instance that started it and does not wait for it."""
        return self.notes.started_by

    @property
    def is_completed(self) -> bool:
        """Whether it takes no more inputs."""
        return self.notes.is_completed

    def digest(self) -> bytes:
        """Return the hash over all events so far."""
        return self.notes.digest.value()

    # ------------------------------------------------------------------ coming back

    def replay(self, history: Sequence[StoredEvent], /) -> None:
        """Come to where a history ends.

        Raises:
            NondeterminismError: The code cannot read or fold what is recorded.
            UnreadableEventError: A stored event is damaged or of an unknown kind.
        """
        for _ in self.replaying(history, is_enough=lambda: False):
            pass

    def replaying(
        self, history: Sequence[StoredEvent], /, is_enough: Callable[[], bool]
    ) -> Generator[None, None, None]:
        """The same, and yield between two events whenever it is enough for now."""
        return replaying(self.fold, self.notes, history, is_enough)

    def restore(self, snapshot: StoredSnapshot, /) -> bool:
        """Begin with a snapshot; False if it cannot be used. The events after it are replayed."""
        kept = read_snapshot(self.definition, snapshot)
        if kept is None:
            return False
        self.notes.recall(kept.data, snapshot.seq)
        self.fold.state, self.fold.version = kept.state, snapshot.version
        self.notes.snapshot_version = snapshot.version
        return True

    def tear_down(self) -> list[object]:
        """Let go. There is nothing that would not end."""
        return []

    # ----------------------------------------------------------------------- turns

    def give(self, direct: Sequence[DirectInput]) -> None:
        """Hand over inputs that the next run decides after its messages."""
        self._direct = tuple(direct)

    def run(self, messages: Sequence[Message], terms: TurnTerms, *, now_ms: int) -> Turn:
        """Apply messages in order, decide the direct inputs, and work out all that follows.

        Raises:
            UnreadableEventError: A message is damaged or of an unknown kind.
            Exception: What user code raised while a message was applied.
        """
        direct, self._direct = self._direct, ()
        fold, notes = self.fold, self.notes
        self.unheeded = []
        self.is_answering = False
        is_first = notes.last_seq == 0
        notes.now_ms = not_before(notes.now_ms, now_ms)
        changes = self._changes = DeciderChanges(notes, terms)
        if terms.lease and not messages and not direct:
            notes.due_times.drop_due(notes.now_ms, "start:")
        version = fold.version
        with fold.place, fold.guard:
            for message in messages:
                self._take(message)
            self.is_answering = bool(direct)
            self.answers = tuple([self._answer(each) for each in direct])
            snapshot = snapshot_if_due(fold, notes) if fold.version > version else None
        vanishes = is_first and not changes.accepted and changes.refused > 0
        turn = changes.turn(
            snapshot=snapshot,
            is_direct=bool(direct),
            vanishes=vanishes and notes.terminal is None,
        )
        self.is_unchanged = (not turn.events and not turn.consumed and not turn.job_ends) or (
            turn.vanishes and terms.start is not None
        )
        return turn

    # -------------------------------------------------------------------- messages

    def _take(self, message: Message) -> None:
        """Apply a message, or drop it if it means nothing any more."""
        event = self._changes.take(message)
        if isinstance(event, InputTaken):
            self._take_input(event, message.timer_key)
        elif self.notes.terminal is None and message.execution in (0, self.execution):
            self._take_other(event, message.timer_key)

    def _take_other(self, event: Event, timer_key: str | None) -> None:
        match event:
            case Started() if self.notes.last_seq == 0:
                self._changes.append(msgspec.structs.replace(event, code=self._code))
            case ActivityCompleted() | ActivityFailed():
                self._end_effect(event, timer_key)
            case EffectRetried():
                self._end_retried(event)
            case ChildCompleted() | ChildFailed():
                self._end_orchestration(event)
            case CancelRequested(reason=reason):
                self._changes.append(event)
                self._changes.append(Cancelled(reason=reason))
            case Terminated():
                self._changes.append(event)

    def _take_input(self, taken: InputTaken, timer_key: str | None) -> None:
        if timer_key is not None:
            key = timer_key.removeprefix(KEYED)
            if key not in self.timers or self._changes.has_set(timer_key):
                return  # Cancelled or set anew in this very turn.
        if taken.input_id and taken.input_id in self._changes.receipts:
            return
        self._decide_taken(taken)

    def _decide_taken(self, taken: InputTaken) -> None:
        """Decide an input that is on record from here on, whatever comes of it."""
        if self.notes.is_completed:
            take_too_late(self._changes, taken)
            return
        why = why_unreadable(self.definition, self.instance_id, taken)
        if why is not None:
            unreadable = UnreadableReceipt(input_tag=taken.tag, why=why)
            refuse(self._changes, taken, UNREADABLE, {"why": why}, unreadable)
            return
        value = read_input(self.definition, self.instance_id, taken)
        if taken.cause.startswith(OWN) and self._forward(taken, value):
            return
        holder = self._key_holder(value)
        if holder is not None:
            refuse_key(self._changes, taken, *holder)
            return
        # One with an id may be asked for again in this very turn.
        judged = self._judge(value, is_shown=bool(taken.input_id))
        self._changes.append(taken)
        if isinstance(judged, Refused):
            reason = msgspec.Raw(judged.tagged.data)
            self._changes.append(InputRejected(tag=judged.tagged.tag, reason=reason))
            note_refused(self._changes, judged, taken.tag, bytes(taken.input), taken.input_id)
        else:
            given = (taken.tag, bytes(taken.input), taken.input_id)
            record_accepted(self._changes, self.fold, judged, *given)

    def _forward(self, taken: InputTaken, value: object) -> bool:
        """Send on what this instance caused for another one; False if it is its own."""
        target = self.definition.instance_of(value)
        if target == self.instance_id:
            return False
        self._changes.append(taken)
        self._changes.accepted += 1
        send_input(self._changes, target, self.definition.name, taken.tag, taken.input)
        return True

    def _end_effect(self, event: ActivityCompleted | ActivityFailed, timer_key: str | None) -> None:
        """Take the end of an effect, and decide what it gives back."""
        seq = event.schedule
        call = self.open.get(seq)
        if call is None or not isinstance(call.event, EffectScheduled):
            return
        effect = call.event
        for key, due in (("deadline", effect.deadline_ms), ("start", effect.start_by_ms)):
            if due is not None and timer_key != f"{key}:{seq}":
                self._changes.drop_timer(f"{key}:{seq}")
        following = self.notes.following.get(seq)
        self._changes.append(event)
        if following is not None and not call.waits_for:
            begin_effect(self._changes, following, bytes(self.notes.open_effect(following).policy))
        given = (self.definition, self.instance_id, event, call)
        found = None if self.notes.is_closing else input_of_effect(*given)
        if timer_key is not None:
            unqueued = self._changes.drop_job(seq, call, effect)
            if found is None and isinstance(event, ActivityFailed):
                self._changes.bury_job(seq, effect, event.failures[-1], unqueued)
        self._decide_end(effect.name, event, found, is_late=timer_key is not None)
        complete_if_done(self._changes)

    def _end_retried(self, event: EffectRetried) -> None:
        """Take the end of an effect that a person put back after it had died.

        It had ended before, so it ends nothing now: neither what waited for it nor the instance
        waits again. If its failure was not taken yet, this is its end instead.
        """
        if event.effect in self.open:
            self._end_effect(answer_of(event), None)
            return
        self._changes.append(event)
        given = (self.definition, self.instance_id, event)
        found = None if self.notes.is_closing else input_of_retried(*given)
        self._decide_end(event.activity, answer_of(event), found)

    def _end_orchestration(self, event: ChildCompleted | ChildFailed) -> None:
        call = self.open.get(event.schedule)
        if call is None or not isinstance(call.event, ChildScheduled):
            return
        self._changes.append(event)
        if not self.notes.is_closing:
            self._decide_own(input_of_end(self.definition, self.instance_id, event, call))

    def _decide_end(
        self,
        activity: str,
        end: ActivityCompleted | ActivityFailed,
        found: InputTaken | None,
        *,
        is_late: bool = False,
    ) -> None:
        """Decide what came of the end of an effect, and notice a failure that nothing came of."""
        if found is None and isinstance(end, ActivityFailed):
            why = end.failures[-1].type_name
            self.unheeded.append(UnheededFailure(activity, end.attempts, why, is_late))
        self._decide_own(found)

    def _decide_own(self, found: InputTaken | None) -> None:
        """Decide what the decider makes of something that ended."""
        self.fold.refuse_violation()
        if found is not None:
            self._decide_taken(found)

    # ---------------------------------------------------------------- direct inputs

    def _answer(self, direct: DirectInput) -> Answer:
        """Decide an input that a caller waits for; on record only if it is accepted."""
        changes = self._changes
        if direct.input_id and direct.input_id in changes.outcomes:
            return answer_again(changes, direct)
        if self.notes.is_completed:
            # With its id, which may be that of the input that has completed it.
            note_completed(changes, direct.tag, direct.data, direct.input_id)
            return Answer(AlreadyCompleted())
        try:
            judged = self._judge_direct(direct)
        except Exception as error:
            # Its caller is told; the turn goes on for the others.
            changes.refused += 1
            self.fold.guard.violation = None
            return Answer(error=error)
        if isinstance(judged, Refused):
            note_refused(changes, judged, direct.tag, direct.data, direct.input_id)
            return Answer(Rejected(judged.reason))
        changes.append(
            InputTaken(
                tag=direct.tag,
                input=msgspec.Raw(direct.data),
                input_id=direct.input_id,
                cause=direct.cause,
                correlation=direct.correlation,
            )
        )
        given = (direct.tag, direct.data, direct.input_id)
        return Answer(record_accepted(changes, self.fold, judged, *given))

    def _judge_direct(self, direct: DirectInput) -> AcceptedInput | Refused:
        expected, found = direct.expected_version, self.fold.version
        own_id = self.definition.own_id(self.instance_id)
        if expected is not None and expected != found:
            raise VersionConflictError(own_id, expected=expected, found=found)
        value = self.definition.inputs.decode(direct.tag, direct.data)
        taken = self._key_holder(value)
        if taken is not None:
            key, holder = taken
            name = self.definition.name
            raise UniqueKeyError(key, decider=name, holder=self.definition.own_id(holder))
        return self._judge(value, is_shown=True)

    # -------------------------------------------------------------------- deciding

    def _key_holder(self, value: object) -> tuple[str, str] | None:
        """Return the key that an input would bring and another instance has, and which one."""
        if not self.taken_keys:
            return None
        key = self.definition.decider.unique_key(value)
        return None if key is None or key not in self.taken_keys else (key, self.taken_keys[key])

    def _judge(self, value: object, *, is_shown: bool) -> AcceptedInput | Refused:
        now, room = to_datetime(self.notes.now_ms), self.notes.room
        return run_decide(self.fold, value, now, is_shown=is_shown, room=room)
