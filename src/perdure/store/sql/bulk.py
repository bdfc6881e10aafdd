"""Run statements that take many rows at once, and count what they write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import MAX_BATCH_BYTES, BatchTooLargeError, Rows, pack


class Bulk:
    """Statements of one batch. None is run for nothing.

    Args:
        alone: Whether the batch cannot be made smaller, however many bytes it has.
    """

    def __init__(self, connection: Connection, *, alone: bool) -> None:
        self.connection = connection
        self.written = 0
        """How many rows were handed to statements."""
        self._alone = alone

    def run_keys(self, name: str, keys: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement that takes the keys of rows, most of them to remove these."""
        if keys:
            self.connection.write(name, keys=pack(keys))
            self.written += len(keys)

    def write(self, name: str, rows: Sequence[tuple[Any, ...]], **params: int) -> None:
        """Run a statement that writes rows without bodies."""
        if rows:
            self.connection.write(name, rows=pack(rows), **params)
            self.written += len(rows)

    def write_rows(self, name: str, rows: Rows, **params: int) -> None:
        """Run a statement that writes rows with their bodies.

        Raises:
            BatchTooLargeError: They have too many bytes for one transaction.
        """
        if not rows.rows:
            return
        if rows.size > MAX_BATCH_BYTES and not self._alone:
            raise BatchTooLargeError(f"{name} has {rows.size:,} bytes of bodies")
        self.connection.write(name, rows=rows.text, bodies=rows.bodies, **params)
        self.written += len(rows.rows)
