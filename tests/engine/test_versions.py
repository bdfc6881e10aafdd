"""Versions: which one begins, which code goes on with what is recorded, what is left alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from perdure import Client, Engine, Orchestration, Signal, context, inline, orchestration
from perdure.authoring.registry import BEHAVIOUR, Registry, inline_key, orchestration_key
from perdure.client.acting.starting import new_instance
from perdure.clock import ManualClock
from perdure.errors import AlreadyExistsError, NotRegisteredError
from perdure.model.histories.events import Started, write_event
from perdure.model.instances import DefinitionKey
from tests.engine.stage import Stage, has_ended, idle, kinds, options, until, waits_for

go = Signal("go", str)

by_name = Orchestration.named("checkout", str)


def checkout(version: str) -> Orchestration[[], str]:
    """Return an orchestration that tells which code runs and which version is recorded."""

    @orchestration(name="checkout", version=version)
    async def own() -> str:
        said = await go.receive()
        return f"{said}: {version} runs {context().version}"

    return own


async def begun(client: Client, instance_id: str) -> None:
    """Wait until an instance waits for its signal."""
    await waits_for(client.handle(instance_id), "signal 'go'")


async def finish(client: Client, instance_id: str) -> Any:
    """Send the signal and return the result."""
    await client.handle(instance_id).send(go, "went")
    return await client.handle(instance_id).result()


async def recorded_version(client: Client, instance_id: str) -> tuple[str, str]:
    """Return the version in the instance's row and in its history."""
    handle = client.handle(instance_id)
    started = (await handle.history())[0]
    return (await handle.info()).version, started.data["version"]


# ------------------------------------------------------------------ which one begins


async def test_a_definition_starts_its_own_version_and_a_name_the_latest(stage: Stage) -> None:
    old, new = checkout("1.9.0"), checkout("1.10.0")
    engine = await stage.engine([old, new])

    await engine.start("exact", old)
    await engine.start("open", by_name)

    assert await finish(engine, "exact") == "went: 1.9.0 runs 1.9.0"
    assert await finish(engine, "open") == "went: 1.10.0 runs 1.10.0"
    assert await recorded_version(engine, "open") == ("1.10.0", "1.10.0")


async def test_a_start_by_name_from_outside_gets_its_version_from_the_worker(stage: Stage) -> None:
    client = await stage.client()
    await client.start("open", by_name)
    assert (await client.handle("open").info()).version == ""
    assert "unclaimed: needs checkout (any version)" in await client.handle("open").explain()

    engine = await stage.engine([checkout("1.0.0"), checkout("2.0.0")])
    await begun(client, "open")

    assert await recorded_version(client, "open") == ("2.0.0", "2.0.0")
    assert await finish(engine, "open") == "went: 2.0.0 runs 2.0.0"


async def test_the_policy_can_be_changed_while_the_engine_works(stage: Stage) -> None:
    engine = await stage.engine(
        [checkout("1.0.0"), checkout("2.0.0")], options=options(prefer={"checkout": "1.0.0"})
    )
    assert engine.registry.preferred("checkout") == "1.0.0"
    await engine.start("first", by_name)

    engine.registry.prefer("checkout", None)
    await engine.start("second", by_name)
    engine.registry.prefer("checkout", "1.0.0")

    assert await finish(engine, "first") == "went: 1.0.0 runs 1.0.0"
    assert await finish(engine, "second") == "went: 2.0.0 runs 2.0.0"


async def test_a_client_that_names_a_version_gets_exactly_that_one(stage: Stage) -> None:
    client = await stage.client()
    await client.start("pinned", by_name.with_options(version="1.0.0"))
    await stage.engine([checkout("1.0.0"), checkout("2.0.0")])

    assert await finish(client, "pinned") == "went: 1.0.0 runs 1.0.0"


async def test_a_second_start_by_name_joins_what_was_chosen_for_the_first(stage: Stage) -> None:
    old = checkout("1.0.0")
    engine = await stage.engine([old], options=options(prefer={"checkout": "1.0.0"}))
    await engine.start("a", by_name)

    await engine.start("a", by_name)
    await engine.start("a", old)

    with pytest.raises(AlreadyExistsError, match=r"as checkout 1\.0\.0, not checkout 2\.0\.0"):
        await engine.start("a", by_name.with_options(version="2.0.0"))


