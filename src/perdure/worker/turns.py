"""Turns: from a start, a claim or a local result to a commit and what follows from it.

Turns run one at a time on the loop's thread and are committed in batches: all that were run in one
pass of the loop go to the store together. Until the store has answered, a coroutine that ran a turn
is ahead of it: nothing more is applied to it and none of its jobs starts.

A local job's end goes *the short way*: the turn it causes is committed together with the job's
removal, without a claim. If the turn is refused the store keeps the result in the inbox, and the
coroutine is dropped.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import Registry
from perdure.authoring.scope import InlineRequest
from perdure.clock import Clock
from perdure.core.pending import PendingCall
from perdure.core.replay import Execution, ExecutionId
from perdure.errors import NondeterminismError, RowError
from perdure.model.events import StoredEvent, UnreadableEventError
from perdure.model.instances import NewInstance, Stamp
from perdure.model.jobs import ClaimedJob, JobEnd, JobKey
from perdure.model.messages import Message
from perdure.model.options import WorkerOptions
from perdure.model.turns import ClaimedTurn, Turn, TurnReceipt, TurnStatus
from perdure.store.base import ExecutionKey, Store, TurnLease
from perdure.worker.background import Background
from perdure.worker.commits import CommitQueue
from perdure.worker.endings import Endings
from perdure.worker.executions import Executions, Jobs
from perdure.worker.holds import Holds
from perdure.worker.hot import HotInstance, HotInstances
from perdure.worker.shadow import ShadowReplays
from perdure.worker.starts import AwaitedStarts
from perdure.worker.unserved import UnservedCalls
from perdure.worker.watchdog import TurnTooLongError

logger = logging.getLogger(__name__)


def fresh_id() -> int:
    """Return a random number for a commit, a lease or an incarnation; never used again."""
    return random.getrandbits(63) | 1


class TurnRunner:
    """Runs the turns of a worker and commits them."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        options: WorkerOptions,
        *,
        worker_id: str,
        endings: Endings,
        look: Callable[[int], None],
    ) -> None:
        self.jobs: Jobs
        """Set by the worker once both exist: each needs the other."""
        self.hot = HotInstances(options.hot_instances)
        self.refused = 0
        self._store = store
        self._clock: Clock = store.clock
        self._registry = registry
        self._options = options
        self._worker_id = worker_id
        self._endings = endings
        self._look = look
        self._definitions: dict[int, Orchestration[..., Any]] = {}
        self._executions = Executions(registry, options, clock=store.clock, worker_id=worker_id)
        self.watchdog = self._executions.watchdog
        self._background = Background()
        self._commits = CommitQueue(store, self._background, self._answered)
        self.shadow = ShadowReplays(
            store, options.shadow_rate, self._background, self._executions.replay
        )
        self._unserved = UnservedCalls(store, registry, self._background)
        self._holds = Holds(store, self._background)
        self._starts = AwaitedStarts()
        self._leases: dict[str, TurnLease] = {}

    def serve(self, numbers: dict[int, Orchestration[..., Any]]) -> None:
        """Learn under which numbers the store keeps our definitions."""
        self._definitions = numbers

    # -------------------------------------------------------------- ways into a turn

    async def start(
        self, new: NewInstance, orchestration: Orchestration[..., Any], *, patience_s: float
    ) -> TurnStatus:
        """Start an instance and run its first turn, in one commit.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: The first turn cannot be
                run here; nothing was written.
            StoreUnavailableError: The store has not answered in time.
        """
        execution = self._new_execution(orchestration, new.instance_id, new.incarnation, 1)
        hot = HotInstance(execution, Stamp(new.incarnation, 1, 1), seen_no=0)
        message = Message(0, new.created_ms, new.start_kind, new.start_body)
        try:
            turn = self._run(hot, (message,), lease=0, start=new)
        except BaseException:
            execution.tear_down()
            raise
        answer = self._starts.expect(turn.commit_id, new.instance_id, patience_s)
        self._commits.submit(hot, turn)
        return await answer

    async def take(self, claims: Sequence[ClaimedTurn]) -> None:
        """Run claimed turns, with the coroutine in memory or one replayed from the history."""
        cold: list[ClaimedTurn] = []
        for claim in claims:
            self._leases[claim.instance_id] = TurnLease(claim.instance_id, claim.lease)
            if claim.attempts > self._options.max_attempts:
                self._park(claim, _attempts_text(claim))
                continue
            hot = self.hot.get(claim.instance_id)
            if hot is None:
                cold.append(claim)
            elif hot.is_committing:
                hot.claim = claim
            else:
                self._take_hot(hot, claim, cold)
        if cold:
            await self._load(cold)

    def job_ended(self, job: ClaimedJob, end: JobEnd) -> None:
        """A job that ran here has ended: the short way if its owner is hot, else by the inbox."""
        hot = self.hot.get(end.key.instance_id)
        if end.kind is None or hot is None or not _owns(hot, end.key):
            self._background.spawn(self._end_in_store([end]))
            return
        hot.results.append(end)
        if not hot.is_committing:
            self._take_results(hot)

    def ended_from_outside(self, instance_id: str, incarnation: int) -> None:
        """No turn of ours ended an instance: stop its jobs, forget its coroutine."""
        hot = self.hot.get(instance_id)
        if hot is not None and hot.stamp.incarnation == incarnation:
            self.jobs.cancel([_job_key(hot.execution, seq) for seq in hot.execution.open])
            if not hot.is_committing:
                self._drop(hot)

    async def find_inline(self, key: JobKey) -> InlineRequest | None:
        """Return the callable behind an inline job, from the coroutine that asked for it."""
        request = self._inline_request(key)
        if request is not None:
            return request
        live = await self._store.read_live(key.instance_id)
        if live is None or live.definition_no not in self._definitions or live.lease:
            return None
        hot = self.hot.get(key.instance_id)
        if hot is not None and hot.stamp != live.stamp and not hot.is_committing:
            # The call was made elsewhere, after we had the instance in memory.
            self._drop(hot)
        await self._warm(key.instance_id, live.stamp, live.definition_no)
        return self._inline_request(key)

    def _inline_request(self, key: JobKey) -> InlineRequest | None:
        hot = self.hot.get(key.instance_id)
        call = hot.execution.open.get(key.seq) if hot is not None and _owns(hot, key) else None
        if isinstance(call, PendingCall) and isinstance(call.request, InlineRequest):
            return call.request
        return None

    def leases(self) -> list[TurnLease]:
        """Return the turns that are leased to us; callable from any thread."""
        return list(self._leases.values())

    def lose(self, leases: Sequence[TurnLease]) -> None:
        """Leases are lost; the commits will be refused by themselves."""
        for lease in leases:
            self._leases.pop(lease.instance_id, None)

    async def close(self) -> None:
        """Wait for commits under way, then let all coroutines go."""
        self._commits.flush()
        await self._background.drain()
        leases = self.leases()
        if leases:
            await self._store.release_turns(leases)
        for hot in list(self.hot):
            self.hot.drop(hot)
        self.watchdog.close()

    # ---------------------------------------------------------------- hot and cold

    def _take_hot(self, hot: HotInstance, claim: ClaimedTurn, cold: list[ClaimedTurn]) -> None:
        if claim.stamp == hot.stamp:
            self._attempt(hot, claim)
        elif claim.stamp < hot.stamp and claim.stamp.incarnation == hot.stamp.incarnation:
            # A turn of ours was committed after this claim and ended its lease. What was claimed
            # is still in the inbox.
            self._leases.pop(claim.instance_id, None)
            hot.has_mail = True
            self._look(0)
        else:
            self._drop(hot)
            cold.append(claim)

    async def _load(self, claims: Sequence[ClaimedTurn]) -> None:
        keys = [_execution_key(claim.instance_id, claim.stamp) for claim in claims]
        try:
            histories = await self._store.read_histories(keys)
        except Exception:
            # No longer renewed, so that somebody claims them again.
            for claim in claims:
                self._leases.pop(claim.instance_id, None)
            raise
        for claim, history in zip(claims, histories, strict=True):
            hot = self.hot.get(claim.instance_id)
            if len(history) + 1 != claim.stamp.next_seq:
                # It moved on after the claim: a termination needs no lease, and ours may be gone.
                self._leases.pop(claim.instance_id, None)
            elif hot is None:
                self._take_cold(claim, history)
            elif hot.is_committing:
                hot.claim = claim
            else:
                # It came into memory while we read, for an inline call.
                self._drop(hot)
                self._take_cold(claim, history)

    def _take_cold(self, claim: ClaimedTurn, history: Sequence[StoredEvent]) -> None:
        orchestration = self._definitions[claim.definition_no]
        stamp = claim.stamp
        execution = self._new_execution(
            orchestration, claim.instance_id, stamp.incarnation, stamp.execution
        )
        hot = HotInstance(execution, stamp, claim.last_no)
        try:
            self._executions.replay(execution, history)
        except NondeterminismError as error:
            execution.tear_down()
            self._block(claim, orchestration, error)
        except (UnreadableEventError, TurnTooLongError) as error:
            execution.tear_down()
            self._park(claim, str(error))
        else:
            self.hot.put(hot)
            self._attempt(hot, claim)

    async def _warm(self, instance_id: str, stamp: Stamp, definition_no: int) -> None:
        """Bring an instance into memory without a turn."""
        [history] = await self._store.read_histories([_execution_key(instance_id, stamp)])
        if self.hot.get(instance_id) is not None or len(history) + 1 != stamp.next_seq:
            return
        execution = self._new_execution(
            self._definitions[definition_no], instance_id, stamp.incarnation, stamp.execution
        )
        try:
            self._executions.replay(execution, history)
        except (NondeterminismError, UnreadableEventError, TurnTooLongError):
            # Its next claimed turn meets the same error, and then holds the instance.
            execution.tear_down()
        else:
            # Messages that nobody has taken yet count as unseen: the number is that of none.
            self.hot.put(HotInstance(execution, stamp, seen_no=0))

    def _new_execution(
        self,
        orchestration: Orchestration[..., Any],
        instance_id: str,
        incarnation: int,
        number: int,
    ) -> Execution:
        return self._executions.new(orchestration, ExecutionId(instance_id, incarnation, number))

    # ------------------------------------------------------------------ the turns

    def _attempt(self, hot: HotInstance, claim: ClaimedTurn) -> None:
        """Run a claimed turn; hold the instance if it cannot be run."""
        orchestration = hot.execution.orchestration
        hot.seen_no = claim.last_no
        hot.has_mail = False
        try:
            turn = self._run(hot, claim.messages, lease=claim.lease)
        except NondeterminismError as error:
            self._drop(hot)
            self._block(claim, orchestration, error)
        except (UnreadableEventError, TurnTooLongError) as error:
            self._drop(hot)
            self._park(claim, str(error))
        except Exception as error:
            # A defect of ours, or of a hook of user code. A turn is a function of its history, so
            # trying again would meet the same: it is parked, where an operator sees it.
            logger.exception("a turn failed", extra={"instance_id": claim.instance_id})
            self._drop(hot)
            self._park(claim, f"{type(error).__name__}: {error}")
        else:
            self._commits.submit(hot, turn)

    def _take_results(self, hot: HotInstance) -> None:
        """Go on with local results: the short way, or behind the messages that wait."""
        ends = tuple(hot.results)
        hot.results.clear()
        if hot.has_mail:
            # One short turn after another would keep every claim from its commit for ever.
            self._background.spawn(self._end_in_store(ends))
        else:
            self._run_short(hot, ends)

    def _run_short(self, hot: HotInstance, ends: tuple[JobEnd, ...]) -> None:
        """Run a turn over local results."""
        now_ms = self._clock()
        messages = [Message(0, now_ms, end.kind or "", end.body) for end in ends]
        try:
            turn = self._run(hot, messages, lease=0, job_ends=ends)
        except (Exception, TurnTooLongError) as error:
            # The results go to the inbox; the claimed turn that takes them holds the instance.
            if not isinstance(error, NondeterminismError | UnreadableEventError | TurnTooLongError):
                logger.exception("a turn failed", extra={"instance_id": hot.execution.instance_id})
            self._drop(hot)
            self._background.spawn(self._end_in_store(ends))
        else:
            self._commits.submit(hot, turn)

    def _run(
        self,
        hot: HotInstance,
        messages: Sequence[Message],
        *,
        lease: int,
        start: NewInstance | None = None,
        job_ends: tuple[JobEnd, ...] = (),
    ) -> Turn:
        return self._executions.run(
            hot,
            messages,
            self.jobs,
            commit_id=start.commit_id if start is not None else fresh_id(),
            lease=lease,
            start=start,
            job_ends=job_ends,
        )

    # ----------------------------------------------------------------- the commits

    def _answered(self, hot: HotInstance, turn: Turn, answer: TurnReceipt | RowError) -> None:
        """The store has answered a turn."""
        if isinstance(answer, RowError):
            self._refused(hot, turn)
            self._background.spawn(self._park_unstorable(turn, answer))
        elif answer.status is TurnStatus.ACCEPTED:
            self._accepted(hot, turn, answer)
        else:
            self._refused(hot, turn)
        if turn.start is not None:
            outcome = answer if isinstance(answer, RowError) else answer.status
            self._starts.tell(turn.commit_id, outcome)

    def _accepted(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        execution = hot.execution
        hot.is_committing = False
        self._leases.pop(turn.instance_id, None)
        if turn.jobs_gone:
            self.jobs.cancel([_job_key(execution, seq) for seq in turn.jobs_gone])
        if turn.outcome is not None:
            self.jobs.cancel([_job_key(execution, seq) for seq in execution.open])
            self._endings.tell(turn.instance_id, turn.outcome)
            self._maybe_shadow(execution)
            self._drop(hot)
        else:
            incarnation, number, next_seq = turn.stamp
            hot.stamp = Stamp(incarnation, number, next_seq + len(turn.events))
            hot.seen_no = turn.seen_no if receipt.has_unseen else receipt.last_no
            hot.has_mail = receipt.has_unseen
            if turn.start is not None:
                self.hot.put(hot)
            self._begin_jobs(execution, turn)
            for child in turn.children:
                self._unserved.notice(child.instance.definition)
            if turn.next_due_ms is not None:
                self._look(turn.next_due_ms)
        if receipt.has_unseen or turn.children or turn.deliveries:
            self._look(0)
        if turn.outcome is None:
            self._next_turn(hot)
            self._evict()

    def _begin_jobs(self, execution: Execution, turn: Turn) -> None:
        for job in turn.jobs:
            if not job.leased:
                self._look(0)
                self._unserved.notice(job.queue)
                continue
            claimed = ClaimedJob(
                key=_job_key(execution, job.seq),
                token=turn.commit_id,
                queue=job.queue,
                input=job.input,
                policy=job.policy,
                attempt=1,
                created_ms=turn.now_ms,
            )
            self.jobs.run(claimed, promised=True)

    def _next_turn(self, hot: HotInstance) -> None:
        """Go on with what came while the turn was being committed."""
        claim, hot.claim = hot.claim, None
        if claim is not None:
            cold: list[ClaimedTurn] = []
            self._take_hot(hot, claim, cold)
            if cold:
                self._background.spawn(self._load(cold))
        if hot.results and not hot.is_committing:
            self._take_results(hot)

    def _refused(self, hot: HotInstance, turn: Turn) -> None:
        """Another worker, an operator or a repeated start was faster: drop what we thought."""
        self.refused += 1
        for job in turn.jobs:
            if job.leased:
                self.jobs.unpromise(job.queue)
        self._leases.pop(turn.instance_id, None)
        claim, hot.claim = hot.claim, None
        self._drop(hot)
        if claim is not None:
            self._background.spawn(self._load([claim]))
        self._look(0)

    async def _park_unstorable(self, turn: Turn, error: RowError) -> None:
        """The database refuses a value of this turn for good."""
        if turn.start is not None:
            return
        if turn.job_ends:
            await self._end_in_store(turn.job_ends)
        await self._holds.park_unstorable(turn, error)

    # ------------------------------------------------------------- ends and evictions

    def _drop(self, hot: HotInstance) -> None:
        """Forget an instance; results that still wait go to the inbox."""
        results, hot.results = hot.results, []
        self.hot.drop(hot)
        if results:
            self._background.spawn(self._end_in_store(results))

    def _evict(self) -> None:
        """Let the coldest instances go that there is no room for."""
        for cold in self.hot.surplus():
            self._maybe_shadow(cold.execution)
            self._drop(cold)

    async def _end_in_store(self, ends: Sequence[JobEnd]) -> None:
        for end, was_ours in zip(ends, await self._store.end_jobs(ends), strict=True):
            hot = None if was_ours else self.hot.get(end.key.instance_id)
            if hot is not None and _owns(hot, end.key) and not hot.is_committing:
                # Its job was not ours any more, so the instance went on without us.
                self._drop(hot)
        retries = [end.retry_at_ms for end in ends if end.retry_at_ms is not None]
        self._look(min(retries) if len(retries) == len(ends) else 0)

    def _block(
        self, claim: ClaimedTurn, orchestration: Orchestration[..., Any], error: NondeterminismError
    ) -> None:
        self._leases.pop(claim.instance_id, None)
        code = self._registry.code_of(orchestration.name, orchestration.version)
        self._holds.block(claim, code, error)

    def _park(self, claim: ClaimedTurn, why: str) -> None:
        self._leases.pop(claim.instance_id, None)
        self._holds.park(claim, why)

    def _maybe_shadow(self, execution: Execution) -> None:
        orchestration, execution_id = execution.orchestration, execution.id
        self.shadow.maybe(execution, lambda: self._new_execution(orchestration, *execution_id))


def _attempts_text(claim: ClaimedTurn) -> str:
    return (
        f"its turn was claimed {claim.attempts - 1} times without a commit: "
        "the code may kill its process"
    )


def _owns(hot: HotInstance, key: JobKey) -> bool:
    owner = hot.execution.id
    return (owner.incarnation, owner.execution) == (key.incarnation, key.execution)


def _job_key(execution: Execution, seq: int) -> JobKey:
    return JobKey(*execution.id, seq)


def _execution_key(instance_id: str, stamp: Stamp) -> ExecutionKey:
    return ExecutionKey(instance_id, stamp.incarnation, stamp.execution)
