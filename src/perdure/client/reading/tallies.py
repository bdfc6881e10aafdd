"""How far a `for_each` is: the report of its coordinator, for people."""

from __future__ import annotations

import msgspec

from perdure.codec import Json


class ReportedTally(msgspec.Struct, frozen=True):
    """The report of a coordinator."""

    done: int
    failed: int
    failures: tuple[str, ...] = ()
    total: int | None = None

    @property
    def fraction(self) -> float | None:
        """Which part of the items is done or has failed, if it is known how many there are."""
        return None if not self.total else (self.done + self.failed) / self.total

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{self.done:,}{of} items done{failed}"


def read_tally(report: Json) -> ReportedTally:
    """Return a report as a tally."""
    return msgspec.convert(report, ReportedTally)


def shown_tally(report: bytes) -> str:
    """Return a stored report in words."""
    return str(msgspec.json.decode(report, type=ReportedTally))
