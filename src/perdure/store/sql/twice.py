"""What to answer of an operation that was run twice, because the first answer was lost.

What removes or moves rows finds none the second time. Whether the first time counted is not known
(the server has crashed since), but what was asked for is done, and its caller must not be told that
there was nothing to do.
"""

from __future__ import annotations

from perdure.model.admin import DeletedCounts


def done_once(first: bool, second: bool) -> bool:
    """Return whether either has done it."""
    return first or second


def each_done_once(first: list[bool], second: list[bool]) -> list[bool]:
    """Return for each of several whether either has done it."""
    return [one or other for one, other in zip(first, second, strict=True)]


def removed_once(first: DeletedCounts, second: DeletedCounts) -> DeletedCounts:
    """Return what was removed: all of it by one of the two."""
    return max(first, second)


def removed_once_if_any(
    first: DeletedCounts | None, second: DeletedCounts | None
) -> DeletedCounts | None:
    """Return what was removed, if either has found all that it was to remove."""
    if first is None or second is None:
        return second if first is None else first
    return removed_once(first, second)
