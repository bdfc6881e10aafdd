"""What a store has done, as plain numbers for benchmarks and metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreCounters:
    """Counted by the writing thread only; all threads may read."""

    transactions: int = 0
    """Committed."""
    operations: int = 0
    """Turns, starts, messages, job ends, holds, claims and so on that were in them."""
    statements: int = 0
    """Run in them, BEGIN and COMMIT included."""
    rows: int = 0
    """Inserted, updated or deleted by the commits of instances."""
    halvings: int = 0
    """Batches that were halved to find a value that the database refused."""
    retries: int = 0
    """Batches that were tried again because the database was locked, full or read-only."""

    def add(self, other: StoreCounters) -> None:
        """Count what another has counted too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