async def test_children_begin_like_other_instances(stage: Stage) -> None:
    old, new = checkout("1.0.0"), checkout("2.0.0")

    @orchestration
    async def parent() -> list[str]:
        results = await asyncio.gather(
            old.with_options(instance_id="exact")(),
            by_name.with_options(instance_id="open")(),
            by_name.with_options(instance_id="pinned", version="1.0.0")(),
        )
        return list(results)

    engine = await stage.engine([old, new, parent])
    handle = await engine.start("p", parent)
    for child in ("exact", "open", "pinned"):
        await begun(engine, child)
        await engine.handle(child).send(go, child)

    assert await handle.result() == [
        "exact: 1.0.0 runs 1.0.0",
        "open: 2.0.0 runs 2.0.0",
        "pinned: 1.0.0 runs 1.0.0",
    ]


async def test_a_child_by_name_that_nobody_has_is_told_at_once(stage: Stage) -> None:
    @orchestration
    async def parent() -> str:
        return await by_name.with_options(instance_id="c")()

    stage.expect_log(r"no live worker serves orchestration 'checkout' \(any version\)")
    engine = await stage.engine([parent])
    await engine.start("p", parent)

    await until(lambda: stage.logged("no live worker serves"))
    assert "unclaimed: needs checkout (any version)" in await engine.handle("c").explain()


async def test_a_registry_is_handed_over_like_definitions(stage: Stage) -> None:
    package = Registry([checkout("1.0.0"), checkout("2.0.0")])
    package.prefer("checkout", "1.0.0")
    engine = await stage.engine(package)

    await engine.start("a", by_name)

    assert await finish(engine, "a") == "went: 1.0.0 runs 1.0.0"
    with pytest.raises(NotRegisteredError):
        engine.registry.prefer("checkout", "3.0.0")


# --------------------------------------------------------- the recorded one decides


async def test_after_a_restart_the_recorded_version_goes_on_not_the_latest(stage: Stage) -> None:
    """A turn that has nothing but a result or a signal names no version by itself."""
    engine = await stage.engine([checkout("1.0.0")])
    await engine.start("a", by_name)
    await begun(engine, "a")
    await engine.close()

    engine = await stage.engine([checkout("1.0.0"), checkout("2.0.0")])

    assert await finish(engine, "a") == "went: 1.0.0 runs 1.0.0"


async def test_a_version_that_is_not_here_is_left_alone_and_shown(stage: Stage) -> None:
    engine = await stage.engine([checkout("2.0.0")])
    await engine.start("a", by_name)
    await begun(engine, "a")
    await engine.close()

    engine = await stage.engine([checkout("1.0.0")])
    await engine.handle("a").send(go, "went")
    await idle(engine)

    assert "unclaimed: needs checkout 2.0.0" in await engine.handle("a").explain()
    live = await engine._core.store.read_live("a")
    assert live is not None
    assert (live.attempts, live.lease) == (0, 0)
    await engine.close()
    engine = await stage.engine([checkout("2.0.0")])
    assert await engine.handle("a").result() == "went: 2.0.0 runs 2.0.0"


async def test_a_wider_range_goes_on_with_newer_code_under_the_recorded_version(
    stage: Stage,
) -> None:
    def stepping(version: str) -> Orchestration[[], list[str]]:
        @orchestration(name="stepping", version=version)
        async def own() -> list[str]:
            said = await go.receive()
            code = await inline(lambda: version, name="code")
            return [said, code, context().version]

        return own

    engine = await stage.engine([stepping("1.4.0")])
    await engine.start("a", stepping("1.4.0"))
    await begun(engine, "a")
    await engine.close()

    engine = await stage.engine(
        [stepping("2.0.0"), stepping("2.1.0"), stepping("3.0.0")],
        options=options(versions={"stepping": ">=1.2,<3"}),
    )

    assert await finish(engine, "a") == ["went", "2.1.0", "1.4.0"]
    assert await recorded_version(engine, "a") == ("1.4.0", "1.4.0")


async def test_a_wider_range_also_begins_versions_nobody_has_started_before(stage: Stage) -> None:
    engine = await stage.engine([checkout("2.0.0")], options=options(versions={"checkout": ">=1"}))
    await engine.start("a", by_name.with_options(version="1.7.0"))
    await begun(engine, "a")
    key = orchestration_key("checkout", "1.7.0")
    await until(lambda: key in engine._serving.coverage.orchestrations)

    engine._serving.turns.hot.drop(next(iter(engine._serving.turns.hot)))

    assert await finish(engine, "a") == "went: 2.0.0 runs 1.7.0"


async def test_a_wider_range_also_takes_children_of_versions_nobody_has_started_before(
    stage: Stage,
) -> None:
    @orchestration
    async def parent() -> str:
        return await by_name.with_options(instance_id="c", version="1.7.0")()

    engine = await stage.engine(
        [checkout("2.0.0"), parent], options=options(versions={"checkout": ">=1"})
    )
    handle = await engine.start("p", parent)
    await begun(engine, "c")
    await engine.handle("c").send(go, "went")

    assert await handle.result() == "went: 2.0.0 runs 1.7.0"


