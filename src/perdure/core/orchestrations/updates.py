"""What the turn of an orchestration leaves for the callers of updates: receipts, and warnings."""

from __future__ import annotations

import logging

import msgspec

from perdure.core.identity import ExecutionId
from perdure.core.orchestrations.pending import TakenUpdate
from perdure.model.fingerprints import fingerprint
from perdure.model.histories.events import UpdateAnswered
from perdure.model.turns import InputReceipt
from perdure.model.updates import UpdateOutcome, receipt_id

logger = logging.getLogger(__name__)

CONTINUED = "continued as new"
"""What the execution came to that took an update and went on without answering it."""


def receipt_of(event: UpdateAnswered, taken: TakenUpdate) -> InputReceipt:
    """Return what is kept of an update that the code answered or refused."""
    given = fingerprint(taken.name, taken.value)
    if event.refusal is None:
        outcome = UpdateOutcome("answered", answer=event.answer, given=given)
    else:
        outcome = UpdateOutcome("refused", reason=event.refusal, given=given)
    return _receipt(taken, outcome)


def receipt_unanswered(taken: TakenUpdate) -> InputReceipt:
    """Return what is kept of an update that was taken by an execution that has gone on."""
    given = fingerprint(taken.name, taken.value)
    return _receipt(taken, UpdateOutcome("unanswered", reason=CONTINUED, given=given))


def warn_unanswered(execution: ExecutionId, name: str, taken: TakenUpdate) -> None:
    """Say that an update was lost to its caller, and where it was taken."""
    logger.warning(
        "instance %r (%s) continued as new with update %r (%s) taken at %s and not answered: its "
        "caller is told so, and may ask again although some of it was done; answer before "
        "continue_as_new",
        execution.instance_id,
        name,
        taken.name,
        taken.update_id,
        taken.place,
        extra={
            "instance_id": execution.instance_id,
            "execution": execution.execution,
            "definition": name,
            "update": taken.name,
            "place": str(taken.place),
        },
    )


def _receipt(taken: TakenUpdate, outcome: UpdateOutcome) -> InputReceipt:
    kept = msgspec.json.encode(outcome)
    return InputReceipt(receipt_id(taken.update_id), kept, keeps_first=True)
