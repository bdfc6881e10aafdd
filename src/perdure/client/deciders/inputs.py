"""Giving inputs to deciders: where `execute`, `send` and the calls of orchestrations all end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.client.deciders.decisions import check_known, check_takes_inputs, receipt_json
from perdure.client.histories.histories import named_in_errors, read_history
from perdure.client.reading.info import Json
from perdure.core.deciders.answers import (
    DirectInput,
    InputOutcome,
    answer_again,
    has_taken,
    needs_history,
    read_receipt,
)
from perdure.core.deciders.fingerprints import check_same
from perdure.core.guard import Guard
from perdure.errors import (
    InstanceEndedError,
    InstanceNotFoundError,
    ResultTimeoutError,
    StoreError,
    StoreUnavailableError,
)
from perdure.ids import fresh_name
from perdure.model.histories.events import InputTaken, StoredEvent
from perdure.model.instances import Status
from perdure.store.base import PATIENCE_S
from perdure.turns.direct.deciding import MAX_TRIES, pause_before
from perdure.turns.direct.inputs import check_repeated, queue_input, refuse_ended, wait_receipt

if TYPE_CHECKING:
    from perdure.client.core import ClientCore

LOOKS_FOR_ANSWER = 3
"""How often a receipt is read again whose input is not in the history: when the store has gone back
between the two questions, it has neither."""


class InputSender:
    """Gives inputs to instances of deciders.

    Args:
        core: The client's.
    """

    def __init__(self, core: ClientCore) -> None:
        self._core = core

    async def execute(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> InputOutcome:
        """Have an input decided; `execute` and `ctx.execute` end here.

        Args:
            decider: The code.
            instance_id: As stored.
            input: As stored.
        """
        if self._core.sent_within.under_way:
            await self._core.let_arrive([instance_id])
        deciding = self._core.turns().deciding
        for number in range(MAX_TRIES):
            if number > 1:
                # The first time it is decided again at once, under the lock of the instance.
                await asyncio.sleep(pause_before(number - 1))
            if input.input_id:
                known = await self._answered_before(decider, instance_id, input)
                if known is not None:
                    return known
            answer = await deciding.decide(decider, instance_id, input, patience_s=PATIENCE_S)
            if answer is not None:
                if answer.error is not None:
                    raise answer.error
                assert answer.outcome is not None, "one of the two is set"
                return answer.outcome
        raise StoreUnavailableError(
            f"{instance_id!r} kept moving while an input for it was decided {MAX_TRIES} times; "
            "nothing of it is stored: try again"
        )

    async def send(self, decider: str, instance_id: str, input: DirectInput) -> None:
        """Queue an input; `send` and `ctx.send` end here.

        Args:
            decider: Its name.
            instance_id: As stored.
            input: As stored.

        Raises:
            InstanceEndedError: The instance has completed, and is in memory here or has ended.
            InputIdReusedError: The id was given before, with another input.
        """
        taken = InputTaken(
            tag=input.tag,
            input=msgspec.Raw(input.data),
            input_id=input.input_id,
            cause=input.cause,
            correlation=input.correlation,
        )
        await self._core.let_arrive([instance_id])
        if input.input_id:
            await check_repeated(self._core.store, instance_id, input)
        if await self._core.turns().deciding.has_completed(instance_id):
            await refuse_ended(self._core.store, instance_id, Status.COMPLETED, input.input_id)
            return
        await queue_input(self._core.store, decider, instance_id, taken, patience_s=PATIENCE_S)
        self._core.noticed_mail(instance_id)

    async def execute_elsewhere(
        self,
        decider: str,
        instance_id: str,
        given: DirectInput,
        *,
        within: timedelta | None,
        allow_unknown: bool,
    ) -> dict[str, Json]:
        """Queue an input for a decider that is not here, and wait until a worker has decided it.

        Args:
            decider: Its name.
            instance_id: As stored.
            given: As stored.
            within: How long to wait; for ever if not given.
            allow_unknown: Also for a decider that the store has never heard of.

        Raises:
            NotRegisteredError: The store has never heard of the decider.
            InstanceHeldError: The instance is parked.
            ResultTimeoutError: No worker has decided it in time.
        """
        store = self._core.store
        if not allow_unknown:
            await check_known(store, decider, instance_id)
        given = given._replace(input_id=given.input_id or fresh_name())
        await check_takes_inputs(store, instance_id, given.input_id)
        try:
            await self.send(decider, instance_id, given)
        except InstanceEndedError:
            return {"outcome": "completed"}
        seconds = None if within is None else within.total_seconds()
        try:
            kept = await asyncio.wait_for(wait_receipt(store, instance_id, given.input_id), seconds)
        except TimeoutError:
            assert within is not None
            why = f"input {given.tag} is queued, and no worker has decided it"
            raise ResultTimeoutError(instance_id, within, why, what="outcome") from None
        if kept is not None:
            # A caller that has the code may have been faster under the same id.
            check_same(instance_id, read_receipt(kept).given, given)
        return await receipt_json(store, decider, instance_id, kept)

    # ---------------------------------------------------------------------- inside

    async def _answered_before(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> InputOutcome | None:
        """Return what an input came to when it was given first; None if it was not decided."""
        for _ in range(LOOKS_FOR_ANSWER):
            known = await self._core.store.deciders.read_receipts(instance_id, [input.input_id])
            kept = known.get(input.input_id)
            if kept is None:
                return None
            answer = await self._answer_again(decider, instance_id, kept, input)
            if answer is not None:
                return answer
        raise StoreError(
            f"{instance_id!r} has a receipt of input {input.input_id!r} and no such input in its "
            "history: run perdure doctor"
        )

    async def _answer_again(
        self, decider: DeciderDefinition, instance_id: str, kept: bytes, input: DirectInput
    ) -> InputOutcome | None:
        """Return the answer that a receipt stands for; None: the history does not have the input,
        since the store has gone back after the receipt was read."""
        receipt = read_receipt(kept)
        check_same(instance_id, receipt.given, input)
        history: list[StoredEvent] = []
        row = None
        if needs_history(receipt):
            [row] = await self._core.store.read_instances([instance_id])
            if row is None:
                raise InstanceNotFoundError(instance_id)
            history = await read_history(self._core.store, row)
            if not has_taken(history, receipt, input.input_id):
                return None
        with named_in_errors(row):
            return answer_again(decider, receipt, history, Guard(watch_calls=False))
