"""Rows on their way into and out of one statement.

Going in, the values of all rows are one JSON text, `:rows`, and their bodies one blob, `:bodies`;
a row names the place of its body in it. Coming out, it is the same: one row with a JSON text and a
blob. Why not row by row is told in `connection`. `Bulk` runs such statements and counts their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from perdure.errors import RowError, StoreError
from perdure.store.sql.connection import Connection

MAX_BATCH_BYTES = 64 * 1024 * 1024
"""Bodies of one statement beyond this are spread over several transactions, if they can be."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class BatchTooLargeError(StoreError):
    """The batch has more bytes than should go into one transaction; halve it."""


class RowValues(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row on its way in, by the names of its values; a list in the JSON text.

    A struct, since C makes it: there are several in each commit, and a named tuple takes four times
    as long.
    """


class Rows:
    """The rows of one statement, with their bodies."""

    __slots__ = ("_bodies", "end", "rows")

    def __init__(self) -> None:
        self.rows: list[RowValues] = []
        """Each one of `row_types`."""
        # One byte ahead: SQLite takes the substring of an empty blob for NULL.
        self._bodies: list[bytes] = [b"\0"]
        self.end = 2  # SQLite counts from 1.
        """Where the next body begins."""

    def place(self, body: bytes) -> int:
        """Keep a body and return where it begins."""
        begin = self.end
        self._bodies.append(body)
        self.end = begin + len(body)
        return begin

    @property
    def keep(self) -> Callable[[bytes], None]:
        """Return what keeps a body, for a caller of very many that counts where they begin, and
        says so with `end`."""
        return self._bodies.append

    def place_maybe(self, body: bytes | None) -> tuple[int | None, int | None]:
        """Keep a body, if there is one, and return where it begins and how long it is."""
        return (None, None) if body is None else (self.place(body), len(body))

    @property
    def size(self) -> int:
        """Return how many bytes the bodies have."""
        return self.end

    @property
    def bodies(self) -> bytes:
        """Return all bodies as one blob."""
        return b"".join(self._bodies)

    @property
    def text(self) -> str:
        """Return the values of all rows as one JSON text."""
        return pack(self.rows)


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

    def write(self, name: str, rows: Sequence[RowValues], **params: int) -> None:
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


def pack(rows: Iterable[Any]) -> str:
    """Return rows as one JSON text.

    Raises:
        RowError: A text holds a NUL character. Before 3.45 SQLite cuts a JSON text there, which
            would make two different ids equal. (Bodies may hold what they like.)
    """
    try:
        text = _encoder.encode(rows).decode()
    except (TypeError, ValueError, OverflowError) as error:
        raise RowError(f"a value cannot be stored: {error}") from error
    if "\\u0000" in text and any("\0" in value for value in _texts(rows)):
        raise RowError("an id, key or name holds a NUL character")
    return text


def unpack(text: str) -> list[Any]:
    """Return the rows behind a JSON text made by SQLite."""
    rows: list[Any] = _decoder.decode(text)
    return rows


def text_of(value: str | bytes | None) -> str | None:
    """Return free text, which is stored as UTF-8 where a text cannot hold NUL."""
    return value.decode() if isinstance(value, bytes) else value


def cut(blob: bytes | None, lengths: Iterable[int]) -> list[bytes]:
    """Cut a blob into the bodies it was made of."""
    blob = blob or b""
    bodies = []
    begin = 0
    for length in lengths:
        bodies.append(blob[begin : begin + length])
        begin += length
    assert begin == len(blob), "the lengths do not add up to the blob"
    return bodies


def _texts(rows: Iterable[Any]) -> Iterable[str]:
    for row in rows:
        if isinstance(row, str):
            yield row
        elif isinstance(row, list | tuple):
            yield from _texts(row)
        elif isinstance(row, RowValues):
            yield from _texts(msgspec.structs.astuple(row))
