"""Every limit: one more than it allows is refused, with its value in the error."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Activity, Stream, WorkerOptions, activity, context, for_each, orchestration
from perdure import limits as module
from perdure.authoring.failures import describe
from perdure.client.reading.lists import check_limit
from perdure.codec import check_id, check_text, value_codec
from perdure.errors import PerdureError
from perdure.limits import (
    HISTORY_WARNING_BYTES,
    HISTORY_WARNING_EVENTS,
    MAX_CAUSE_CHARS,
    MAX_CAUSES_KEPT,
    MAX_DEPTH,
    MAX_FAILURES_KEPT,
    MAX_ID_BYTES,
    MAX_INT_DIGITS,
    MAX_KV_KEYS,
    MAX_KV_VALUE_BYTES,
    MAX_MESSAGE_CHARS,
    MAX_OPEN_CALLS,
    MAX_PAYLOAD_BYTES,
    MAX_REPORT_BYTES,
    MAX_TAG_BYTES,
    MAX_TAGS,
    MAX_TRACEBACK_CHARS,
    MAX_VERSION_CHARS,
    PAGE_MAX,
)
from perdure.model.histories.events import Failure
from perdure.model.jobs import JobFailures
from tests.core.harness import Script

TESTS = Path(__file__).parent


@activity
async def say(word: str) -> str:
    return word


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def run_inside(use: Callable[[], object]) -> None:
    """Run something inside an orchestration, and raise what it raises there."""
    raised: list[BaseException] = []

    @orchestration
    async def uses() -> None:
        try:
            use()
        except BaseException as error:
            raised.append(error)

    Script(uses)
    if raised:
        raise raised[0]


def define_version(size: int) -> None:
    version = f"1.0.0-{'x' * (size - 6)}"

    @orchestration(version=version)
    async def versioned() -> None: ...


def keep_keys(count: int) -> None:
    def use() -> None:
        for number in range(count):
            context().kv[f"key {number}"] = number

    run_inside(use)


def open_timers(count: int) -> None:
    def use() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(count):
            loop.call_later(60, print)

    run_inside(use)


def text(size: int) -> str:
    """Return a text that is so long as JSON."""
    return "x" * (size - 2)


def _for_each(items: list[int], **options: Any) -> None:
    run_inside(lambda: for_each(Activity.named("done", int), items, **options).close())


REFUSED: dict[str, Callable[[int], object]] = {
    "MAX_ID_BYTES": lambda size: check_id("instance id", "x" * size),
    "MAX_TEXT_BYTES": lambda size: check_text("reason", "x" * size),
    "MAX_VERSION_CHARS": define_version,
    "MAX_PAYLOAD_BYTES": lambda size: value_codec(str).encode(text(size), "value"),
    "MAX_DEPTH": lambda depth: value_codec(list[Any]).encode(nested(depth), "value"),
    "MAX_INT_DIGITS": lambda digits: value_codec(int).encode(10 ** (digits - 1), "value"),
    "MAX_OPEN_CALLS": open_timers,
    "MAX_KV_KEYS": keep_keys,
    "MAX_KV_VALUE_BYTES": lambda size: run_inside(
        lambda: context().kv.__setitem__("key", text(size))
    ),
    "MAX_ITEM_BYTES": lambda size: run_inside(lambda: Stream("s", str).send(text(size))),
    "MAX_REPORT_BYTES": lambda size: run_inside(lambda: context().report(text(size))),
    "MAX_TAGS": lambda count: WorkerOptions(tags=[f"tag {number}" for number in range(count)]),
    "MAX_TAG_BYTES": lambda size: WorkerOptions(tags=["x" * size]),
    "PAGE_MAX": check_limit,
    "MAX_PAGES_AT_ONCE": lambda count: _for_each([1] * count, page_size=1),
    "MAX_PAGE_SIZE": lambda size: _for_each([], page_size=size),
    "MAX_PAGES_UNDER_WAY": lambda count: _for_each([], pages=count),
}
"""By limit: what is done so often, or so large."""

ELSEWHERE = {
    "MAX_BACKFILLS": "core/test_schedules.py",
    "MAX_BACKFILL_SLOTS": "core/test_schedules.py",
    "MAX_SCHEDULE_RUNS": "core/test_schedules.py",
    "SLOTS_PER_TURN": "core/test_schedules.py",
    "MAX_CHILD_DEPTH": "engine/test_runaway.py",
    "MAX_TREE_SHOWN": "engine/test_engine_limits.py",
    "MAX_EXECUTIONS_SEARCHED": "engine/test_crossing.py",
    "MAX_DETAILS_BYTES": "engine/test_engine_limits.py",
    "BULK_MAX": "engine/test_engine_limits.py",
    "MAX_LABEL_SETS": "test_telemetry.py",
    "MAX_UNFLUSHED_BYTES": "engine/test_streams.py",
    "STREAM_WARNING_ITEMS": "jobs/test_sending.py",
    "HISTORY_WARNING_EVENTS": "engine/test_retention.py",
    "HISTORY_WARNING_BYTES": "engine/test_retention.py",
}
"""Limits that need an engine, or only warn, and the file that shows them."""

CUT_SHORT = {
    "MAX_CAUSES_KEPT",
    "MAX_CAUSE_CHARS",
    "MAX_FAILURES_KEPT",
    "MAX_MESSAGE_CHARS",
    "MAX_TRACEBACK_CHARS",
}
"""Limits that refuse nothing: what is beyond them is left out."""

TOO_SLOW = {"MAX_OPEN_CALLS": ("perdure.core.orchestrations.calls.MAX_OPEN_CALLS", 50)}
"""Limits that would take seconds to reach, and what they are set to here."""


def all_limits() -> dict[str, int]:
    return {name: value for name, value in vars(module).items() if name.isupper()}


@pytest.mark.parametrize("name", REFUSED)
def test_one_more_than_a_limit_is_refused_and_the_error_names_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = all_limits()[name]
    if name in TOO_SLOW:
        place, limit = TOO_SLOW[name]
        monkeypatch.setattr(place, limit)
    do = REFUSED[name]
    do(limit)

    with pytest.raises((PerdureError, ValueError)) as refusal:
        do(limit + 1)

    said = str(refusal.value)
    assert str(limit) in said.replace(",", ""), said


def test_every_limit_has_a_test() -> None:
    assert set(all_limits()) == {*REFUSED, *ELSEWHERE, *CUT_SHORT}


@pytest.mark.parametrize(("name", "file"), ELSEWHERE.items())
def test_a_limit_that_is_tested_elsewhere_is_named_there(name: str, file: str) -> None:
    assert name in (TESTS / file).read_text()


def test_every_limit_says_what_it_limits() -> None:
    body = ast.parse(Path(module.__file__).read_text()).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign):
            assert isinstance(after, ast.Expr), ast.unparse(node)


def test_the_limits_are_those_that_are_promised() -> None:
    """R1, R2, R3, R7, R8, SEC-13 and SEC-17 of the invariants; the others are duroxide's."""
    assert (HISTORY_WARNING_EVENTS, HISTORY_WARNING_BYTES) == (10_000, 10_000_000)
    assert MAX_PAYLOAD_BYTES == 2 * 1024 * 1024
    assert MAX_OPEN_CALLS == 100_000
    assert (MAX_ID_BYTES, MAX_DEPTH, MAX_INT_DIGITS, PAGE_MAX) == (200, 200, 400, 500)
    assert (MAX_KV_KEYS, MAX_KV_VALUE_BYTES, MAX_REPORT_BYTES) == (150, 65_536, 262_144)
    assert (MAX_TAGS, MAX_TAG_BYTES, MAX_VERSION_CHARS) == (5, 200, 100)


