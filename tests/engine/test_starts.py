from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure import Orchestration, Signal, Status, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.errors import (
    AlreadyExistsError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    InvalidIdError,
    ResultTimeoutError,
)
from tests.engine.stage import SELDOM, Stage, idle, kinds, options, transactions, until, waits_for

go = Signal("go", str)


@activity
async def double(x: int) -> int:
    return 2 * x


@orchestration
async def doubled(x: int, extra: str = "") -> int:
    return await double(x)


DOUBLED: Orchestration[..., int] = Orchestration.named("doubled", int)


@orchestration
async def waiting(x: int = 0) -> str:
    return await go.receive()


@orchestration(name="waiting", version="2.0.0")
async def waiting_2(x: int = 0) -> str:
    return await go.receive()


ALL: list[Defined] = [double, doubled, waiting, waiting_2]


async def test_a_start_under_a_given_id_has_that_id(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    handle = await engine.start("d-1", doubled, 21)

    assert handle.instance_id == "d-1"
    assert await handle.result() == 42


async def test_a_start_without_an_id_gets_one_of_its_own(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    first = await engine.start(doubled, 1)
    second = await engine.start(doubled, 1)

    assert first.instance_id.startswith("doubled-")
    assert first.instance_id != second.instance_id
    assert [await first.result(), await second.result()] == [2, 2]


async def test_with_options_gives_the_id_too(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    handle = await engine.start(doubled.with_options(instance_id="d-7"), 1)

    assert handle.instance_id == "d-7"
    await handle.result()


async def test_every_kind_of_text_can_be_an_id(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    for instance_id in ("ü" * 100, "a/b c%_'; DROP TABLE live; --", "日本", "🦀", "x" * 200):
        handle = await engine.start(instance_id, doubled, 1)
        assert await handle.result() == 2
        assert (await handle.info()).instance_id == instance_id


async def test_an_impossible_id_is_refused_and_named(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    for instance_id, problem in (
        ("a\0b", "not allowed"),
        ("x" * 201, "200"),
        ("ü" * 101, "200"),
        ("", "1 to 200"),
        ("a\nb", "not allowed"),
    ):
        with pytest.raises(InvalidIdError, match=problem):
            await engine.start(instance_id, doubled, 1)
        with pytest.raises(InvalidIdError, match=problem):
            engine.handle(instance_id)


# ----------------------------------------------------------- an id that exists


async def test_an_equal_start_joins_a_live_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    first = await engine.start("w", waiting, 1)

    second = await engine.start("w", waiting, 1)
    await second.send(go, "on")

    assert await first.result() == "on"
    assert kinds(await first.history()).count("started") == 1


async def test_an_equal_start_joins_a_finished_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("d", doubled, 4)).result()

    again = await engine.start("d", doubled, 4)

    assert await again.result() == 8
    assert kinds(await again.history()).count("started") == 1


async def test_a_default_that_is_spelled_out_is_the_same_input(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await engine.start("d", doubled, 4)

    again = await engine.start("d", doubled, x=4)

    assert await again.result() == 8


async def test_a_start_with_the_code_and_one_by_name_are_equal_in_both_orders(stage: Stage) -> None:
    await stage.engine(ALL)
    client = await stage.client()

    for first, second in ((doubled, DOUBLED), (DOUBLED, doubled)):
        handle = await client.start(f"first by {first.is_elsewhere}", first, 4)
        await handle.result()  # Until it has begun, its version is open if it came by name.
        again = await client.start(handle.instance_id, second, 4)
        with pytest.raises(AlreadyExistsError, match="with another input"):
            await client.start(handle.instance_id, second, 5)
        assert await again.result() == 8


async def test_where_the_code_is_arguments_by_position_and_by_name_are_equal(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    handle = await engine.start("d", DOUBLED, 4)

    assert (await (await engine.start("d", DOUBLED, x=4)).result()) == 8
    with pytest.raises(AlreadyExistsError, match=r"known by name only: give the arguments by pos"):
        await client.start("d", DOUBLED, x=4)
    assert (await handle.info()).input == {"0": 4}


async def test_many_equal_starts_at_once_are_one_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    handles = await asyncio.gather(*(engine.start("d", doubled, 4) for _ in range(50)))
    results = await asyncio.gather(*(handle.result() for handle in handles))

    assert results == [8] * 50
    assert kinds(await handles[0].history()).count("activity_scheduled") == 1


async def test_another_input_is_refused_live_or_finished(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await engine.start("w", waiting, 1)
    await (await engine.start("d", doubled, 4)).result()

    for instance_id, definition in (("w", waiting), ("d", doubled)):
        with pytest.raises(AlreadyExistsError, match=r"with another input.*use another id"):
            await engine.start(instance_id, definition, 99)


async def test_another_definition_or_version_is_refused(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await engine.start("w", waiting, 1)

    with pytest.raises(AlreadyExistsError, match=r"as waiting 1\.0\.0, not doubled 1\.0\.0"):
        await engine.start("w", doubled, 1)
    with pytest.raises(AlreadyExistsError, match=r"as waiting 1\.0\.0, not waiting 2\.0\.0"):
        await engine.start("w", waiting_2, 1)


async def test_fail_refuses_even_an_equal_start(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("d", doubled, 4)).result()

    with pytest.raises(AlreadyExistsError, match="completed"):
        await engine.start("d", doubled.with_options(if_exists="fail"), 4)


async def test_restart_replaces_a_finished_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("d", doubled, 4)).result()

    again = await engine.start("d", doubled.with_options(if_exists="restart"), 5)

    assert await again.result() == 10
    assert (await again.info()).input == {"x": 5}


async def test_restart_leaves_a_live_instance_alone(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    first = await engine.start("w", waiting, 1)

    joined = await engine.start("w", waiting.with_options(if_exists="restart"), 1)
    with pytest.raises(AlreadyExistsError):
        await engine.start("w", waiting.with_options(if_exists="restart"), 2)
    await joined.send(go, "on")

    assert await first.result() == "on"


async def test_terminate_replaces_a_live_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    first = await engine.start("w", waiting, 1)
    ended = asyncio.ensure_future(first.result())
    await waits_for(first, "signal 'go'")

    second = await engine.start("w", waiting.with_options(if_exists="terminate"), 2)
    await second.send(go, "new")

    with pytest.raises(InstanceTerminatedError, match="replaced by a new start"):
        await ended
    assert await second.result() == "new"


async def test_terminate_replaces_a_finished_instance_too(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("d", doubled, 4)).result()

    again = await engine.start("d", doubled.with_options(if_exists="terminate"), 5)

    assert await again.result() == 10


# ------------------------------------------------------- what a start costs


UNDISTURBED = options(poll_min=SELDOM, poll_max=SELDOM, lease_for=2 * SELDOM)
"""No look for work of other processes falls into the counted time."""


async def test_start_and_first_turn_are_one_transaction(stage: Stage) -> None:
    engine = await stage.engine(ALL, options=UNDISTURBED)
    await idle(engine)
    await (await engine.start(doubled, 1)).result()  # its names have their numbers now
    before = transactions(engine)

    await engine.start(waiting, 1)

    assert transactions(engine) - before == 1


async def test_an_orchestration_of_one_activity_is_two_transactions(stage: Stage) -> None:
    engine = await stage.engine(ALL, options=UNDISTURBED)
    await idle(engine)
    await (await engine.start(doubled, 1)).result()
    before = transactions(engine)

    handle = await engine.start(doubled, 2)

    assert await handle.result() == 4
    assert transactions(engine) - before == 2


# -------------------------------------------------- starting here, working there


async def test_a_client_starts_and_an_engine_opened_later_finishes(stage: Stage) -> None:
    client = await stage.client()
    handle = await client.start("d", doubled, 21)
    assert "unclaimed: needs doubled 1.0.0, which no live worker has" in await handle.explain()

    await stage.engine(ALL)

    assert await handle.result() == 42


async def test_a_client_starts_for_an_engine_that_is_at_work(stage: Stage) -> None:
    await stage.engine(ALL)
    client = await stage.client()

    handles = [await client.start(doubled, number) for number in range(10)]

    assert [await handle.result() for handle in handles] == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]


async def test_what_no_worker_has_is_left_alone_and_explained(stage: Stage) -> None:
    engine = await stage.engine([double, doubled])
    stranger = await engine.start("s", waiting, 1)
    served = await engine.start(doubled, 1)

    assert await served.result() == 2
    assert (await stranger.info()).status is Status.RUNNING
    assert await stranger.explain() == (
        "s (waiting 1.0.0) cannot move: unclaimed: needs waiting 1.0.0, which no live worker has; "
        "hand it to one, as in Engine(url, [waiting])."
    )
    assert await engine._core.store.read_live("s") is not None
    assert await stranger.history() == []


async def test_another_version_counts_as_unknown(stage: Stage) -> None:
    engine = await stage.engine([waiting])
    handle = await engine.start("s", waiting_2, 1)

    assert "unclaimed: needs waiting 2.0.0" in await handle.explain()

    await stage.engine([waiting_2])
    await handle.send(go, "on")

    assert await handle.result() == "on"


async def test_two_versions_live_side_by_side(stage: Stage) -> None:
    engine = await stage.engine([waiting, waiting_2])
    old = await engine.start(waiting, 1)
    new = await engine.start(waiting_2, 1)

    for handle in (old, new):
        await handle.send(go, handle.instance_id)

    assert [await old.result(), await new.result()] == [old.instance_id, new.instance_id]
    assert [(await h.info()).version for h in (old, new)] == ["1.0.0", "2.0.0"]


# ------------------------------------------------------------------- results


async def test_a_result_that_does_not_come_says_what_is_waited_for(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("w", waiting, 1)

    with pytest.raises(ResultTimeoutError) as caught:
        await handle.result(timeout=timedelta(milliseconds=20))

    text = str(caught.value)
    assert text.startswith("instance 'w' has no result after 0.02 s: w (waiting 1.0.0) waits for ")
    assert "signal 'go' since" in text
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.instance_id == "w"


async def test_a_result_that_is_there_takes_no_time(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await (await engine.start("d", doubled, 2)).result()
    client = await stage.client()

    assert await client.handle("d", doubled).result(timeout=0) == 4


async def test_waiting_for_an_unknown_instance_is_an_error_at_once(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = engine.handle("nobody")

    for ask in (handle.result, handle.info, handle.history, handle.explain, handle.cancel):
        with pytest.raises(InstanceNotFoundError, match="no instance 'nobody'"):
            await ask()
    with pytest.raises(InstanceNotFoundError, match="no instance 'nobody'"):
        await handle.terminate()


async def test_a_handle_without_a_definition_gives_plain_json(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    await engine.start("d", doubled, 4)

    assert await engine.handle("d").result() == 8
    assert await engine.handle("d", doubled).result() == 8


async def test_info_tells_where_an_instance_stands(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("d", doubled, 4, extra="e")
    await handle.result()

    info = await handle.info()

    assert (info.name, info.version, info.status) == ("doubled", "1.0.0", Status.COMPLETED)
    assert (info.input, info.output, info.execution) == ({"x": 4, "extra": "e"}, 8, 1)
    assert info.ended_at is not None
    assert info.created_at <= info.updated_at <= info.ended_at
    assert info.parent_id is None
    assert info.reason is None


async def test_a_result_is_heard_by_everybody_who_waits(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    client = await stage.client()
    handle = await engine.start("w", waiting, 1)
    waiters = [
        asyncio.ensure_future(each.result())
        for each in (handle, engine.handle("w"), client.handle("w"), client.handle("w"))
    ]
    await until(lambda: handle.info())

    await handle.send(go, "on")

    assert await asyncio.gather(*waiters) == ["on"] * 4
