"""Tables of the user's own in the store's database, as a projection sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Values for `?` in order, or for `:name`: int, float, str, bytes or None. On PostgreSQL also for
`$1`, and what asyncpg takes for the type of the column; where values are given for `?`, write `??`
for its operator `?`."""

FeedWork: TypeAlias = Callable[["Tables"], int]
"""Writes to tables what events say; returns the position up to which it did."""


class Tables(Protocol):
    """The user's own tables, inside the transaction that moves the projection on.

    What is written here and the new position are one commit: both are there, or neither. It is
    gone when the handler returns. On PostgreSQL a handler cannot go on after an error of a
    statement: write `ON CONFLICT`, and catch nothing.
    """

    def execute(self, sql: str, parameters: Parameters = (), /) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows.

        Raises:
            UsageError: It is more than one statement, touches a table of perdure, or is not one
                that a projection may run.
            RowError: A constraint of the table refuses a value.
            StoreError: The statement is wrong.
        """
        ...

    def execute_many(self, sql: str, rows: Iterable[Parameters], /) -> None:
        """Run one statement that returns nothing, once per row of parameters."""
        ...
