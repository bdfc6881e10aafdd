"""The client inside a transaction of the user's own.

What it writes is committed and rolled back with everything else in that transaction. It remembers
nothing: an input is decided on what the transaction sees, and forgotten when the call returns.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.client.core import ClientCore
from perdure.client.deciders.inputs import InputSender
from perdure.client.histories.moving import OrchestrationVersion
from perdure.client.histories.points import Point
from perdure.client.reading.info import Json
from perdure.client.reading.watch import NewsMark
from perdure.core.deciders.answers import DirectInput, InputOutcome
from perdure.errors import UsageError
from perdure.model.admin import KvRow, ReportRow
from perdure.model.instances import InstanceRow, NewInstance
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.streams import StreamPlace
from perdure.model.turns import InstanceEnd
from perdure.store.within.borrowing import RunOnThread, UnwrittenError
from perdure.turns.lone_turns import lone_turns
from perdure.turns.turns import TurnRunner


class CoreWithin(ClientCore):
    """The core of a client whose store is a connection of the user's.

    It is open as long as the outer one, and nothing that it writes is seen before the commit.

    Args:
        outer: The core of the client that was asked.
        connection: The user's.
        errands: Runs functions on the thread of a blocking connection; None: this thread.
    """

    def __init__(self, outer: ClientCore, connection: object, errands: RunOnThread | None) -> None:
        if isinstance(outer, CoreWithin):
            raise UsageError("this client is inside a transaction already: ask the client itself")
        outer.refuse_closed()
        store = outer.raw_store
        self.borrowed = store.borrow(connection, errands=errands, ended=outer.noticed_work)
        super().__init__(self.borrowed, outer.metrics, owner="Client")
        self._outer = outer
        self._runner: TurnRunner | None = None

    # -------------------------------------------------------------------- lifetime

    async def open(self) -> bool:
        """Do nothing: it is open as long as the outer one."""
        self.refuse_closed()
        return False

    async def close(self) -> None:
        """Do nothing: the connection is the user's."""

    def refuse_closed(self) -> None:
        """Refuse to work where the outer one is not open."""
        self._outer.refuse_closed()

    @property
    def outside(self) -> ClientCore:
        """The core of the client that was asked."""
        return self._outer

    # ------------------------------------------------------------------ instances

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
        """Put messages into inboxes, or on their way there."""
        statuses = await super().deliver(deliveries)
        self._remember([delivery.instance_id for delivery in deliveries])
        return statuses

    async def begin(self, new: NewInstance) -> InstanceRow | None:
        """Start an instance; return the row that already has its id, if one does."""
        existing = await super().begin(new)
        if new.messages:
            self._remember([new.instance_id])
        return existing

    async def replace(self, ended: InstanceRow, new: NewInstance) -> InstanceRow | None:
        """Refuse."""
        _refuse("replace an instance that has ended")

    async def terminate(
        self, instance_id: str, reason: str, *, incarnation: int | None = None
    ) -> bool:
        """Refuse."""
        _refuse("terminate")

    async def reset(
        self,
        instance_id: str,
        point: Point | None,
        reason: str,
        *,
        only: tuple[int, int] | None = None,
        moves_to: OrchestrationVersion | None = None,
    ) -> bool:
        """Refuse."""
        _refuse("reset")

    async def fork(
        self,
        instance_id: str,
        new_id: str,
        point: Point | None,
        moves_to: OrchestrationVersion | None,
    ) -> None:
        """Refuse."""
        _refuse("fork")

    # -------------------------------------------------------------------- deciders

    def noticed_mail(self, instance_id: str) -> None:
        """This client has put an input into an inbox, or on its way there."""
        self._remember([instance_id])

    def turns(self) -> TurnRunner:
        """Return what decides inputs in this transaction."""
        if self._runner is None:
            self._runner = lone_turns(self.borrowed, self.endings, self.metrics)
            # Reading a state starts the watchdog too, and this client is never closed.
            self._at_last = weakref.finalize(self, self._runner.watchdog.close)
        return self._runner

    def find_decider(self, name: str) -> DeciderDefinition | None:
        """Return a decider that was handed to the worker of this process."""
        return self._outer.find_decider(name)

    async def forget(self) -> None:
        """Let nothing stay in memory, and nothing go on that uses the connection."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self._at_last.detach()
            await _to_the_end(runner.close())
        self.borrowed.go_on()

    # -------------------------------------------------------------- what to know

    def _remember(self, instance_ids: Iterable[str]) -> None:
        sent = self.borrowed.sent
        if sent is not None:
            for instance_id in instance_ids:
                self._outer.sent_within.note(instance_id, sent)

    def noticed_work(self) -> None:
        """Do nothing: it cannot be seen before the commit."""

    def say_unborn(self, signal: str, instance_id: str) -> None:
        """Do nothing: the instance may be started in the same transaction."""

    async def read_secret(self) -> bytes:
        """Refuse."""
        _refuse("keep a promise, since whether it was the first is known after the commit")

    def mark_news(self) -> NewsMark | None:
        """Return nothing: what is started here begins with the commit."""
        return None

    async def wait_ended(
        self, instance_id: str, *, hears_holds: bool = False, begun: NewsMark | None = None
    ) -> InstanceEnd:
        """Refuse."""
        _refuse("wait for an instance")

    async def wait_reported(self, instance_id: str, after: int) -> ReportRow | None:
        """Refuse."""
        _refuse("wait for an instance")

    async def wait_kept(self, instance_id: str, key: str, after_ms: int = 0) -> KvRow | None:
        """Refuse."""
        _refuse("wait for an instance")

    async def wait_answered(
        self, instance_id: str, receipt: str, send: Callable[[], Awaitable[bool]]
    ) -> bytes | None:
        """Refuse."""
        _refuse("wait for the answer to an update")

    async def wait_sent(self, place: StreamPlace) -> None:
        """Refuse."""
        _refuse("wait for an instance")


class SenderWithin(InputSender):
    """Gives inputs inside a transaction: no other worker could decide them before the commit.

    Args:
        core: The client's.
    """

    def __init__(self, core: CoreWithin) -> None:
        super().__init__(core)
        self._within = core

    async def execute(
        self, decider: DeciderDefinition, instance_id: str, input: DirectInput
    ) -> InputOutcome:
        """Have an input decided."""
        borrowed = self._within.borrowed
        await borrowed.lock(instance_id)
        try:
            return await super().execute(decider, instance_id, input)
        except UnwrittenError as error:
            raise error.why from None
        except asyncio.CancelledError:
            borrowed.revoke()
            raise
        finally:
            await self._within.forget()

    async def execute_elsewhere(
        self,
        decider: str,
        instance_id: str,
        given: DirectInput,
        *,
        within: timedelta | None,
        allow_unknown: bool,
    ) -> dict[str, Json]:
        """Refuse."""
        raise UsageError(
            f"this client does not have decider {decider!r}, and no worker can decide an input "
            "before the transaction is committed: use an Engine that has it, or send_json"
        )


async def _to_the_end(work: Awaitable[object]) -> None:
    """Await something although we are cancelled meanwhile, and be cancelled then."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise


def _refuse(what: str) -> NoReturn:
    raise UsageError(
        f"inside a transaction of your own you cannot {what}: do it with the client itself, before "
        "or after the transaction"
    )
