"""What follows from the store's answer to a turn.

Accepted: its jobs start, whoever waits is told, and the next turn takes what came meanwhile; an
execution that has ended is let go, and if it continued as new the next one is claimed like any
other. Refused: what the coroutine thinks never happened, and it is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from perdure.errors import RowError, StoreError, StoreUnavailableError
from perdure.model.jobs import ClaimedJob
from perdure.model.turns import ClaimedTurn, Turn, TurnReceipt, TurnStatus
from perdure.store.base import TurnLease
from perdure.telemetry import error_facts
from perdure.turns.any_execution import AnyExecution, definition_key
from perdure.turns.background import Background
from perdure.turns.endings import Endings
from perdure.turns.executions import Jobs
from perdure.turns.holds import Holds
from perdure.turns.hot import HotInstance
from perdure.turns.memory import Memory, job_key
from perdure.turns.metrics import TurnMetrics, facts_of
from perdure.turns.starts import AwaitedStarts
from perdure.turns.unserved import UnservedCalls
from perdure.turns.waiting_input import Asked

logger = logging.getLogger(__name__)


class Settlement:
    """Hears the store's answers, and does what they mean."""

    def __init__(
        self,
        memory: Memory,
        holds: Holds,
        unserved: UnservedCalls,
        *,
        endings: Endings,
        metrics: TurnMetrics,
        background: Background,
        look: Callable[[int], None],
        continued: Callable[[str], None],
        go_on: Callable[[HotInstance], None],
        load: Callable[[Sequence[ClaimedTurn]], None],
    ) -> None:
        """Prepare.

        Args:
            memory: Where coroutines and leases are kept.
            holds: Stops instances whose turns cannot be stored.
            unserved: Warns of calls that nobody serves.
            endings: Who waits for instances.
            metrics: Counts what was accepted.
            background: Runs what nobody awaits.
            look: Looks for work at a time, or at 0 now.
            continued: Hears of instances that continued as new.
            go_on: Runs the next turn of an instance if anything came for it.
            load: Runs claimed turns whose coroutine is gone.
        """
        self.jobs: Jobs
        """Set by `TurnRunner.run_jobs_with`."""
        self.starts = AwaitedStarts()
        self.refused = 0
        self._memory = memory
        self._holds = holds
        self._unserved = unserved
        self._endings = endings
        self._metrics = metrics
        self._background = background
        self._look = look
        self._continued = continued
        self._go_on = go_on
        self._load = load

    def answered(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        """The store has answered a turn."""
        try:
            self._settle(hot, turn, receipt)
        except Exception as error:
            # A defect of ours. The other turns of the batch must have their answers, and this
            # instance must not wait for one that is lost: it is claimed again.
            facts = facts_of(hot.execution, turn.worker_id)
            logger.error("the answer to a turn was lost", extra={**facts, **error_facts(error)})
            for one in hot.take_asked():
                one.fail(error)
            self._memory.unlease(turn.instance_id)
            self._memory.drop(hot)
        if turn.start is not None:
            self.starts.tell(turn.commit_id, receipt.error or receipt.status)

    def _settle(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        if receipt.status is TurnStatus.ACCEPTED:
            self._accepted(hot, turn, receipt)
        elif receipt.error is None:
            self._refused(hot, turn, receipt)
        else:
            asked = hot.take_asked()
            self._refused(hot, turn, None)
            self._failed(hot, turn, asked, receipt.error)

    def _failed(
        self, hot: HotInstance, turn: Turn, asked: Sequence[Asked], error: StoreError
    ) -> None:
        """The database does not take a turn: those who wait are told, or people are."""
        if asked and isinstance(error, StoreUnavailableError):
            # The store was closed, and nobody knows: to decide again would be to assume.
            for one in asked:
                one.fail(error)
        elif asked:
            self._spoil(asked, turn, error)
        elif isinstance(error, RowError):
            self._background.spawn(self._park_unstorable(hot, turn, error))
        else:
            facts = facts_of(hot.execution, turn.worker_id)
            logger.error("a turn could not be committed: %s", error, extra=facts)
            if turn.job_ends and not isinstance(error, StoreUnavailableError):
                self._memory.spawn_ends(turn.job_ends)

    def _spoil(self, asked: Sequence[Asked], turn: Turn, error: StoreError) -> None:
        """The database refuses a turn with inputs that callers wait for: each is tried by itself,
        so that one fails. What else was in the turn comes again by the inbox."""
        is_sole = len(asked) == 1 and not turn.consumed and not turn.job_ends
        for one in asked:
            one.spoil(error, is_sole=is_sole)
        if turn.job_ends:
            self._memory.spawn_ends(turn.job_ends)
        if turn.lease:
            lease = TurnLease(turn.instance_id, turn.lease)
            self._background.spawn(self._memory.give_back(lease))

    def _accepted(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        execution = hot.execution
        hot.is_committing = False
        self._metrics.accepted(hot, turn)
        if turn.lease or hot.claim is not None:
            self._memory.unlease(turn.instance_id)
        if turn.jobs_gone:
            self.jobs.cancel([job_key(execution, seq) for seq in turn.jobs_gone])
        if turn.kv or turn.report is not None:
            self._endings.tell_change(turn.instance_id)
        for child in turn.children:
            self._unserved.notice(child.instance.definition)
            if child.instance.messages:
                # An input for a decider: what is executed here after this must not overtake it.
                self._memory.noticed_mail(child.instance.instance_id)
        if hot.asked is not None:
            self.answer_inputs(hot)
        is_over = turn.outcome is not None or turn.continued is not None or turn.vanishes
        if is_over:
            self._ended(hot, turn)
        else:
            self._goes_on(hot, turn, receipt)
        if receipt.has_unseen or turn.children or turn.deliveries:
            self._look(0)
        if not is_over:
            self._go_on(hot)
            self._memory.evict()

    def answer_inputs(self, hot: HotInstance) -> None:
        """What the inputs of a turn came to is stored: tell those who wait."""
        asked = hot.take_asked()
        self._metrics.answered(hot.execution.name, asked)
        for one in asked:
            one.tell_committed()

    def _ended(self, hot: HotInstance, turn: Turn) -> None:
        """Let an execution go, and all that it still had under way here."""
        execution = hot.execution
        self.jobs.cancel([job_key(execution, seq) for seq in execution.open])
        if turn.outcome is not None:
            self._endings.tell(turn.instance_id, turn.outcome)
        elif turn.continued is not None:
            self._unserved.notice(turn.continued.definition)
            self._continued(turn.instance_id)
            self._look(0)
        claim, hot.claim = hot.claim, None
        self._memory.retire(hot)
        if claim is not None and claim.stamp.place > turn.stamp.place:
            # The next execution was claimed here before the answer to this turn came.
            self._load([claim])

    def _goes_on(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        hot.stamp = turn.next_stamp
        hot.seen_no = turn.seen_no if receipt.has_unseen else receipt.last_no
        hot.has_mail = receipt.has_unseen
        if turn.start is not None:
            hot.start = None
            self._memory.begin(hot)
        if not hot.execution.version and (turn.jobs or turn.timers):
            # Inputs are decided without a worker; what comes later needs one.
            self._unserved.notice(definition_key(hot.execution))
        self._begin_jobs(hot.execution, turn)
        if turn.next_due_ms is not None:
            self._look(turn.next_due_ms)

    def _begin_jobs(self, execution: AnyExecution, turn: Turn) -> None:
        for job in turn.jobs:
            if not job.leased:
                self._look(0)
                self._unserved.notice(job.queue)
                continue
            claimed = ClaimedJob(
                key=job_key(execution, job.seq),
                token=turn.commit_id,
                queue=job.queue,
                input=job.input,
                policy=job.policy,
                attempt=1,
                created_ms=turn.now_ms,
                session=job.session,
                owner_name=execution.name,
                owner_version=execution.version,
                lease_until_ms=turn.jobs_leased_until_ms,
            )
            self.jobs.run(claimed, promised=True)

    def _refused(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt | None) -> None:
        """Another worker, an operator or a repeated start was faster: drop what we thought."""
        self.refused += 1
        if receipt is not None and receipt.status is TurnStatus.KEY_TAKEN:
            self._key_taken(hot, turn, receipt)
        self._metrics.refused(hot, turn, receipt)
        for job in turn.jobs:
            if job.leased:
                self.jobs.unpromise(job.queue)
        self._memory.unlease(turn.instance_id)
        claim, hot.claim = hot.claim, None
        self._memory.drop(hot)
        if claim is not None:
            self._load([claim])
        self._look(0)

    def _key_taken(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        """Another instance has the business key: decide again, knowing that."""
        assert turn.unique is not None, "only a turn that wants a key finds it taken"
        key = receipt.passed_key or turn.unique.key
        assert key is not None, "nobody has no key"
        self._memory.keep_keys(hot, key, receipt.holder or "")
        if turn.lease:
            lease = TurnLease(turn.instance_id, turn.lease)
            self._background.spawn(self._memory.give_back(lease))

    async def _park_unstorable(self, hot: HotInstance, turn: Turn, error: RowError) -> None:
        """The database refuses a value of this turn for good."""
        if turn.start is not None:
            return
        if turn.job_ends:
            await self._memory.end_in_store(turn.job_ends)
        definition = definition_key(hot.execution)
        await self._holds.park_unstorable(turn, definition, error)