def test_of_many_failures_the_first_and_the_newest_are_kept_and_all_are_counted() -> None:
    failures = JobFailures()
    for number in range(MAX_FAILURES_KEPT + 1):
        failures = failures.plus(Failure("Error", str(number)))

    kept = [failure.message for failure in failures.kept]
    assert len(kept) == MAX_FAILURES_KEPT
    assert (kept[0], kept[1], kept[-1]) == ("0", "2", str(MAX_FAILURES_KEPT))
    assert failures.count == MAX_FAILURES_KEPT + 1


def test_a_long_message_and_a_long_traceback_are_cut_short() -> None:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        else:
            raise ValueError("x" * (MAX_MESSAGE_CHARS + 1))

    with pytest.raises(ValueError, match="x") as raised:
        deep(3)

    failure = describe(raised.value)
    assert len(failure.message) == MAX_MESSAGE_CHARS
    assert len(failure.traceback_text) <= MAX_TRACEBACK_CHARS


def test_of_many_causes_the_nearest_are_kept_and_cut_short() -> None:
    error: Exception = ValueError("x" * (MAX_CAUSE_CHARS + 1))
    for number in range(MAX_CAUSES_KEPT):
        outer = KeyError(number)
        outer.__cause__ = error
        error = outer
    group = ExceptionGroup("many", [OSError("y" * (MAX_CAUSE_CHARS + 1)), error])

    failure = describe(group)

    kept, waiting = [], list(failure.causes)
    while waiting:
        cause = waiting.pop(0)
        kept.append(cause)
        waiting.extend(cause.causes)
    assert len(kept) == MAX_CAUSES_KEPT
    assert kept[0].message == "y" * MAX_CAUSE_CHARS
    assert kept[-1].type_name == "KeyError"
