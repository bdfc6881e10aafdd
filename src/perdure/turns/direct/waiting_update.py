"""A request of this process that waits to be applied to an instance in memory."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from perdure.model.messages import Delivery


class WaitingUpdate(NamedTuple):
    """A request on its way, and whether it was taken: False sends its caller to the inbox."""

    delivery: Delivery
    taken: asyncio.Future[bool]

    def tell(self, *, is_taken: bool) -> None:
        """Say what became of it."""
        if not self.taken.done():
            self.taken.set_result(is_taken)
