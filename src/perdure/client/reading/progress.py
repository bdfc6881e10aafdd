"""How far an activity is that says its progress as a part of a whole: one reading of it for the
terminal and the pages."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

from perdure.codec import Json


class Portion(NamedTuple):
    """A part of a whole."""

    done: float
    total: float
    is_counted: bool
    """Whether both were said; if not, only which part of the whole is done."""

    @property
    def fraction(self) -> float:
        """Which part is done, from 0 to 1."""
        return self.done / self.total

    def __str__(self) -> str:
        if self.is_counted:
            return f"{self.done:,} of {self.total:,}"
        return f"{self.fraction:.0%}"


def read_portion(value: Json) -> Portion | None:
    """Return the progress of an activity as a part of a whole; None if it is something else.

    It is one if it is a number from 0 to 1, `[done, total]`, or an object with `done` and `total`,
    or `done` and `of`.
    """
    match value:
        case {"done": done, "total": int() | float() as total}:
            is_counted = True
        case {"done": done, "of": total} | [done, total]:
            is_counted = True
        case _:
            done, total, is_counted = value, 1, False
    if not _is_number(done) or not _is_number(total) or not 0 <= done <= total or not total:
        return None
    return Portion(done, total, is_counted)


def _is_number(value: Json) -> bool:
    """Return whether it is a number that can be divided."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return isfinite(value)
    except OverflowError:
        return False  # An integer beyond all floats.
