"""What becomes of inputs, kept beside the history: receipts, observations, snapshots."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from perdure.authoring.decider_definition import DeciderDefinition
from perdure.authoring.decision import AlreadyCompleted, Rejected
from perdure.core.deciders.answers import (
    COMPLETED,
    KEY_TAKEN,
    AnyReceipt,
    CompletedReceipt,
    InputOutcome,
    KeyTakenReceipt,
    RejectedReceipt,
    write_receipt,
)
from perdure.core.deciders.decide import Refused
from perdure.core.deciders.ends import OWN
from perdure.core.deciders.fingerprints import Fingerprint, with_fingerprint
from perdure.core.deciders.follow_ups import DeciderAsking
from perdure.core.deciders.snapshots import is_snapshot_due, write_snapshot
from perdure.core.guard import Guard
from perdure.core.identity import ExecutionId
from perdure.errors import LimitExceededError, PayloadError
from perdure.model.events import InputRejected, InputTaken
from perdure.model.turns import NewObservation, Snapshot

logger = logging.getLogger(__name__)


class DeciderKeeping(DeciderAsking):
    """An execution that keeps what its inputs came to."""

    __slots__ = ("_outcomes",)

    def __init__(self, definition: DeciderDefinition, id: ExecutionId, guard: Guard) -> None:
        super().__init__(definition, id, guard)
        self._outcomes: dict[str, tuple[InputOutcome, Fingerprint]] = {}
        """Of the turn that runs, by id of the input; and which input it was."""

    def _keep_receipt(
        self,
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
        self._changes.receipts[input_id] = write_receipt(kept)
        if outcome is not None:
            self._outcomes[input_id] = outcome, kept.given

    def _note_refused(self, judged: Refused, tag: str, data: bytes, input_id: str) -> None:
        self._changes.refused += 1
        reason = judged.tagged
        self._observe(tag, data, "rejected", reason.data, input_id)
        receipt = RejectedReceipt(tag=reason.tag, reason=msgspec.Raw(reason.data))
        self._keep_receipt(input_id, tag, data, receipt, Rejected(judged.reason))

    def _refuse(
        self, taken: InputTaken, tag: str, reason: Mapping[str, str], receipt: AnyReceipt
    ) -> None:
        """Put on record that an input is not decided, for a reason that is not the decider's."""
        self._changes.refused += 1
        data = msgspec.json.encode(reason)
        self._append(taken)
        self._append(InputRejected(tag=tag, reason=msgspec.Raw(data)))
        self._observe(taken.tag, bytes(taken.input), "rejected", data, taken.input_id)
        self._keep_receipt(taken.input_id, taken.tag, bytes(taken.input), receipt, None)

    def _refuse_key(self, taken: InputTaken, key: str, holder: str) -> None:
        """Refuse an input because another instance has its business key.

        Nobody waits for it, and of an instance that does not begin for that nothing stays.
        """
        own = self.definition.own_id
        receipt = KeyTakenReceipt(key=key, holder=own(holder))
        self._refuse(taken, KEY_TAKEN, {"key": key, "holder": holder}, receipt)
        logger.warning(
            "input %s (from %s) of decider %r, instance %r, is refused: the unique key %r is taken "
            "by %r",
            taken.tag,
            taken.cause or "a client",
            self.name,
            own(self.instance_id),
            key,
            own(holder),
            extra={"instance_id": self.instance_id, "definition": self.name, "holder": holder},
        )

    def _take_too_late(self, taken: InputTaken) -> None:
        """Take a message that came after the instance had completed: it is not to vanish."""
        if self.terminal is None:
            self._append(taken)
            reason = msgspec.Raw(b'{"why":"the instance has completed"}')
            self._append(InputRejected(tag=COMPLETED, reason=reason))
        elif not taken.cause.startswith(OWN):
            # Nothing can be on record behind the end.
            logger.warning(
                "input %s (from %s) came too late: decider %r, instance %r, has completed",
                taken.tag,
                taken.cause or "a client",
                self.name,
                self.definition.own_id(self.instance_id),
                extra={"instance_id": self.instance_id, "definition": self.name},
            )
        self._note_completed(taken.tag, bytes(taken.input), taken.input_id)

    def _note_completed(self, tag: str, data: bytes, input_id: str) -> None:
        self._changes.refused += 1
        self._observe(tag, data, "completed", None, input_id)
        self._keep_receipt(input_id, tag, data, CompletedReceipt(), AlreadyCompleted())

    def _observe(
        self, tag: str, data: bytes, outcome: str, rejection: bytes | None, input_id: str
    ) -> None:
        if self.definition.observes_inputs:
            seen = NewObservation(tag, data, outcome, rejection, input_id)
            self._changes.observations.append(seen)

    def _snapshot(self) -> Snapshot | None:
        """Return a snapshot if one is due."""
        definition, fold = self.definition, self._fold
        if self.terminal is not None or not is_snapshot_due(fold, self.snapshot_version):
            return None
        self.snapshot_version = fold.version
        try:
            return write_snapshot(definition, fold.state, fold.version, self._memory())
        except (PayloadError, LimitExceededError) as error:
            # Only a load is slower without it. A turn must not fail for that.
            logger.warning(
                "the state of a decider cannot be kept as a snapshot: %s",
                error,
                extra={"instance_id": self.instance_id, "definition": self.name},
            )
            return None
