"""Promises: kept once, by whoever has the token, and only by that."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure import (
    Client,
    Context,
    Defined,
    Engine,
    Handle,
    Promise,
    Signal,
    activity,
    orchestration,
)
from perdure.client.reading.summaries import PAGE
from perdure.clock import ManualClock
from perdure.errors import (
    InstanceCancelledError,
    InstanceEndedError,
    InstanceFailedError,
    PayloadError,
    PromiseNotFoundError,
    PromiseRejectedError,
    UsageError,
)
from perdure.model.messages import DeliveryStatus
from perdure.model.promises import PromiseId, read_token, write_token
from perdure.store.sqlite.backup import write_backup
from tests.engine.stage import Stage, kinds, options, until, waits_for
from tests.engine.test_summaries import Reads
from tests.postgres import Server


@dataclass(frozen=True)
class Receipt:
    number: str


paid = Promise("paid", Receipt)
shipped = Promise("shipped", str)
go = Signal("go", str)


@activity
async def charge(order: str, callback: str) -> str:
    return f"{order} asked"


@orchestration
async def deposit(order: str) -> Receipt:
    due = paid.make()
    await charge(order, due.token)
    return await due.receive()


@orchestration
async def patient(ctx: Context, seconds: float) -> str:
    due = shipped.make()
    ctx.kv["token"] = due.token
    try:
        async with asyncio.timeout(seconds):
            return await due.receive()
    except TimeoutError:
        await go.receive()
        return f"late: {await due.receive()}"


@orchestration
async def forgiving(ctx: Context) -> str:
    due = shipped.make()
    ctx.kv["token"] = due.token
    try:
        return await due.receive()
    except PromiseRejectedError as error:
        try:
            await due.receive()
        except UsageError as again:
            return f"{error.promise} {error.reason}; {again}"
    return "?"


@orchestration
async def rounds(ctx: Context, left: int) -> str:
    due = shipped.make()
    ctx.kv[f"token {ctx.execution}"] = due.token
    await go.receive()
    if left:
        rounds.continue_as_new(left - 1)
    return await due.receive()


@orchestration
async def several(ctx: Context) -> list[str]:
    made = [shipped.make() for _ in range(3)]
    ctx.kv["tokens"] = [one.token for one in made]
    return [await one.receive() for one in reversed(made)]


@orchestration
async def waits_first(ctx: Context) -> str:
    due = shipped.make()
    ctx.kv["token"] = due.token
    await go.receive()
    return await due.receive()


BUG = {"is_there": True}


@orchestration
async def mended(ctx: Context) -> str:
    due = shipped.make()
    ctx.kv["token"] = due.token
    await go.receive()
    if BUG["is_there"]:
        raise ValueError("a bug")
    return await due.receive()


@orchestration
async def mended_late(ctx: Context, events: int) -> str:
    for number in range(events):
        ctx.kv["number"] = number
    kept: str = await mended.fn(ctx)
    return kept


ALL: list[Defined] = [
    mended,
    mended_late,
    deposit,
    charge,
    patient,
    forgiving,
    rounds,
    several,
    waits_first,
]

HOT = pytest.mark.parametrize("hot", [1000, 0])


async def token_of(handle: Handle[object], key: str = "token") -> str:
    found = await handle.wait_kv(key, timeout=timedelta(seconds=20))
    assert isinstance(found, str)
    return found


async def token_in_history(handle: Handle[object]) -> str:
    async def is_made() -> bool:
        return "promise_made" in kinds(await handle.history())

    await until(is_made)
    [made] = [one for one in await handle.history() if one.kind == "promise_made"]
    token = made.data["token"]
    assert isinstance(token, str)
    return token


@HOT
async def test_a_promise_is_kept_once(stage: Stage, hot: int) -> None:
    engine = await stage.engine(ALL, options=options(hot_instances=hot))
    handle = await engine.start("d-1", deposit, "o-1")
    token = await token_in_history(handle)

    assert await engine.resolve(paid, token, Receipt("r-1"))
    assert not await engine.resolve(paid, token, Receipt("r-2"))
    assert not await engine.reject(token, "too late")

    assert await handle.result() == Receipt("r-1")
    # Also after the end: it was kept, and this one was not the first.
    assert not await engine.resolve(paid, token, Receipt("r-3"))
    scheduled = next(e for e in await handle.history() if e.kind == "activity_scheduled")
    assert scheduled.data["input"] == {"order": "o-1", "callback": token}


@pytest.mark.parametrize("how", ["resolve", "reject"])
async def test_a_call_whose_answer_was_lost_is_told_that_it_has_kept_the_promise(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """After a crash of the server it is run again, and must not take itself for another."""
    engine = await stage.engine(ALL)
    token = await token_in_history(await engine.start("d-1", deposit, "o-1"))
    store = engine._core.store
    deliver = store.deliver

    async def deliver_again(*args: Any, **more: Any) -> list[DeliveryStatus]:
        await deliver(*args, **more)
        return await deliver(*args, **more)

    monkeypatch.setattr(store, "deliver", deliver_again)

    async def keep() -> bool:
        if how == "reject":
            return await engine.reject(token, "no")
        return await engine.resolve(paid, token, Receipt("r-1"))

    assert [await keep(), await keep()] == [True, False]


@HOT
async def test_a_rejected_promise_raises_where_it_is_awaited(stage: Stage, hot: int) -> None:
    engine = await stage.engine(ALL, options=options(hot_instances=hot))
    handle = await engine.start("f-1", forgiving)
    token = await token_of(handle)

    assert await engine.reject(token, "card declined")
    assert not await engine.resolve(shipped, token, "x")

    assert (await handle.result()).startswith("shipped card declined; promise 'shipped' was recei")


async def test_a_rejection_that_is_not_caught_fails_the_instance(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("d-1", deposit, "o-1")

    assert await engine.reject(await token_in_history(handle), "card declined")

    with pytest.raises(InstanceFailedError, match="'paid' was rejected: card declined") as caught:
        await handle.result()
    assert caught.value.type_name == "PromiseRejectedError"


@HOT
async def test_what_comes_after_the_wait_was_given_up_is_kept(stage: Stage, hot: int) -> None:
    clock = ManualClock()
    engine = await stage.engine(ALL, options=options(hot_instances=hot), clock=clock)
    handle = await engine.start("p-1", patient, 60.0)
    token = await token_of(handle)
    await waits_for(handle, "promise 'shipped'")
    clock.advance(timedelta(seconds=61))
    await waits_for(handle, "signal 'go'")

    assert await engine.resolve(shipped, token, "box 7")
    await handle.send(go, "")

    assert await handle.result() == "late: box 7"


@HOT
async def test_each_promise_has_its_own_token(stage: Stage, hot: int) -> None:
    engine = await stage.engine(ALL, options=options(hot_instances=hot))
    handle = await engine.start("s-1", several)
    tokens = await handle.wait_kv("tokens", list[str], timeout=timedelta(seconds=20))
    assert tokens is not None
    assert len(set(tokens)) == 3

    for number, token in enumerate(tokens):
        assert await engine.resolve(shipped, token, f"box {number}")

    assert await handle.result() == ["box 2", "box 1", "box 0"]


@HOT
async def test_promises_are_over_when_the_execution_is(stage: Stage, hot: int) -> None:
    engine = await stage.engine(ALL, options=options(hot_instances=hot))
    handle = await engine.start("r-1", rounds, 1)
    first = await token_of(handle, "token 1")
    assert await engine.resolve(shipped, first, "unread")  # Not carried to the next execution.
    await handle.send(go, "")
    second = await token_of(handle, "token 2")
    third = write_token(await engine._core.read_secret(), PromiseId("r-1", 1, 9, 1, "shipped"))

    assert second != first
    assert not await engine.resolve(shipped, first, "again")
    with pytest.raises(InstanceEndedError, match="its id was used again"):
        await engine.resolve(shipped, third, "x")
    assert await engine.resolve(shipped, second, "box 2")
    await handle.send(go, "")
    assert await handle.result() == "box 2"


@HOT
@pytest.mark.parametrize("is_early", [False, True])
async def test_a_promise_made_before_the_point_of_a_reset_is_for_the_next_execution(
    stage: Stage, hot: int, is_early: bool
) -> None:
    """The token that was given away stands; who has it knows nothing of the reset."""
    BUG["is_there"] = True
    engine = await stage.engine(ALL, options=options(hot_instances=hot, shadow_rate=0))
    handle = await engine.start("m-1", mended)
    token = await token_of(handle)
    if is_early:
        assert await engine.resolve(shipped, token, "box 1")
    await handle.send(go, "")
    with pytest.raises(InstanceFailedError, match="a bug"):
        await handle.result()
    BUG["is_there"] = False

    await handle.reset()

    assert await engine.resolve(shipped, token, "box 2") is not is_early
    assert await handle.result() == ("box 1" if is_early else "box 2")
    assert not await engine.resolve(shipped, token, "box 3")


async def test_whose_a_promise_is_after_a_reset_is_found_a_page_at_a_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    BUG["is_there"] = True
    engine = await stage.engine(ALL, options=options(shadow_rate=0))
    handle = await engine.start("m-1", mended_late, 2 * PAGE)
    token = await token_of(handle)
    await handle.send(go, "")
    with pytest.raises(InstanceFailedError, match="a bug"):
        await handle.result()
    BUG["is_there"] = False
    await handle.reset()
    client = await stage.client()
    reads = Reads(client._core.store, monkeypatch)

    assert await client.resolve(shipped, token, "box")

    of_resolve = reads.taken()
    assert sum(of_resolve) > 2 * PAGE
    assert max(of_resolve) <= PAGE
    assert await handle.result() == "box"


async def test_a_promise_that_was_not_kept_in_time_is_late(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("r-1", rounds, 1)
    first = await token_of(handle, "token 1")
    await handle.send(go, "")
    second = await token_of(handle, "token 2")
    await waits_for(handle, "signal 'go'")

    with pytest.raises(InstanceEndedError, match=r"execution 1, which made .* execution 2 is"):
        await engine.resolve(shipped, first, "x")
    await handle.cancel("enough")
    with pytest.raises(InstanceCancelledError):
        await handle.result()
    with pytest.raises(InstanceEndedError, match="cancelled"):
        await engine.resolve(shipped, second, "x")
    with pytest.raises(InstanceEndedError, match="cancelled"):
        await engine.reject(second, "x")
    await handle.restart()
    with pytest.raises(InstanceEndedError, match="its id was used again"):
        await engine.resolve(shipped, second, "x")
    await handle.terminate()
    await handle.delete()
    with pytest.raises(PromiseNotFoundError, match="its instance was deleted"):
        await engine.resolve(shipped, second, "x")


async def test_of_a_thousand_resolutions_one_wins_and_all_hear_which(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    others = [await stage.client() for _ in range(3)]
    handle = await engine.start("w-1", waits_first)
    token = await token_of(handle)
    clients: list[Client] = [engine, *others]

    async def keep(number: int) -> bool:
        client = clients[number % len(clients)]
        if number % 7 == 6:
            return await client.reject(token, f"reason {number}")
        return await client.resolve(shipped, token, f"box {number}")

    told = await asyncio.gather(*(keep(number) for number in range(1_000)))

    [winner] = [number for number, is_first in enumerate(told) if is_first]
    await handle.send(go, "")
    if winner % 7 == 6:
        with pytest.raises(InstanceFailedError, match=f"rejected: reason {winner}$"):
            await handle.result()
    else:
        assert await handle.result() == f"box {winner}"
    assert kinds(await handle.history()).count("signal_received") == 2


async def test_a_token_that_was_changed_keeps_nothing(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("d-1", deposit, "o-1")
    token = await token_in_history(handle)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    random = Random(7)
    wrong = [
        token[:at] + random.choice(letters.replace(token[at], "")) + token[at + 1 :]
        for at in range(len(token))
    ]
    wrong += [token[:at] for at in range(len(token))]
    wrong += [token + "A", token + "=", f" {token}", f"{token}\n", "ü" * 40, "A" * 5_000, "\0"]
    wrong += ["".join(random.choices(letters, k=random.randrange(80))) for _ in range(500)]

    for one in wrong:
        with pytest.raises(PromiseNotFoundError) as caught:
            await engine.resolve(paid, one, Receipt("x"))
        with pytest.raises(PromiseNotFoundError):
            await engine.reject(one, "x")
        assert token not in str(caught.value)
    for no_text in (None, 7, b"x", [token]):
        with pytest.raises(PromiseNotFoundError):
            await engine.resolve(paid, no_text, Receipt("x"))  # type: ignore[arg-type]

    assert await engine.resolve(paid, token, Receipt("r-1"))
    assert await handle.result() == Receipt("r-1")


def test_a_token_of_another_store_is_none() -> None:
    promise = PromiseId("d-1", 7, 1, 1, "paid")
    ours, theirs = b"1" * 32, b"2" * 32

    assert read_token(ours, write_token(ours, promise)) == promise
    assert read_token(ours, write_token(theirs, promise)) is None


async def test_misuse_is_refused_with_advice(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("d-1", deposit, "o-1")
    token = await token_in_history(handle)

    with pytest.raises(PayloadError, match="promise 'paid'"):
        await engine.resolve(paid, token, "r-1")  # type: ignore[misc]
    with pytest.raises(UsageError, match="the token is of promise 'paid', not of 'shipped'"):
        await engine.resolve(shipped, token, "x")
    with pytest.raises(UsageError, match="is not a promise"):
        await engine.resolve(go, token, "x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="can be made only inside an orchestration"):
        paid.make()
    with pytest.raises(UsageError, match="are those of promises"):
        Signal("promise:paid#1.1", Receipt)
    with pytest.raises(UsageError, match="are of promises"):
        await handle.send(go, "x", message_id="promise:1.1")
    with pytest.raises(UsageError, match="allowed are 100"):
        Promise("x" * 101, str)
    with pytest.raises(PayloadError):
        await engine.reject(token, 7)  # type: ignore[arg-type]

    assert await engine.resolve(paid, token, Receipt("r-1"))


@pytest.mark.sqlite_only("one driver will do")
async def test_inside_a_transaction_it_is_refused(stage: Stage) -> None:
    engine = await stage.engine(ALL)

    with closing(sqlite3.connect(stage.url.removeprefix("sqlite:///"))) as connection:
        connection.execute("BEGIN")
        with pytest.raises(UsageError, match="whether it was the first is known after the commit"):
            await engine.within(connection).resolve(paid, "x", Receipt("r"))


@pytest.fixture
async def secret(stage: Stage) -> bytes:
    client = await stage.client()
    return await client._core.read_secret()


async def test_the_secret_is_shown_nowhere(
    stage: Stage, secret: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    engine = await stage.engine(ALL)
    handle = await engine.start("d-1", deposit, "o-1")
    token = await token_in_history(handle)
    with pytest.raises(PromiseNotFoundError) as refused:
        await engine.resolve(paid, token[:-1], Receipt("x"))
    hot = engine._serving.turns.hot.get("d-1")
    assert await engine.resolve(paid, token, Receipt("r-1"))
    await handle.result()

    shown = [
        json.dumps(await handle.export()),
        repr(await handle.history()),
        repr(await handle.info()),
        repr(await engine.metrics()),
        repr(engine),
        repr(engine._core.store),
        repr(engine._serving.turns),
        repr(hot),
        repr(refused.value),
        str(refused.value),
        engine.telemetry.text() if hasattr(engine.telemetry, "text") else "",
        caplog.text,
        *(repr(record.__dict__) for record in caplog.records),
    ]
    for form in (secret.hex(), repr(secret)[2:-1], repr(secret)):
        assert not any(form in text for text in shown)


async def test_a_new_process_signs_with_the_same_secret(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("d-1", deposit, "o-1")
    token = await token_in_history(handle)
    await engine.close()

    client = await stage.client()
    assert await client.resolve(paid, token, Receipt("r-1"))
    again = await stage.engine(ALL)

    assert await again.handle("d-1", deposit).result() == Receipt("r-1")


async def test_a_worker_without_the_instance_in_memory_replays_the_token(stage: Stage) -> None:
    """The secret may even be another by then: what was given away is on record."""
    engine = await stage.engine(ALL, options=options(hot_instances=0))
    handle = await engine.start("d-1", deposit, "o-1")
    token = await token_in_history(handle)
    await waits_for(handle, "promise 'paid'")
    engine._serving.turns.sign_with(b"another" + b"!" * 25)

    assert await engine.resolve(paid, token, Receipt("r-1"))
    assert await handle.result() == Receipt("r-1")


@contextmanager
def copied(url: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Give a copy of a store that is not in use."""
    if url.startswith("sqlite"):
        write_backup(url.removeprefix("sqlite:///"), f"{folder}/copy.db")
        yield f"sqlite:///{folder}/copy.db"
        return
    server: Server = request.getfixturevalue("postgres")
    copy = server.create_database(template=url)
    try:
        yield copy
    finally:
        server.drop_database(copy)


async def test_a_token_is_good_in_a_copy_of_its_store(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The secret goes along: each of the two keeps the promise of its own instance, once."""
    engine = await stage.engine(ALL)
    handle = await engine.start("d-1", deposit, "o-1")
    token = await token_in_history(handle)
    await waits_for(handle, "promise 'paid'")
    await engine.close()

    with copied(stage.url, tmp_path, request) as copy:
        for url, said in ((copy, "in the copy"), (stage.url, "in the original")):
            async with Client(url) as client:
                assert await client.resolve(paid, token, Receipt(said))
                assert not await client.resolve(paid, token, Receipt("again"))
            async with Engine(url, ALL) as again:
                assert await again.handle("d-1", deposit).result() == Receipt(said)
