"""What `for_each` came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many items of a `for_each` are done, and how many have failed."""

    done: int
    failed: int
    failures: tuple[str, ...]
    """The first of the failures in words, 20 at most: which item, and why."""

    def __str__(self) -> str:
        first = f"; first: {self.failures[0]}" if self.failures else ""
        return f"{self.done:,} done, {self.failed:,} failed{first}"
