from __future__ import annotations

import random
import time
import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Handle,
    Orchestration,
    Signal,
    Status,
    WorkerOptions,
    activity,
    context,
    orchestration,
)
from perdure.errors import PerdureError
from tests import rows
from tests.engine.stage import Stage, kinds, load, options, until, waits_for

go = Signal("go", str)

SHOP = """
from perdure import Signal, activity, orchestration

go = Signal("go", str)

@activity
async def send_email(to: str) -> str:
    return f"email {to}"

@activity
async def send_sms(to: str) -> str:
    return f"sms {to}"

@orchestration
async def fulfil(to: str) -> str:
    first = await send_email(to)
    await go.receive()
    return f"{first}, {await send_email(to)}"
"""
CHANGED = SHOP.replace("first = await send_email(to)", "first = await send_sms(to)")
REPAIRED = SHOP + "\n# another file, the same calls\n"


async def has_status(handle: Handle[Any], status: Status) -> None:
    """Wait until an instance is blocked or parked."""

    async def look() -> bool:
        return (await handle.info()).status is status

    await until(look)


# --------------------------------------------------------------- changed code


async def test_changed_code_blocks_and_fitting_code_goes_on(stage: Stage, tmp_path: Path) -> None:
    stage.expect_log("instance .* is blocked")
    old = load(tmp_path / "old", "shop", SHOP)
    engine = await stage.engine([old])
    handle = await engine.start("order-42", old.fulfil, "ada")
    await waits_for(handle, "signal 'go'")
    before = await handle.history()
    await engine.close()

    engine = await stage.engine([load(tmp_path / "new", "shop", CHANGED)])
    handle = engine.handle("order-42")
    await handle.send(go, "on")
    await has_status(handle, Status.BLOCKED)

    text = (await handle.info()).reason or ""
    assert text.startswith("order-42 no longer matches its history at event 2: recorded is ")
    assert "> " in text
    assert "activity scheduled send_email" in text
    assert "activity scheduled send_sms    shop.py:16 in fulfil" in text
    assert 'The code of "fulfil" changed after this instance started' in text
    assert "Nothing was lost and nothing ran twice" in text
    assert await handle.explain() == (
        "order-42 (fulfil 1.0.0) is blocked: order-42 no longer matches its history at event 2: "
        "recorded is activity scheduled send_email, and the code asks for activity scheduled "
        "send_sms at shop.py:16 in fulfil; every worker tries it once, and it goes on with one "
        "whose code fits."
    )
    assert await handle.history() == before
    await handle.send(go, "a second one is kept too")
    await engine.close()

    repaired = load(tmp_path / "repaired", "shop", REPAIRED)
    engine = await stage.engine([repaired])

    assert await engine.handle("order-42").result(if_held="wait") == "email ada, email ada"
    info = await engine.handle("order-42").info()
    assert (info.status, info.reason) == (Status.COMPLETED, None)


async def test_a_blocked_instance_is_tried_once_by_every_worker_that_starts(
    stage: Stage, tmp_path: Path
) -> None:
    stage.expect_log("instance .* is blocked")
    old = load(tmp_path / "old", "shop", SHOP)
    engine = await stage.engine([old])
    handle = await engine.start("o", old.fulfil, "ada")
    await waits_for(handle, "signal 'go'")
    await engine.close()
    new = load(tmp_path / "new", "shop", CHANGED)

    for tries in (1, 2, 3):
        engine = await stage.engine([new])
        await engine.handle("o").send(go, "on")
        await has_status(engine.handle("o"), Status.BLOCKED)
        await until(partial(_logged_so_often, stage, tries))
        await engine.handle("o").send(go, "once more")
        engine._serving.claimer._blocked_at_ms = 0
        await engine._serving.claimer.run_once()
        await engine.close()
        assert len(stage.logged("instance .* is blocked")) == tries


def _logged_so_often(stage: Stage, times: int) -> bool:
    return len(stage.logged("instance .* is blocked")) == times


