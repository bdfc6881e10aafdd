"""Run a decider: inputs in, decisions out, as one value for one commit.

Unlike an orchestration a decider is not run again over its history: its state is the fold of the
events it recorded, and what it waits for can be read off the history too. Live, every recorded
event goes through the same notes as in a replay, so that both come to the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.authoring.decider_definition import DeciderDefinition
from perdure.authoring.decision import Accepted, AlreadyCompleted, Rejected
from perdure.clock import not_before, to_datetime
from perdure.codec import JSON
from perdure.core.deciders.answers import (
    UNREADABLE,
    AcceptedReceipt,
    Answer,
    DirectInput,
    InputOutcome,
    UnreadableReceipt,
)
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
from perdure.core.deciders.fingerprints import Fingerprint, check_same
from perdure.core.deciders.keeping import DeciderKeeping
from perdure.core.deciders.snapshots import read_snapshot
from perdure.core.deciders.turn import KEYED, DeciderChanges
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.core.turn_builder import TurnTerms
from perdure.errors import InputIdReusedError, UniqueKeyError, VersionConflictError
from perdure.model.events import (
    NULL,
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
    EventRecorded,
    InputRejected,
    InputTaken,
    Replied,
    Started,
    StoredEvent,
    Terminated,
)
from perdure.model.feeds import StoredSnapshot
from perdure.model.messages import Message
from perdure.model.rows import read_message, read_row
from perdure.model.turns import FedEvent, Turn, UniqueKey

logger = logging.getLogger(__name__)


class DeciderExecution(DeciderKeeping):
    """A decider's instance in memory. It has the face of an orchestration's execution.

    *Making one.* `DeciderExecution(definition, id, code, guard)` has not begun. Bring it to where
    the stored history ends with `replay(history)`, or with `restore(snapshot, history_after)`: that
    returns False if the snapshot cannot be used, and then `replay(whole_history)` is to be called
    on the same object. A new instance is neither replayed nor restored: its first run takes the
    `Started` message.

    *A turn.* `give(direct)` hands over inputs of `execute`, at most once before each run. Then
    `run(messages, terms, now_ms=...)` applies the messages in order, decides the direct inputs
    after them, and returns the `Turn` to be committed. Afterwards:

    - `answers` has one `Answer` for each direct input, in order: an `outcome` that counts once the
      turn is committed, or an `error` to be raised to that caller (the exception of `decide` or
      `evolve`, `NondeterminismError`, `VersionConflictError`, `UniqueKeyError`, `PayloadError`).
      An input with an error has left nothing in the turn.
    - `is_unchanged` tells that nothing has to be committed for these answers to be true: all
      inputs were rejected, failed, or came too late. If the turn has `receipts` or `observations`,
      keep them with `store.settle_inputs`. A rejection from a state in memory must still be
      checked against the stored stamp.
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

    `open` has the effects and started orchestrations without an answer, by number; `timers` the
    due times of armed timers by key.
    """

    __slots__ = (
        "_code",
        "_direct",
        "answers",
        "is_answering",
        "is_unchanged",
        "taken_keys",
        "unheeded",
    )

    def __init__(
        self, definition: DeciderDefinition, id: ExecutionId, code: str, guard: Guard
    ) -> None:
        super().__init__(definition, id, guard)
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
    def guard(self) -> Guard:
        """Watches the code."""
        return self._fold.guard

    @guard.setter
    def guard(self, guard: Guard) -> None:
        self._fold.guard = guard

    @property
    def is_completed(self) -> bool:
        """Whether it takes no more inputs."""
        return self.is_closing or self.terminal is not None

    # ------------------------------------------------------------------ coming back

    def replay(self, history: Sequence[StoredEvent], /) -> None:
        """Come to where a history ends.

        Raises:
            NondeterminismError: The code cannot read or fold what is recorded.
            UnreadableEventError: A stored event is damaged or of an unknown kind.
        """
        fold = self._fold
        with fold.place, fold.guard:
            for stored in history:
                event = read_row(stored)
                self.last_seq = stored.seq
                self.now_ms = stored.at_ms
                self._digest.feed(stored.kind, stored.at_ms, stored.body)
                if isinstance(event, EventRecorded):
                    fold.add(event, stored.seq)
                else:
                    self._note(event, stored.seq, is_replaying=True)
            self.is_closing = fold.is_terminal()
        fold.refuse_violation()

    def restore(self, snapshot: StoredSnapshot, history: Sequence[StoredEvent], /) -> bool:
        """Go on from a snapshot with the events after it; False if it cannot be used.

        Raises:
            NondeterminismError, UnreadableEventError: As `replay`, of the events after it.
        """
        kept = read_snapshot(self.definition, snapshot)
        if kept is None:
            return False
        self._recall(kept.data, snapshot.seq)
        self._fold.state, self._fold.version = kept.state, snapshot.version
        self.snapshot_version = snapshot.version
        self.replay(history)
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
        self._outcomes = {}
        self.unheeded = []
        self.is_answering = False
        is_first = self.last_seq == 0
        self.now_ms = not_before(self.now_ms, now_ms)
        changes = self._changes = DeciderChanges(self.id, terms, self.now_ms)
        if terms.lease and not messages and not direct:
            self.due_times.drop_due(self.now_ms, "start:")
        version = self._fold.version
        with self._fold.place, self._fold.guard:
            for message in messages:
                self._take(message)
            self.is_answering = bool(direct)
            self.answers = tuple([self._answer(each) for each in direct])
            snapshot = self._snapshot() if self._fold.version > version else None
        vanishes = is_first and not changes.accepted and changes.refused > 0
        turn = changes.turn(
            terminal=self.terminal,
            parent=self.parent,
            digest=self.digest,
            next_due_ms=None if self.terminal is not None else self.next_due_ms(),
            snapshot=snapshot,
            is_direct=bool(direct),
            vanishes=vanishes and self.terminal is None,
        )
        self.is_unchanged = (not turn.events and not turn.consumed and not turn.job_ends) or (
            turn.vanishes and terms.start is not None
        )
        return turn

    # -------------------------------------------------------------------- messages

    def _take(self, message: Message) -> None:
        """Apply a message, or drop it if it means nothing any more."""
        if message.no:
            self._changes.consumed.append(message.no)
        event = read_message(message)
        if isinstance(event, InputTaken):
            self._take_input(event, message.timer_key)
        elif self.terminal is None and message.execution in (0, self.execution):
            self._take_other(event, message.timer_key)

    def _take_other(self, event: Event, timer_key: str | None) -> None:
        match event:
            case Started() if self.last_seq == 0:
                self._append(msgspec.structs.replace(event, code=self._code))
            case ActivityCompleted() | ActivityFailed():
                self._end_effect(event, timer_key)
            case EffectRetried():
                self._end_retried(event)
            case ChildCompleted() | ChildFailed():
                self._end_orchestration(event)
            case CancelRequested(reason=reason):
                self._append(event)
                self._append(Cancelled(reason=reason))
            case Terminated():
                self._append(event)

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
        if self.is_completed:
            self._take_too_late(taken)
            return
        why = why_unreadable(self.definition, self.instance_id, taken)
        if why is not None:
            unreadable = UnreadableReceipt(input_tag=taken.tag, why=why)
            self._refuse(taken, UNREADABLE, {"why": why}, unreadable)
            return
        value = read_input(self.definition, self.instance_id, taken)
        if taken.cause.startswith(OWN) and self._forward(taken, value):
            return
        holder = self._key_holder(value)
        if holder is not None:
            self._refuse_key(taken, *holder)
            return
        # One with an id may be asked for again in this very turn.
        judged = self._judge(value, is_shown=bool(taken.input_id))
        self._append(taken)
        if isinstance(judged, Refused):
            reason = msgspec.Raw(judged.tagged.data)
            self._append(InputRejected(tag=judged.tagged.tag, reason=reason))
            self._note_refused(judged, taken.tag, bytes(taken.input), taken.input_id)
        else:
            self._record(judged, taken.tag, bytes(taken.input), taken.input_id)

    def _forward(self, taken: InputTaken, value: object) -> bool:
        """Send on what this instance caused for another one; False if it is its own."""
        target = self.definition.instance_of(value)
        if target == self.instance_id:
            return False
        self._append(taken)
        self._changes.accepted += 1
        self._send(target, self.definition.name, taken.tag, taken.input)
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
        following = self.following.get(seq)
        self._append(event)
        if following is not None and not call.waits_for:
            self._begin_effect(following, bytes(self.open_effect(following).policy))
        given = (self.definition, self.instance_id, event, call)
        found = None if self.is_closing else input_of_effect(*given)
        if timer_key is not None:
            unqueued = self._changes.drop_job(seq, call, effect)
            if found is None and isinstance(event, ActivityFailed):
                self._changes.bury_job(seq, effect, event.failures[-1], unqueued)
        self._decide_end(effect.name, event, found, is_late=timer_key is not None)
        self._complete_if_done()

    def _end_retried(self, event: EffectRetried) -> None:
        """Take the end of an effect that a person put back after it had died.

        It had ended before, so it ends nothing now: neither what waited for it nor the instance
        waits again. If its failure was not taken yet, this is its end instead.
        """
        if event.effect in self.open:
            self._end_effect(answer_of(event), None)
            return
        self._append(event)
        given = (self.definition, self.instance_id, event)
        found = None if self.is_closing else input_of_retried(*given)
        self._decide_end(event.activity, answer_of(event), found)

    def _end_orchestration(self, event: ChildCompleted | ChildFailed) -> None:
        call = self.open.get(event.schedule)
        if call is None or not isinstance(call.event, ChildScheduled):
            return
        self._append(event)
        if not self.is_closing:
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
        self._fold.refuse_violation()
        if found is not None:
            self._decide_taken(found)

    # ---------------------------------------------------------------- direct inputs

    def _answer(self, direct: DirectInput) -> Answer:
        """Decide an input that somebody waits for; on record only if it is accepted."""
        earlier = self._outcomes.get(direct.input_id) if direct.input_id else None
        if earlier is not None:
            return self._answer_repeated(direct, *earlier)
        if self.is_completed:
            # With its id, which may be that of the input that has completed it.
            self._note_completed(direct.tag, direct.data, direct.input_id)
            return Answer(AlreadyCompleted())
        try:
            judged = self._judge_direct(direct)
        except Exception as error:
            # Whoever gave it is told; the turn goes on for the others.
            self._changes.refused += 1
            self.guard.violation = None
            return Answer(error=error)
        if isinstance(judged, Refused):
            self._note_refused(judged, direct.tag, direct.data, direct.input_id)
            return Answer(Rejected(judged.reason))
        self._append(
            InputTaken(
                tag=direct.tag,
                input=msgspec.Raw(direct.data),
                input_id=direct.input_id,
                cause=direct.cause,
                correlation=direct.correlation,
            )
        )
        return Answer(self._record(judged, direct.tag, direct.data, direct.input_id))

    def _answer_repeated(
        self, direct: DirectInput, outcome: InputOutcome, kept: Fingerprint
    ) -> Answer:
        try:
            check_same(self.instance_id, kept, direct)
        except InputIdReusedError as error:
            return Answer(error=error)
        return Answer(outcome)

    def _judge_direct(self, direct: DirectInput) -> AcceptedInput | Refused:
        expected, found = direct.expected_version, self._fold.version
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
        return run_decide(
            self._fold,
            value,
            to_datetime(self.now_ms),
            is_shown=is_shown,
            room=self.room,
        )

    def _record(
        self, judged: AcceptedInput, tag: str, data: bytes, input_id: str
    ) -> Accepted[Any, Any]:
        """Put what follows from an accepted input on record, behind the input."""
        changes, fold = self._changes, self._fold
        changes.accepted += 1
        first = fold.version + 1
        for version, recorded in enumerate(judged.written, first):
            place, origin = len(changes.events), (version, self.cause, self.correlation)
            changes.feed.append(FedEvent(place, recorded.tag, *origin))
            self._append(recorded)
        fold.version += len(judged.written)
        fold.state = judged.state
        self._follow(judged)
        reply = judged.decision.reply_data
        if reply is not None:
            self._append(Replied(value=msgspec.Raw(reply)))
        if judged.key is not None and judged.key != self.key:
            self.key = judged.key
            changes.take_key(UniqueKey(self.definition.name, judged.key))
        self._observe(tag, data, "accepted", None, input_id)
        value = None if reply is None else JSON.decode(reply)
        outcome = Accepted(judged.events, judged.shown, fold.version, value)
        raw = NULL if reply is None else msgspec.Raw(reply)
        receipt = AcceptedReceipt(first=first, last=fold.version, reply=raw)
        self._keep_receipt(input_id, tag, data, receipt, outcome)
        if judged.is_terminal:
            self._close()
        return outcome
