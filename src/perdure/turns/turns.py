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
from collections.abc import Callable, Sequence
from typing import Any

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.scope import InlineRequest
from perdure.clock import Clock
from perdure.core.identity import ExecutionId
from perdure.core.orchestrations.pending import PendingCall
from perdure.errors import NondeterminismError
from perdure.ids import fresh_id
from perdure.model.events import UnreadableEventError
from perdure.model.instances import DefinitionKey, NewInstance, Stamp
from perdure.model.jobs import ClaimedJob, JobEnd, JobKey, Settled
from perdure.model.messages import Message
from perdure.model.options import WorkerOptions
from perdure.model.turns import ClaimedTurn, Turn, TurnStatus
from perdure.store.base import ExecutionKey, Store, TurnLease
from perdure.telemetry import error_facts
from perdure.turns.any_execution import AnyExecution
from perdure.turns.background import Background
from perdure.turns.commits import CommitQueue
from perdure.turns.coverage import Coverage
from perdure.turns.deciding import Deciding
from perdure.turns.endings import Endings
from perdure.turns.executions import Executions, Jobs
from perdure.turns.holds import Holds
from perdure.turns.hot import HotInstance
from perdure.turns.memory import Memory, job_key, owns
from perdure.turns.metrics import TurnMetrics, facts_of
from perdure.turns.orphans import end_orphans
from perdure.turns.pasts import Past, Wanted, read_pasts
from perdure.turns.settling import Settlement
from perdure.turns.unserved import UnservedCalls
from perdure.turns.waiting_input import InputTooLongError
from perdure.turns.watchdog import TurnTooLongError

logger = logging.getLogger(__name__)


