"""What is exchanged with a store that uses a connection of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from perdure.errors import RowError

T = TypeVar("T")


class RunOnThread(Protocol):
    """Has functions run on the thread that a blocking connection belongs to."""

    async def do(self, work: Callable[[], T]) -> T:
        """Run a function there, and return what it returns."""
        ...


class SentMessages(Protocol):
    """Messages that were sent inside a transaction. Those of one transaction are equal."""

    async def arrive(self, instance_id: str) -> bool:
        """Put those of them that are committed and for this instance into its inbox; return whether
        the transaction is over, so that no more can come."""
        ...


class UnwrittenError(RowError):
    """A turn could not be written, and not for its values. Nothing is tried again."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why
