"""The statements of a batch that is decided before its transaction begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from perdure.errors import StoreError
from perdure.model.tables import Parameters
from perdure.store.sql.connection import Asked, Value


class UnknownError(StoreError):
    """A batch has to read something, and so cannot be one statement."""


class Writes:
    """Stands for a connection while it is decided what to write, and keeps that."""

    loaded_at_ms: int | None = None
    waits = True

    def __init__(self, *, locks: bool) -> None:
        self.locks = locks
        self.statements = 0
        self.kept: list[tuple[str, dict[str, Value]]] = []

    def write(self, name: str, /, **params: Value) -> None:
        """See `Connection`."""
        self.kept.append((name, params))

    def forget_writes(self) -> None:
        """See `Connection`."""
        self.kept = []

    def run(self, name: str, /, **params: Value) -> NoReturn:
        """See `Connection`."""
        raise UnknownError(name)

    def run_each(self, asked: Sequence[Asked]) -> NoReturn:
        """See `Connection`."""
        raise UnknownError(", ".join(name for name, _ in asked))

    def load(self, asked: Sequence[tuple[str, str]]) -> NoReturn:
        """See `Connection`."""
        raise UnknownError(", ".join(name for name, _ in asked))

    def change(self, name: str, /, **params: Value) -> NoReturn:
        """See `Connection`."""
        raise UnknownError(name)

    def run_own(self, text: str, parameters: Parameters) -> NoReturn:
        """See `Connection`."""
        raise UnknownError(text)

    def run_own_many(self, text: str, rows: Iterable[Parameters]) -> NoReturn:
        """See `Connection`."""
        raise UnknownError(text)

    def set_deadline(self, until_s: float | None) -> None:
        """See `Connection`. There is nothing to be ended."""

    def in_transaction(self) -> bool:
        """See `Connection`."""
        return False
