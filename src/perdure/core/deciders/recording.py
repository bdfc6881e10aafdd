"""An accepted input, put on record: its events, what follows, its reply, key and receipt."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.authoring.deciders.decision import Accepted
from perdure.codec import JSON
from perdure.core.deciders.answers import AcceptedReceipt
from perdure.core.deciders.decide import AcceptedInput
from perdure.core.deciders.fold import Fold
from perdure.core.deciders.follow_ups import close, follow
from perdure.core.deciders.outcomes import keep_receipt, observe
from perdure.core.deciders.turn import DeciderChanges
from perdure.model.histories.events import NULL, Replied
from perdure.model.turns import FedEvent, UniqueKey


def record_accepted(
    changes: DeciderChanges,
    fold: Fold,
    judged: AcceptedInput,
    tag: str,
    data: bytes,
    input_id: str,
) -> Accepted[Any, Any]:
    """Put what follows from an accepted input on record, behind the input.

    Args:
        changes: Of the turn that runs.
        fold: Has the new state afterwards.
        judged: What `decide` returned, checked and folded.
        tag: Name of the input.
        data: The input.
        input_id: Its id, if it has one.
    """
    notes = changes.notes
    changes.accepted += 1
    first = fold.version + 1
    for version, recorded in enumerate(judged.written, first):
        origin = (version, notes.cause, notes.correlation)
        changes.feed.append(FedEvent(len(changes.events), recorded.tag, *origin))
        changes.append(recorded)
    fold.version += len(judged.written)
    fold.state = judged.state
    if judged.decision.follow_ups:
        follow(changes, judged)
    reply = judged.decision.reply_data
    if reply is not None:
        changes.append(Replied(value=msgspec.Raw(reply)))
    if judged.key is not None and judged.key != notes.key:
        notes.key = judged.key
        changes.take_key(UniqueKey(notes.definition.name, judged.key))
    if notes.definition.observes_inputs:
        observe(changes, tag, data, "accepted", None, input_id)
    value = None if reply is None else JSON.decode(reply)
    outcome = Accepted(judged.events, judged.shown, fold.version, value)
    if input_id:
        raw = NULL if reply is None else msgspec.Raw(reply)
        receipt = AcceptedReceipt(first=first, last=fold.version, reply=raw)
        keep_receipt(changes, input_id, tag, data, receipt, outcome)
    if judged.is_terminal:
        close(changes)
    return outcome
