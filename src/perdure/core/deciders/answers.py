"""Inputs that callers wait for, their answers, and how an answer is kept for repeats.

A receipt holds what became of an input with an id: enough to build the same answer again from the
history, and not the events themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.codec import JSON
from perdure.core.deciders.fold import Fold, fold_until, refuse_removed
from perdure.core.guard import Guard
from perdure.errors import PayloadError, UniqueKeyError
from perdure.model.histories.events import NULL, InputTaken, StoredEvent
from perdure.model.histories.removed import find_removed
from perdure.model.histories.rows import read_row

UNCHECKED = "client:json"
"""The cause of an input whose sender does not have the decider: it was not checked whether it is
one."""

KEY_TAKEN = "perdure.key_taken"
"""The tag of a rejection that is not the decider's: its business key is another instance's."""

COMPLETED = "perdure.completed"
"""The tag of a rejection that is not the decider's: the instance has completed, and only waits for
its effects."""

UNREADABLE = "perdure.unreadable"
"""The tag of a rejection that is not the decider's: it was given something else than an input."""

InputOutcome: TypeAlias = Accepted[Any, Any] | Rejected[Any] | AlreadyCompleted


class DirectInput(NamedTuple):
    """An input of `execute`: decided in the caller's process, after what is in the inbox."""

    tag: str
    data: bytes
    """The input as JSON."""
    input_id: str = ""
    """Given again with the same id, it gets the first answer; empty: none."""
    correlation: str = ""
    expected_version: int | None = None
    """How many events the instance must have; None: any number."""
    cause: str = "client"


class Answer(NamedTuple):
    """What became of a direct input. One of the two is set."""

    outcome: InputOutcome | None = None
    """Counts once the turn is committed; at once, if the execution says that it is unchanged."""
    error: BaseException | None = None
    """What the caller gets raised: the decider's own exception, or a conflict. Nothing of this
    input is in the turn."""


class Receipt(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    kw_only=True,
    tag_field="outcome",
    tag=str.lower,
):
    """What is kept of an answer."""

    given: dict[str, str] = {}
    """A digest of each field of the input; empty in receipts of earlier versions."""


class AcceptedReceipt(Receipt, frozen=True, omit_defaults=True, tag="accepted"):
    """Accepted: the events of these versions; none if the last comes before the first."""

    first: int
    last: int
    reply: msgspec.Raw = NULL


class RejectedReceipt(Receipt, frozen=True, omit_defaults=True, tag="rejected"):
    """Rejected for a reason."""

    tag: str
    reason: msgspec.Raw


class CompletedReceipt(Receipt, frozen=True, omit_defaults=True, tag="completed"):
    """The instance had completed."""


class KeyTakenReceipt(Receipt, frozen=True, omit_defaults=True, tag="key_taken"):
    """Not decided: another instance has its business key."""

    key: str
    holder: str


class UnreadableReceipt(Receipt, frozen=True, omit_defaults=True, tag="unreadable"):
    """Not decided: it is no input of the decider."""

    input_tag: str
    why: str

    def error(self) -> PayloadError:
        """Return what is raised to who gave it."""
        return PayloadError(f"input {self.input_tag}", self.why)


AnyReceipt: TypeAlias = (
    AcceptedReceipt | RejectedReceipt | CompletedReceipt | KeyTakenReceipt | UnreadableReceipt
)

_receipts: msgspec.json.Decoder[AnyReceipt] = msgspec.json.Decoder(AnyReceipt)


def write_receipt(receipt: AnyReceipt) -> bytes:
    """Return a receipt as it is stored."""
    return msgspec.json.encode(receipt)


def read_receipt(data: bytes) -> AnyReceipt:
    """Return a stored receipt."""
    return _receipts.decode(data)


def needs_history(receipt: AnyReceipt) -> bool:
    """Return whether the answer can be built again only with the instance's history."""
    return isinstance(receipt, AcceptedReceipt)


def has_taken(history: Sequence[StoredEvent], receipt: AnyReceipt, input_id: str) -> bool:
    """Return whether the input of a receipt is in a history, or among what was removed of it."""
    removed = find_removed(history)
    last = receipt.last if isinstance(receipt, AcceptedReceipt) else 0
    if removed is not None and last <= removed.version:
        # Of one that was accepted without events it is not known, and need not be.
        return True
    for stored in history:
        if stored.kind == InputTaken.kind:
            taken = read_row(stored)
            if isinstance(taken, InputTaken) and taken.input_id == input_id:
                return True
    return False


def answer_again(
    definition: DeciderDefinition,
    receipt: AnyReceipt,
    history: Sequence[StoredEvent],
    guard: Guard,
) -> InputOutcome:
    """Return the answer that a receipt stands for.

    Args:
        definition: The decider.
        receipt: What was kept.
        history: Of the instance, at least up to the receipt's last event; unless
            `needs_history`, none is looked at.
        guard: Watches `evolve`.

    Raises:
        UniqueKeyError: It was not decided because another instance had its business key.
        PayloadError: It was not decided because it is no input of the decider.
        EventsRemovedError: It was accepted, and its events were removed.
    """
    match receipt:
        case RejectedReceipt(tag=tag, reason=reason):
            return Rejected(definition.rejections.decode(tag, bytes(reason)))
        case CompletedReceipt():
            return AlreadyCompleted()
        case KeyTakenReceipt(key=key, holder=holder):
            raise UniqueKeyError(key, decider=definition.name, holder=holder)
        case UnreadableReceipt():
            raise receipt.error()
        case AcceptedReceipt(first=first, last=last, reply=reply):
            if last:
                refuse_removed(history, min(first - 1, last), "the answer to a repeated input")
            fold = Fold(definition, guard)
            with fold.place, guard:
                events = [
                    event for version, event in fold_until(fold, history, last) if version >= first
                ]
            fold.refuse_violation()
            return Accepted(tuple(events), fold.state, last, JSON.decode(bytes(reply)))


def outcome_json(definition: DeciderDefinition, outcome: InputOutcome) -> dict[str, Any]:
    """Return an answer as JSON, for those who name deciders and inputs as text."""
    match outcome:
        case Accepted(events=events, state=state, version=version, reply=reply):
            written = [definition.events.encode(event) for event in events]
            return {
                "outcome": "accepted",
                "events": [{"tag": e.tag, "event": JSON.decode(e.data)} for e in written],
                "state": JSON.decode(definition.state.encode(state, "state")),
                "version": version,
                "reply": reply,
            }
        case Rejected(reason=reason):
            tag, data = definition.rejections.encode(reason)
            return {"outcome": "rejected", "tag": tag, "reason": JSON.decode(data)}
        case AlreadyCompleted():
            return {"outcome": "completed"}