class TurnRunner:
    """Runs the turns of a worker and commits them."""

    def __init__(
        self,
        store: Store,
        coverage: Coverage,
        options: WorkerOptions,
        *,
        worker_id: str,
        endings: Endings,
        metrics: TurnMetrics,
        look: Callable[[int], None],
        continued: Callable[[str], None],
    ) -> None:
        self.jobs: Jobs
        self._store = store
        self._clock: Clock = store.clock
        self._coverage = coverage
        self._options = options
        self._look = look
        self._worker_id = worker_id
        self._definitions: dict[int, DefinitionKey] = {}
        self._executions = Executions(coverage, options, clock=store.clock, worker_id=worker_id)
        self.watchdog = self._executions.watchdog
        self._background = Background()
        self._memory = Memory(
            store, options, self._executions, self._background, look=look, metrics=metrics
        )
        self.hot = self._memory.hot
        self.suspects = self._memory.suspects
        self.shadow = self._memory.shadow
        self._holds = Holds(store, self._background, metrics)
        self._settlement = Settlement(
            self._memory,
            self._holds,
            UnservedCalls(store, coverage, self._background),
            endings=endings,
            metrics=metrics,
            background=self._background,
            look=look,
            continued=continued,
            go_on=self._next_turn,
            load=self._spawn_load,
        )
        self._commits = CommitQueue(store, self._background, self._settlement.answered)
        self.deciding = Deciding(
            store,
            self._memory,
            self._executions,
            self._commits,
            self._background,
            run=self._run,
            answer=self._settlement.answer_inputs,
            go_on=self._next_turn,
            load=self._spawn_load,
            look=look,
        )

    def run_jobs_with(self, jobs: Jobs) -> None:
        """Say who runs the jobs. Turns and jobs each need the other, so this comes after both."""
        self.jobs = self._settlement.jobs = jobs

    @property
    def refused(self) -> int:
        """How many turns the store has refused."""
        return self._settlement.refused

    def serve(self, numbers: dict[int, DefinitionKey]) -> None:
        """Learn under which numbers the store keeps the orchestrations to take."""
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
        execution = self._executions.new(
            orchestration,
            ExecutionId(new.instance_id, new.incarnation, 1),
            version=new.definition.variant or orchestration.version,
        )
        hot = HotInstance(execution, Stamp(new.incarnation, 1, 1), seen_no=0)
        message = Message(0, new.created_ms, new.start_kind, new.start_body)
        try:
            turn = self._run(hot, (message,), lease=0, start=new)
        except BaseException:
            execution.tear_down()
            raise
        answer = self._settlement.starts.expect(turn.commit_id, new.instance_id, patience_s)
        self._commits.submit(hot, turn)
        return await answer

    async def take(self, claims: Sequence[ClaimedTurn]) -> None:
        """Run claimed turns, with the coroutine in memory or one replayed from the history."""
        cold: list[ClaimedTurn] = []
        self._memory.look_at_epoch()
        for claim in claims:
            self._memory.lease(claim)
            if claim.attempts > self._options.max_attempts:
                self._park(claim, _attempts_text(claim), "too many attempts")
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
        if end.kind is None or hot is None or not owns(hot, end.key):
            self._memory.spawn_ends([end])
            return
        hot.results.append(end)
        if not hot.is_committing:
            self._take_results(hot)

    def job_settled(self, key: JobKey, settled: Settled) -> None:
        """A job that ran here has told the store of its end itself; it came by the inbox."""
        self._memory.settled_in_store(key, settled)

    def noticed_mail(self, instance_id: str) -> None:
        """This process has sent an input to an instance: no other may overtake it."""
        self._memory.noticed_mail(instance_id)

    def ended_from_outside(self, instance_id: str, incarnation: int) -> None:
        """No turn of ours ended an instance: stop its jobs, forget its coroutine."""
        hot = self.hot.get(instance_id)
        if hot is not None and hot.stamp.incarnation == incarnation:
            self.jobs.cancel([job_key(hot.execution, seq) for seq in hot.execution.open])
            if not hot.is_committing:
                self._memory.drop(hot)

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
            self._memory.drop(hot)
        await self._warm(key.instance_id, live.stamp, live.definition_no)
        return self._inline_request(key)

    def _inline_request(self, key: JobKey) -> InlineRequest | None:
        hot = self.hot.get(key.instance_id)
        call = hot.execution.open.get(key.seq) if hot is not None and owns(hot, key) else None
        if isinstance(call, PendingCall) and isinstance(call.request, InlineRequest):
            return call.request
        return None

    def leases(self) -> list[TurnLease]:
        """Return the turns that are leased to us; callable from any thread."""
        return self._memory.leases()

    def lose(self, leases: Sequence[TurnLease]) -> None:
        """Leases are lost; the commits will be refused by themselves."""
        for lease in leases:
            self._memory.unlease(lease.instance_id)

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
        elif (
            claim.stamp.place < hot.stamp.place and claim.stamp.incarnation == hot.stamp.incarnation
        ):
            # A turn of ours was committed after this claim and ended its lease. What was claimed
            # is still in the inbox.
            self._memory.unlease(claim.instance_id)
            hot.has_mail = True
            self._look(0)
        else:
            self._memory.drop(hot)
            cold.append(claim)

    async def _load(self, claims: Sequence[ClaimedTurn]) -> None:
        wanted = [
            self._wanted(claim.instance_id, claim.stamp, claim.definition_no) for claim in claims
        ]
        try:
            await self._executions.taken.check(self._store, [one.instance_id for one in claims])
            pasts = await read_pasts(self._store, wanted)
            claims = await end_orphans(self._store, claims)
        except Exception:
            # No longer renewed, so that somebody claims them again.
            for claim in claims:
                self._memory.unlease(claim.instance_id)
            raise
        for claim, past in zip(claims, pasts, strict=True):
            hot = self.hot.get(claim.instance_id)
            if past.next_seq != claim.stamp.next_seq:
                # It moved on after the claim: a termination needs no lease, and ours may be gone.
                self._memory.unlease(claim.instance_id)
            elif hot is None:
                self._take_cold(claim, past)
            elif hot.is_committing:
                hot.claim = claim
            else:
                # It came into memory while we read, for an inline call or an input.
                self._memory.drop(hot)
                self._take_cold(claim, past)

    def _spawn_load(self, claims: Sequence[ClaimedTurn]) -> None:
        self._background.spawn(self._load(claims))

    def _take_cold(self, claim: ClaimedTurn, past: Past) -> None:
        execution = self._new_execution(claim.definition_no, claim.instance_id, claim.stamp)
        hot = HotInstance(execution, claim.stamp, claim.last_no)
        try:
            self._executions.replay(execution, past)
        except NondeterminismError as error:
            execution.tear_down()
            self._block(claim, error)
        except (UnreadableEventError, TurnTooLongError) as error:
            execution.tear_down()
            self._park(claim, str(error), type(error).__name__)
        else:
            hot.tally.read(past.history)
            self.hot.put(hot)
            self._attempt(hot, claim)

    async def _warm(self, instance_id: str, stamp: Stamp, definition_no: int) -> None:
        """Bring an instance into memory without a turn."""
        wanted = self._wanted(instance_id, stamp, definition_no)
        [past] = await read_pasts(self._store, [wanted])
        if self.hot.get(instance_id) is not None or past.next_seq != stamp.next_seq:
            return
        execution = self._new_execution(definition_no, instance_id, stamp)
        try:
            self._executions.replay(execution, past)
        except (NondeterminismError, UnreadableEventError, TurnTooLongError):
            # Its next claimed turn meets the same error, and then holds the instance.
            execution.tear_down()
        else:
            # Messages that nobody has taken yet count as unseen: the number is that of none.
            hot = HotInstance(execution, stamp, seen_no=0)
            hot.tally.read(past.history)
            self.hot.put(hot)

    def _wanted(self, instance_id: str, stamp: Stamp, definition_no: int) -> Wanted:
        key = ExecutionKey(instance_id, stamp.incarnation, stamp.execution)
        return Wanted(key, self._coverage.deciders.get(self._definitions[definition_no]))

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

    # ------------------------------------------------------------------ the turns

    def _attempt(self, hot: HotInstance, claim: ClaimedTurn) -> None:
        """Run a claimed turn; hold the instance if it cannot be run."""
        hot.seen_no = claim.last_no
        hot.has_mail = False
        try:
            turn = self._run(hot, claim.messages, lease=claim.lease)
        except NondeterminismError as error:
            self._memory.drop(hot)
            self._block(claim, error)
        except InputTooLongError as error:
            # That is its caller's trouble. The messages are decided without it.
            self.deciding.spoil(hot, error, has_more=True)
            self._memory.drop(hot)
            self._memory.unlease(claim.instance_id)
            lease = TurnLease(claim.instance_id, claim.lease)
            self._background.spawn(self._memory.give_back(lease))
        except (UnreadableEventError, TurnTooLongError) as error:
            self._memory.drop(hot)
            self._park(claim, str(error), type(error).__name__)
        except Exception as error:
            # A defect of ours, or of a hook of user code. A turn is a function of its history, so
            # trying again would meet the same: it is parked, where an operator sees it.
            self._say_failed(hot, error)
            self._memory.drop(hot)
            self._park(claim, f"{type(error).__name__}: {error}", type(error).__name__)
        else:
            self._commits.submit(hot, turn)

    def _take_results(self, hot: HotInstance) -> None:
        """Go on with local results: the short way, or behind the messages that wait."""
        ends = tuple(hot.results)
        hot.results.clear()
        if hot.has_mail:
            # One short turn after another would keep every claim from its commit for ever.
            self._memory.spawn_ends(ends)
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
            if isinstance(error, InputTooLongError):
                self.deciding.spoil(hot, error, has_more=True)
            if not isinstance(error, NondeterminismError | UnreadableEventError | TurnTooLongError):
                self._say_failed(hot, error)
            self._memory.drop(hot)
            self._memory.spawn_ends(ends)
        else:
            self._commits.submit(hot, turn)

    def _run(
        self,
        hot: HotInstance,
        messages: Sequence[Message],
        *,
        lease: int = 0,
        start: NewInstance | None = None,
        job_ends: tuple[JobEnd, ...] = (),
    ) -> Turn:
        start = start or hot.start
        return self._executions.run(
            hot,
            messages,
            self.jobs,
            commit_id=fresh_id() if start is None else start.commit_id,
            lease=lease,
            start=start,
            job_ends=job_ends,
        )

    def _next_turn(self, hot: HotInstance) -> None:
        """Go on with what came while the turn was being committed."""
        claim, hot.claim = hot.claim, None
        if claim is not None:
            cold: list[ClaimedTurn] = []
            self._take_hot(hot, claim, cold)
            if cold:
                self._spawn_load(cold)
        if hot.results and not hot.is_committing:
            self._take_results(hot)
        if hot.inputs and not hot.is_committing:
            self.deciding.go(hot)

    def _block(self, claim: ClaimedTurn, error: NondeterminismError) -> None:
        self._memory.unlease(claim.instance_id)
        key = self._definitions[claim.definition_no]
        self._holds.block(claim, key, self._coverage.tried_as(key), error)

    def _park(self, claim: ClaimedTurn, why: str, cause: str) -> None:
        self._memory.unlease(claim.instance_id)
        self._holds.park(claim, self._definitions[claim.definition_no], why, cause)

    def _say_failed(self, hot: HotInstance, error: BaseException) -> None:
        facts = facts_of(hot.execution, self._worker_id)
        logger.error("a turn failed", extra={**facts, **error_facts(error)})


def _attempts_text(claim: ClaimedTurn) -> str:
    return (
        f"its turn was claimed {claim.attempts - 1} times without a commit: "
        "the code may kill its process"
    )