async def test_fitting_code_from_the_same_files_goes_on_with_a_blocked_instance(
    stage: Stage,
) -> None:
    """Flags, configuration and factories are in no digest."""

    @activity
    async def note(text: str) -> str:
        return text

    def made(*, asks: bool) -> Orchestration[[], str]:
        @orchestration(name="flagged")
        async def flagged() -> str:
            if asks:
                await note("a flag is set")
            return await go.receive()

        return flagged

    stage.expect_log("instance .* is blocked")
    engine = await stage.engine([note, made(asks=False)])
    handle = await engine.start("o", made(asks=False))
    await waits_for(handle, "signal 'go'")
    await engine.close()
    engine = await stage.engine([note, made(asks=True)])
    await engine.handle("o").send(go, "on")
    await has_status(engine.handle("o"), Status.BLOCKED)

    engine = await stage.engine([note, made(asks=False)])

    assert await engine.handle("o").result(if_held="wait") == "on"


async def test_a_worker_with_fitting_code_beside_it_takes_a_blocked_instance(
    stage: Stage, tmp_path: Path
) -> None:
    """A rolling deploy: the wrong worker is still there when the right one comes."""
    stage.expect_log("instance .* is blocked")
    old = load(tmp_path / "old", "shop", SHOP)
    engine = await stage.engine([old])
    handle = await engine.start("o", old.fulfil, "ada")
    await waits_for(handle, "signal 'go'")
    await engine.close()
    wrong = await stage.engine([load(tmp_path / "new", "shop", CHANGED)])
    await wrong.handle("o").send(go, "on")
    await has_status(wrong.handle("o"), Status.BLOCKED)

    right = await stage.engine([load(tmp_path / "repaired", "shop", REPAIRED)])

    assert await right.handle("o").result(if_held="wait") == "email ada, email ada"


async def test_a_blocked_instance_can_be_terminated(stage: Stage, tmp_path: Path) -> None:
    stage.expect_log("instance .* is blocked")
    old = load(tmp_path / "old", "shop", SHOP)
    engine = await stage.engine([old])
    await engine.start("o", old.fulfil, "ada")
    await waits_for(engine.handle("o"), "signal 'go'")
    await engine.close()
    wrong = await stage.engine([load(tmp_path / "new", "shop", CHANGED)])
    await wrong.handle("o").send(go, "on")
    await has_status(wrong.handle("o"), Status.BLOCKED)

    await wrong.handle("o").terminate("give up")

    assert (await wrong.handle("o").info()).status is Status.TERMINATED


async def test_a_new_parameter_with_a_default_blocks_nothing(stage: Stage, tmp_path: Path) -> None:
    old = load(tmp_path / "old", "shop", SHOP)
    engine = await stage.engine([old])
    handle = await engine.start("o", old.fulfil, "ada")
    await waits_for(handle, "signal 'go'")
    await engine.close()
    source = SHOP.replace("send_email(to: str)", "send_email(to: str, copy: bool = False)")
    source = source.replace("fulfil(to: str)", "fulfil(to: str, gift: bool = False)")

    engine = await stage.engine([load(tmp_path / "new", "shop", source)])
    await engine.handle("o").send(go, "on")

    assert await engine.handle("o").result() == "email ada, email ada"


# ------------------------------------------------------------------ the guard


@orchestration
async def reads_the_clock() -> float:
    return time.time()


@orchestration
async def rolls_dice() -> float:
    return random.random()


@orchestration
async def makes_an_id() -> str:
    return str(uuid.uuid4())


@orchestration
async def opens_a_file() -> int:
    with open("/etc/hostname") as file:  # noqa: ASYNC230 - the mistake under test
        return len(file.read())


