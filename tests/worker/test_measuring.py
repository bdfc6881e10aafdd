from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.errors import StoreUnavailableError
from perdure.model.instances import DefinitionKey
from perdure.store.base import Store
from perdure.store.observer import Observer
from perdure.store.observing import NOT_OBSERVED, OPERATIONS, PARTS, observable, operations_of
from perdure.store.opening import open_store
from perdure.store.postgres.store import PostgresStore
from perdure.store.sql.admin import SqlAdmin
from perdure.store.sql.deciders import SqlDeciders
from perdure.store.sql.feed_store import SqlFeed
from perdure.store.sql.stream_store import SqlStreams
from perdure.store.sqlite.store import SqliteStore
from perdure.telemetry import Metrics, MetricsSnapshot

DURATION = "perdure_store_operation_duration_seconds"
ERRORS = "perdure_store_errors_total"


@observable(Store)
class Moody(Store):
    """A store that is busy, or fails."""

    def __init__(self) -> None:
        self.handed_in = 0
        self.observer: Observer | None = None
        self.future: asyncio.Future[Any] | None = None

    def commit(self, turns: Sequence[Any]) -> Any:
        self.handed_in += 1
        if not turns:
            raise StoreUnavailableError("closed")
        return self._answer(turns) if self.future is None else self.future

    async def _answer(self, turns: Sequence[Any]) -> list[Any]:
        if turns == ["bad"]:
            raise StoreUnavailableError("locked")
        if turns == ["slow"]:
            await asyncio.Event().wait()
        return list(turns)


def observer_of(metrics: Metrics) -> Observer:
    return Observer(metrics.store_duration.observe, metrics.store_errors.add)


def moody() -> tuple[Any, Metrics]:
    metrics = Metrics()
    store = Moody()  # type: ignore[abstract]  # what else there is, is not asked
    store.observer = observer_of(metrics)
    return store, metrics


def seen(now: MetricsSnapshot, status: str) -> int:
    found = now.distribution(DURATION, operation="commit", status=status)
    return 0 if found is None else found.count


async def test_an_operation_is_timed_once_and_its_answer_passed_on() -> None:
    store, metrics = moody()

    assert await store.commit(["a", "b"]) == ["a", "b"]

    now = metrics.snapshot()
    assert (seen(now, "ok"), seen(now, "error")) == (1, 0)
    assert now.value(ERRORS) == 0


@pytest.mark.parametrize("is_good", [True, False])
async def test_an_answer_that_a_future_brings_is_timed_when_it_is_there(is_good: bool) -> None:
    store, metrics = moody()
    store.future = asyncio.get_running_loop().create_future()

    answer = store.commit(["a"])

    assert answer is store.future
    assert (seen(metrics.snapshot(), "ok"), seen(metrics.snapshot(), "error")) == (0, 0)
    if is_good:
        store.future.set_result(["a"])
        assert await answer == ["a"]
    else:
        store.future.set_exception(StoreUnavailableError("locked"))
        with pytest.raises(StoreUnavailableError):
            await answer
    await asyncio.sleep(0)  # What is done already is not waited for.
    now = metrics.snapshot()
    assert (seen(now, "ok"), seen(now, "error")) == (int(is_good), int(not is_good))


async def test_an_answer_that_was_cancelled_is_not_told_of() -> None:
    store, metrics = moody()
    store.future = asyncio.get_running_loop().create_future()

    store.commit(["a"]).cancel()
    await asyncio.sleep(0)

    now = metrics.snapshot()
    assert (seen(now, "ok"), seen(now, "error")) == (0, 0)


async def test_a_commit_is_handed_in_when_it_is_called() -> None:
    store, _ = moody()

    answer = store.commit(["a"])

    assert store.handed_in == 1
    await answer


@pytest.mark.parametrize("turns", [[], ["bad"]], ids=["at once", "later"])
async def test_an_error_is_counted_by_its_class_and_passed_on(turns: list[str]) -> None:
    store, metrics = moody()

    with pytest.raises(StoreUnavailableError):
        await store.commit(turns)

    now = metrics.snapshot()
    assert now.value(ERRORS, operation="commit", error_type="StoreUnavailableError") == 1
    assert (seen(now, "ok"), seen(now, "error")) == (0, 1)


async def test_a_caller_that_goes_away_is_not_an_error() -> None:
    store, metrics = moody()
    waiting = asyncio.ensure_future(store.commit(["slow"]))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert metrics.snapshot().value(ERRORS) == 0


async def test_a_real_store_counts_what_it_does(store_url: str) -> None:
    metrics = Metrics()
    store = open_store(store_url)
    store.observer = observer_of(metrics)
    await store.open()
    try:
        [number] = await store.intern([DefinitionKey("activity", "charge", "")])
        assert (await store.definition(number)).name == "charge"
        await store.admin.totals()
        await store.deciders.read_snapshots([])
        await store.feed.feed_end()
        await store.streams.read_stream_heads("i")
    finally:
        await store.close()

    now = metrics.snapshot()
    for operation in ("intern", "totals", "read_snapshots", "feed_end", "read_stream_heads"):
        seen = now.distribution(DURATION, operation=operation, status="ok")
        assert seen is not None, operation
        assert seen.count == 1


def test_every_operation_of_the_contract_is_measured() -> None:
    promised = {
        name
        for contract in (Store, *PARTS.values())
        for kind in contract.__mro__
        for name, found in vars(kind).items()
        if inspect.isfunction(found) and not name.startswith("_")
    }

    assert promised - NOT_OBSERVED == set(OPERATIONS)


def test_no_operation_of_a_part_has_the_name_of_another() -> None:
    """Users see the names of operations in metrics, and not of which part they are."""
    names = [name for contract in (Store, *PARTS.values()) for name in operations_of(contract)]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("kind", "contract"),
    [
        (SqliteStore, Store),
        (PostgresStore, Store),
        (SqlAdmin, PARTS["admin"]),
        (SqlDeciders, PARTS["deciders"]),
        (SqlFeed, PARTS["feed"]),
        (SqlStreams, PARTS["streams"]),
    ],
)
def test_every_operation_of_a_store_is_measured_once(kind: type, contract: type) -> None:
    for name in operations_of(contract):
        operation = vars(kind)[name]

        assert not hasattr(operation.__wrapped__, "__wrapped__"), name


async def test_a_call_that_is_cancelled_before_it_begins_leaves_nothing_behind() -> None:
    store = open_store("sqlite://:memory:")
    store.observer = observer_of(Metrics())
    await store.open()
    task = asyncio.ensure_future(store.read_workers(seen_since_ms=0))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gc.collect()
    await store.close()

    assert [str(warning.message) for warning in warned] == []
