"""`execute`: inputs of callers, decided here and committed before they are answered.

An instance is decided on in memory; inputs that come while a turn of it is being committed wait for
the next one and go into it together. Nobody waits for a lease: the commit is fenced by the stamp
alone. Refused, the input is decided again on what the instance has become, after a growing pause.

An input never overtakes what its caller has sent before: messages that wait in the inbox are taken
first, if there may be some; timers are not, workers deliver those. A rejection is decided on what
is in memory, so it counts only once the store was seen to have nothing newer.

Inputs of several callers share a turn. If it fails for a reason that one of them has brought (code
that computes too long, a value that the store refuses), each gets a turn of its own: only the
culprit fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from perdure.authoring.decider_definition import DeciderDefinition
from perdure.core.deciders.answers import Answer, DirectInput
from perdure.core.deciders.execution import DeciderExecution
from perdure.core.identity import ExecutionId
from perdure.errors import (
    DecisionTooLongError,
    InstanceHeldError,
    RowError,
    StoreUnavailableError,
)
from perdure.ids import chance
from perdure.model.messages import Message
from perdure.model.turns import ClaimedTurn, Turn
from perdure.store.base import ExecutionKey, Store
from perdure.turns.background import Background
from perdure.turns.commits import CommitQueue
from perdure.turns.executions import Executions
from perdure.turns.hot import HotInstance
from perdure.turns.instance_loading import Arrivals
from perdure.turns.memory import Memory, takes_inputs
from perdure.turns.pasts import Wanted, read_pasts
from perdure.turns.patience import Patience
from perdure.turns.waiting_input import Asked, InputTooLongError, SharedTurnError
from perdure.turns.watchdog import TurnTooLongError

MAX_TRIES = 10
"""How often an input is decided while others keep being faster; then it is queued."""

FIRST_PAUSE_S = 0.001
MAX_DOUBLINGS = 9
"""The longest pause before an input is decided again; doubles so many times. How much of it is
waited is drawn by lot."""

MAX_MESSAGES = 1_000
"""Messages that one turn takes from an inbox."""


class Deciding:
    """Decides inputs that somebody waits for."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        executions: Executions,
        commits: CommitQueue,
        background: Background,
        *,
        run: Callable[[HotInstance, Sequence[Message]], Turn],
        answer: Callable[[HotInstance], None],
        go_on: Callable[[HotInstance], None],
        load: Callable[[Sequence[ClaimedTurn]], None],
        look: Callable[[int], None],
    ) -> None:
        """Prepare.

        Args:
            store: Where the instances are.
            memory: Those that are here.
            executions: Makes and replays them.
            commits: Takes turns to the store.
            background: Runs what nobody awaits.
            run: Runs a turn over messages and the inputs that wait.
            answer: Tells those who wait what their inputs came to.
            go_on: Runs the next turn of an instance if anything came for it.
            load: Runs claimed turns whose instance is not in memory.
            look: Looks for work at a time, or at 0 now.
        """
        self._store = store
        self._memory = memory
        self._executions = executions
        self._commits = commits
        self._background = background
        self._run_turn = run
        self._answer = answer
        self._go_on = go_on
        self._load_claims = load
        self._look = look
        self._patience = Patience()
        self._arrivals = Arrivals(store, memory, executions, background, ask=self._ask)

    async def decide(
        self,
        decider: DeciderDefinition,
        instance_id: str,
        input: DirectInput | None,
        *,
        patience_s: float,
    ) -> Answer | None:
        """Decide an input and commit what follows from it, or see that nothing does.

        Args:
            decider: The code.
            instance_id: As stored.
            input: The input; None: have decided what waits in the inbox.
            patience_s: How long to wait for the store.

        Returns:
            What it came to; None: somebody was faster, and it has to be decided again.

        Raises:
            AlreadyExistsError: The id is that of something else.
            InstanceHeldError: The instance is held, or cannot decide a message that came before.
            DecisionTooLongError: The decider's code computes too long over it.
            RowError: The store refuses a value of it.
            StoreUnavailableError: The store has not answered in time.
        """
        try:
            return await self._decide(decider, instance_id, Asked(input), patience_s)
        except SharedTurnError:
            alone = Asked(input, is_alone=True)
        return await self._decide(decider, instance_id, alone, patience_s)

    async def _decide(
        self, decider: DeciderDefinition, instance_id: str, asked: Asked, patience_s: float
    ) -> Answer | None:
        """Have an input go into a turn, as soon as the instance is here."""
        waiting = self._patience.begin(patience_s, partial(_lose_patience, asked, patience_s))
        try:
            self._memory.look_at_epoch()
            hot = self._memory.hot.get(instance_id)
            if hot is None:
                self._arrivals.want(decider, instance_id, asked)
            elif self._is_of(hot, decider):
                self._ask(hot, asked)
            else:
                # Another class of that name has it in memory here.
                asked.tell(None)
                if not hot.is_committing:
                    self._drop(hot)
            return await asked.decided()
        finally:
            self._patience.end(waiting)

    async def read(self, decider: DeciderDefinition, key: ExecutionKey) -> DeciderExecution:
        """Return an execution as it is stored, to be looked at or tried on and thrown away.

        Raises:
            NondeterminismError: This code cannot read or fold what is recorded.
        """
        [past] = await read_pasts(self._store, [Wanted(key, decider)])
        execution = self._executions.new_decider(decider, ExecutionId(*key))
        self._executions.replay(execution, past)
        return execution

    async def has_completed(self, instance_id: str) -> bool:
        """Tell whether an instance that is in memory has completed and only waits for its effects.

        False, too, of one that is not here: only its code could tell.
        """
        hot = self._memory.hot.get(instance_id)
        if hot is None or hot.is_committing or not isinstance(hot.execution, DeciderExecution):
            return False
        return hot.execution.is_completed and await self._is_newest(hot)

    def go(self, hot: HotInstance) -> None:
        """Run the next turn over the inputs that wait, and the messages before them."""
        if hot.start is not None and not hot.has_inputs():
            # Nobody waits any more for what would have begun it.
            self._drop(hot)
        elif hot.start is not None:
            start = hot.start
            self._run(hot, [Message(0, start.created_ms, start.start_kind, start.start_body)])
        elif hot.was_sent or hot.has_mail:
            # Until the inbox is read nothing may be applied, as while a turn is being committed.
            hot.is_committing = True
            self._background.spawn(self._take_mail(hot))
        else:
            self._run(hot, ())

    # ------------------------------------------------------------------- turns

    @staticmethod
    def _is_of(hot: HotInstance, decider: DeciderDefinition) -> bool:
        execution = hot.execution
        return isinstance(execution, DeciderExecution) and execution.definition is decider

    def _ask(self, hot: HotInstance, asked: Asked) -> None:
        if hot.inputs is None:
            hot.inputs = []
        hot.inputs.append(asked)
        if not hot.is_committing:
            self.go(hot)

    async def _take_mail(self, hot: HotInstance) -> None:
        """Read the inbox, and run a turn over it and the inputs."""
        instance_id = hot.execution.instance_id
        hot.was_sent = False
        try:
            live = await self._store.read_live(instance_id)
            inbox = await self._store.read_inbox(instance_id)
        except Exception as error:
            hot.is_committing = False
            self._give_up(hot, error)
            return
        hot.is_committing = False
        if live is None or not takes_inputs(hot, live):
            self._drop(hot)
            return
        # Timers are left to workers, also those that are due: an input that takes one back comes
        # before it as long as nobody has delivered it.
        messages = [message for message in inbox if message.timer_key is None]
        hot.has_mail = False
        hot.seen_no = live.last_no
        if len(messages) > MAX_MESSAGES:
            # There is more: nobody may believe that this turn has seen it.
            hot.was_sent = True
            hot.seen_no = 0
        self._run(hot, messages[:MAX_MESSAGES])

    def _run(self, hot: HotInstance, messages: Sequence[Message]) -> None:
        try:
            turn = self._run_turn(hot, messages)
        except InputTooLongError as error:
            self.spoil(hot, error, has_more=bool(messages) and hot.start is None)
            self._drop(hot)
            return
        except (Exception, TurnTooLongError) as error:
            why = f"a message that came before cannot be decided: {type(error).__name__}: {error}"
            held = InstanceHeldError(hot.execution.instance_id, "stuck", why)
            held.__cause__ = error
            self._give_up(hot, held)
            # As a claimed turn the same trouble holds the instance, where everybody can see it.
            self._look(0)
            return
        execution = hot.execution
        assert isinstance(execution, DeciderExecution), "only deciders are given inputs"
        if execution.is_unchanged:
            hot.is_committing = True
            self._background.spawn(self._confirm(hot, turn))
        else:
            self._commits.submit(hot, turn)

    def spoil(self, hot: HotInstance, error: InputTooLongError, *, has_more: bool) -> None:
        """A turn computed too long over the inputs in it; `has_more`: not only over them."""
        asked = hot.take_asked()
        too_long = DecisionTooLongError(hot.execution.instance_id, str(error))
        for one in asked:
            one.spoil(too_long, is_sole=len(asked) == 1 and not has_more)

    def _give_up(self, hot: HotInstance, error: BaseException) -> None:
        """The inputs that wait cannot be decided now."""
        inputs, hot.inputs = hot.inputs, None
        for asked in (*hot.take_asked(), *(inputs or ())):
            asked.fail(error)
        self._drop(hot)

    def _drop(self, hot: HotInstance) -> None:
        """Forget an instance; a claim that came meanwhile goes on without it."""
        claim, hot.claim = hot.claim, None
        self._memory.drop(hot)
        if claim is not None:
            self._load_claims([claim])

    async def _confirm(self, hot: HotInstance, turn: Turn) -> None:
        """Answer inputs that changed nothing, once the store was seen to have nothing newer."""
        try:
            is_newest = hot.start is not None or await self._is_newest(hot)
            if is_newest and (turn.receipts or turn.observations):
                await self._settle(hot, turn)
        except RowError as error:
            hot.is_committing = False
            asked = hot.take_asked()
            for one in asked:
                one.spoil(error, is_sole=len(asked) == 1)
            self._drop(hot)
            return
        except Exception as error:
            # Whatever it is, the instance must not wait for an answer that will not come.
            hot.is_committing = False
            self._give_up(hot, error)
            return
        hot.is_committing = False
        if is_newest:
            self._answer(hot)
        if is_newest and hot.start is None:
            self._go_on(hot)
            self._memory.evict()
        else:
            # It has moved on, or it was never there.
            self._drop(hot)

    async def _settle(self, hot: HotInstance, turn: Turn) -> None:
        """Keep the outcomes of inputs with an id; one that has an outcome already is asked again,
        to be given that."""
        kept = await self._store.settle_inputs(turn.instance_id, turn.receipts, turn.observations)
        earlier = {
            receipt.input_id
            for receipt, outcome in zip(turn.receipts, kept, strict=True)
            if outcome != receipt.outcome
        }
        for asked in hot.asked or ():
            if asked.input is not None and asked.input.input_id in earlier:
                asked.tell(None)

    async def _is_newest(self, hot: HotInstance) -> bool:
        live = await self._store.read_live(hot.execution.instance_id)
        return live is not None and takes_inputs(hot, live)


def pause_before(tries: int) -> float:
    """Return how long to wait before an input is decided again, in seconds."""
    return chance() * FIRST_PAUSE_S * (1 << min(tries, MAX_DOUBLINGS))


def _lose_patience(asked: Asked, patience_s: float) -> None:
    asked.fail(
        StoreUnavailableError(
            f"the store has not answered within {patience_s:g} s; the input may still be decided: "
            "give it again under the same input_id to find out"
        )
    )
