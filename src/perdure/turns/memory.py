"""What a worker has at hand: coroutines between turns, leases of turns, and letting both go.

A coroutine is let go when its instance ends or continues as new, when its turn was refused, or when
there is no room for it. Whatever results were waiting for it then go to the inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from perdure.model.jobs import JobEnd, JobKey, Settled
from perdure.model.options import WorkerOptions
from perdure.model.suspects import Suspects
from perdure.model.turns import ClaimedTurn, Turn, TurnReceipt
from perdure.store.base import Store, TurnLease
from perdure.turns.background import Background
from perdure.turns.executions import Executions
from perdure.turns.hot import HotInstance, HotInstances
from perdure.turns.loading.shadow import ShadowReplays
from perdure.turns.surroundings import Surroundings


class Memory:
    """The hot instances of a worker and the leases of the turns it has claimed."""

    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        executions: Executions,
        background: Background,
        around: Surroundings,
    ) -> None:
        self.hot = HotInstances(options.hot_instances)
        self.shadow = ShadowReplays(
            store, options.shadow_rate, background, executions, around.unfit
        )
        self._store = store
        self._executions = executions
        self._background = background
        self._plan_look = around.look
        self._told = around.endings.tell_change
        self._metrics = around.metrics
        self._epoch_no = store.epoch.number
        self._leases: dict[str, TurnLease] = {}
        self.suspects = Suspects(options)
        self.arriving: dict[str, bool] = {}
        """Instances that are being read for inputs, and whether something was sent meanwhile."""

    # -------------------------------------------------------------------- leases

    def lease(self, claim: ClaimedTurn) -> None:
        """Count a claimed turn among those whose leases are renewed."""
        self._leases[claim.instance_id] = TurnLease(claim.instance_id, claim.lease)
        self.suspects.take(claim.instance_id, claim.attempts - 1)
        self.suspects.begin(claim.instance_id)

    def unlease(self, instance_id: str) -> None:
        """The turn was committed or given up: renew its lease no more."""
        self._leases.pop(instance_id, None)
        if self.suspects.end(instance_id):
            self._plan_look(0)

    def is_leased_anew(self, claim: ClaimedTurn) -> bool:
        """Return whether the turn of a claim was claimed here again, under another lease."""
        known = self._leases.get(claim.instance_id)
        return known is not None and known.lease != claim.lease

    def lose(self, lease: TurnLease) -> None:
        """A lease is lost; the turn may have been claimed here again meanwhile, under another."""
        if self._leases.get(lease.instance_id) == lease:
            self.unlease(lease.instance_id)

    def leases(self) -> list[TurnLease]:
        """Return the turns that are leased to us; callable from any thread."""
        return list(self._leases.values())

    async def give_back(self, lease: TurnLease) -> None:
        """Give up a turn that is to be claimed again."""
        await self._store.release_turns([lease])
        self._plan_look(0)

    # -------------------------------------------------------------------- epochs

    def look_at_epoch(self) -> None:
        """Let everything go that was read before the store may have gone back. What is being
        committed is refused by the stamp."""
        if self._epoch_no != self._store.epoch.number:
            self._epoch_no = self._store.epoch.number
            for hot in [one for one in self.hot if not one.is_ahead]:
                self.drop(hot)

    # ------------------------------------------------------------------ deciders

    def noticed_mail(self, instance_id: str) -> None:
        """This process has sent an input to an instance: no other may overtake it."""
        hot = self.hot.get(instance_id)
        if hot is not None:
            hot.was_sent = True
        elif instance_id in self.arriving:
            self.arriving[instance_id] = True

    def keep_keys(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        """A turn wanted a business key that another instance has: keep that for the next try."""
        assert turn.unique is not None, "only a turn that wants a key finds it taken"
        key = receipt.passed_key or turn.unique.key
        assert key is not None, "nobody has no key"
        known = {**hot.taken_keys, key: receipt.holder or ""}
        execution = hot.execution
        self._executions.taken.keep(execution.instance_id, execution.name, known)

    # ----------------------------------------------------------------- coroutines

    def begin(self, hot: HotInstance) -> None:
        """Keep an instance that was started here.

        Another process may have deleted the one before it, or ended it, and this worker was not
        told: its coroutine is let go now.
        """
        before = self.hot.get(hot.execution.instance_id)
        if before is not None and before is not hot:
            self.drop(before)
        self.hot.put(hot)

    # --------------------------------------------------------------- letting go

    def drop(self, hot: HotInstance) -> None:
        """Forget an instance; results that still wait go to the inbox."""
        results, hot.results = hot.results, []
        self.hot.drop(hot)
        if results:
            self.spawn_ends(results)

    def retire(self, hot: HotInstance) -> None:
        """Forget an execution that ended here; see first whether it can be replayed."""
        self.shadow.maybe(hot.execution)
        self.drop(hot)

    def evict(self) -> None:
        """Let the coldest instances go that there is no room for."""
        for cold in self.hot.surplus():
            self.retire(cold)

    def spawn_ends(self, ends: Sequence[JobEnd]) -> None:
        """Let the store know of ends of jobs that no turn here takes."""
        self._background.spawn(self.end_in_store(ends))

    async def end_in_store(self, ends: Sequence[JobEnd]) -> None:
        """End jobs without a turn: their results go to the inbox, or they are tried again.

        Each by itself, though in one transaction: one that cannot be stored is no other's trouble.
        """
        told = await asyncio.gather(
            *(self._store.end_jobs([end]) for end in ends), return_exceptions=True
        )
        answers = list(zip(ends, told, strict=True))
        self._metrics.jobs_ended([end for end, answer in answers if answer == [True]])
        for end, answer in answers:
            if answer == [False]:
                self._drop_overtaken(end.key)
            elif end.sent is not None:
                self._told(end.key.instance_id)
        retries = [end.retry_at_ms for end in ends if end.retry_at_ms is not None]
        self._plan_look(min(retries) if len(retries) == len(ends) else 0)
        for answer in told:
            if isinstance(answer, BaseException):
                raise answer

    def settled_in_store(self, key: JobKey, settled: Settled) -> None:
        """The store knows of the end of a job: its result is in the inbox, if it was ours."""
        if not settled.was_ours:
            self._drop_overtaken(key)
        elif settled.end is not None:
            self._metrics.jobs_ended([settled.end])
        self._plan_look(0)

    def _drop_overtaken(self, key: JobKey) -> None:
        """A job was not ours any more, so its instance went on without us."""
        hot = self.hot.get(key.instance_id)
        if hot is not None and hot.owns(key) and not hot.is_ahead:
            self.drop(hot)
