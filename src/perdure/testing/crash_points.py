"""Run a test again and again, each time with a worker that dies at another moment.

A test that passes without a crash must pass with one, and leave the same behind: durable code does
not notice. What shows are activities that may not run twice, and code that cannot be replayed.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from perdure.authoring.registry import GivenDefinitions, Registry
from perdure.errors import UsageError
from perdure.model.admin import InstanceFilter
from perdure.model.streams import StoredItem
from perdure.store.base import Store
from perdure.testing.mortal_store import CommitCount, CrashPoint, Moment
from perdure.testing.trial import Trial

MAX_RUNS = 300
"""How many crash points are tried at most; of more, so many are drawn."""

MAX_COMPARED = 10_000
"""How many instances of a test are compared."""


def crash_everywhere(
    test: Callable[[Trial], Awaitable[None]],
    definitions: GivenDefinitions,
    /,
    *,
    max_runs: int = MAX_RUNS,
    seed: int = 0,
) -> None:
    """Run a test again and again, with a crash after each turn and before and after each commit.

    The first run, without a crash, counts the commits of the worker. Each further one must pass as
    well, and leave the same outcomes, values, reports and calls of activities. Further attempts are
    what a crash costs: a test that counts calls counts their `idempotency_key`s.

    Args:
        test: Is handed an open trial, and makes everything anew that it needs.
        definitions: What the trial is given.
        max_runs: How many crash points are tried at most. Of more, so many are drawn.
        seed: Of what is drawn; it is also that of the trials.

    Raises:
        AssertionError: A run ends otherwise; it names the crash point.
        UsageError: A loop runs here already.
    """
    if asyncio._get_running_loop() is not None:
        raise UsageError(
            "crash_everywhere(...) runs a loop of its own: call it in a test that is not async, or "
            "mark the async test of a trial with @pytest.mark.crash_everywhere"
        )
    asyncio.run(crash_at_each(test, definitions, max_runs=max_runs, seed=seed))


async def crash_at_each(
    test: Callable[[Trial], Awaitable[None]],
    definitions: GivenDefinitions,
    *,
    max_runs: int = MAX_RUNS,
    seed: int = 0,
) -> None:
    """Do what `crash_everywhere` does, on a loop that runs already."""
    if max_runs < 1:
        raise UsageError(f"max_runs must be at least 1, got {max_runs}")
    registry = Registry(definitions)
    count = CommitCount()
    expected = await _run(test, registry, count, seed)
    points = [CrashPoint(moment, n + 1) for n in range(count.commits) for moment in Moment]
    if len(points) > max_runs:
        points = sorted(random.Random(seed).sample(points, max_runs), key=points.index)
    for point in points:
        await _crash_at(point, test, registry, expected, seed)


async def _crash_at(
    point: CrashPoint,
    test: Callable[[Trial], Awaitable[None]],
    registry: Registry,
    expected: LeftBehind,
    seed: int,
) -> None:
    try:
        left = await _run(test, registry, CommitCount(point), seed)
    except Exception as error:
        raise AssertionError(
            f"the test passes, and fails when the worker dies {point} (seed {seed}): "
            f"{type(error).__name__}: {error}"
        ) from error
    for what, before, after in zip(LeftBehind._fields, expected, left, strict=True):
        if before != after:
            raise AssertionError(
                f"when the worker dies {point} (seed {seed}), other {what} are left: "
                f"{_difference(before, after)}"
            )


class LeftBehind(NamedTuple):
    """What a run of a test leaves."""

    instances: Mapping[str, Any]
    """Status and output, by id."""
    values: Mapping[str, Any]
    """What instances keep by key."""
    reports: Mapping[str, Any]
    streams: Mapping[str, Any]
    """What counts of the items that they and their activities have sent, in no order."""
    calls: Mapping[str, int]
    """How many there were, however often each was tried, by activity, instance and arguments."""


async def _run(
    test: Callable[[Trial], Awaitable[None]], registry: Registry, count: CommitCount, seed: int
) -> LeftBehind:
    async with Trial._counting(registry, count, seed=seed) as trial:
        running = test(trial) if callable(test) else None
        if not inspect.isawaitable(running):
            raise UsageError(
                f"crash_everywhere(...) takes an async function of a trial, got {test!r}"
            )
        await running
        await trial.settle()
        return await _outcome(trial)


async def _outcome(trial: Trial) -> LeftBehind:
    store = trial._core.store
    rows = await store.admin.list_instances(InstanceFilter(), limit=MAX_COMPARED)
    ids = sorted(row.instance_id for row in rows)
    reports = await store.admin.read_reports(ids) if ids else []
    calls = Counter(
        f"{name} of {_without_luck(made.instance_id)!r} with {dict(made.arguments)!r}"
        for name, all_made in trial._world.fakes.all_calls().items()
        for made in {made.idempotency_key: made for made in all_made}.values()
    )
    return LeftBehind(
        _by_id(
            (row.instance_id, (row.name, row.status.value, row.output, row.reason)) for row in rows
        ),
        _by_id([(one, await _values(store, one)) for one in ids]),
        _by_id(zip(ids, (one and one.value for one in reports), strict=True)),
        _by_id([(one, await _items(store, one)) for one in ids]),
        calls,
    )


async def _values(store: Store, instance_id: str) -> dict[str, bytes]:
    return {key: row.value for key, row in (await store.admin.read_kv(instance_id, None)).items()}


async def _items(store: Store, instance_id: str) -> dict[str, list[bytes]]:
    """Return what counts of the streams of an instance, in no order: what is sent at the same time,
    by two activities or two pages of items, may come in another one after a crash."""
    found: dict[str, list[bytes]] = {}
    for head in await store.streams.read_stream_heads(instance_id):
        after, sent = 0, list[StoredItem]()
        while True:
            page = await store.streams.read_stream(instance_id, head.stream, after=after, limit=100)
            if page is None or not page.items:
                break
            for item in page.items:
                if item.discards_from is None:
                    sent.append(item)
                else:
                    sent = [one for one in sent if one.index < item.discards_from]
            after = page.items[-1].index
        found[head.stream] = sorted(item.body for item in sent if item.body is not None)
    return {stream: bodies for stream, bodies in found.items() if bodies}


def _by_id(found: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    """Return what there is of instances by id; several of one orchestration may have none."""
    by_id: dict[str, list[Any]] = {}
    for instance_id, one in found:
        by_id.setdefault(_without_luck(instance_id), []).append(one)
    return {instance_id: sorted(some, key=repr) for instance_id, some in by_id.items()}


_MADE_ID = re.compile(r"-[0-9a-f]{21}(?=/|$)")
"""The end of an id that `start` has made because the test gave none: time and luck."""


def _without_luck(instance_id: str) -> str:
    return _MADE_ID.sub("-…", instance_id)


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the first thing that differs."""
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            return f"{name}: {after.get(name)!r} instead of {before.get(name)!r}"
    return "nothing"
