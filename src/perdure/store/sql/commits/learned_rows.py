"""Live rows that were read elsewhere in a process, on their way to what its writer remembers.

Where several processes decide on the same instances, one looks at a row before it decides. The
turn that is thought over it is the next that its writer hears of: with the row beside it nothing
need be loaded. That is for PostgreSQL, where a row is known by the transaction that has written it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.model.instances import LiveRow
from perdure.model.turns import Turn
from perdure.store.sql.commits.remembered_rows import MAX_REMEMBERED, RememberedRows


class _LearnedRow(NamedTuple):
    live: LiveRow
    writer: str
    epoch_no: int


class LearnedRows:
    """The rows that were read since. Any thread puts them here, and the one that writes takes
    them."""

    def __init__(self) -> None:
        self._rows: dict[str, _LearnedRow] = {}

    def learn(self, live: LiveRow, writer: str, *, epoch_no: int) -> None:
        """Hear what the row of an instance is now.

        Args:
            live: The row.
            writer: The transaction that has written it.
            epoch_no: Which life of the database it was asked in.
        """
        if len(self._rows) >= MAX_REMEMBERED:
            self._rows.clear()
        self._rows[live.instance_id] = _LearnedRow(live, writer, epoch_no)

    def hand_over(
        self, turns: Sequence[Turn], remembered: RememberedRows, *, epoch_no: int
    ) -> None:
        """Have the rows of turns remembered as they were read before these were thought."""
        if not self._rows:
            return
        for turn in turns:
            found = self._rows.pop(turn.instance_id, None)
            if found is not None and found.epoch_no == epoch_no:
                remembered.learn(found.live, found.writer)
