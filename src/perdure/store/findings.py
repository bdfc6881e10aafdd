"""What an examination of a store finds: `perdure doctor` shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    SKIPPED = "skipped"
    """Not looked at; the finding says why."""
    WARN = "warn"
    """Works, and an operator should look at it."""
    FAIL = "fail"
    """A promise is broken, or will be when the machine loses power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    check: str
    level: Level
    found: str
    advice: str = ""
    """What to do about it; empty if nothing."""


def ok(check: str, found: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(check=check, level=Level.OK, found=found)


def skipped(check: str, found: str, advice: str) -> Finding:
    """Return that something was not looked at."""
    return Finding(check=check, level=Level.SKIPPED, found=found, advice=advice)


def warn(check: str, found: str, advice: str) -> Finding:
    """Return that an operator should look at something."""
    return Finding(check=check, level=Level.WARN, found=found, advice=advice)


def fail(check: str, found: str, advice: str) -> Finding:
    """Return that a promise is broken, or will be."""
    return Finding(check=check, level=Level.FAIL, found=found, advice=advice)


def worst(findings: Iterable[Finding]) -> Level:
    """Return how bad the worst of them is."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)
