"""Bringing deciders' instances into memory for inputs that wait: many with a few questions.

All that are wanted in one pass of the loop are read together. An instance that is not there is made
here, and started by the commit of its first turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.decision import AlreadyCompleted
from perdure.core.deciders.answers import Answer
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.identity import ExecutionId
from perdure.errors import InstanceHeldError
from perdure.model.instances import DefinitionKey, InstanceRow, LiveRow, Stamp, Status
from perdure.model.turns import NOBODY, NewObservation
from perdure.store.base import ExecutionKey, Store
from perdure.store.locked_turns import KnownInstance
from perdure.turns.background import Background
from perdure.turns.direct.inputs import check_decider, new_decider_instance
from perdure.turns.direct.waiting_input import WaitingInput
from perdure.turns.executions import Executions
from perdure.turns.hot import HotInstance
from perdure.turns.loading.catching_up import may_have_mail
from perdure.turns.loading.cold import ColdInstance
from perdure.turns.loading.pasts import Past, WantedPast, read_pasts
from perdure.turns.memory import Memory
from perdure.turns.watchdog import TurnTooLongError
from perdure.turns.way import TurnWay

MAX_BATCH = 200
"""Instances that are read together."""


class Awaited(NamedTuple):
    """An instance that is to come into memory, and the inputs that wait for it."""

    decider: DeciderDefinition
    instance_id: str
    inputs: list[WaitingInput]


class InputLoader:
    """Reads instances that inputs wait for."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        executions: Executions,
        background: Background,
        way: TurnWay,
    ) -> None:
        """Prepare.

        Args:
            store: Where the instances are.
            memory: Where they come.
            executions: Makes and replays them.
            background: Runs what is not awaited.
            way: Takes inputs to instances in memory.
        """
        self._store = store
        self._memory = memory
        self._executions = executions
        self._pace = executions.pace
        self._background = background
        self._way = way
        self._wanted: dict[str, Awaited] = {}
        self._reading: dict[str, Awaited] = {}
        self._definitions: dict[int, DefinitionKey] = {}

    def want(self, decider: DeciderDefinition, instance_id: str, asked: WaitingInput) -> None:
        """Give an input to an instance as soon as that is in memory."""
        known = self._reading.get(instance_id) or self._wanted.get(instance_id)
        if known is not None:
            if known.decider is decider:
                known.inputs.append(asked)
            else:
                # Another class of that name waits for it: one after the other.
                asked.tell(None)
            return
        if not self._wanted:
            asyncio.get_running_loop().call_soon(self._read_wanted)
        self._wanted[instance_id] = Awaited(decider, instance_id, [asked])

    def _read_wanted(self) -> None:
        wanted, self._wanted = list(self._wanted.values()), {}
        for first in range(0, len(wanted), MAX_BATCH):
            batch = wanted[first : first + MAX_BATCH]
            self._reading.update({one.instance_id: one for one in batch})
            self._memory.arriving.update({one.instance_id: False for one in batch})
            self._background.spawn(self._read(batch))

    async def _read(self, batch: list[Awaited]) -> None:
        try:
            for one in await self._bring(batch):
                self._want_again(one)
        except Exception as error:
            for one in batch:
                self._fail(one, error)

    def _want_again(self, one: Awaited) -> None:
        for asked in self._inputs_of(one):
            if not asked.is_over:
                self.want(one.decider, one.instance_id, asked)

    def _inputs_of(self, one: Awaited) -> list[WaitingInput]:
        """Take the inputs that waited for an instance. What comes from here on waits anew."""
        if self._reading.get(one.instance_id) is one:
            del self._reading[one.instance_id]
            del self._memory.arriving[one.instance_id]
        inputs, one.inputs[:] = list(one.inputs), []
        return inputs

    def _fail(self, one: Awaited, error: BaseException) -> None:
        for asked in self._inputs_of(one):
            asked.fail(error)

    def _give(self, hot: HotInstance, one: Awaited) -> None:
        execution = hot.execution
        is_ours = isinstance(execution, DeciderExecution) and execution.definition is one.decider
        inputs = self._inputs_of(one)
        if is_ours:
            self._way.direct.think(hot, inputs)
        else:
            # Something else of that id came into memory meanwhile.
            for asked in inputs:
                asked.tell(None)

    async def _bring(self, batch: list[Awaited]) -> list[Awaited]:
        """Bring instances into memory; return those that moved on while they were read."""
        ids = [one.instance_id for one in batch]
        await self._executions.taken.check(self._store, ids)
        # As news, so that what writes their turns hears of the rows too.
        news = await self._store.read_news([KnownInstance(one) for one in ids])
        found = zip(batch, [new.live for new in news], strict=True)
        again: list[Awaited] = []
        absent: list[Awaited] = []
        live: list[tuple[Awaited, LiveRow]] = []
        for one, row in found:
            if row is None or row.definition_no is None:
                absent.append(one)
            elif await self._may_load(one, row, row.definition_no):
                live.append((one, row))
        if absent:
            again += await self._begin(absent)
        if live:
            again += await self._load(live)
        return again

    async def _may_load(self, one: Awaited, live: LiveRow, definition_no: int) -> bool:
        """Return whether a live instance takes inputs; tell those who wait if it does not."""
        key = self._definitions.get(definition_no)
        if key is None:
            key = self._definitions[definition_no] = await self._store.definition(definition_no)
        try:
            check_decider(one.decider.name, one.instance_id, key.kind, key.name)
            if live.blocked_by == NOBODY:
                await self._refuse_parked(one.instance_id)
        except Exception as error:
            self._fail(one, error)
            return False
        return True

    async def _refuse_parked(self, instance_id: str) -> None:
        """Refuse an instance that waits for an operator. One that waits for other code is tried:
        the code here may be the right one."""
        [row] = await self._store.read_instances([instance_id])
        if row is not None and row.status is Status.PARKED:
            raise InstanceHeldError(instance_id, row.status, row.reason or "")

    # ---------------------------------------------------------- there already

    async def _load(self, batch: Sequence[tuple[Awaited, LiveRow]]) -> list[Awaited]:
        wanted = [
            WantedPast(ExecutionKey(live.instance_id, *live.stamp.key), one.decider)
            for one, live in batch
        ]
        again: list[Awaited] = []
        pasts = await read_pasts(self._store, wanted)
        self._pace.begin()
        for (one, live), past in zip(batch, pasts, strict=True):
            if self._pace.is_spent():
                await self._pace.rest()
            hot = self._memory.hot.get(one.instance_id)
            if hot is not None:
                self._give(hot, one)
            elif past.next_seq == live.stamp.next_seq:
                self._replay(one, live, past)
            else:
                again.append(one)
        return again

    def _replay(self, one: Awaited, live: LiveRow, past: Past) -> None:
        """Replay an instance and give it what waits for it; if that takes long, beside the rest."""
        try:
            execution = self._executions.new_for_turn(
                one.decider, ExecutionId(live.instance_id, *live.stamp.key)
            )
            cold = ColdInstance(execution, live.stamp, past, self._executions)
            is_whole = cold.replay_slice()
        except (Exception, TurnTooLongError) as error:
            # Code that does not fit its history. A worker will hold the instance.
            self._fail(one, error)
            return
        if is_whole:
            self._arrive(one, live, cold)
        else:
            self._background.spawn(self._replay_slowly(one, live, cold))

    async def _replay_slowly(self, one: Awaited, live: LiveRow, cold: ColdInstance) -> None:
        """Replay the rest of a long history while others get their turns; when the worker stops,
        at once: callers wait for it."""
        epoch_no = self._store.epoch.number
        try:
            is_whole = await cold.finish()
            while not is_whole:
                is_whole = cold.replay_slice()
        except (Exception, TurnTooLongError) as error:
            self._fail(one, error)
            return
        hot = self._memory.hot.get(one.instance_id)
        if hot is None and epoch_no == self._store.epoch.number:
            self._arrive(one, live, cold)
            return
        cold.drop()
        if hot is not None:
            self._give(hot, one)
        else:
            self._want_again(one)

    def _arrive(self, one: Awaited, live: LiveRow, cold: ColdInstance) -> None:
        hot = cold.arrived(seen_no=live.last_no)
        has_mail = may_have_mail(live, now_ms=self._store.clock())
        hot.was_sent = has_mail or self._memory.arriving.get(live.instance_id, False)
        self._memory.hot.put(hot)
        self._give(hot, one)

    # -------------------------------------------------------- new, or over

    async def _begin(self, batch: Sequence[Awaited]) -> list[Awaited]:
        """Make instances that are not there, and tell of those that have ended."""
        rows = await self._store.read_instances([one.instance_id for one in batch])
        again: list[Awaited] = []
        for one, row in zip(batch, rows, strict=True):
            hot = self._memory.hot.get(one.instance_id)
            if all(asked.is_over for asked in one.inputs):
                self._inputs_of(one)
            elif row is None or hot is not None:
                try:
                    hot = hot or self._new(one.decider, one.instance_id)
                except Exception as error:
                    self._fail(one, error)
                else:
                    self._give(hot, one)
            elif not row.status.is_terminal:
                again.append(one)
            else:
                await self._tell_late(one, row)
        return again

    def _new(self, decider: DeciderDefinition, instance_id: str) -> HotInstance:
        """Put an instance into memory that its first turn will start."""
        new = new_decider_instance(decider.name, instance_id, now_ms=self._store.clock())
        execution = self._executions.new_for_turn(
            decider, ExecutionId(instance_id, new.incarnation, 1)
        )
        hot = HotInstance(execution, Stamp(new.incarnation, 1, 1), seen_no=0)
        hot.start = new
        self._memory.hot.put(hot)
        return hot

    async def _tell_late(self, one: Awaited, row: InstanceRow) -> None:
        """The instance has ended: nothing is decided any more. An input that was decided before,
        perhaps the last one, is asked again, to be given what it came to."""
        inputs = self._inputs_of(one)
        given = [asked.input for asked in inputs]
        ids = [late.input_id for late in given if late.input_id]
        try:
            check_decider(one.decider.name, one.instance_id, row.kind, row.name)
            known = await self._store.deciders.read_receipts(one.instance_id, ids) if ids else {}
            decided = {input_id for input_id, outcome in known.items() if outcome is not None}
            seen = [
                NewObservation(late.tag, late.data, "completed", None, late.input_id)
                for late in given
                if late.input_id not in decided
            ]
            if one.decider.observes_inputs and seen:
                await self._store.deciders.settle_inputs(one.instance_id, (), seen)
        except Exception as error:
            for asked in inputs:
                asked.fail(error)
            return
        for asked in inputs:
            is_decided = asked.input.input_id in decided
            asked.tell(None if is_decided else Answer(AlreadyCompleted()))
