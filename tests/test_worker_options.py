"""Options of a worker are checked when they are made, and the error says which and what."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.model.options import Retention, WorkerOptions

NOTHING = timedelta(0)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"async_jobs": 0}, "async_jobs must be at least 1, got 0"),
        ({"max_sessions": -1}, "max_sessions must not be negative, got -1"),
        ({"session_lease": NOTHING}, "session_lease must be at least 100 ms, got 0:00:00"),
        (
            {"session_idle": timedelta(seconds=10)},
            "session_idle must be longer than a third of lease_for",
        ),
        ({"heartbeat_every": NOTHING}, "heartbeat_every must be longer than nothing, got 0:00:00"),
        ({"unserved_retry": -timedelta(1)}, "unserved_retry must be longer than nothing"),
        ({"unserved_retry": timedelta(hours=1)}, "unserved_retry_max 0:01:00 is shorter than"),
        ({"housekeeping_every": NOTHING}, "housekeeping_every must be longer than nothing"),
        ({"metrics_every": NOTHING}, "metrics_every must be longer than nothing"),
        ({"tags": "gpu"}, "got 'gpu'"),
        ({"tags": ("",)}, "tags must each have 1 to 200 bytes, got ''"),
        ({"tags": ("ü" * 101,)}, "tags must each have 1 to 200 bytes"),
        ({"tags": (3,)}, "tags must each have 1 to 200 bytes, got 3"),
        ({"tags": tuple("abcdef")}, "tags may name at most 5 tags"),
        ({"versions": {"checkout": "1.x"}}, "versions of 'checkout': version range '1.x'"),
        ({"prefer": {"checkout": "latest"}}, "prefer: 'latest' of 'checkout'"),
        ({"behaviours": (0, 1)}, "behaviours must be (lowest, highest), from 1 on, got (0, 1)"),
        ({"behaviours": (2, 1)}, "got (2, 1)"),
    ],
)
def test_an_option_that_cannot_work_is_refused_with_its_name_and_value(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        WorkerOptions(**changes)

    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["ended", "receipts", "unborn", "dead_jobs", "executions"])
def test_a_negative_retention_is_refused(name: str) -> None:
    value: Any = -1 if name == "executions" else -timedelta(1)

    with pytest.raises(ValueError, match=f"{name} must not be negative, got -1"):
        Retention(**{name: value})


def test_tags_are_kept_once_each_and_none_stands_for_untagged() -> None:
    assert WorkerOptions(tags=["gpu", None, "gpu"]).tags == ("gpu", None)
    assert WorkerOptions(tags=set()).tags == ()
    assert WorkerOptions(tags=(None, *"abcde")).tags == (None, *"abcde")


def test_options_do_not_follow_the_mappings_they_were_made_from() -> None:
    ranges = {"checkout": ">=1"}
    options = WorkerOptions(versions=ranges)

    ranges["checkout"] = "nonsense"

    assert options.versions == {"checkout": ">=1"}
