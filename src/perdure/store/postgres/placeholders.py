"""Signs for values: `?` and `:name`, as on SQLite, become the `$1` that PostgreSQL knows.

So simple SQL is the same on both. A text that has `$1` in it, or no values, stays as it is. Where
values are given for `?`, PostgreSQL's operator of that name is written `??`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from perdure.errors import UsageError
from perdure.model.tables import Parameters
from perdure.store.postgres.pieces import Sort, SqlPiece, pieces_of

MAX_TEXTS = 1_000
"""How many texts are remembered."""

_MARK = re.compile(r"\?(\d*)")
_NUMBER = re.compile(r"\$\d+")


def numbered(text: str, parameters: Parameters) -> tuple[str, tuple[Any, ...]]:
    """Return a statement with `$1` and so on for its values, and the values in that order.

    Raises:
        UsageError: It names a value that was not given.
    """
    if isinstance(parameters, Mapping):
        named, names = _names_numbered(text)
        missing = [name for name in names if name not in parameters]
        if missing:
            raise UsageError(f"no value is given for :{', :'.join(missing)} in: {text.strip()}")
        return named, tuple([parameters[name] for name in names])
    return (_marks_numbered(text) if parameters else text), tuple(parameters)


@lru_cache(maxsize=MAX_TEXTS)
def _marks_numbered(text: str) -> str:
    pieces = list(pieces_of(text))
    if any(piece.sort is Sort.CODE and _NUMBER.fullmatch(piece.text) for piece in pieces):
        return text
    count = 0

    def place(piece: SqlPiece) -> str:
        nonlocal count
        mark = _MARK.fullmatch(piece.text) if piece.sort is Sort.CODE else None
        if mark is None:
            return "?" if piece == (Sort.CODE, "??") else piece.text
        if not mark[1]:
            count += 1
        return f"${mark[1] or count}"

    return "".join([place(piece) for piece in pieces])


@lru_cache(maxsize=MAX_TEXTS)
def _names_numbered(text: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}
    parts: list[str] = []
    for sort, part in pieces_of(text):
        if sort is Sort.CODE and part.isidentifier() and parts and parts[-1] == ":":
            parts[-1] = f"${names.setdefault(part, len(names) + 1)}"
        else:
            parts.append(part)
    return "".join(parts), tuple(names)
