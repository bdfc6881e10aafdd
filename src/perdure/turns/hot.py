"""Instances in memory between turns.

A hot instance is a live coroutine, or a decider's state, with the stamp it fits. It is not leased:
the first commit wins, and one whose stamp no longer fits is refused and its coroutine
dropped. Between a turn and the store's answer the coroutine is ahead of the store; nothing more is
applied to it then. What leads from one state to the other is a table in `way`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping

from perdure.model.instances import LiveRow, NewInstance, Stamp
from perdure.model.jobs import ClaimedJob, JobEnd, JobKey, NewJob
from perdure.model.turns import NOBODY, ClaimedTurn, Turn
from perdure.turns.any_execution import AnyExecution
from perdure.turns.direct.waiting_input import WaitingInput
from perdure.turns.direct.waiting_update import WaitingUpdate
from perdure.turns.job_room import NOTHING, ReservedRoom
from perdure.turns.tally import ExecutionTally

ALARM_AT_UNDEAD = 100
"""At every multiple of this number of coroutines that will not end an error is logged."""

logger = logging.getLogger(__name__)


class HotInstance:
    """A live coroutine or state, the stamp it fits, and what waits for its next turn."""

    __slots__ = (
        "asked",
        "claim",
        "execution",
        "has_mail",
        "inputs",
        "is_ahead",
        "reservation",
        "results",
        "seen_no",
        "stamp",
        "start",
        "taken_keys",
        "tally",
        "updates",
        "updating",
        "was_sent",
    )

    def __init__(self, execution: AnyExecution, stamp: Stamp, seen_no: int) -> None:
        self.execution = execution
        self.stamp = stamp
        self.seen_no = seen_no
        self.is_ahead = False
        """Whether it waits for an answer of the store, to a turn or a question; see `way`."""
        self.reservation: ReservedRoom = NOTHING
        """Room for the jobs of that turn; the same one serves all its turns."""
        self.has_mail = False
        """Whether messages wait in the store. Results go there too then, behind them, until a claim
        has brought them all."""
        self.results: list[JobEnd] = []
        """Ends of local jobs that came while a turn was being committed."""
        self.claim: ClaimedTurn | None = None
        """A claim that came while a turn was being committed."""
        self.start: NewInstance | None = None
        """How a decider's instance begins that is not started yet."""
        self.inputs: list[WaitingInput] | None = None
        """Inputs of `execute` for the next turn. None as long as there was none: most have none."""
        self.asked: list[WaitingInput] | None = None
        """Those of the turn that is being committed."""
        self.updates: dict[str, WaitingUpdate] = {}
        """Requests of this process for the next turn, by their ids; see `direct_updates`."""
        self.updating: Mapping[str, WaitingUpdate] = {}
        """Those of the turn that is being committed."""
        self.taken_keys: Mapping[str, str] = {}
        """Business keys that the turn being committed knew others to have, with who has them."""
        self.was_sent = False
        """Whether this process has sent it something that an `execute` must not overtake."""
        self.tally = ExecutionTally()

    def run_ahead(self) -> None:
        """From idle to ahead: until the store has answered nothing more is applied to it."""
        assert not self.is_ahead, "what waits for an answer of the store takes nothing more"
        self.is_ahead = True

    def become_idle(self) -> None:
        """From ahead to idle: the store has answered."""
        assert self.is_ahead, "only what waits for an answer of the store gets one"
        self.is_ahead = False

    def has_waiting(self) -> bool:
        """Return whether something waits for its next turn."""
        return bool(self.results or self.inputs or self.updates or self.claim is not None)

    def has_inputs(self) -> bool:
        """Return whether a caller still waits for an input of the next turn to be decided."""
        return any(not one.is_over for one in self.inputs or ())

    def take_inputs(self, *, with_messages: bool) -> list[WaitingInput]:
        """Take the inputs for a turn that is about to run; none as long as a message that their
        callers have sent before may still be missing. One that must be alone is."""
        inputs = self.inputs
        if not inputs or self.was_sent or self.has_mail:
            return []
        waiting = [one for one in inputs if not one.is_over]
        alone = [one for one in waiting if one.is_alone]
        if alone:
            waiting = [one for one in waiting if not one.is_alone]
            if not with_messages and not waiting:
                waiting.append(alone.pop(0))
        self.inputs = alone or None
        self.asked = waiting
        return waiting

    def take_asked(self) -> list[WaitingInput]:
        """Take those whose turn has been answered by the store."""
        asked, self.asked = self.asked, None
        return asked or []

    def spoil_asked(self, error: BaseException, *, has_more: bool) -> None:
        """The turn has failed for what one of its inputs brought; `has_more`: or something else."""
        asked = self.take_asked()
        for waiting in asked:
            waiting.spoil(error, is_sole=len(asked) == 1 and not has_more)

    def fail_asked(self, error: BaseException) -> None:
        """The inputs of the turn cannot be decided."""
        for waiting in self.take_asked():
            waiting.fail(error)

    def fail_inputs(self, error: BaseException) -> None:
        """Neither they nor those that wait for the next turn can."""
        self.fail_asked(error)
        inputs, self.inputs = self.inputs, None
        for waiting in inputs or ():
            waiting.fail(error)

    def is_current(self, live: LiveRow | None) -> bool:
        """Return whether what is in memory is what the store has, and may decide.

        Another worker may have parked the instance. Let go here, it is read again, and then the
        caller is told.
        """
        return live is not None and live.stamp == self.stamp and live.blocked_by != NOBODY

    def is_past(self, stamp: Stamp) -> bool:
        """Return whether a stamp is one that this very instance had before."""
        return stamp.incarnation == self.stamp.incarnation and stamp.place < self.stamp.place

    def owns(self, key: JobKey) -> bool:
        """Return whether a job belongs to the very execution that is in memory."""
        owner = self.execution.id
        return (owner.incarnation, owner.execution) == (key.incarnation, key.execution)

    def job_key(self, seq: int) -> JobKey:
        """Return the key of a call's job."""
        return JobKey(*self.execution.id, seq)

    def leased_job(self, turn: Turn, job: NewJob) -> ClaimedJob:
        """Return a job that the commit of its turn has leased to this process."""
        execution = self.execution
        return ClaimedJob(
            key=JobKey(*execution.id, job.seq),
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


class HotInstances:
    """The most recently used instances of a worker, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._instances: OrderedDict[str, HotInstance] = OrderedDict()
        self.undead: list[object] = []
        """Coroutines that would not end when torn down."""

    def __len__(self) -> int:
        return len(self._instances)

    def __iter__(self) -> Iterator[HotInstance]:
        return iter(self._instances.values())

    def get(self, instance_id: str) -> HotInstance | None:
        """Return an instance if it is in memory, and count it as used."""
        hot = self._instances.get(instance_id)
        if hot is not None:
            self._instances.move_to_end(instance_id)
        return hot

    def put(self, hot: HotInstance) -> None:
        """Keep an instance."""
        known = self._instances.get(hot.execution.instance_id)
        assert known is None or known is hot, "an instance is hot twice"
        self._instances[hot.execution.instance_id] = hot

    def drop(self, hot: HotInstance) -> None:
        """Forget an instance and end its coroutine without a trace. Inputs come again."""
        inputs, hot.inputs = hot.inputs, None
        for one in (*hot.take_asked(), *(inputs or ())):
            one.tell(None)
        if hot.updates or hot.updating:
            for waiting in (*hot.updating.values(), *hot.updates.values()):
                waiting.tell(is_taken=False)
            hot.updates, hot.updating = {}, {}
        if self._instances.get(hot.execution.instance_id) is hot:
            del self._instances[hot.execution.instance_id]
        for coroutine in hot.execution.tear_down():
            keep_for_ever(coroutine)
            self.undead.append(coroutine)
            if len(self.undead) % ALARM_AT_UNDEAD == 1:
                logger.error(
                    "orchestration %s catches everything and would not end: instance %r is kept in "
                    "memory; catch Exception, not BaseException",
                    hot.execution.name,
                    hot.execution.instance_id,
                    extra={
                        "instance_id": hot.execution.instance_id,
                        "execution": hot.execution.execution,
                        "definition": hot.execution.name,
                        "version": hot.execution.version,
                        "kept": len(self.undead),
                    },
                )

    def surplus(self) -> list[HotInstance]:
        """Return the least recently used idle instances beyond the limit."""
        excess = len(self._instances) - self._limit
        found: list[HotInstance] = []
        if excess > 0:
            for hot in self._instances.values():
                if len(found) == excess:
                    break
                if not (hot.is_ahead or hot.has_waiting()):
                    found.append(hot)
        return found


def keep_for_ever(coroutine: object) -> None:
    """Never let go of a coroutine that catches everything, not even when the process ends.

    Python would resume it to end it, outside any turn, where its calls are not durable; and one in
    a loop would keep the process from ever ending.
    """
    # Few processes ever need it. A list of this module would be emptied when the process ends.
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))
