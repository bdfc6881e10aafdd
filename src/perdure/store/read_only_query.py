"""What a person's own SQL gets: an answer, read by a connection that cannot write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class QueryAnswer(NamedTuple):
    """The rows of a statement."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    is_cut: bool
    """Whether there are more."""
