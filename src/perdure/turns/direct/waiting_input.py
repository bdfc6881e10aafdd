"""Inputs that callers wait for: each goes into one turn after another until one is committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure.core.deciders.answers import Answer
from perdure.turns.watchdog import TurnTooLongError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.core.deciders.answers import DirectInput
    from perdure.model.turns import Turn
    from perdure.store.base import Store


class SharedTurnError(Exception):
    """A turn failed because of one of those that were in it, and it is not known which: each is to
    be decided again in a turn of its own."""


class InputTooLongError(TurnTooLongError):
    """A turn computed too long, and had come to inputs that callers wait for."""


class WaitingInput:
    """An input of `execute`, and the caller that waits for what becomes of it."""

    __slots__ = ("answer", "input", "is_alone", "told")

    def __init__(self, input: DirectInput, *, is_alone: bool = False) -> None:
        """Prepare.

        Args:
            input: What to decide.
            is_alone: It must have a turn of its own: one that it shared has failed.
        """
        self.input = input
        self.is_alone = is_alone
        self.answer: Answer | None = None
        """What it came to in the turn that is being committed."""
        self.told: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        """The answer to come; None: the turn was refused, the input decided in vain."""

    @property
    def is_over(self) -> bool:
        """Whether no caller waits any more."""
        return self.told.done()

    def tell_committed(self) -> None:
        """What it came to is stored."""
        self.tell(self.answer or Answer())

    def tell(self, answer: Answer | None) -> None:
        """The turn was committed, or refused."""
        if not self.told.done():
            self.told.set_result(answer)

    def spoil(self, error: BaseException, *, is_sole: bool) -> None:
        """The turn it was in has failed; `is_sole`: with nothing else in it, so it is the cause."""
        self.fail(error if is_sole or self.is_alone else SharedTurnError())

    def fail(self, error: BaseException) -> None:
        """It cannot be decided."""
        if not self.told.done():
            self.told.set_exception(error)


async def keep_outcomes(store: Store, turn: Turn, asked: Iterable[WaitingInput]) -> bool:
    """Keep the outcomes of inputs with an id that changed nothing. One that has an outcome already
    is asked again, to be given that.

    Returns:
        Whether the store has the state that they were decided on; if not, nothing was kept.
    """
    kept = await store.deciders.settle_inputs(
        turn.instance_id, turn.receipts, turn.observations, stamp=turn.stamp
    )
    if kept is None:
        return False
    earlier = {
        receipt.input_id
        for receipt, outcome in zip(turn.receipts, kept, strict=True)
        if outcome != receipt.outcome
    }
    for waiting in asked:
        if waiting.input.input_id in earlier:
            waiting.tell(None)
    return True
