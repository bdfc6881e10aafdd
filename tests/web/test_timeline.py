"""A history as bars."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.client.reading.info import HistoryEvent
from perdure.clock import from_datetime
from perdure.web.pages.timeline import GAP_WIDTH, WIDTH, bars_of, drawn

START = datetime(2026, 11, 16, 9, 14, tzinfo=UTC)


def event(seq: int, kind: str, after_s: float, **data: Any) -> HistoryEvent:
    return HistoryEvent(seq=seq, kind=kind, at=START + timedelta(seconds=after_s), data=data)


def at_ms(after_s: float) -> int:
    return from_datetime(START + timedelta(seconds=after_s))


def failure(after_s: float) -> dict[str, Any]:
    return {"type_name": "OSError", "message": "502", "at_ms": at_ms(after_s)}


def test_each_attempt_is_a_segment_of_its_own() -> None:
    events = [
        event(1, "started", 0),
        event(2, "activity_scheduled", 0, name="charge"),
        event(3, "activity_completed", 3, schedule=2, failures=[failure(1), failure(2)]),
    ]

    [row] = drawn(bars_of(events), now=START, is_over=True)["rows"]

    assert [part["state"] for part in row["segments"]] == ["failed", "failed", "done"]
    assert [part["text"] for part in row["segments"]] == [
        "attempt 1: OSError: 502",
        "attempt 2: OSError: 502",
        "attempt 3",
    ]
    assert row["took"] == "3.0 s"


def test_a_call_that_failed_for_good_ends_with_its_last_failure() -> None:
    events = [
        event(2, "activity_scheduled", 0, name="charge"),
        event(3, "activity_failed", 2, schedule=2, failures=[failure(1), failure(2)]),
    ]

    [bar] = bars_of(events)

    assert (bar.state, len(bar.failures)) == ("failed", 1)


def test_a_long_silence_is_drawn_short() -> None:
    events = [
        event(2, "activity_scheduled", 0, name="a"),
        event(3, "activity_completed", 1, schedule=2),
        event(4, "activity_scheduled", 10_800, name="b"),
        event(5, "activity_completed", 10_801, schedule=4),
    ]

    picture = drawn(bars_of(events), now=START, is_over=True)

    first, second = (row["segments"][0] for row in picture["rows"])
    assert [cut["text"] for cut in picture["cuts"]] == ["2 h 59 m"]
    assert round(second["x"] - first["x"] - first["width"]) == GAP_WIDTH
    assert second["x"] + second["width"] <= WIDTH


def test_what_is_open_reaches_to_now() -> None:
    events = [event(2, "signal_awaited", 0, name="go")]

    [row] = drawn(bars_of(events), now=START + timedelta(seconds=5), is_over=False)["rows"]

    assert row["segments"][0]["state"] == "open"
    assert row["segments"][0]["width"] > WIDTH / 2
    assert row["took"] == ""


def test_a_timer_says_how_long_it_is() -> None:
    due_ms = from_datetime(START + timedelta(hours=25))

    [bar] = bars_of([event(2, "timer_scheduled", 0, due_ms=due_ms)])

    assert bar.label == "timer of 1 d 1 h"


def test_a_clock_that_went_back_draws_nothing_backwards() -> None:
    events = [
        event(2, "activity_scheduled", 5, name="a"),
        event(3, "activity_completed", 5, schedule=2, failures=[failure(1)]),
    ]

    [row] = drawn(bars_of(events), now=START, is_over=True)["rows"]

    assert all(part["width"] > 0 for part in row["segments"])


def test_a_part_of_a_history_without_its_beginning_is_drawn() -> None:
    events = [event(401, "activity_completed", 1, schedule=2), event(402, "completed", 1)]

    assert drawn(bars_of(events), now=START, is_over=True)["rows"] == []


def test_a_call_waits_in_its_queue_and_backs_off_between_attempts() -> None:
    first = {**failure(3), "began_ms": at_ms(1)}
    second = {**failure(7), "began_ms": at_ms(6)}
    bars = bars_of(
        [
            event(1, "activity_scheduled", 0, name="charge"),
            event(
                2, "activity_completed", 9, schedule=1, failures=[first, second], began_ms=at_ms(8)
            ),
        ]
    )

    [row] = drawn(bars, now=START, is_over=True)["rows"]

    assert [part["state"] for part in row["segments"]] == [
        *("waits", "failed", "backs-off", "failed", "backs-off", "done")
    ]
    assert row["segments"][0]["text"] == "waited in its queue"
    starts = [part["x"] for part in row["segments"]]
    assert starts == sorted(starts)


def test_the_last_attempt_of_a_call_that_failed_begins_after_its_back_off() -> None:
    failures = [{**failure(1), "began_ms": at_ms(0)}, {**failure(5), "began_ms": at_ms(4)}]
    [bar] = bars_of(
        [
            event(1, "activity_scheduled", 0, name="charge"),
            event(2, "activity_failed", 5, schedule=1, failures=failures),
        ]
    )

    [row] = drawn([bar], now=START, is_over=True)["rows"]

    assert [part["state"] for part in row["segments"]] == ["failed", "backs-off", "failed"]


def test_beginnings_of_a_clock_that_went_back_are_not_drawn() -> None:
    wrong = {**failure(2), "began_ms": at_ms(4)}
    [bar] = bars_of(
        [
            event(1, "activity_scheduled", 1, name="charge"),
            event(2, "activity_completed", 5, schedule=1, failures=[wrong], began_ms=at_ms(9)),
        ]
    )

    [row] = drawn([bar], now=START, is_over=True)["rows"]

    assert [part["state"] for part in row["segments"]] == ["failed", "done"]
