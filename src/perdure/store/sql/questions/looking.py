"""What claims look for, asked together.

A claim begins with a question: what waits here? Claims of one batch ask theirs at once, which is
one call where each would cost a trip to the server and back. With the answers comes the database's
time; if the questions went by one that is far from it, they are asked again.
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

    def subjects(self) -> Iterable[Hashable]:
        """Return what it may take. Two that may take the same ask one after the other."""
        ...

    def asks(self, now_ms: int) -> Sequence[Asked]:
        """Return its questions, each of which has one value as its answer."""
        ...

    def hear(self, answers: Sequence[Any]) -> None:
        """Take the answers, for when it runs."""
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
