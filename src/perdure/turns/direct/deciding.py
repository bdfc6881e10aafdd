"""`execute`: inputs of callers, decided here and committed before they are answered.

An instance is decided on in memory; inputs that come while a turn of it is being committed wait for
the next one and go into it together. No caller waits for a lease: the commit is fenced by the stamp
alone. Refused, the input is decided again on what the instance has become, at once and under its
lock. It is never queued: what `decide` raises over it is raised to its caller.

An input never overtakes what its caller has sent before: messages that wait in the inbox are taken
first, if there may be some; timers are not, workers deliver those. A rejection is decided on what
is in memory, so it counts only once the store was seen to have nothing newer.

Inputs of several callers share a turn. If it fails for a reason that one of them has brought (code
that computes too long, a value that the store refuses), each gets a turn of its own: only the
culprit fails.
"""

from __future__ import annotations

from functools import partial

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.backoff import pause_after
from perdure.core.deciders.answers import Answer, DirectInput
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.identity import ExecutionId
from perdure.ids import chance
from perdure.store.base import ExecutionKey, Store
from perdure.store.trouble import unanswered
from perdure.turns.background import Background
from perdure.turns.direct.patience import Patience
from perdure.turns.direct.waiting_input import SharedTurnError, WaitingInput
from perdure.turns.executions import Executions
from perdure.turns.hot import HotInstance
from perdure.turns.loading.input_loading import InputLoader
from perdure.turns.loading.pasts import WantedPast, read_pasts
from perdure.turns.memory import Memory
from perdure.turns.way import TurnWay

MAX_TRIES = 100
"""How often an input is decided while others keep being faster."""

FIRST_PAUSE_S = 0.001
MAX_PAUSE_S = 0.512
"""Pauses before an input is decided again. How much of one is waited is drawn by lot."""


class Deciding:
    """Decides inputs that callers wait for."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        executions: Executions,
        way: TurnWay,
        background: Background,
    ) -> None:
        """Prepare.

        Args:
            store: Where the instances are.
            memory: Those that are here.
            executions: Makes and replays them.
            way: Takes inputs through turns.
            background: Runs what nothing awaits.
        """
        self._store = store
        self._memory = memory
        self._executions = executions
        self._way = way
        self._patience = Patience()
        self._loader = InputLoader(store, memory, executions, background, way)

    async def decide(
        self,
        decider: DeciderDefinition,
        instance_id: str,
        input: DirectInput,
        *,
        patience_s: float,
    ) -> Answer | None:
        """Decide an input and commit what follows from it, or see that nothing does.

        Args:
            decider: The code.
            instance_id: As stored.
            input: The input.
            patience_s: How long to wait for the store.

        Returns:
            What it came to; None: another turn was faster, and it has to be decided again.

        Raises:
            AlreadyExistsError: The id is that of something else.
            InstanceHeldError: The instance is held, or cannot decide a message that came before.
            DecisionTooLongError: The decider's code computes too long over it.
            RowError: The store refuses a value of it.
            StoreUnavailableError: The store has not answered in time.
        """
        asked = WaitingInput(input)
        while True:
            lose = partial(self._lose_patience, asked, patience_s)
            waiting = self._patience.begin(patience_s, lose)
            try:
                self._memory.look_at_epoch()
                hot = self._memory.hot.get(instance_id)
                if hot is None:
                    self._loader.want(decider, instance_id, asked)
                elif self._is_of(hot, decider):
                    self._way.direct.think(hot, (asked,))
                else:
                    # Another class of that name has it in memory here.
                    asked.tell(None)
                    if not hot.is_ahead:
                        self._way.drop(hot)
                return await asked.told
            except SharedTurnError:
                # Not twice: an input that is alone is the cause itself.
                asked = WaitingInput(input, is_alone=True)
            finally:
                self._patience.end(waiting)

    async def read(self, decider: DeciderDefinition, key: ExecutionKey) -> DeciderExecution:
        """Return an execution as it is stored, to be looked at or tried on and thrown away.

        Raises:
            NondeterminismError: This code cannot read or fold what is recorded.
        """
        [past] = await read_pasts(self._store, [WantedPast(key, decider)])
        execution = self._executions.new_decider(decider, ExecutionId(*key))
        await self._executions.replay_beside(execution, past)
        return execution

    async def has_completed(self, instance_id: str) -> bool:
        """Return whether an instance in memory has completed and only waits for its effects.

        False, too, of one that is not here: only its code could tell.
        """
        hot = self._memory.hot.get(instance_id)
        if hot is None or hot.is_ahead or not isinstance(hot.execution, DeciderExecution):
            return False
        return hot.execution.is_completed and await self._way.is_current(hot)

    def _lose_patience(self, asked: WaitingInput, patience_s: float) -> None:
        trouble = self._store.trouble
        text = (
            f"the store has not answered within {patience_s:g} s"
            f"{'' if trouble is None else f' ({trouble})'}; the input may still be decided: "
            "give it again under the same input_id to find out"
        )
        asked.fail(unanswered(text, trouble))

    @staticmethod
    def _is_of(hot: HotInstance, decider: DeciderDefinition) -> bool:
        execution = hot.execution
        return isinstance(execution, DeciderExecution) and execution.definition is decider


def pause_before(tries: int) -> float:
    """Return how long to wait before an input is decided again, in seconds."""
    return chance() * pause_after(tries, first_s=FIRST_PAUSE_S, longest_s=MAX_PAUSE_S)
