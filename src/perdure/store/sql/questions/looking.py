"""What claims look for, asked together.

A claim begins with a question: what waits here? Claims of one batch ask theirs at once, which is
one call where each would cost a trip to the server and back. With the answers comes the database's
time; if the questions went by one that is far from it, they are asked again.

Where there is nothing to choose, a claim of turns leases in the same call (`claim_at_once`), and
most claims find nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

from perdure.store.sql.connection import Asked, Connection

TIME_MAY_DIFFER_MS = 50
"""How far the time of a question may be from the database's. What became due in between is found by
the next claim."""


class Look(Protocol):
    """What an operation asks before it runs."""

    @property
    def has_leased(self) -> bool:
        """Whether it may have leased something already, which it finds when it is run again."""
        ...

    def subjects(self) -> Iterable[Hashable]:
        """Return what it may take. Two that may take the same ask one after the other."""
        ...

    def asks(self, now_ms: int) -> Sequence[Asked]:
        """Return its questions, each of which has one value as its answer."""
        ...

    def hear(self, answers: Sequence[Any]) -> None:
        """Take the answers, for when it runs."""
        ...

    def has_found(self, answers: Sequence[Any]) -> bool:
        """Return whether there is something to take, from the answers."""
        ...

    def at_once(self, now_ms: int, *, may_differ_ms: int | None) -> Asked | None:
        """Return what claims all that is ready, if there is nothing to choose; None if it has to be
        done in steps.

        Args:
            now_ms: The time to go by.
            may_differ_ms: How far that may be from the database's, if it has one.
        """
        ...

    def hear_at_once(self, answer: bytes, *, offset: int) -> list[Any] | None:
        """Return what was claimed; None if nothing was, and it has to be done in steps."""
        ...

    def lose_answer(self) -> None:
        """It may have been done, and it is not known what it has taken."""
        ...


def look_together(connection: Connection, looks: Iterable[Look], *, now_ms: int) -> int:
    """Ask for all that can be asked for at once.

    Returns:
        The time to go by from here on.
    """
    apart = _apart(looks)
    _ask(connection, apart, now_ms)
    told_ms = connection.loaded_at_ms
    if told_ms is None:
        return now_ms
    if abs(told_ms - now_ms) > TIME_MAY_DIFFER_MS:
        _ask(connection, apart, told_ms)
    return told_ms


NOT_CLAIMED = object()
"""Stands for what has to be claimed in steps."""


def claim_at_once(
    connection: Connection,
    looks: Sequence[Look],
    *,
    now_ms: int,
    may_differ_ms: int | None,
    offset: int,
) -> list[Any]:
    """Claim in one call, outside a transaction: the first claim that can be made so, if the others
    of the batch find nothing.

    Returns:
        What each has taken, or `NOT_CLAIMED`.
    """
    claiming, once = _first_at_once(looks, now_ms, may_differ_ms)
    asked = [
        [once] if look is claiming and once is not None else look.asks(now_ms)
        for look in looks
        if not look.has_leased
    ]
    answers = iter(connection.run_each([one for some in asked for one in some]))
    told_ms = connection.loaded_at_ms
    is_late = may_differ_ms is not None and (
        told_ms is None or abs(told_ms - now_ms) > may_differ_ms
    )
    counts, results = iter(asked), list[Any]()
    for look in looks:
        if look.has_leased:
            results.append(NOT_CLAIMED)
            continue
        found = list(islice(answers, len(next(counts))))
        if claiming is not None and look is claiming:
            taken = claiming.hear_at_once(found[0], offset=offset)
            results.append(NOT_CLAIMED if taken is None else taken)
        else:
            results.append(NOT_CLAIMED if is_late or look.has_found(found) else [])
    return results


def _first_at_once(
    looks: Iterable[Look], now_ms: int, may_differ_ms: int | None
) -> tuple[Look | None, Asked | None]:
    for look in looks:
        if not look.has_leased:
            asked = look.at_once(now_ms, may_differ_ms=may_differ_ms)
            if asked is not None:
                return look, asked
    return None, None


def look_alone(connection: Connection, look: Look, *, now_ms: int) -> None:
    """Ask for one operation."""
    look.hear(connection.run_each(look.asks(now_ms)))


def _ask(connection: Connection, looks: Sequence[Look], now_ms: int) -> None:
    asked = [look.asks(now_ms) for look in looks]
    answers = iter(connection.run_each([one for some in asked for one in some]))
    for look, some in zip(looks, asked, strict=True):
        look.hear(list(islice(answers, len(some))))


def _apart(looks: Iterable[Look]) -> list[Look]:
    """Return those that may be asked for at once: what one has found is leased only afterwards."""
    taken: set[Hashable] = set()
    apart = []
    for look in looks:
        subjects = set(look.subjects())
        if taken.isdisjoint(subjects):
            apart.append(look)
        taken |= subjects
    return apart
