"""What the code that both databases share asks of a connection.

Every statement comes from a file, `sql/<subject>/<name>.sql` in the folder of its database, and is
run by its name with named parameters. The files of one name take the same parameters and return the
same rows, so that their caller need not know which database it is. An error of a driver leaves
the connection as one of ours: what may work later is `StoreUnavailableError`, what a value caused
is `RowError`, what says that the database is broken is `StoreCorruptError`.

Rows travel in bulk: a statement takes all its rows as one JSON text (and their bodies as one blob)
and returns at most a few rows, or many as one JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from perdure.model.tables import Parameters

Value = int | str | bytes | None

Asked: TypeAlias = tuple[str, Mapping[str, Value]]
"""A statement and its parameters."""


class Connection(Protocol):
    """A connection that runs statements by name."""

    statements: int
    """How many statements it ran."""
    loaded_at_ms: int | None
    """The database's time when rows were loaded last; None if it has no clock of its own."""
    locks: bool
    """Whether rows have to be locked, because others may write at the same time."""
    waits: bool
    """Whether it waits for rows that others have locked. In a transaction of a user it does not."""

    def run(self, name: str, /, **params: Value) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        ...

    def run_each(self, asked: Sequence[Asked]) -> list[Any]:
        """Run statements that return one value and change nothing, in one call where others cost a
        trip each, and return the values."""
        ...

    def load(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """Run statements that take `keys` and return one JSON text, one after another."""
        ...

    def write(self, name: str, /, **params: Value) -> None:
        """Run a statement that returns nothing, now or together with those that follow.

        It is run before anything else that this connection is asked for, and before the end of the
        transaction. Only statements of commits, which take `rows` or `keys`, `bodies` and `now_ms`.
        """
        ...

    def forget_writes(self) -> None:
        """Run none of those that `write` was asked for and that were not run yet: what belongs to
        them is undone."""
        ...

    def change(self, name: str, /, **params: Value) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    def run_own(self, text: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """Run one statement of the user's own."""
        ...

    def run_own_many(self, text: str, rows: Iterable[Parameters]) -> None:
        """Run one statement of the user's own, once per row."""
        ...

    def set_deadline(self, until_s: float | None) -> None:
        """Have statements that run then fail with a StoreError, by `time.monotonic`; None: never.

        Such an end may roll the transaction back.
        """
        ...

    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        ...
