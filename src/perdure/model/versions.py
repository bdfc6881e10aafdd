"""Semantic versions: which comes before which, and which lie in a range.

Order follows semver.org: a pre-release comes before its release, numbers in it are compared as
numbers, and build metadata says nothing about order.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from perdure.limits import MAX_VERSION_CHARS as MAX_VERSION_CHARS

_NUMBER = r"(?:0|[1-9][0-9]*)"
_MARK = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_MARK}(?:\.{_MARK})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)

Precedence: TypeAlias = tuple[Any, ...]
"""What versions are ordered by. Equal for versions that differ in build metadata only."""

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def is_version(text: str) -> bool:
    """Return whether a text is a semantic version such as '1.0.0' or '2.0.0-rc.1+build.5'."""
    return len(text) <= MAX_VERSION_CHARS and _SEMVER.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def precedence(version: str) -> Precedence:
    """Return what a version is ordered by.

    Raises:
        ValueError: It is not a semantic version.
    """
    found = _SEMVER.fullmatch(version) if len(version) <= MAX_VERSION_CHARS else None
    if found is None:
        raise ValueError(f"{version!r} is not a semantic version such as '1.0.0'")
    major, minor, patch, marks, _ = found.groups()
    numbers = (int(major), int(minor), int(patch))
    if marks is None:
        return (*numbers, 1, ())
    return (*numbers, 0, tuple(_mark(mark) for mark in marks.split(".")))


def _mark(mark: str) -> tuple[int, int, str]:
    """Numbers come before words; among themselves they are compared as numbers."""
    return (0, int(mark), "") if mark.isdigit() else (1, 0, mark)


def is_older(version: str, than: str) -> bool:
    """Return whether a version comes before another.

    Raises:
        ValueError: One is not a semantic version.
    """
    return precedence(version) < precedence(than)


def ascending(versions: Iterable[str]) -> list[str]:
    """Return versions from the lowest to the highest; those of equal rank in order of their text,
    so that the answer never depends on the order they came in."""
    return sorted(versions, key=lambda version: (precedence(version), version))


class _Condition(NamedTuple):
    holds: Callable[[Any, Any], bool]
    than: Precedence


class VersionRange:
    """Which versions: conditions such as `>=1.2.0,<2.0.0` that must all hold.

    A bound may leave out its last numbers: `<2` means `<2.0.0`. Pre-releases are ordinary versions
    here: `<2` has 2.0.0-rc.1 in it, since that comes before 2.0.0.
    """

    def __init__(self, text: str) -> None:
        """Read a range.

        Raises:
            ValueError: It is not one; the message names the text.
        """
        self.text = text
        self._conditions = [self._read(part.strip()) for part in text.split(",")]

    def __contains__(self, version: str) -> bool:
        found = precedence(version)
        return all(condition.holds(found, condition.than) for condition in self._conditions)

    def __repr__(self) -> str:
        return f"VersionRange({self.text!r})"

    def _read(self, part: str) -> _Condition:
        sign = next((sign for sign in _COMPARISONS if part.startswith(sign)), None)
        if sign is None:
            raise ValueError(
                f"version range {self.text!r}: {part!r} does not begin with one of "
                f"{', '.join(_COMPARISONS)}"
            )
        bound = part[len(sign) :].strip()
        for missing in ("", ".0", ".0.0"):
            if is_version(bound + missing):
                return _Condition(_COMPARISONS[sign], precedence(bound + missing))
        raise ValueError(
            f"version range {self.text!r}: {bound!r} is not a semantic version such as '1.2.0'"
        )
