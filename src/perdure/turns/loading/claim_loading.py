"""Bringing claimed instances into memory: read their history, replay it, and take their turn on.

Also without a turn, for a job that needs a callable of the coroutine that asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from perdure.authoring.scope import InlineRequest
from perdure.core.identity import ExecutionId
from perdure.core.orchestrations.pending import PendingCall
from perdure.errors import NondeterminismError, StoreUnavailableError
from perdure.model.histories.events import UnreadableEventError
from perdure.model.instances import DefinitionKey, Stamp
from perdure.model.jobs import JobKey
from perdure.model.turns import ClaimedTurn
from perdure.store.base import ExecutionKey, Store
from perdure.turns.any_execution import AnyExecution
from perdure.turns.background import Background
from perdure.turns.coverage import Coverage
from perdure.turns.executions import Executions
from perdure.turns.holds import Holds
from perdure.turns.loading.cold import ColdInstance
from perdure.turns.loading.orphans import end_orphans
from perdure.turns.loading.pasts import Past, WantedPast, read_pasts
from perdure.turns.memory import Memory
from perdure.turns.watchdog import TurnTooLongError
from perdure.turns.way import TurnWay

NONE_SEEN = 0
"""The number of no message: those that no turn has taken yet count as unseen."""


class ClaimLoader:
    """Takes claims to instances in memory, and brings those into memory that are not."""

    def __init__(
        self,
        store: Store,
        coverage: Coverage,
        definitions: dict[int, DefinitionKey],
        executions: Executions,
        memory: Memory,
        holds: Holds,
        way: TurnWay,
        background: Background,
        *,
        max_attempts: int,
    ) -> None:
        """Prepare.

        Args:
            store: Where the histories are.
            coverage: Tells which code runs a definition.
            definitions: What is claimed, by the store's numbers.
            executions: Makes and replays them.
            memory: Where they come.
            holds: Stops those that this code cannot replay.
            way: Takes their turns on.
            background: Runs what nothing awaits.
            max_attempts: How often a turn may have been claimed in vain before it is parked.
        """
        self._store = store
        self._coverage = coverage
        self._definitions = definitions
        self._executions = executions
        self._memory = memory
        self._holds = holds
        self._way = way
        self._background = background
        self._pace = executions.pace
        self._max_attempts = max_attempts

    async def take(self, claims: Sequence[ClaimedTurn]) -> None:
        """Run claimed turns, with the coroutine in memory or one replayed from the history."""
        cold: list[ClaimedTurn] = []
        self._memory.look_at_epoch()
        for claim in claims:
            self._memory.lease(claim)
            if claim.attempts > self._max_attempts:
                self._memory.unlease(claim.instance_id)
                self._holds.park(claim, _attempts_text(claim), "too many attempts")
                continue
            hot = self._memory.hot.get(claim.instance_id)
            if hot is None or not self._way.take_claim(hot, claim):
                cold.append(claim)
        if cold:
            await self._load(cold)

    async def find_inline(self, key: JobKey) -> InlineRequest | None:
        """Return the callable behind an inline job, from the coroutine that asked for it."""
        request = self._inline_request(key)
        if request is not None:
            return request
        live = await self._store.read_live(key.instance_id)
        if live is None or live.definition_no not in self._definitions or live.lease:
            return None
        hot = self._memory.hot.get(key.instance_id)
        if hot is not None and hot.stamp != live.stamp and not hot.is_ahead:
            # The call was made elsewhere, after we had the instance in memory.
            self._memory.drop(hot)
        await self.warm(key.instance_id, live.stamp, live.definition_no)
        return self._inline_request(key)

    def _inline_request(self, key: JobKey) -> InlineRequest | None:
        hot = self._memory.hot.get(key.instance_id)
        call = hot.execution.open.get(key.seq) if hot is not None and hot.owns(key) else None
        if isinstance(call, PendingCall) and isinstance(call.request, InlineRequest):
            return call.request
        return None

    async def _load(self, claims: Sequence[ClaimedTurn]) -> None:
        try:
            wanted = [
                self._wanted(claim.instance_id, claim.stamp, claim.definition_no)
                for claim in claims
            ]
            await self._executions.taken.check(self._store, [one.instance_id for one in claims])
            # What is to begin has no past.
            begun = [
                one for one, claim in zip(wanted, claims, strict=True) if claim.stamp.next_seq > 1
            ]
            known = await read_pasts(self._store, begun) if begun else []
            past_of = dict(zip((one.key for one in begun), known, strict=True))
            pasts = [past_of.get(one.key, Past(())) for one in wanted]
            claims = await end_orphans(self._store, claims)
            self._pace.begin()
            for claim, past in zip(claims, pasts, strict=True):
                if self._pace.is_spent():
                    await self._pace.rest()
                self._take_read(claim, past)
        except StoreUnavailableError:
            # None of them has begun, so none of these attempts counts.
            for claim in claims:
                self._way.give_back(claim.instance_id, claim.lease)
            raise
        except Exception:
            # No longer renewed, so that a worker claims them again.
            for claim in claims:
                self._memory.unlease(claim.instance_id)
            raise

    def _take_read(self, claim: ClaimedTurn, past: Past) -> None:
        if past.next_seq != claim.stamp.next_seq:
            # It moved on after the claim: a termination needs no lease, and ours may be gone.
            self._memory.unlease(claim.instance_id)
            return
        # It may have come into memory while we read, for an inline call or an input.
        hot = self._memory.hot.get(claim.instance_id)
        if hot is None or not self._way.take_claim(hot, claim):
            self._take_cold(claim, past)

    def _take_cold(self, claim: ClaimedTurn, past: Past) -> None:
        """Replay a claimed instance and take its turn on; hold it if that cannot be done."""
        try:
            cold = self._cold(claim.instance_id, claim.stamp, claim.definition_no, past)
            is_whole = cold.replay_slice()
        except (Exception, TurnTooLongError) as error:
            self._hold(claim, error)
        else:
            if is_whole:
                self._arrive(claim, cold)
            else:
                self._background.spawn(self._take_slowly(claim, cold))

    async def _take_slowly(self, claim: ClaimedTurn, cold: ColdInstance) -> None:
        """Replay the rest of a long history while others get their turns; then as `_take_read`.

        Also if the lease was lost meanwhile: the store tells whether the turn counts, and hears
        that this worker has not died of it. On a machine with too much to do all leases may be
        lost before a replay has ended, and no turn would ever be committed.
        """
        epoch_no = self._store.epoch.number
        try:
            is_whole = await cold.finish()
        except (Exception, TurnTooLongError) as error:
            self._hold(claim, error)
            return
        if not is_whole:
            # The worker stops and gives the lease back.
            cold.drop()
            return
        if epoch_no != self._store.epoch.number:
            cold.drop()
            self._way.give_back(claim.instance_id, claim.lease)
            return
        hot = self._memory.hot.get(claim.instance_id)
        if hot is None and self._memory.is_leased_anew(claim):
            # Claimed here again: what is replayed serves the newer claim.
            self._memory.hot.put(cold.arrived(seen_no=NONE_SEEN))
        elif hot is None or not self._way.take_claim(hot, claim):
            self._arrive(claim, cold)
        else:
            cold.drop()

    def _arrive(self, claim: ClaimedTurn, cold: ColdInstance) -> None:
        hot = cold.arrived(seen_no=claim.last_no)
        self._memory.hot.put(hot)
        self._way.take_claim(hot, claim)

    def _hold(self, claim: ClaimedTurn, error: BaseException) -> None:
        """Stop an instance that cannot be replayed."""
        self._memory.unlease(claim.instance_id)
        match error:
            case NondeterminismError():
                self._holds.block(claim, error)
            case UnreadableEventError() | TurnTooLongError():
                self._holds.park(claim, str(error), type(error).__name__)
            case _:
                # Of user code that runs before any event, or a defect of ours.
                self._holds.park(claim, f"{type(error).__name__}: {error}", type(error).__name__)

    async def warm(self, instance_id: str, stamp: Stamp, definition_no: int) -> None:
        """Bring an instance into memory without a turn."""
        wanted = self._wanted(instance_id, stamp, definition_no)
        [past] = await read_pasts(self._store, [wanted])
        if self._memory.hot.get(instance_id) is not None or past.next_seq != stamp.next_seq:
            return
        cold = self._cold(instance_id, stamp, definition_no, past)
        self._pace.begin()
        # What cannot be replayed is held by its next claimed turn, which meets the same error.
        with suppress(NondeterminismError, UnreadableEventError, TurnTooLongError):
            is_whole = cold.replay_slice() or await cold.finish()
            if is_whole and self._memory.hot.get(instance_id) is None:
                self._memory.hot.put(cold.arrived(seen_no=NONE_SEEN))
            else:
                cold.drop()

    def _cold(self, instance_id: str, stamp: Stamp, definition_no: int, past: Past) -> ColdInstance:
        execution = self._new_execution(definition_no, instance_id, stamp)
        return ColdInstance(execution, stamp, past, self._executions)

    def _wanted(self, instance_id: str, stamp: Stamp, definition_no: int) -> WantedPast:
        key = ExecutionKey(instance_id, stamp.incarnation, stamp.execution)
        return WantedPast(key, self._coverage.deciders.get(self._definitions[definition_no]))

    def _new_execution(self, definition_no: int, instance_id: str, stamp: Stamp) -> AnyExecution:
        """Return an execution of a recorded definition, on the code that is here for it. One that
        was left open gets its version now."""
        key = self._definitions[definition_no]
        execution_id = ExecutionId(instance_id, stamp.incarnation, stamp.execution)
        decider = self._coverage.deciders.get(key)
        if decider is not None:
            return self._executions.new_for_turn(decider, execution_id)
        orchestration = self._coverage.code_for(key)
        assert orchestration is not None, "what is claimed is covered"
        return self._executions.new(
            orchestration, execution_id, version=key.variant or orchestration.version
        )


def _attempts_text(claim: ClaimedTurn) -> str:
    return (
        f"its turn was claimed {claim.attempts - 1} times without a commit: "
        "the code may kill its process"
    )
