"""What a caller is told that has waited in vain for a store."""

from __future__ import annotations

from perdure.errors import StoreFullError, StoreUnavailableError


def unanswered(text: str, trouble: StoreUnavailableError | None) -> StoreUnavailableError:
    """Return the error of a caller that has waited in vain for a write.

    Args:
        text: What it waited for.
        trouble: What keeps the store from writing.
    """
    kind = StoreFullError if isinstance(trouble, StoreFullError) else StoreUnavailableError
    return kind(text)
