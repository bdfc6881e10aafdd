"""Filter words: which instances, as a person types it: `name:checkout status:failed since:2h`.

The same words wherever instances are chosen by typing. Each becomes a condition of
`client.instances`, and all of them must hold. Nothing is asked of a store here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, cast

from perdure.client.reading.lists import InstanceQuery, list_filter_of
from perdure.durations import parse_duration
from perdure.errors import UsageError

FILTER_WORDS: dict[str, tuple[str, str]] = {
    "id": ("ids", "these ids, with commas between them"),
    "name": ("name", "the definition's name"),
    "version": ("version", "the version on record"),
    "status": (
        "status",
        "running, blocked, parked, completed, failed, cancelled, terminated; several with commas",
    ),
    "prefix": ("prefix", "how the id begins"),
    "since": ("created_after", "started since then: 2h (ago), 2026-11-15, 2026-11-15T09:30"),
    "before": ("created_before", "started before then"),
    "ended-before": ("ended_before", "ended before then"),
    "parent": ("parent", "the id of the instance that started them"),
    "tag": ("tag", "with an open job of this tag"),
    "waits": (
        "waits",
        "running, and waiting for a signal, update, promise, activity, child or timer, or for "
        "something of this name; to list, not to count",
    ),
    "roots": ("roots_only", "yes: no children"),
}
"""The words, each with the condition of `client.instances` that it is and what it means."""

_LISTS = ("id", "status")
"""Words that may name several values, and be given several times."""


def parse_filter(text: str | Iterable[str], *, now: datetime) -> InstanceQuery:
    """Return the conditions that a person typed, checked; none for an empty text.

    Args:
        text: Words with spaces between them, or the words. A value with a space is in quotes:
            `name:"two words"`.
        now: What `2h` counts back from.

    Raises:
        UsageError: A word is unknown, given twice, or has a value that it cannot have.
    """
    query: dict[str, Any] = {}
    for word in _split(text):
        key, colon, value = word.partition(":")
        if not colon or key not in FILTER_WORDS:
            raise UsageError(_unknown(word, key, has_colon=bool(colon)))
        if not value.strip(","):
            raise UsageError(f"filter word {word!r} has no value: write {key}:VALUE")
        condition = FILTER_WORDS[key][0]
        if key in _LISTS:
            query.setdefault(condition, []).extend(filter(None, value.split(",")))
        elif condition in query:
            raise UsageError(f"filter word {word!r}: {key} is given twice, and both cannot hold")
        else:
            query[condition] = _reader_of(condition)(word, value, now)
    found = cast(InstanceQuery, query)
    list_filter_of(found)
    return found


def parse_time(text: str, *, now: datetime, what: str = "time") -> datetime:
    """Return a point in time that a person wrote.

    Args:
        text: How long ago (`2h`), a day (`2026-11-15`) or a time of it (`2026-11-15T09:30`), in UTC
            unless it names its zone (`2026-11-15T09:30+01:00`).
        now: What a length of time counts back from.
        what: What it is for, for the error.

    Raises:
        UsageError: It is not one.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - parse_duration(text)
        except (UsageError, OverflowError):
            raise UsageError(
                f"{what} {text!r} is no point in time: write how long ago (30s, 2h, 7d), a day "
                "(2026-11-15) or a time in UTC (2026-11-15T09:30)"
            ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


# ------------------------------------------------------------------------ inside


def _split(text: str | Iterable[str]) -> list[str]:
    if not isinstance(text, str):
        return [word for one in text for word in _split(one)]
    try:
        return shlex.split(text)
    except ValueError:
        raise UsageError(f"filter {text!r} has a quote that is not closed") from None


def _reader_of(condition: str) -> Callable[[str, str, datetime], Any]:
    if condition in ("created_after", "created_before", "ended_before"):
        return lambda word, value, now: parse_time(value, now=now, what=f"filter word {word!r}:")
    if condition == "roots_only":
        return _yes_or_no
    return lambda word, value, now: value


def _yes_or_no(word: str, value: str, now: datetime) -> bool:
    if value not in ("yes", "no"):
        raise UsageError(f"filter word {word!r} must have the value yes or no")
    return value == "yes"


def _unknown(word: str, key: str, *, has_colon: bool) -> str:
    known = ", ".join(f"{one}:" for one in FILTER_WORDS)
    if has_colon:
        return f"there is no filter word {key + ':'!r} (in {word!r}); known: {known}"
    return (
        f"{word!r} is no filter word: write WORD:VALUE, as in prefix:{word} for ids that begin "
        f"like this; known: {known}"
    )
