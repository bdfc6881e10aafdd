"""Running claimed jobs: async ones on the loop, plain ones in threads, `process=True` in processes.

A job that was handed to `run` is at every moment in exactly one of these states:

- *waiting* for a slot of its kind, first in first out;
- *started*: an asyncio task of its own runs the attempt. Whatever user code does, that task ends in
  an outcome, and `_leave`, its done-callback, settles it;
- *over*: reported to `end` once, or dropped because no turn waits for it (cancelled, lease lost, or
  ended before it could start), or given back by `stop`. Its code may go on for a while; what it
  says is dropped and counted.

Waiting and started jobs are *leased here*; a job that is over is not. Code that was told to stop
and goes on is abandoned after `cancel_grace`: a thread keeps its slot until it returns, a coroutine
does not.

Everything but `leases` is for the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from time import monotonic

from msgspec.structs import force_setattr

from perdure.authoring.registry import Registry
from perdure.authoring.scope import InlineRequest
from perdure.errors import NotRegisteredError
from perdure.jobs.attempts import (
    AttemptResult,
    GivenBack,
    JobCode,
    Raised,
    Returned,
    conclude,
    raised,
    read_policy,
    returning_input,
)
from perdure.jobs.builtins import BUILTIN_JOBS, WAITING_JOBS
from perdure.jobs.launcher import Launcher, say_unrecorded
from perdure.jobs.processes import refuse_in_activity_process
from perdure.jobs.running import Host, RunningActivity
from perdure.jobs.served import Served
from perdure.jobs.sessions import BusySessions
from perdure.jobs.slots import (
    HARMLESS,
    JobCounts,
    JobRun,
    Reservation,
    SlotKind,
    Slots,
    outcome_of,
    refusal_of,
    slots_of,
    use_of,
)
from perdure.jobs.within import Transactions
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import AttemptFacts, ClaimedJob, JobEnd, JobKey, JobPolicy, Settled
from perdure.model.options import WorkerOptions
from perdure.model.suspects import Suspects
from perdure.model.turns import SlotUse
from perdure.store.base import JobLease
from perdure.telemetry import Metrics

logger = logging.getLogger(__name__)

MAX_ABANDONED = 10_000
"""How many abandoned coroutines may run beside the slots; more keep their slots."""

OBEY_FOR = timedelta(seconds=1)
"""How long activities may take to end once a stopping worker has cancelled them."""


class JobRunner:
    """Runs claimed jobs on this worker, within its limits, and reports each end once."""

    def __init__(
        self,
        registry: Registry,
        options: WorkerOptions,
        *,
        host: Host,
        end: Callable[[ClaimedJob, JobEnd], None],
        freed: Callable[[ClaimedJob], None],
        find_inline: Callable[[JobKey], Awaitable[InlineRequest | None]],
        builtins: Mapping[str, JobCode] | None = None,
        transactions: Transactions | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            registry: The activities and orchestrations to serve.
            options: How many jobs at a time, and how much patience.
            host: What all attempts share; its clock tells the time of failures and retries.
            end: Hears of the end of each attempt that a turn waits for.
            freed: Hears of each job that has left a place for another one.
            find_inline: Returns the callable behind an inline job, or None if that cannot be had.
            builtins: The activities of our own, by name.
            transactions: Runs activities that take a connection, and hears of their ends.
            metrics: Counts activities that are cancelled while they run.

        Raises:
            DefinitionError: An activity with `process=True` cannot be found by its name.
            UsageError: This is an activity process that imports a main module without a guard.
        """
        refuse_in_activity_process()
        self.counts = JobCounts()
        self._metrics = metrics or Metrics()
        self._options = options
        self._clock = host.clock
        self._host = host
        self._end = end
        self._freed = freed
        self._launcher = Launcher(options, find_inline, host.stand_in, transactions)
        self._conclude = partial(conclude, clock=host.clock, chance=host.chance)
        self._slots = slots_of(options, builtin=BUILTIN_JOBS, waiting=WAITING_JOBS)
        self.sessions = BusySessions(options, host.worker_id)
        self.suspects = Suspects(options)
        self._served = Served(
            registry, builtins=builtins or {}, takes_any_tag=options.tags == "any"
        )
        self._runs: dict[JobKey, JobRun] = {}
        self.busy = asyncio.Event()
        """Set when a job begins; cleared by what watches them when none is left."""
        self.started: set[JobRun] = set()
        self._beside_slots = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._given_back: list[JobEnd] = []
        self._is_hurried = False
        self._patience: asyncio.Timeout | None = None
        """With the code that still runs while the worker stops."""
        self._is_stopping = False

    # ----------------------------------------------------------------- admission

    def serve(self, queues: Iterable[DefinitionKey]) -> None:
        """Take jobs of these queues from now on; by default those of the registry."""
        self._served.serve(queues)

    def kind_of(self, queue: DefinitionKey) -> SlotKind:
        """Return which kind of slot the jobs of a queue need."""
        return self._served.kind_of(queue)

    def room(self) -> dict[SlotKind, int]:
        """Return how many more jobs of each kind may be claimed."""
        return {
            kind: 0 if self._is_stopping else max(slots.room, 0)
            for kind, slots in self._slots.items()
        }

    def slots_in_use(self) -> tuple[SlotUse, ...]:
        """Return how many jobs of users run of each kind, and wait here."""
        return tuple(use_of(slots) for kind, slots in self._slots.items() if kind not in HARMLESS)

    def is_hungry(self, kinds: Iterable[SlotKind]) -> bool:
        """Return whether one of these kinds will run out of jobs soon."""
        some = map(self._slots.__getitem__, kinds)
        return any(len(slots.waiting) <= slots.capacity // 2 for slots in some)

    def reserve(self) -> Reservation:
        """Return a reservation of nothing yet, for the jobs of one turn."""
        return Reservation(self._slots_for)

    def _slots_for(self, queue: DefinitionKey) -> Slots | None:
        """Return where a job of a queue would run, if it is served here and there is room."""
        kind = self._served.kinds.get(queue) or self._served.kind_of_new(queue)
        slots = None if kind is None else self._slots.get(kind)
        return None if slots is None or self._is_stopping or slots.room <= 0 else slots

    def run(self, job: ClaimedJob) -> None:
        """Take a leased job over: start it now, or when a slot becomes free. Returns at once."""
        if self._is_stopping:
            self.counts.given_back += 1
            end = self._conclude(job, JobPolicy(), GivenBack(refund=True))
            asyncio.get_running_loop().call_soon(self._end, job, end)
            return
        if (older := self._runs.get(job.key)) is not None:
            # Its lease ran out before this worker noticed, and it came to us again.
            self.counts.lost += 1
            self._drop(older)
        run = self._prepare(job)
        self._runs[job.key] = run
        self.busy.set()
        self.suspects.take(job.key, run.losses)
        if job.session is not None:
            self.sessions.begin(job.session)
        self._admit(run)

    def leases(self) -> list[JobLease]:
        """Return the leases of all waiting and running jobs. Any thread may ask."""
        # list() of a dict's values is one step for other threads.
        return [JobLease(run.job.key, run.job.token) for run in list(self._runs.values())]

    def renewed(self, leases: Iterable[JobLease], until_ms: int) -> None:
        """Leases were extended. Any thread may tell."""
        for lease in leases:
            run = self._runs.get(lease.key)
            if run is not None and run.job.token == lease.token:
                run.lease_until_ms = until_ms

    # -------------------------------------------------------------------- ending

    def cancel(self, keys: Iterable[JobKey]) -> None:
        """Stop jobs that no turn waits for: told at once, abandoned later, never reported."""
        for key in keys:
            if (run := self._runs.get(key)) is not None:
                self.counts.cancelled += 1
                if run.began_s:
                    self._count_cancelled(run.counted())
                self._drop(run)

    def lose(self, leases: Iterable[JobLease]) -> None:
        """Stop jobs whose lease is another worker's now; like `cancel`."""
        for lease in leases:
            run = self._runs.get(lease.key)
            if run is not None and run.job.token == lease.token:
                self.counts.lost += 1
                self._drop(run)

    async def stop(self, grace: timedelta) -> list[JobEnd]:
        """Take no more jobs, and end those that are here.

        Waiting ones are given back, and those that wait for other instances. Running ones may go on
        for `grace` and are reported as ever; then they are cancelled, and given back if they do not
        return a result after all.

        Returns:
            What the store has to be told of the jobs that were given back.
        """
        self._is_stopping = True
        for slots in self._slots.values():
            while slots.waiting:
                run, _ = slots.waiting.popitem(last=False)
                self._give_back(run, refund=True)
        for run in list(self._runs.values()):
            if run.slots.kind is SlotKind.WAITING:
                # Another worker can wait as well.
                self._tell(run)
        try:
            await self._be_patient(grace)
            for run in list(self._runs.values()):
                self._tell(run)
            await self._wait_for_code(OBEY_FOR)
        finally:
            for run in list(self._runs.values()):
                self._give_back(run, refund=False)
            for run in list(self.started):
                self._abandon(run)
            await self._launcher.close()
        given_back, self._given_back = self._given_back, []
        return given_back

    def hurry(self) -> None:
        """Grant running code no more time when the worker stops, or does so already."""
        if self._patience is not None and not self._is_hurried:
            self._patience.reschedule(0)
        self._is_hurried = True

    # -------------------------------------------------------------------- slots

    def _prepare(self, job: ClaimedJob) -> JobRun:
        """Work out all that is needed to run a job, or why it cannot be run."""
        slots = self._slots.get(self._served.kind_of(job.queue), self._slots[SlotKind.ASYNC])
        run = JobRun(job, slots, RunningActivity(job, job.queue.name, self._host))
        try:
            run.policy = read_policy(job.policy)
            if job.queue.kind != "inline":
                run.work = self._served.work_of(job.queue.name)
                if run.policy.returns_input:
                    run.work = returning_input(run.work)
        except NotRegisteredError:
            run.refusal = self._launcher.unserved(job.key)
        except Exception as error:
            # A damaged row, annotations that cannot be stored: whatever it is, this job can never
            # succeed.
            run.refusal = raised(error, is_final=True)
        if run.policy.deadline_ms is not None and not job.is_rerun:
            run.context.call_until_ms = job.created_ms + run.policy.deadline_ms
        if job.damage or run.losses >= self._options.max_attempts:
            run.refusal = refusal_of(job)
        return run

    def _admit(self, run: JobRun) -> None:
        slots = run.slots
        if slots.waiting or slots.running >= slots.capacity:
            slots.waiting[run] = None
        else:
            self._start(run)

    def _start(self, run: JobRun) -> None:
        """Begin an attempt, in a slot and a context of its own."""
        run.began_ms = self._clock()
        if 0 < run.lease_until_ms <= run.began_ms:
            # This process was stopped, or waited for long, after the claim. Another worker may run
            # the job by now. If none does, no worker was lost with it: it has not begun.
            self.counts.lost += 1
            self._let_go(run)
            self._end(run.job, self._conclude(run.job, run.policy, GivenBack(refund=True)))
            self._freed(run.job)
            return
        run.slots.running += 1
        run.has_slot = True
        run.began_s = monotonic()
        self.suspects.begin(run.job.key)
        self.counts.started += 1
        self.started.add(run)
        # Kept: asking for it is a system call before Python 3.12.
        loop = self._loop = self._loop or asyncio.get_running_loop()
        # Not in a TaskGroup: one attempt's end must never be another's. Owned by `started`.
        run.task = loop.create_task(self._launcher.attempt(run), context=contextvars.Context())
        run.task.add_done_callback(partial(self._leave, run))
        if run.policy.timeout_ms is not None:
            run.timer = loop.call_later(run.policy.timeout_ms / 1000, self._time_out, run)
            run.context.attempt_until_ms = self._clock() + run.policy.timeout_ms

    def _leave(self, run: JobRun, task: asyncio.Task[AttemptResult | JobCode | Settled]) -> None:
        """Settle an attempt whose task is done. Whatever was started comes through here."""
        slots = run.slots
        self.started.discard(run)
        self._free_slot(run)
        if run.timer is not None:
            run.timer.cancel()
        try:
            self._settle(run, task)
        finally:
            self._fill(slots, run.job)

    def _free_slot(self, run: JobRun) -> None:
        if run.has_slot:
            run.has_slot = False
            run.slots.running -= 1
        else:
            self._beside_slots -= 1

    def _fill(self, slots: Slots, left_by: ClaimedJob) -> None:
        while slots.waiting and slots.running < slots.capacity:
            self._start(slots.waiting.popitem(last=False)[0])
        self._freed(left_by)

    # --------------------------------------------------------------- settlement

    def _settle(self, run: JobRun, task: asyncio.Task[AttemptResult | JobCode | Settled]) -> None:
        """Make of a done task what becomes of its job."""
        outcome = outcome_of(task)
        if isinstance(outcome, Settled):
            self._note_settled(run, outcome)
        elif run.is_over:
            self.counts.dropped += isinstance(outcome, Returned)
        elif isinstance(outcome, JobCode) and not self._is_stopping:
            run.work = outcome
            run.slots = self._slots[SlotKind.THREADED]
            self.counts.started -= 1  # it only turned out where it has to run
            self._admit(run)
        elif isinstance(outcome, JobCode):
            self._give_back(run, refund=True)
        elif run.is_told and not isinstance(outcome, Returned):
            # The worker stops and the code obeyed. What it raised says nothing about the job.
            self._give_back(run, refund=isinstance(outcome, GivenBack) and outcome.refund)
        else:
            self._report(run, outcome)

    def _time_out(self, run: JobRun) -> None:
        if run.is_over or run.is_told or run.task is None or run.task.done():
            return
        self.counts.timed_out += 1
        limit_s = (run.policy.timeout_ms or 0) / 1000
        error = TimeoutError(f"{run.context.activity} took longer than {limit_s:g} s")
        self._tell(run)
        self._report(run, raised(error))

    def _report(self, run: JobRun, outcome: AttemptResult) -> None:
        """Tell the end of an attempt, once."""
        if isinstance(outcome, GivenBack) and outcome.misfit:
            outcome = self._launcher.leave_to_others(run, outcome)
        try:
            said, began_ms = run.context.details, run.began_ms
            end = self._conclude(run.job, run.policy, outcome, details=said, began_ms=began_ms)
        except Exception as error:
            # What is recorded of user code must never be what keeps its job from ending.
            say_unrecorded(run, error)
            end = self._conclude(run.job, JobPolicy(), raised(error, is_final=True))
        self._count(outcome, end)
        self._let_go(run, is_stored=False)
        # No other code has seen it yet, and a copy would cost every job several times as much.
        force_setattr(end, "ran", run.counted())
        self._end(run.job, end)

    def _note_settled(self, run: JobRun, outcome: Settled) -> None:
        """An attempt has told the store of its end itself, however we thought of it meanwhile."""
        if not run.is_over:
            self.counts.completed += outcome.was_ours
            self.counts.lost += not outcome.was_ours
            self._let_go(run)
        self._launcher.tell_settled(run.job, outcome)

    def _give_back(self, run: JobRun, *, refund: bool) -> None:
        self._let_go(run)
        self.counts.given_back += 1
        outcome = GivenBack(refund=refund)
        end = self._conclude(run.job, run.policy, outcome, details=run.context.details)
        self._given_back.append(end)

    def _drop(self, run: JobRun) -> None:
        """End a job that no turn waits for."""
        self._let_go(run)
        if run in run.slots.waiting:
            del run.slots.waiting[run]
        else:
            self._tell(run)
        self._freed(run.job)

    def _let_go(self, run: JobRun, *, is_stored: bool = True) -> None:
        assert not run.is_over, "a job ends once"
        run.is_over = True
        del self._runs[run.job.key]
        if is_stored:
            self.suspects.end(run.job.key)
        if run.job.session is not None:
            self.sessions.end(run.job.session)

    def end_stored(self, key: JobKey) -> None:
        """The store has the end of a suspect: another one may come."""
        if key not in self._runs:
            self.suspects.end(key)

    def _count_cancelled(self, ran: AttemptFacts) -> None:
        self._metrics.executions.add(labels := (ran.activity, "cancelled", ran.tag))
        self._metrics.activity_duration.observe(labels, ran.took_s)

    def _count(self, outcome: AttemptResult, end: JobEnd) -> None:
        counts = self.counts
        match outcome:
            case Returned():
                counts.completed += 1
            case GivenBack():
                counts.given_back += 1
            case Raised() if end.kind is None:
                counts.retried += 1
            case Raised():
                counts.failed += 1

    # ---------------------------------------------------------- stopping code

    def _tell(self, run: JobRun) -> None:
        """Ask the code of an attempt to stop; abandon it if it has not after a while."""
        if run.is_told:
            return
        run.is_told = True
        run.context.cancel()
        if run.timer is not None:
            run.timer.cancel()
        grace_s = self._options.cancel_grace.total_seconds()
        run.timer = asyncio.get_running_loop().call_later(grace_s, self._abandon, run)
        if run.interrupt is not None:
            run.interrupt()

    def _abandon(self, run: JobRun) -> None:
        """Go on without code that does not stop. It stays referenced until it does."""
        if run.is_abandoned:
            return
        run.is_abandoned = True
        if run.timer is not None:
            run.timer.cancel()
        self.counts.abandoned += 1
        frees_slot = run.slots.kind is SlotKind.ASYNC and self._beside_slots < MAX_ABANDONED
        logger.warning(
            "activity %r of instance %r goes on after it was told to stop and is abandoned; %s",
            *run.named,
            "its slot is free again" if frees_slot else "it keeps its slot until it returns",
            extra={**run.facts, "worker_id": self._host.worker_id},
        )
        if frees_slot:
            run.has_slot = False
            run.slots.running -= 1
            self._beside_slots += 1
            self._fill(run.slots, run.job)

    async def _be_patient(self, grace: timedelta) -> None:
        """Wait for code that may go on for a while, unless the worker is told to hurry."""
        try:
            async with asyncio.timeout(0 if self._is_hurried else None) as self._patience:
                await self._wait_for_code(grace)
        except TimeoutError:
            pass
        finally:
            self._patience = None

    async def _wait_for_code(self, patience: timedelta) -> None:
        """Wait until all code has ended that is not given up on, or the patience has."""
        tasks = [run.task for run in self.started if run.task and not run.is_abandoned]
        if tasks:
            await asyncio.wait(tasks, timeout=patience.total_seconds())
