"""What inputs came to: receipts by their ids, observations, and refusals on record.

Each function writes into the changes of the turn that runs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from perdure.authoring.deciders.decision import AlreadyCompleted, Rejected
from perdure.core.deciders.answers import (
    COMPLETED,
    KEY_TAKEN,
    Answer,
    AnyReceipt,
    CompletedReceipt,
    DirectInput,
    InputOutcome,
    KeyTakenReceipt,
    RejectedReceipt,
    write_receipt,
)
from perdure.core.deciders.decide import Refused
from perdure.core.deciders.ends import OWN
from perdure.core.deciders.fingerprints import check_same, with_fingerprint
from perdure.core.deciders.turn import DeciderChanges
from perdure.errors import InputIdReusedError
from perdure.model.histories.events import InputRejected, InputTaken
from perdure.model.turns import NewObservation

logger = logging.getLogger(__name__)


def keep_receipt(
    changes: DeciderChanges,
    input_id: str,
    tag: str,
    data: bytes,
    receipt: AnyReceipt,
    outcome: InputOutcome | None,
) -> None:
    """Keep what an input came to, if it has an id."""
    if not input_id:
        return
    kept = with_fingerprint(receipt, tag, data)
    changes.receipts[input_id] = write_receipt(kept)
    if outcome is not None:
        changes.outcomes[input_id] = outcome, kept.given


def observe(
    changes: DeciderChanges,
    tag: str,
    data: bytes,
    outcome: str,
    rejection: bytes | None,
    input_id: str,
) -> None:
    """Keep an input and its outcome for those who look at inputs, if the decider wants that."""
    if changes.notes.definition.observes_inputs:
        changes.observations.append(NewObservation(tag, data, outcome, rejection, input_id))


def answer_again(changes: DeciderChanges, direct: DirectInput) -> Answer:
    """Return the answer to an input that this very turn has answered before."""
    outcome, given = changes.outcomes[direct.input_id]
    try:
        check_same(changes.notes.instance_id, given, direct)
    except InputIdReusedError as error:
        return Answer(error=error)
    return Answer(outcome)


def note_refused(
    changes: DeciderChanges, judged: Refused, tag: str, data: bytes, input_id: str
) -> None:
    """Keep that the decider rejected an input."""
    changes.refused += 1
    reason = judged.tagged
    observe(changes, tag, data, "rejected", reason.data, input_id)
    receipt = RejectedReceipt(tag=reason.tag, reason=msgspec.Raw(reason.data))
    keep_receipt(changes, input_id, tag, data, receipt, Rejected(judged.reason))


def note_completed(changes: DeciderChanges, tag: str, data: bytes, input_id: str) -> None:
    """Keep that an input came after the instance had completed."""
    changes.refused += 1
    observe(changes, tag, data, "completed", None, input_id)
    keep_receipt(changes, input_id, tag, data, CompletedReceipt(), AlreadyCompleted())


def refuse(
    changes: DeciderChanges,
    taken: InputTaken,
    tag: str,
    reason: Mapping[str, str],
    receipt: AnyReceipt,
) -> None:
    """Put on record that an input is not decided, for a reason that is not the decider's."""
    changes.refused += 1
    data = msgspec.json.encode(reason)
    changes.append(taken)
    changes.append(InputRejected(tag=tag, reason=msgspec.Raw(data)))
    observe(changes, taken.tag, bytes(taken.input), "rejected", data, taken.input_id)
    keep_receipt(changes, taken.input_id, taken.tag, bytes(taken.input), receipt, None)


def refuse_key(changes: DeciderChanges, taken: InputTaken, key: str, holder: str) -> None:
    """Refuse an input because another instance has its business key.

    No caller waits for it, and of an instance that does not begin for that nothing stays.
    """
    definition, instance_id = changes.notes.definition, changes.notes.instance_id
    own = definition.own_id
    receipt = KeyTakenReceipt(key=key, holder=own(holder))
    refuse(changes, taken, KEY_TAKEN, {"key": key, "holder": holder}, receipt)
    logger.warning(
        "input %s (from %s) of decider %r, instance %r, is refused: the unique key %r is taken "
        "by %r",
        taken.tag,
        taken.cause or "a client",
        definition.name,
        own(instance_id),
        key,
        own(holder),
        extra={"instance_id": instance_id, "definition": definition.name, "holder": holder},
    )


def take_too_late(changes: DeciderChanges, taken: InputTaken) -> None:
    """Take a message that came after the instance had completed: it is not to vanish."""
    notes = changes.notes
    if notes.terminal is None:
        changes.append(taken)
        reason = msgspec.Raw(b'{"why":"the instance has completed"}')
        changes.append(InputRejected(tag=COMPLETED, reason=reason))
    elif not taken.cause.startswith(OWN):
        # Nothing can be on record behind the end.
        definition = notes.definition
        logger.warning(
            "input %s (from %s) came too late: decider %r, instance %r, has completed",
            taken.tag,
            taken.cause or "a client",
            definition.name,
            definition.own_id(notes.instance_id),
            extra={"instance_id": notes.instance_id, "definition": definition.name},
        )
    note_completed(changes, taken.tag, bytes(taken.input), taken.input_id)