async def test_a_narrower_range_leaves_versions_to_other_workers(stage: Stage) -> None:
    client = await stage.client()
    await client.start("new", checkout("2.0.0"))
    await client.start("old", checkout("1.0.0"))
    await client.start("open", by_name)
    engine = await stage.engine(
        [checkout("1.0.0"), checkout("2.0.0")], options=options(versions={"checkout": "<2"})
    )

    assert await finish(client, "old") == "went: 1.0.0 runs 1.0.0"
    assert await finish(client, "open") == "went: 1.0.0 runs 1.0.0"
    await idle(engine)
    assert "unclaimed: needs checkout 2.0.0" in await client.handle("new").explain()


async def test_a_worker_says_what_it_really_serves(stage: Stage) -> None:
    client = await stage.client()
    await client.start("a", by_name.with_options(version="1.5.0"))
    await stage.engine(
        [checkout("1.0.0"), checkout("2.0.0")], options=options(versions={"checkout": ">1,<2"})
    )

    [worker] = await client._core.store.read_workers(seen_since_ms=0)

    served = {key for key in worker.definitions if key.name == "checkout"}
    assert served == set()
    await stage.engine(
        [checkout("1.9.0"), checkout("2.0.0")],
        options=options(versions={"checkout": ">1,<2"}, name="second"),
    )
    workers = await client._core.store.read_workers(seen_since_ms=0)
    [second] = [worker for worker in workers if worker.worker_id == "second"]
    served = {key for key in second.definitions if key.name == "checkout"}
    assert served == {
        *(orchestration_key("checkout", version) for version in ("1.9.0", "1.5.0", "")),
        *(inline_key("checkout", version) for version in ("1.9.0", "1.5.0")),
    }


# ----------------------------------------------------------------------- behaviours


async def start_under(client: Client, instance_id: str, behaviour: int) -> None:
    """Start an instance as another release of perdure would."""
    new = new_instance(
        instance_id, checkout("1.0.0"), (), {}, now_ms=client._core.store.clock(), code=""
    )
    kind, body = write_event(
        Started(name="checkout", version="1.0.0", behaviour=behaviour, input=msgspec.Raw(new.input))
    )
    key = DefinitionKey("orchestration", "checkout", "1.0.0", behaviour)
    new = msgspec.structs.replace(new, definition=key, start_kind=kind, start_body=body)
    assert await client._core.store.start([new]) == [None]


async def test_another_behaviour_is_left_alone_unless_it_is_asked_for(stage: Stage) -> None:
    other = BEHAVIOUR + 1
    client = await stage.client()
    await start_under(client, "a", other)

    engine = await stage.engine([checkout("1.0.0")])
    await idle(engine)
    explained = await client.handle("a").explain()
    assert f"unclaimed: needs checkout 1.0.0 (behaviour {other})" in explained

    await stage.engine([checkout("1.0.0")], options=options(behaviours=(BEHAVIOUR, other)))
    assert await finish(client, "a") == "went: 1.0.0 runs 1.0.0"


# ----------------------------------------------------------------------- late starts


@pytest.mark.parametrize("from_outside", [False, True])
async def test_a_delayed_start_runs_its_first_turn_when_it_is_due(
    stage: Stage, from_outside: bool
) -> None:
    clock = ManualClock()
    engine = await stage.engine([checkout("1.0.0")], clock=clock)
    client = await stage.client(clock=clock) if from_outside else engine
    handle = await client.start("a", by_name.with_options(delay=timedelta(hours=1)))
    await handle.send(go, "early")
    clock.advance(timedelta(minutes=59))
    await idle(engine)
    assert await handle.history() == []

    clock.advance(timedelta(minutes=1))

    await until(lambda: has_ended(client, "a"))
    assert await handle.result() == "early: 1.0.0 runs 1.0.0"
    assert kinds(await handle.history())[0] == "started"


async def test_an_engine_opens_with_many_versions_of_many_names(stage: Stage) -> None:
    def made(name: str, version: str) -> Orchestration[[], str]:
        @orchestration(name=name, version=version)
        async def own() -> str:
            return f"{name} {version}"

        return own

    definitions = [made(f"o{n}", f"{v}.0.0") for n in range(20) for v in range(20)]
    engine: Engine = await stage.engine(definitions)

    handle = await engine.start(Orchestration.named("o7", str))

    assert await handle.result() == "o7 19.0.0"
