"""Where user code of orchestrations and deciders runs: replays and turns, guarded and watched.

The core thinks; here it gets what it must not have by itself: the time, the guard, a watchdog, and
room for the jobs that come out of a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.definition import Definition
from perdure.authoring.orchestration import Orchestration
from perdure.clock import Clock, to_ms
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.guard import Guard, look_at
from perdure.core.orchestrations.execution import Execution, ExecutionId
from perdure.core.orchestrations.turn import run_turn
from perdure.core.turn_builder import TurnTerms
from perdure.ids import fresh_id
from perdure.model.histories.events import UnreadableEventError
from perdure.model.instances import DefinitionKey, NewInstance
from perdure.model.jobs import JobEnd
from perdure.model.messages import Message, digest_of
from perdure.model.options import WorkerOptions
from perdure.model.turns import Turn, with_more
from perdure.turns.any_execution import AnyExecution
from perdure.turns.coverage import Coverage
from perdure.turns.direct.taken_keys import TakenKeys
from perdure.turns.direct.waiting_input import InputTooLongError
from perdure.turns.hot import HotInstance
from perdure.turns.loading.pasts import Past
from perdure.turns.pace import Pace
from perdure.turns.watchdog import TurnTooLongError, Watchdog

OVER = object()


class Executions:
    """Makes executions, replays them, and runs their turns. One at a time, on one thread."""

    def __init__(
        self, coverage: Coverage, options: WorkerOptions, *, clock: Clock, worker_id: str
    ) -> None:
        self.watchdog = Watchdog(options.turn_warning, options.turn_limit)
        self.pace = Pace()
        self._coverage = coverage
        self._options = options
        self._clock = clock
        self.worker_id = worker_id
        self._lease_ms = to_ms(options.lease_for)
        self._audit_only = Guard(watch_calls=False)
        self._close = Guard(watch_calls=True)
        self._in_known_code = Guard(watch_calls=True, known_code_only=True)
        self._turns_of: dict[object, int] = {}
        self._later_guards: dict[object, Guard] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.taken = TakenKeys()
        self.secret: bytes | None = None
        """What tokens of promises are signed with: the worker sets it."""

    def new(
        self, orchestration: Orchestration[..., Any], execution_id: ExecutionId, *, version: str
    ) -> Execution:
        """Return an execution that has not begun.

        Args:
            orchestration: The code that runs it.
            execution_id: Whose it is.
            version: The recorded version, which may differ from that of the code.
        """
        return Execution(
            orchestration,
            execution_id,
            self._coverage.registry.code_of(orchestration.name, orchestration.version),
            self._guard_for(orchestration.definition),
            version=version,
            prefer=self._prefer,
            secret=self.secret,
        )

    def new_decider(
        self, decider: DeciderDefinition, execution_id: ExecutionId
    ) -> DeciderExecution:
        """Return an execution of a decider that has decided nothing."""
        registry = self._coverage.registry
        is_here = registry.deciders.get(decider.name) is decider
        return DeciderExecution(
            decider,
            execution_id,
            registry.code_of_decider(decider.name) if is_here else "",
            self._guard_for(decider),
        )

    def new_for_turn(
        self, decider: DeciderDefinition, execution_id: ExecutionId
    ) -> DeciderExecution:
        """Return one that is to decide, knowing the business keys that it wanted in vain before."""
        execution = self.new_decider(decider, execution_id)
        execution.taken_keys = self.taken.take(execution_id.instance_id)
        return execution

    def again(self, execution: AnyExecution) -> AnyExecution:
        """Return an execution on the same code as another one, to replay what that one did."""
        if isinstance(execution, Execution):
            return self.new(execution.orchestration, execution.id, version=execution.version)
        assert isinstance(execution, DeciderExecution)
        return self.new_decider(execution.definition, execution.id)

    def _prefer(self, name: str) -> str:
        version = self._coverage.choose(name)
        assert version is not None, "an execution that runs here has code here"
        return version

    def replay(self, execution: AnyExecution, past: Past) -> None:
        """Bring a new execution to where its history ends.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: It cannot be.
        """
        for _ in self._replaying(execution, past, is_enough=lambda: False):
            pass

    def replaying(self, execution: AnyExecution, past: Past) -> Generator[None, None, None]:
        """The same, and yield whenever a slice is over. Each is watched by itself.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: It cannot be.
        """
        return self._replaying(execution, past, is_enough=self.pace.is_spent)

    def _replaying(
        self, execution: AnyExecution, past: Past, *, is_enough: Callable[[], bool]
    ) -> Generator[None, None, None]:
        try:
            yield from self._watched(execution, _slices(execution, past, is_enough))
        except UnreadableEventError as error:
            raise error.of(execution.instance_id, execution.execution) from error

    async def replay_beside(self, execution: AnyExecution, past: Past) -> None:
        """Replay in slices while others get their turns; when the worker stops, the rest at once.

        Raises:
            NondeterminismError, UnreadableEventError, TurnTooLongError: It cannot be.
        """
        self.pace.begin()
        slices = self.replaying(execution, past)
        with closing(slices):
            if next(slices, OVER) is not OVER and not await self.pace.finish(slices):
                for _ in slices:
                    pass

    def _watched(
        self, execution: AnyExecution, slices: Generator[None, None, None]
    ) -> Generator[None, None, None]:
        is_over = False
        with closing(slices):
            while not is_over:
                with self.watchdog.watching(execution.instance_id, execution.name):
                    is_over = next(slices, OVER) is OVER
                if not is_over:
                    yield

    def run(
        self,
        hot: HotInstance,
        messages: Sequence[Message],
        *,
        takes: Callable[[DefinitionKey], bool],
        lease: int,
        start: NewInstance | None,
        job_ends: tuple[JobEnd, ...],
    ) -> Turn:
        """Run a turn; the jobs that come out of it have room.

        Raises:
            TurnTooLongError: It computes too long; an InputTooLongError if that is due to the
                inputs that callers wait for.
            UnreadableEventError: A message is damaged or of an unknown kind.
        """
        now_ms = self._clock()
        execution = hot.execution
        loop = self._loop
        if loop is None or not loop.is_running():
            # Asked for once: that is a system call before Python 3.12.
            loop = self._loop = asyncio._get_running_loop()
        terms = TurnTerms(
            stamp=hot.stamp,
            commit_id=fresh_id() if start is None else start.commit_id,
            worker_id=self.worker_id,
            seen_no=hot.seen_no,
            lease_until_ms=now_ms + self._lease_ms,
            takes=takes,
            lease=lease,
            start=start,
            job_ends=job_ends,
            loop=loop,
        )
        try:
            with self.watchdog.watching(execution.instance_id, execution.name):
                if isinstance(execution, Execution):
                    execution.guard = self._guard_of_turn(execution.orchestration.definition)
                    turn = run_turn(execution, messages, terms, now_ms=now_ms)
                else:
                    turn = self._decide(hot, messages, terms, now_ms=now_ms)
            return _with_taken(turn, messages) if turn.consumed else turn
        except TurnTooLongError as error:
            if isinstance(execution, DeciderExecution) and execution.is_answering:
                raise InputTooLongError(*error.args) from error
            raise
        except UnreadableEventError as error:
            raise error.of(execution.instance_id, execution.execution) from error

    def _decide(
        self, hot: HotInstance, messages: Sequence[Message], terms: TurnTerms, *, now_ms: int
    ) -> Turn:
        """Run a decider's turn, over the inputs that callers wait for too."""
        execution = hot.execution
        assert isinstance(execution, DeciderExecution)
        execution.fold.guard = self._guard_of_turn(execution.definition)
        # The start of an instance is no company for an input that must be alone.
        asked = hot.take_inputs(with_messages=bool(messages) and terms.start is None)
        execution.give([one.input for one in asked])
        hot.taken_keys = execution.taken_keys
        turn = execution.run(messages, terms, now_ms=now_ms)
        # Known for this run only: they may be free again at the next one.
        execution.taken_keys = {}
        for one, answer in zip(asked, execution.answers, strict=True):
            one.answer = answer
        return turn

    def _guard_of_turn(self, definition: Definition | DeciderDefinition) -> Guard:
        guard = self._later_guards.get(definition)
        if guard is None:
            self._turns_of[definition] = self._turns_of.get(definition, 0) + 1
            guard = self._guard_for(definition)
        return guard

    def _guard_for(self, definition: Definition | DeciderDefinition) -> Guard:
        match self._options.watch_calls:
            case "always":
                return self._close
            case "never":
                return self._audit_only
        if self._turns_of.get(definition, 0) < self._options.watched_turns:
            return self._close
        guard = self._later_guards.get(definition)
        if guard is None:
            # Not sooner: the modules that the code names are all loaded by now.
            code = definition.fn if isinstance(definition, Definition) else definition.cls
            guard = self._close if look_at(code) else self._in_known_code
            self._later_guards[definition] = guard
        return guard


def _slices(
    execution: AnyExecution, past: Past, is_enough: Callable[[], bool]
) -> Generator[None, None, None]:
    if past.snapshot is not None:
        assert isinstance(execution, DeciderExecution), "only deciders have snapshots"
        is_restored = execution.restore(past.snapshot)
        assert is_restored, "snapshots that cannot be used are not read"
    yield from execution.replaying(past.history, is_enough)


def _with_taken(turn: Turn, messages: Sequence[Message]) -> Turn:
    """Let a turn say which messages it took, where no lease does: one that is accepted whichever
    worker has the lease, or one over what was read before an input that then was not decided."""
    is_claimed = turn.lease and not turn.seize
    if is_claimed or turn.start is not None:
        return turn
    return with_more(turn, taken=digest_of(messages, turn.consumed))
