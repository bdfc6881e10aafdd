"""Keys and queries: what an instance shows without being asked, and what is computed by replay."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Key, Query, Signal, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.errors import InstanceNotFoundError, PayloadError, UsageError
from tests.engine.stage import Stage, kinds, options, until

number = Signal("number", int)
total = Key("total", int)
missing = Key("missing", int)
seen = Query("seen", list[int])
later = Query("later", str)


@activity
async def double(value: int) -> int:
    return 2 * value


@orchestration
async def adds(count: int) -> int:
    values: list[int] = []
    seen.answer_with(lambda: values)
    for _ in range(count):
        values.append(await double(await number.receive()))
        total.set(total.get(0) + values[-1])
        later.answer_with(lambda: f"{len(values)} of {count}")
    missing.set(1)
    missing.delete()
    missing.delete()
    assert missing.get() is None
    return total.get(0)


@orchestration
async def careless() -> None:
    """Its view changes what it reads, and has the wrong type."""
    values = [1]
    wrong: Any = seen
    seen.answer_with(lambda: [values.append(2), values][1] or [])  # type: ignore[func-returns-value]
    Query("odd", int).answer_with(lambda: wrong)
    await number.receive()


ALL: list[Defined] = [double, adds, careless]


@pytest.fixture(params=["hot", "cold"])
def worker(request: pytest.FixtureRequest) -> Any:
    return options() if request.param == "hot" else options(hot_instances=0)


async def test_a_key_is_read_from_outside_while_it_runs_and_after(
    stage: Stage, worker: Any
) -> None:
    engine = await stage.engine(ALL, options=worker)
    client = await stage.client()
    handle = await engine.start("a", adds, 2)
    assert await handle.kv(total) is None

    await handle.send(number, 3)
    assert await client.handle("a").wait_kv(total) == 6
    await handle.send(number, 4)

    assert await handle.result() == 14
    assert await client.handle("a").kv(total) == 14
    assert await client.handle("a").kv() == {"total": 14}
    assert await handle.wait_kv(missing) is None


async def test_a_value_set_after_a_time_is_waited_for(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("a", adds, 2)
    await handle.send(number, 3)
    assert await handle.wait_kv(total) == 6
    rows = await engine._core.store.admin.read_kv("a", "total")

    await handle.send(number, 4)

    newer = await handle.wait_kv(total, after=rows["total"].updated_ms)
    assert newer in (14, None)  # None: both were set in one millisecond, and it has ended
    assert await handle.result() == 14
    assert await handle.wait_kv(total, after=2**62) is None


async def test_a_value_of_another_type_is_refused(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("a", adds, 1)
    await handle.send(number, 3)
    await handle.result()

    with pytest.raises(PayloadError):
        await handle.kv(Key("total", str))
    with pytest.raises(UsageError, match="only inside an orchestration"):
        total.set(3)
    with pytest.raises(UsageError, match="only inside an orchestration"):
        total.get()


async def test_a_query_sees_variables_now_then_and_after_the_end(stage: Stage, worker: Any) -> None:
    engine = await stage.engine(ALL, options=worker)
    handle = await engine.start("a", adds, 3)
    assert await handle.ask(seen) == []
    for value in (1, 2, 3):
        await handle.send(number, value)

    assert await handle.result() == 12

    history = await handle.history()
    assert await handle.ask(seen) == [2, 4, 6]
    assert await handle.ask(later) == "3 of 3"
    sets = [event.seq for event in history if event.kind == "kv_set"]
    assert [await handle.ask(seen, at=seq) for seq in sets[:3]] == [[2], [2, 4], [2, 4, 6]]
    assert await handle.ask(seen, at=1) == []
    assert kinds(await handle.history()) == kinds(history)


async def test_a_view_that_changes_something_changes_nothing(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c", careless)

    answers = [await handle.ask(seen) for _ in range(3)]

    assert answers == [[1, 2]] * 3
    counted = engine.telemetry.snapshot()
    asked = counted.value("perdure_client_queries_total", orchestration="careless", version="1.0.0")
    assert asked == 3
    with pytest.raises(PayloadError, match="query 'odd'"):
        await handle.ask(Query("odd", int))
    await handle.send(number, 1)
    await handle.result()


async def test_what_cannot_be_asked_says_why(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    handle = await engine.start("a", adds, 1)
    await until(lambda: _has_begun(handle))

    with pytest.raises(UsageError, match=r"has not said yet how to answer query 'later'"):
        await handle.ask(later)
    with pytest.raises(UsageError, match="has no event 99"):
        await handle.ask(seen, at=99)
    with pytest.raises(UsageError, match="let the orchestration set a Key"):
        await client.handle("a").ask(seen)
    with pytest.raises(InstanceNotFoundError):
        await engine.handle("nowhere").ask(seen)
    with pytest.raises(UsageError, match="is not a query"):
        await handle.ask("seen")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="inside an orchestration"):
        seen.answer_with(lambda: [])


async def _has_begun(handle: Any) -> bool:
    return bool(await handle.history())