@pytest.mark.parametrize(
    ("definition", "call", "advice"),
    [
        (reads_the_clock, "time.time", "context().now()"),
        (rolls_dice, "random", "context().random"),
        (makes_an_id, "uuid|urandom", "context().uuid()"),
        (opens_a_file, "open", "do it in an activity"),
    ],
    ids=["clock", "random", "uuid", "file"],
)
async def test_what_cannot_be_replayed_blocks_with_advice(
    stage: Stage, definition: Any, call: str, advice: str
) -> None:
    stage.expect_log("instance .* is blocked")
    engine = await stage.engine([definition])
    handle = await engine.start("g", definition)

    await has_status(handle, Status.BLOCKED)

    text = (await handle.info()).reason or ""
    assert advice in text
    assert "test_nondeterminism.py:" in text
    assert "blocked" in await handle.explain()
    assert await handle.history() == []


LATE = 41
"""More turns than are watched closely by default."""


@activity
async def step(number: float) -> float:
    return number


@orchestration
async def reads_the_clock_late() -> float:
    for number in range(LATE):
        await step(number)
    return await step(time.time())


@orchestration
async def rolls_dice_late() -> float:
    for number in range(LATE):
        await step(number)
    return await step(random.random())


def roll() -> float:
    return random.random()


@orchestration
async def rolls_dice_late_in_a_helper() -> float:
    for number in range(LATE):
        await step(number)
    return await step(roll())


@pytest.mark.parametrize(
    "definition",
    [reads_the_clock_late, rolls_dice_late, rolls_dice_late_in_a_helper],
    ids=["clock", "random", "helper"],
)
async def test_what_cannot_be_replayed_is_caught_in_any_turn_by_default(
    stage: Stage, definition: Any
) -> None:
    stage.expect_log("instance .* is blocked")
    defaults = WorkerOptions()
    assert defaults.watched_turns < LATE
    usual = options(watch_calls=defaults.watch_calls, watched_turns=defaults.watched_turns)
    engine = await stage.engine([step, definition], options=usual)

    for name in ("first", "second"):
        handle = await engine.start(name, definition)
        await has_status(handle, Status.BLOCKED)

        assert "use context()." in ((await handle.info()).reason or "")
        assert kinds(await handle.history()).count("activity_scheduled") == LATE


async def test_a_guard_violation_that_the_code_swallows_blocks_all_the_same(stage: Stage) -> None:
    stage.expect_log("instance .* is blocked")

    @orchestration
    async def sneaky() -> float:
        try:
            return time.time()
        except PerdureError:
            return 0.0

    engine = await stage.engine([sneaky])
    handle = await engine.start("g", sneaky)

    await has_status(handle, Status.BLOCKED)


async def test_a_guard_violation_after_an_activity_keeps_its_result(stage: Stage) -> None:
    stage.expect_log("instance .* is blocked")
    runs: list[int] = []

    @activity
    async def step() -> int:
        runs.append(1)
        return 1

    @orchestration
    async def late() -> float:
        await step()
        return time.time()

    engine = await stage.engine([step, late])
    handle = await engine.start("g", late)
    await has_status(handle, Status.BLOCKED)

    assert kinds(await handle.history()) == ["started", "activity_scheduled"]
    [message] = await engine._core.store.read_inbox("g")
    assert message.kind == "activity_completed"
    assert runs == [1]


async def test_the_durable_ways_pass_the_guard(stage: Stage) -> None:
    @orchestration
    async def good() -> list[str]:
        ctx = context()
        ctx.log.info("on the way")
        return [str(ctx.now()), str(ctx.uuid()), str(ctx.random.random())]

    engine = await stage.engine([good])
    now, made, chance = await (await engine.start(good)).result()

    assert now
    assert uuid.UUID(made).version is not None
    assert 0 <= float(chance) < 1


# --------------------------------------------------------------------- parked


