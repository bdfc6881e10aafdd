"""Inputs that callers wait for: each goes into one turn after another until one is committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure.core.answers import Answer

if TYPE_CHECKING:
    from perdure.core.answers import DirectInput


class Asked:
    """An input of `execute`, and who waits for what becomes of it."""

    __slots__ = ("_told", "answer", "input")

    def __init__(self, input: DirectInput | None) -> None:
        """Prepare.

        Args:
            input: What to decide; None: only what waits in the inbox.
        """
        self.input = input
        self.answer: Answer | None = None
        """What it came to in the turn that is being committed."""
        self._told: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self._told.done()

    async def decided(self) -> Answer | None:
        """Wait for the answer; None: the turn was refused, and the input decided in vain."""
        return await self._told

    def tell_committed(self) -> None:
        """What it came to is stored."""
        self.tell(self.answer or Answer())

    def tell(self, answer: Answer | None) -> None:
        """The turn was committed, or refused."""
        if not self._told.done():
            self._told.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """It cannot be decided."""
        if not self._told.done():
            self._told.set_exception(error)
