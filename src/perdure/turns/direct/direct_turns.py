"""Turns over inputs that callers wait for: look, think, commit or confirm.

There are three ways, from the shortest to the surest; `contention` tells which.

- What is in memory decides at once.
- Where others decide too, it is looked first whether memory is still right, and what is missing is
  read (`catching_up`).
- Where that was not enough, the turn is thought under the lock of its instance (`locked_turns`).

Whatever the way, it is the store that tells whether the turn counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from perdure.core.deciders.execution import DeciderExecution
from perdure.errors import InstanceHeldError, RowError
from perdure.model.instances import LiveRow
from perdure.model.messages import Message
from perdure.model.turns import Turn
from perdure.store.base import Store
from perdure.store.locked_turns import News
from perdure.turns.background import Background
from perdure.turns.direct.contention import Contention
from perdure.turns.direct.locked_turns import Consequence, LockedTurns
from perdure.turns.direct.waiting_input import InputTooLongError, WaitingInput, keep_outcomes
from perdure.turns.executions import Executions
from perdure.turns.hot import HotInstance
from perdure.turns.loading.catching_up import UNFIT, CatchingUp
from perdure.turns.memory import Memory
from perdure.turns.watchdog import TurnTooLongError

if TYPE_CHECKING:
    from perdure.turns.way import TurnWay

MAX_MESSAGES = 1_000
"""Messages that one turn takes from an inbox before the inputs of callers."""


class DirectTurns:
    """Decides the inputs that wait for an instance in memory."""

    def __init__(
        self,
        way: TurnWay,
        store: Store,
        memory: Memory,
        executions: Executions,
        background: Background,
    ) -> None:
        """Prepare.

        Args:
            way: Thinks, commits and hears.
            store: Where the instances are.
            memory: Where they are kept.
            executions: Run user code.
            background: Runs what nothing awaits.
        """
        self.contention = Contention()
        self._way = way
        self._store = store
        self._memory = memory
        self._background = background
        self._catching_up = CatchingUp(store, executions, background, way, self)
        self._locked = LockedTurns(store, background, way, self)

    def flush(self) -> None:
        """Send what waits now."""
        self._locked.flush()

    def think(self, hot: HotInstance, came: Sequence[WaitingInput] = ()) -> None:
        """Think over the inputs that callers wait for, and the messages before them.

        Args:
            hot: The instance. If it is ahead, what came waits.
            came: Inputs that come now, all at once: their turn may drop the instance.
        """
        if came:
            hot.inputs = [*(hot.inputs or ()), *came]
        if hot.is_ahead:
            return
        start = hot.start
        if start is not None and not hot.has_inputs():
            # No caller waits any more for what would have begun it.
            self._way.drop(hot)
        elif start is not None:
            begins = Message(0, start.created_ms, start.start_kind, start.start_body)
            self._follow(hot, self._decide(hot, (begins,), is_newest=True))
        elif self._store.locks_turns and self.contention.wants_lock(hot.execution.instance_id):
            self._locked.submit(hot)
        elif hot.was_sent or hot.has_mail:
            hot.run_ahead()  # Until the inbox is read nothing may be applied.
            self._background.spawn(self._read_mail(hot))
        elif self.contention.wants_look:
            self._catching_up.look(hot)
        else:
            self._follow(hot, self._decide(hot, (), is_newest=False))

    # ------------------------------------------------------------------- look

    def looked(self, hot: HotInstance, news: News) -> None:
        """It was looked what is new of an instance, which is idle again."""
        is_overtaken = news.live is None or news.live.stamp != hot.stamp
        self.contention.looked(is_overtaken=is_overtaken)
        try:
            is_current = self._catching_up.catch_up(hot, news)
        except UNFIT as error:
            self._way.give_up(hot, error)
            return
        if not is_current:
            self._way.drop(hot)
        elif hot.was_sent or hot.has_mail:
            hot.run_ahead()
            self._background.spawn(self._read_mail(hot))
        else:
            self._follow(hot, self._decide(hot, (), is_newest=False))

    def think_locked(self, hot: HotInstance, news: News) -> Turn | Consequence:
        """Think over what is new of an instance and the inputs, while the store keeps it."""
        try:
            if not self._catching_up.catch_up(hot, news):
                return partial(self._way.drop, hot)
        except UNFIT as error:
            return partial(self._way.give_up, hot, error)
        messages: Sequence[Message] = ()
        if news.inbox is not None:
            assert news.live is not None, "what is current is there"
            # Also if it was sent a moment ago: while the lock is held nothing comes into the inbox.
            hot.was_sent = False
            messages = self._take_mail(hot, news.live, news.inbox)
        elif hot.was_sent or hot.has_mail:
            # It was sent while the row was read.
            return partial(self.think, hot)
        return self._decide(hot, messages, is_newest=True)

    async def _read_mail(self, hot: HotInstance) -> None:
        """Read the inbox, and think over it and the inputs."""
        instance_id = hot.execution.instance_id
        hot.was_sent = False  # Not later: what is sent while it is read may be missing.
        try:
            live = await self._store.read_live(instance_id)
            inbox = await self._store.read_inbox(instance_id)
        except Exception as error:
            hot.become_idle()
            self._way.give_up(hot, error)
            return
        hot.become_idle()
        if not hot.is_current(live):
            self.contention.refused(instance_id)
            self._way.drop(hot)
            return
        assert live is not None, "what is current is there"
        messages = self._take_mail(hot, live, inbox)
        self._follow(hot, self._decide(hot, messages, is_newest=False))

    def _take_mail(
        self, hot: HotInstance, live: LiveRow, inbox: Sequence[Message]
    ) -> Sequence[Message]:
        """Return the messages that a turn takes before the inputs."""
        # Timers are left to workers, also those that are due: an input that takes one back comes
        # before it as long as no worker has delivered it.
        messages = [message for message in inbox if message.timer_key is None]
        hot.has_mail = False
        hot.seen_no = live.last_no
        if len(messages) > MAX_MESSAGES:
            # There is more: this turn must not count as having seen it.
            hot.was_sent = True
            hot.seen_no = 0
        return messages[:MAX_MESSAGES]

    # ------------------------------------------------------------------ think

    def _decide(
        self, hot: HotInstance, messages: Sequence[Message], *, is_newest: bool
    ) -> Turn | Consequence:
        """Return the turn over messages and inputs, or what follows if there is none to commit.

        Args:
            hot: The instance.
            messages: Those before the inputs.
            is_newest: Whether the store has nothing newer.
        """
        try:
            turn = self._way.think(hot, messages)
        except InputTooLongError as error:
            return partial(self._fail, hot, error, has_more=bool(messages) and hot.start is None)
        except (Exception, TurnTooLongError) as error:
            return partial(self._give_up, hot, error)
        execution = hot.execution
        assert isinstance(execution, DeciderExecution), "only deciders are given inputs"
        if execution.is_unchanged:
            return partial(self._begin_confirming, hot, turn, is_newest=is_newest)
        return turn

    def _follow(self, hot: HotInstance, thought: Turn | Consequence) -> None:
        """Commit what was thought, or do what follows without a commit."""
        if isinstance(thought, Turn):
            self._way.commits.submit(hot, thought)
        else:
            thought()

    def _fail(self, hot: HotInstance, error: InputTooLongError, *, has_more: bool) -> None:
        self._way.fail_inputs(hot, error, has_more=has_more)
        self._way.drop(hot)

    def _give_up(self, hot: HotInstance, error: BaseException) -> None:
        why = f"a message that came before cannot be decided: {type(error).__name__}: {error}"
        held = InstanceHeldError(hot.execution.instance_id, "stuck", why)
        held.__cause__ = error
        self._way.give_up(hot, held)
        # As a claimed turn the same trouble holds the instance, where everybody can see it.
        self._way.plan_look(0)

    # ---------------------------------------------------------------- confirm

    def _begin_confirming(self, hot: HotInstance, turn: Turn, *, is_newest: bool) -> None:
        hot.run_ahead()
        self._background.spawn(self._confirm(hot, turn, is_newest=is_newest))

    async def _confirm(self, hot: HotInstance, turn: Turn, *, is_newest: bool) -> None:
        """In place of a commit: inputs that changed nothing are answered once the store was seen to
        have nothing newer."""
        try:
            is_newest = is_newest or await self._way.is_current(hot)
            if is_newest and (turn.receipts or turn.observations):
                is_newest = await keep_outcomes(self._store, turn, hot.asked or ())
        except RowError as error:
            hot.become_idle()
            hot.spoil_asked(error, has_more=False)
            self._way.drop(hot)
            return
        except Exception as error:
            # Whatever it is, the instance must not wait for an answer that will not come.
            hot.become_idle()
            self._way.give_up(hot, error)
            return
        hot.become_idle()
        if is_newest:
            self._way.answer_inputs(hot)
        if is_newest and hot.start is None:
            self._way.take_waiting(hot)
            self._memory.evict()
        else:
            # It has moved on, or it was never there.
            if not is_newest:
                self.contention.refused(turn.instance_id)
            self._way.drop(hot)
