"""Filter words and lengths of time, as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.client.reading.filters import FILTER_WORDS, parse_filter
from perdure.client.reading.lists import InstanceQuery, filter_of
from perdure.durations import parse_duration, shown_duration
from perdure.errors import UsageError

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", {}),
        ("name:fulfil", {"name": "fulfil"}),
        ('name:"two words"', {"name": "two words"}),
        ("status:failed,parked status:blocked", {"status": ["failed", "parked", "blocked"]}),
        ("id:a,b", {"ids": ["a", "b"]}),
        ("prefix:order: parent:p", {"prefix": "order:", "parent": "p"}),
        ("since:2h", {"created_after": NOW - timedelta(hours=2)}),
        ("before:2026-11-15", {"created_before": datetime(2026, 11, 15, tzinfo=UTC)}),
        (
            "ended-before:2026-11-15T10:00+01:00",
            {"ended_before": datetime(2026, 11, 15, 9, tzinfo=UTC)},
        ),
        ("waits:signal", {"waits": "signal"}),
        ("tag:gpu version:1.2.0 roots:yes", {"tag": "gpu", "version": "1.2.0", "roots_only": True}),
    ],
)
def test_words_are_conditions(text: str, query: InstanceQuery) -> None:
    assert parse_filter(text, now=NOW) == query
    assert parse_filter(text.split() if '"' not in text else [text], now=NOW) == query


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("order", "'order' is no filter word: write WORD:VALUE, as in prefix:order"),
        ("colour:red", "there is no filter word 'colour:' (in 'colour:red'); known: id:, name:"),
        ("status:sad", "there is no status 'sad'; known: running"),
        ("since:soon", "'soon' is no point in time: write how long ago (30s, 2h, 7d)"),
        ("since:9999999w", "'9999999w' is no point in time"),
        ("name:", "filter word 'name:' has no value"),
        ("id:,", "filter word 'id:,' has no value"),
        ("name:a name:b", "name is given twice"),
        ("roots:perhaps", "must have the value yes or no"),
        ('name:"a', "has a quote that is not closed"),
        ("name:a\x00b", "name"),
    ],
)
def test_a_bad_word_is_named_with_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        parse_filter(text, now=NOW)


def test_every_word_is_a_condition_of_its_own() -> None:
    conditions = [condition for condition, _ in FILTER_WORDS.values()]

    assert sorted(conditions) == sorted(InstanceQuery.__annotations__)
    assert filter_of({}) == filter_of(parse_filter("", now=NOW))


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("500ms", {"milliseconds": 500}),
        ("30s", {"seconds": 30}),
        ("1.5h", {"minutes": 90}),
        ("1h30m", {"minutes": 90}),
        ("2d", {"days": 2}),
        ("1w", {"days": 7}),
    ],
)
def test_lengths_of_time_are_read(text: str, length: dict[str, Any]) -> None:
    assert parse_duration(text) == timedelta(**length)


@pytest.mark.parametrize("text", ["", "3", "s", "3 s", "-3s", "3y", "3s!", "1e3s", "9999999w"])
def test_what_is_no_length_of_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--timeout {text!r} is ")):
        parse_duration(text, what="--timeout")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.004, "4 ms"),
        (2.34, "2.3 s"),
        (59, "59 s"),
        (75, "1 m 15 s"),
        (3_600, "1 h"),
        (11_520, "3 h 12 m"),
        (90_000, "1 d 1 h"),
        (-75, "-1 m 15 s"),
    ],
)
def test_lengths_of_time_are_shown_by_their_two_largest_units(seconds: float, shown: str) -> None:
    assert shown_duration(timedelta(seconds=seconds)) == shown
