"""Turns: what the worker, the client and the room of jobs see of the instances in memory.

How a turn goes is in `way`; how instances come into memory, in `claim_loading` for claimed turns
and in `input_loading` for inputs of callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.scope import InlineRequest
from perdure.core.identity import ExecutionId
from perdure.model.instances import DefinitionKey, NewInstance, Stamp
from perdure.model.jobs import JobEnd, JobKey, Settled
from perdure.model.messages import Delivery
from perdure.model.options import WorkerOptions
from perdure.model.turns import ClaimedTurn, TurnStatus
from perdure.store.base import Store, TurnLease
from perdure.turns.background import Background
from perdure.turns.coverage import Coverage
from perdure.turns.direct.deciding import Deciding
from perdure.turns.executions import Executions
from perdure.turns.holds import Holds
from perdure.turns.hot import HotInstance
from perdure.turns.loading.claim_loading import ClaimLoader
from perdure.turns.loading.replicas import Replicas
from perdure.turns.memory import Memory
from perdure.turns.surroundings import Surroundings
from perdure.turns.unserved import UnservedCalls
from perdure.turns.way import TurnWay


class TurnRunner:
    """Runs the turns of one process and commits them."""

    def __init__(
        self,
        store: Store,
        coverage: Coverage,
        options: WorkerOptions,
        around: Surroundings,
    ) -> None:
        """Prepare.

        Args:
            store: The open store.
            coverage: Which definitions are served, with which code.
            options: Those of the worker.
            around: What the process has besides turns.
        """
        self._store = store
        self._jobs = around.jobs
        self._definitions: dict[int, DefinitionKey] = {}
        self._executions = Executions(
            coverage, options, clock=store.clock, worker_id=around.worker_id
        )
        self.watchdog = self._executions.watchdog
        self._background = Background()
        self._memory = Memory(store, options, self._executions, self._background, around)
        self.hot = self._memory.hot
        self.suspects = self._memory.suspects
        self.shadow = self._memory.shadow
        self._holds = Holds(store, coverage, self._definitions, self._background, around)
        self.unserved = UnservedCalls(store, coverage, self._background)
        self._way = TurnWay(
            store,
            self._memory,
            self._executions,
            self._holds,
            self.unserved,
            self._background,
            around,
        )
        self._loader = ClaimLoader(
            store,
            coverage,
            self._definitions,
            self._executions,
            self._memory,
            self._holds,
            self._way,
            self._background,
            max_attempts=options.max_attempts,
        )
        self.deciding = Deciding(store, self._memory, self._executions, self._way, self._background)

        self.view = Replicas(self._executions).view

    @property
    def background(self) -> Background:
        """What runs here by itself: commits that are waited for, replays, ends of jobs."""
        return self._background

    @property
    def refused(self) -> int:
        """How many turns the store has refused."""
        return self._way.refused

    def sign_with(self, secret: bytes) -> None:
        """Learn what the tokens of promises are signed with."""
        self._executions.secret = secret

    def serve(self, numbers: dict[int, DefinitionKey]) -> None:
        """Learn under which numbers the store keeps the definitions to take."""
        self._definitions.clear()
        self._definitions.update(numbers)

    # ------------------------------------------------------------ something comes

    async def start(
        self, new: NewInstance, orchestration: Orchestration[..., Any], *, patience_s: float
    ) -> TurnStatus:
        """Start an instance and run its first turn, in one commit.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: The first turn cannot be
                run here; nothing was written.
            StoreUnavailableError: The store has not answered in time.
        """
        execution = self._executions.new(
            orchestration,
            ExecutionId(new.instance_id, new.incarnation, 1),
            version=new.definition.variant or orchestration.version,
        )
        hot = HotInstance(execution, Stamp(new.incarnation, 1, 1), seen_no=0)
        return await self._way.start(hot, new, patience_s=patience_s)

    async def take(self, claims: Sequence[ClaimedTurn]) -> None:
        """Run claimed turns, with the coroutine in memory or one replayed from the history."""
        await self._loader.take(claims)

    def job_ended(self, end: JobEnd) -> None:
        """A job that ran here has ended: the short way if its owner is hot, else by the inbox."""
        hot = self.hot.get(end.key.instance_id)
        if end.kind is None or hot is None or not hot.owns(end.key):
            self._memory.spawn_ends([end])
        else:
            self._way.take_result(hot, end)

    async def end_in_store(self, end: JobEnd) -> None:
        """Let the store know of the end of a job, by the inbox, and wait until it does."""
        await self._memory.end_in_store([end])

    def job_settled(self, key: JobKey, settled: Settled) -> None:
        """A job that ran here has told the store of its end itself; it came by the inbox."""
        self._memory.settled_in_store(key, settled)

    async def take_update(self, delivery: Delivery) -> bool:
        """Apply an update to an instance in memory, in one commit; False: it goes by the inbox."""
        self._memory.look_at_epoch()
        return await self._way.updates.take(delivery)

    def noticed_mail(self, instance_id: str) -> None:
        """This process has sent an input to an instance: no other may overtake it."""
        self._memory.noticed_mail(instance_id)

    def ended_from_outside(self, instance_id: str, incarnation: int) -> None:
        """No turn of ours ended an instance: stop its jobs, forget its coroutine."""
        hot = self.hot.get(instance_id)
        if hot is not None and hot.stamp.incarnation == incarnation:
            self._jobs.cancel([hot.job_key(seq) for seq in hot.execution.open])
            if not hot.is_ahead:
                self._memory.drop(hot)

    async def find_inline(self, key: JobKey) -> InlineRequest | None:
        """Return the callable behind an inline job, from the coroutine that asked for it."""
        return await self._loader.find_inline(key)

    # --------------------------------------------------------------------- leases

    def leases(self) -> list[TurnLease]:
        """Return the turns that are leased to us; callable from any thread."""
        return self._memory.leases()

    def lose(self, leases: Sequence[TurnLease]) -> None:
        """Leases are lost; the commits will be refused by themselves."""
        for lease in leases:
            self._memory.lose(lease)

    async def close(self) -> None:
        """Wait for commits under way, then let all coroutines go."""
        self._executions.pace.close()
        self._way.commits.flush()
        self._way.direct.flush()
        await self._background.drain()
        leases = self.leases()
        if leases:
            await self._store.release_turns(leases)
        for hot in list(self.hot):
            self.hot.drop(hot)
        self.watchdog.close()