async def test_a_turn_that_computes_too_long_is_parked_and_holds_up_nobody(stage: Stage) -> None:
    stage.expect_log("computes for")
    stage.expect_log("instance .* is parked")
    is_endless = True

    @orchestration
    async def endless() -> str:
        while is_endless:
            pass
        return "calm"

    @orchestration
    async def quick() -> str:
        return "quick"

    limits = options(turn_warning=timedelta(milliseconds=10), turn_limit=timedelta(milliseconds=20))
    engine = await stage.engine([endless, quick], options=limits)
    handle = await engine.start("e", endless)
    await has_status(handle, Status.PARKED)

    text = await handle.explain()
    assert "is parked: a turn of endless (e) computed longer than 0.02 s, at" in text
    assert "test_nondeterminism.py:" in text
    assert "move long work into an activity" in text
    assert await (await engine.start(quick)).result() == "quick"

    is_endless = False
    assert await engine._core.store.unpark("e")
    engine._serving.notice()
    assert await handle.result() == "calm"


async def test_a_damaged_event_parks_the_instance_and_an_operator_lets_it_go(
    stage: Stage,
) -> None:
    stage.expect_log("instance .* is parked")

    @orchestration
    async def waiting() -> str:
        return await go.receive()

    engine = await stage.engine([waiting])
    handle = await engine.start("w", waiting)
    await waits_for(handle, "signal 'go'")
    await engine.close()
    [[body]] = rows.run(stage.url, "SELECT body FROM history WHERE seq = 1")
    rows.run(stage.url, "UPDATE history SET body = ? WHERE seq = 1", b"{damaged")

    engine = await stage.engine([waiting])
    handle = engine.handle("w")
    await handle.send(go, "on")
    await has_status(handle, Status.PARKED)
    damage = "instance 'w', execution 1, event 1: stored event of kind 'started' is damaged"
    assert damage in await handle.explain()
    assert (await handle.history())[0].data == {"damaged": "{damaged"}
    await engine.close()

    rows.run(stage.url, "UPDATE history SET body = ? WHERE seq = 1", body)
    engine = await stage.engine([waiting])
    assert await engine._core.store.unpark("w")
    engine._serving.notice()

    assert await engine.handle("w").result() == "on"


async def test_a_parked_instance_with_a_damaged_history_can_be_terminated(stage: Stage) -> None:
    stage.expected_violations = ("S2",)  # the digest is not that of a whole history
    stage.expect_log("instance .* is parked")

    @orchestration
    async def waiting() -> str:
        return await go.receive()

    engine = await stage.engine([waiting])
    await waits_for(await engine.start("w", waiting), "signal 'go'")
    await engine.close()
    rows.run(stage.url, "UPDATE history SET body = ? WHERE seq = 1", b"{damaged")
    engine = await stage.engine([waiting])
    handle = engine.handle("w")
    await handle.send(go, "on")
    await has_status(handle, Status.PARKED)

    await handle.terminate("beyond repair")

    assert (await handle.info()).status is Status.TERMINATED


async def test_a_damaged_message_parks_the_instance(stage: Stage) -> None:
    stage.expect_log("instance .* is parked")

    @orchestration
    async def waiting() -> str:
        return await go.receive()

    client = await stage.client()
    handle = await client.start("w", waiting)
    await handle.send(go, "on")
    await client.close()
    rows.run(stage.url, "UPDATE inbox SET kind = 'from_the_future' WHERE kind <> 'started'")

    engine = await stage.engine([waiting])
    handle = engine.handle("w", waiting)
    await has_status(handle, Status.PARKED)

    unknown = "event kind 'from_the_future' is not known to this version"
    assert f"instance 'w', execution 1, message 2 of the inbox: {unknown}" in await handle.explain()
    assert len(await engine._core.store.read_inbox("w")) == 2


# --------------------------------------------------------------------- shadow


async def test_code_that_cannot_be_replayed_is_found_before_a_crash_finds_it(
    stage: Stage,
) -> None:
    stage.expect_log("cannot be replayed .* a crash would have blocked")
    stage.expected_mismatches = 1
    shared: list[int] = []

    @activity
    async def step(x: int) -> int:
        return x

    @orchestration
    async def impure() -> int:
        shared.append(1)
        return await step(len(shared))

    engine = await stage.engine([step, impure])

    assert await (await engine.start(impure)).result() == 1
    await until(lambda: stage.logged("cannot be replayed .* a crash would have blocked"))
