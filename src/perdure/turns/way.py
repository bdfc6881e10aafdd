"""The way of a turn: something came for an instance, think, commit, hear the answer.

An instance in memory is *idle* or *ahead*. Idle, it is what the store holds. Ahead, it waits for an
answer of the store, to a turn it has thought or to a question that comes before: nothing more is
applied to it, and none of its jobs starts. What comes meanwhile waits in `HotInstance`, which has
the two transitions, `run_ahead` and `become_idle`.

| comes                  | idle                                 | ahead                       |
|------------------------|--------------------------------------|-----------------------------|
| a claim                | think over its messages: ahead       | waits                       |
| the end of a local job | think over it: ahead; or to the inbox| waits                       |
| an update of a caller  | think over it: ahead; or to the inbox| waits                       |
| an input of a caller   | think over it: ahead                 | waits                       |
| - others decide too    | look what is new: ahead              | waits                       |
| - they were faster     | ask for its lock: ahead              | waits                       |
| - mail comes before it | read the inbox: ahead                | waits                       |
| - it changes nothing   | ask whether memory is right: ahead   |                             |
| accepted               |                                      | idle; jobs start, callers   |
|                        |                                      | are told, what waits is next|
| refused                |                                      | dropped: it never happened  |
| failed                 |                                      | dropped; callers are told,  |
|                        |                                      | or the instance is parked   |
| what is new,           |                                      | idle; then as an input that |
| or the inbox           |                                      | comes; or dropped           |
| its lock               |                                      | think under it, then as to a|
|                        |                                      | commit; too late: refused   |
| memory is right        |                                      | idle; callers are told, what|
|                        |                                      | waits is next               |
| memory is wrong        |                                      | dropped                     |
| its end                |                                      | dropped                     |
| another epoch, no room | dropped                              | left as it is               |

A turn over the end of a local job goes *the short way*: it is committed together with the job's
removal, without a claim. If it is refused the store keeps the result in the inbox.

How inputs of callers are thought over, from memory, after a look or under a lock, is in
`direct_turns`.

What is dropped loses nothing: results go to the inbox, inputs are decided again, and a claim that
waited is given back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from perdure.core.orchestrations.execution import Execution
from perdure.errors import (
    DecisionTooLongError,
    NondeterminismError,
    RowError,
    StoreError,
    StoreUnavailableError,
)
from perdure.model.histories.events import UnreadableEventError
from perdure.model.instances import NewInstance
from perdure.model.jobs import JobEnd
from perdure.model.messages import Message
from perdure.model.turns import ClaimedTurn, Turn, TurnReceipt, TurnStatus, has_sent
from perdure.store.base import Store, TurnLease
from perdure.telemetry import error_facts, shown_error
from perdure.turns.any_execution import definition_key
from perdure.turns.background import Background
from perdure.turns.commits import CommitQueue
from perdure.turns.direct.direct_turns import DirectTurns
from perdure.turns.direct.direct_updates import DirectUpdates
from perdure.turns.direct.waiting_input import InputTooLongError
from perdure.turns.executions import Executions
from perdure.turns.holds import Holds
from perdure.turns.hot import HotInstance
from perdure.turns.job_room import NOTHING
from perdure.turns.memory import Memory
from perdure.turns.metrics import facts_of
from perdure.turns.starts import AwaitedStarts
from perdure.turns.surroundings import Surroundings
from perdure.turns.unserved import UnservedCalls
from perdure.turns.watchdog import TurnTooLongError

logger = logging.getLogger(__name__)


class TurnWay:
    """Takes what comes for instances in memory through their turns."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        executions: Executions,
        holds: Holds,
        unserved: UnservedCalls,
        background: Background,
        around: Surroundings,
    ) -> None:
        """Prepare.

        Args:
            store: Where turns are committed.
            memory: Where coroutines and leases are kept.
            executions: Run user code.
            holds: Stop instances whose turns cannot be run or stored.
            unserved: Warns of calls that no worker serves.
            background: Runs what nothing awaits.
            around: What the process has besides turns.
        """
        self.starts = AwaitedStarts(lambda: store.trouble)
        self.refused = 0
        self._store = store
        self._memory = memory
        self._executions = executions
        self._holds = holds
        self._unserved = unserved
        self._jobs = around.jobs
        self._endings = around.endings
        self._metrics = around.metrics
        self._background = background
        self.plan_look = around.look
        self._continued = around.continued
        self.commits = CommitQueue(store, background, self)
        self.direct = DirectTurns(self, store, memory, executions, background)
        self.updates = DirectUpdates(self, memory)

    # ------------------------------------------------------------ something comes

    async def start(self, hot: HotInstance, new: NewInstance, *, patience_s: float) -> TurnStatus:
        """Begin an instance with its first turn, in one commit."""
        message = Message(0, new.created_ms, new.start_kind, new.start_body)
        try:
            turn = self.think(hot, (message,), start=new)
        except BaseException:
            hot.execution.tear_down()
            raise
        answer = self.starts.expect(turn.commit_id, new.instance_id, patience_s)
        self.commits.submit(hot, turn)
        return await answer

    def take_claim(self, hot: HotInstance, claim: ClaimedTurn) -> bool:
        """Take a claimed turn; return whether it fits. If not, the instance is dropped: the store
        went on without it."""
        if hot.is_ahead:
            hot.claim = claim
        elif claim.stamp == hot.stamp:
            self._think_claim(hot, claim)
        elif hot.is_past(claim.stamp):
            # A turn of ours was committed after this claim and ended its lease. What was claimed
            # is still in the inbox.
            self._memory.unlease(claim.instance_id)
            hot.has_mail = True
            self.plan_look(0)
        else:
            self._memory.drop(hot)
            return False
        return True

    def take_result(self, hot: HotInstance, end: JobEnd) -> None:
        """Take the end of a job that ran here."""
        hot.results.append(end)
        if not hot.is_ahead:
            self._think_results(hot)

    def take_waiting(self, hot: HotInstance) -> None:
        """Take what came while the instance was ahead."""
        claim, hot.claim = hot.claim, None
        if claim is not None and not self.take_claim(hot, claim):
            self.give_back(claim.instance_id, claim.lease)
        if hot.results and not hot.is_ahead:
            self._think_results(hot)
        if hot.inputs and not hot.is_ahead:
            self.direct.think(hot)
        while hot.updates and not hot.is_ahead:
            self.updates.think(hot)

    # ---------------------------------------------------------------------- think

    def _think_claim(self, hot: HotInstance, claim: ClaimedTurn) -> None:
        """Think over claimed messages; hold the instance if that cannot be done."""
        hot.seen_no = claim.last_no
        hot.has_mail = False
        if isinstance(hot.execution, Execution):
            hot.was_sent = False
        try:
            turn = self.think(hot, claim.messages, lease=claim.lease)
        except NondeterminismError as error:
            self._let_go(hot, claim)
            self._holds.block(claim, error)
        except InputTooLongError as error:
            # That is its caller's trouble. The messages are decided without it.
            self.fail_inputs(hot, error, has_more=True)
            self._memory.drop(hot)
            self.give_back(claim.instance_id, claim.lease)
        except (UnreadableEventError, TurnTooLongError) as error:
            self._let_go(hot, claim)
            self._holds.park(claim, str(error), type(error).__name__)
        except Exception as error:
            # A defect of ours, or of a hook of user code. A turn is a function of its history, so
            # trying again would meet the same: it is parked, where an operator sees it.
            self._say_failed(hot, error)
            self._let_go(hot, claim)
            self._holds.park(claim, f"{type(error).__name__}: {error}", type(error).__name__)
        else:
            self.commits.submit(hot, turn)

    def _think_results(self, hot: HotInstance) -> None:
        """Think over ends of local jobs: the short way, or behind the messages that wait."""
        ends = tuple(hot.results)
        hot.results.clear()
        if hot.has_mail:
            # One short turn after another would keep every claim from its commit for ever.
            self._memory.spawn_ends(ends)
            return
        messages = [Message(0, 0, end.kind or "", end.body) for end in ends]
        try:
            turn = self.think(hot, messages, job_ends=ends)
        except (Exception, TurnTooLongError) as error:
            # The results go to the inbox; the claimed turn that takes them holds the instance.
            if isinstance(error, InputTooLongError):
                self.fail_inputs(hot, error, has_more=True)
            if not isinstance(error, NondeterminismError | UnreadableEventError | TurnTooLongError):
                self._say_failed(hot, error)
            self._memory.drop(hot)
            self._memory.spawn_ends(ends)
        else:
            self.commits.submit(hot, turn)

    def think(
        self,
        hot: HotInstance,
        messages: Sequence[Message],
        *,
        lease: int = 0,
        start: NewInstance | None = None,
        job_ends: tuple[JobEnd, ...] = (),
    ) -> Turn:
        """Run user code; room for the jobs that come of it is reserved until the answer."""
        reservation = hot.reservation
        if reservation is NOTHING:
            reservation = hot.reservation = self._jobs.reserve()
        try:
            return self._executions.run(
                hot,
                messages,
                takes=reservation.takes,
                lease=lease,
                start=start or hot.start,
                job_ends=job_ends,
            )
        except BaseException:
            reservation.drop()
            raise

    async def is_current(self, hot: HotInstance) -> bool:
        """Return whether what is in memory is what the store holds, and may decide."""
        return hot.is_current(await self._store.read_live(hot.execution.instance_id))

    # ---------------------------------------------------------------------- heard

    def heard_commit(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        """The store has answered a turn."""
        try:
            hot.become_idle()
            hot.reservation.drop()
            if receipt.status is TurnStatus.ACCEPTED:
                self._accepted(hot, turn, receipt)
            elif receipt.error is None:
                self._refused(hot, turn, receipt)
            else:
                self._failed(hot, turn, receipt.error)
        except Exception as error:
            # A defect of ours. The other turns of the batch must have their answers, and this
            # instance must not wait for one that is lost: it is claimed again.
            facts = facts_of(hot.execution, turn.worker_id)
            logger.error(
                "the answer to a turn of instance %r (%s) was lost: %s",
                turn.instance_id,
                hot.execution.name,
                shown_error(error),
                extra={**facts, **error_facts(error)},
            )
            hot.fail_asked(error)
            self._memory.unlease(turn.instance_id)
            self.drop(hot)
        if turn.start is not None:
            self.starts.tell(turn.commit_id, receipt.error or receipt.status)

    def _tell_change(self, turn: Turn) -> None:
        """Wake those in this process who wait for values, reports and items of streams."""
        self._endings.tell_change(turn.instance_id)
        for items in turn.forwarded:
            self._endings.tell_change(items.instance_id)

    def _accepted(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        self._metrics.accepted(hot, turn)
        if turn.lease or hot.claim is not None:
            self._memory.unlease(turn.instance_id)
        if not turn.is_plain:
            self._tell_more(hot, turn)
        if hot.asked is not None:
            self.direct.contention.accepted(turn.instance_id)
            self.answer_inputs(hot)
        if receipt.has_unseen or turn.children or turn.deliveries:
            self.plan_look(0)
        if turn.outcome is not None or turn.continued is not None or turn.vanishes:
            self._ended(hot, turn)
        else:
            self._goes_on(hot, turn, receipt)

    def _tell_more(self, hot: HotInstance, turn: Turn) -> None:
        """Tell of what few turns have: jobs that are gone, what callers wait for, children."""
        if turn.jobs_gone:
            self._jobs.cancel([hot.job_key(seq) for seq in turn.jobs_gone])
        self._tell_waiting(hot, turn)
        for child in turn.children:
            self._unserved.notice(child.instance.definition)
            if child.instance.messages:
                # An input for a decider: what is executed here after this must not overtake it.
                self._memory.noticed_mail(child.instance.instance_id)

    def _tell_waiting(self, hot: HotInstance, turn: Turn) -> None:
        """Tell callers of this process what a turn has changed for them."""
        if turn.kv or turn.report is not None or has_sent(turn):
            self._tell_change(turn)
        if turn.receipts:
            self._endings.tell_answers(turn.instance_id, turn.receipts)
        if hot.updating:
            self.updates.accepted(hot)

    def _goes_on(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt) -> None:
        """Idle again: start its jobs, and take what came meanwhile."""
        hot.stamp = turn.next_stamp
        hot.seen_no = turn.seen_no if receipt.has_unseen else receipt.last_no
        hot.has_mail = receipt.has_unseen
        if turn.start is not None:
            hot.start = None
            self._memory.begin(hot)
        if not hot.execution.version and (turn.jobs or turn.timers):
            # Inputs are decided without a worker; what comes later needs one.
            self._unserved.notice(definition_key(hot.execution))
        for job in turn.jobs:
            if job.leased:
                self._jobs.run(hot.leased_job(turn, job))
            else:
                self.plan_look(0)
                self._unserved.notice(job.queue)
        if turn.next_due_ms is not None:
            self.plan_look(turn.next_due_ms)
        self.take_waiting(hot)
        self._memory.evict()

    def _ended(self, hot: HotInstance, turn: Turn) -> None:
        """Let an execution go, and all that it still had under way here."""
        self._jobs.cancel([hot.job_key(seq) for seq in hot.execution.open])
        if turn.outcome is not None:
            self._endings.tell(turn.instance_id, turn.outcome)
        elif turn.continued is not None:
            self._unserved.notice(turn.continued.definition)
            self._continued(turn.instance_id)
            self.plan_look(0)
        claim, hot.claim = hot.claim, None
        self._memory.retire(hot)
        if claim is not None and claim.stamp.place > turn.stamp.place:
            # The next execution was claimed here before the answer to this turn came.
            self.give_back(claim.instance_id, claim.lease)

    def _refused(self, hot: HotInstance, turn: Turn, receipt: TurnReceipt | None) -> None:
        """Another worker, an operator or a repeated start was faster: drop what we thought."""
        self.refused += 1
        self.updates.refused(turn)
        if receipt is not None and receipt.status is TurnStatus.KEY_TAKEN:
            self._memory.keep_keys(hot, turn, receipt)
        if receipt is not None and turn.lease and (turn.seize or turn.unique is not None):
            # Its inputs may be the obstacle: then the lease is still ours, and no other worker
            # decides.
            self.give_back(turn.instance_id, turn.lease)
        if hot.asked and receipt is not None and receipt.status is TurnStatus.REFUSED:
            self.direct.contention.refused(turn.instance_id)
        self._metrics.refused(hot, turn, receipt)
        self._memory.unlease(turn.instance_id)
        # What it took from the inbox is still there; what callers asked for is asked again.
        has_work = not hot.asked or bool(turn.lease or turn.consumed or turn.job_ends)
        self.drop(hot)
        if has_work:
            self.plan_look(0)

    def _failed(self, hot: HotInstance, turn: Turn, error: StoreError) -> None:
        """The database does not take a turn: its callers are told, or people are."""
        has_callers, is_gone = bool(hot.asked), isinstance(error, StoreUnavailableError)
        if is_gone:
            # The store was closed, and it is not known: to decide again would be to assume.
            hot.fail_asked(error)
        else:
            # Each is tried by itself, so that one fails. What else was in the turn comes again by
            # the inbox.
            hot.spoil_asked(error, has_more=bool(turn.consumed or turn.job_ends))
        self._refused(hot, turn, None)
        if turn.job_ends and not is_gone and turn.start is None:
            self._memory.spawn_ends(turn.job_ends)
        if has_callers:
            if turn.lease and not is_gone:
                self.give_back(turn.instance_id, turn.lease)
        elif not isinstance(error, RowError):
            facts = facts_of(hot.execution, turn.worker_id)
            logger.error(
                "a turn of instance %r (%s) could not be committed: %s",
                turn.instance_id,
                hot.execution.name,
                error,
                extra=facts,
            )
        elif turn.start is None:
            self._holds.park_unstorable(turn, definition_key(hot.execution), error)

    # --------------------------------------------------------------------- inputs

    def answer_inputs(self, hot: HotInstance) -> None:
        """What the inputs of a turn came to is stored: tell their callers."""
        asked = hot.take_asked()
        self._metrics.answered(hot.execution.name, asked)
        for waiting in asked:
            waiting.tell_committed()

    def fail_inputs(self, hot: HotInstance, error: InputTooLongError, *, has_more: bool) -> None:
        """A turn computed too long over the inputs in it; `has_more`: not only over them."""
        too_long = DecisionTooLongError(hot.execution.instance_id, str(error))
        hot.spoil_asked(too_long, has_more=has_more)

    def give_up(self, hot: HotInstance, error: BaseException) -> None:
        """The inputs that wait cannot be decided now."""
        hot.fail_inputs(error)
        self.drop(hot)

    # -------------------------------------------------------------------- dropped

    def drop(self, hot: HotInstance) -> None:
        """Forget an instance; a claim that waited is given back."""
        claim, hot.claim = hot.claim, None
        self._memory.drop(hot)
        if claim is not None:
            self.give_back(claim.instance_id, claim.lease)

    def give_back(self, instance_id: str, lease: int) -> None:
        """Let a claimed turn be claimed again at once; the attempt does not count."""
        self._memory.unlease(instance_id)
        self._background.spawn(self._memory.give_back(TurnLease(instance_id, lease)))

    def _let_go(self, hot: HotInstance, claim: ClaimedTurn) -> None:
        self._memory.drop(hot)
        self._memory.unlease(claim.instance_id)

    def _say_failed(self, hot: HotInstance, error: BaseException) -> None:
        facts = facts_of(hot.execution, self._executions.worker_id)
        logger.error(
            "a turn of instance %r (%s) failed: %s",
            hot.execution.instance_id,
            hot.execution.name,
            shown_error(error),
            extra={**facts, **error_facts(error)},
        )
