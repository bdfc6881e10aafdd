"""Giving inputs to deciders: where `execute`, `send` and the calls of orchestrations all end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from perdure.authoring.decider_definition import DeciderDefinition
from perdure.authoring.decision import AlreadyCompleted
from perdure.core.deciders.answers import (
    DirectInput,
    Outcome,
    answer_again,
    needs_history,
    read_receipt,
)
from perdure.core.deciders.fingerprints import check_same
from perdure.core.guard import Guard
from perdure.errors import InstanceEndedError, InstanceNotFoundError, StoreUnavailableError
from perdure.ids import fresh_name
from perdure.model.events import InputTaken, StoredEvent, UnreadableEventError
from perdure.model.instances import InstanceRow, Status
from perdure.store.base import ExecutionKey, Store
from perdure.turns.deciding import MAX_TRIES, pause_before
from perdure.turns.inputs import check_repeated, queue_input, refuse_ended, wait_receipt
from perdure.turns.turns import TurnRunner

PATIENCE_S = 10.0
"""How long an input waits for a locked, full or unreachable store before it gives up."""

MAX_VERSION_TRIES = 100
"""How often an input that expects a version is decided: it cannot be queued."""

STIR_AFTER_S = 1.0
"""How long a queued input is left to the workers; then what waits is decided here."""


class InputDoor(ABC):
    """Gives inputs to instances of deciders, on top of an open store."""

    # ------------------------------------------------------------- for subclasses

    @property
    @abstractmethod
    def store(self) -> Store:
        """The open store."""

    @abstractmethod
    def noticed_work(self) -> None:
        """Something was written that a worker of this process may take."""

    @abstractmethod
    async def _let_arrive(self, instance_ids: Iterable[str]) -> None:
        """Have what was sent inside transactions come before what follows."""

    @abstractmethod
    def turns(self) -> TurnRunner:
        """Return what runs turns in this process."""

    @abstractmethod
    def find_decider(self, name: str) -> DeciderDefinition | None:
        """Return a decider that was handed to the worker of this process."""

    # --------------------------------------------------------------------- giving

    async def execute_input(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> Outcome:
        """Have an input decided; `execute` and `ctx.execute` end here.

        Args:
            decider: The code.
            instance_id: As stored.
            input: As stored.
        """
        await self._let_arrive([instance_id])
        deciding = self.turns().deciding
        tries = MAX_TRIES if input.expected_version is None else MAX_VERSION_TRIES
        for number in range(tries):
            if number:
                await asyncio.sleep(pause_before(number))
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
        if input.expected_version is not None:
            raise StoreUnavailableError(
                f"{instance_id!r} kept moving while an input for it was decided {tries} times; "
                "try again"
            )
        return await self._queue_and_wait(decider, instance_id, input)

    async def send_input(self, decider: str, instance_id: str, input: DirectInput) -> None:
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
        await self._let_arrive([instance_id])
        if input.input_id:
            await check_repeated(self.store, instance_id, input)
        if await self.turns().deciding.has_completed(instance_id):
            await refuse_ended(self.store, instance_id, Status.COMPLETED, input.input_id)
            return
        await queue_input(self.store, decider, instance_id, taken, patience_s=PATIENCE_S)
        self.noticed_mail(instance_id)

    def noticed_mail(self, instance_id: str) -> None:
        """This client has put an input into an inbox: no other of its own may overtake it."""
        self.turns().noticed_mail(instance_id)
        self.noticed_work()

    # ---------------------------------------------------------------------- inside

    async def _answered_before(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> Outcome | None:
        """Return what an input came to when it was given first; None if it was not decided."""
        known = await self.store.read_receipts(instance_id, [input.input_id])
        kept = known.get(input.input_id)
        return None if kept is None else await self._answer_again(decider, instance_id, kept, input)

    async def _answer_again(
        self, decider: DeciderDefinition, instance_id: str, kept: bytes, input: DirectInput
    ) -> Outcome:
        receipt = read_receipt(kept)
        check_same(instance_id, receipt.given, input)
        history: list[StoredEvent] = []
        row = None
        if needs_history(receipt):
            [row] = await self.store.read_instances([instance_id])
            if row is None:
                raise InstanceNotFoundError(instance_id)
            history = await self.read_history(row)
        with named_in_errors(row):
            return answer_again(decider, receipt, history, Guard(watch_calls=False))

    async def _queue_and_wait(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> Outcome:
        """Others are always faster: get in line."""
        input_id = input.input_id or fresh_name()
        try:
            await self.send_input(decider.name, instance_id, input._replace(input_id=input_id))
        except InstanceEndedError:
            return AlreadyCompleted()
        while True:
            try:
                async with asyncio.timeout(STIR_AFTER_S):
                    kept = await wait_receipt(self.store, instance_id, input_id)
            except TimeoutError:
                # There may be no worker.
                deciding = self.turns().deciding
                await deciding.decide(decider, instance_id, None, patience_s=PATIENCE_S)
                continue
            if kept is None:
                return AlreadyCompleted()
            return await self._answer_again(decider, instance_id, kept, input)

    async def read_history(self, row: InstanceRow) -> list[StoredEvent]:
        """Return all events of an instance."""
        [history] = await self.store.read_histories([key_of(row)])
        return history


@contextmanager
def named_in_errors(row: InstanceRow | None) -> Iterator[None]:
    """Have a row of a history that cannot be read named with its instance."""
    try:
        yield
    except UnreadableEventError as error:
        raise error if row is None else error.of(row.instance_id, row.execution) from error


def key_of(row: InstanceRow) -> ExecutionKey:
    """Return which execution of an instance is the current one."""
    return ExecutionKey(row.instance_id, row.incarnation, row.execution)
