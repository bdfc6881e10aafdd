"""How an instance ended: as the store keeps it, and as its caller gets it."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.authoring.failures import instance_failure
from perdure.codec import ValueCodec
from perdure.errors import InstanceCancelledError, InstanceTerminatedError
from perdure.model.histories.events import Failure
from perdure.model.instances import InstanceRow, Status
from perdure.model.turns import InstanceEnd


def outcome_in(row: InstanceRow) -> InstanceEnd:
    """Return how an ended instance ended."""
    return InstanceEnd(row.status, row.output, row.reason, row.digest or b"")


def result_in(outcome: InstanceEnd, instance_id: str, codec: ValueCodec[Any]) -> Any:
    """Return what an instance returned, or raise what it ended with.

    Raises:
        InstanceFailedError: It failed; the error names the original.
        InstanceCancelledError: It was cancelled.
        InstanceTerminatedError: It was terminated.
    """
    reason = outcome.reason or ""
    match outcome.status:
        case Status.COMPLETED:
            assert outcome.output is not None
            return codec.decode(outcome.output)
        case Status.FAILED:
            assert outcome.output is not None
            failure = msgspec.json.decode(outcome.output, type=Failure)
            raise instance_failure(instance_id, failure)
        case Status.CANCELLED:
            raise InstanceCancelledError(instance_id, reason)
    raise InstanceTerminatedError(instance_id, reason)
