"""Deciders' instances that are parked or blocked take no inputs, and whoever asks is told."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any

import pytest

from perdure import Accepted, Client, Decider, Decision, Engine, Rejected
from perdure.errors import InstanceHeldError
from perdure.model.histories.events import UnreadableEventError
from tests import rows
from tests.engine.stage import Stage, until
from tests.engine.test_execute import Add, Added
from tests.sizes import WITHIN_S


class Brittle(Decider[int, Add, Added, str]):
    """Cannot decide 13, and accepts nothing less than nothing."""

    name = "brittle"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return input.id

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, str]:
        if input.by == 13:
            raise ZeroDivisionError("unlucky")
        if input.by < 0:
            return Decision.reject("too little")
        return Decision.accept(Added(input.by))

    def evolve(self, state: int, event: Added, /) -> int:
        return state + event.by


HELD = r"'brittle:a' is parked: ZeroDivisionError: unlucky; .*unpark\(\) lets it be tried again"


async def parked(stage: Stage, client: Client) -> Engine:
    """Have an instance parked by another worker; return that."""
    stage.expect_log("a turn of instance .* failed")
    stage.expect_log("is parked")
    engine = await stage.engine([Brittle])
    await engine.send(Brittle, Add("a", 13))
    await until(lambda: has_status(client, "parked"))
    return engine


async def has_status(client: Client, status: str) -> bool:
    return (await client.handle("a", Brittle).info()).status == status


async def give_json(client: Client, value: int, **more: Any) -> Any:
    async with asyncio.timeout(WITHIN_S):
        given = {"id": "a", "by": value}
        return await client.execute_json("brittle", "Add", given, instance_id="a", **more)


# --------------------------------------------------------- in memory, and parked elsewhere


async def test_an_instance_that_is_parked_elsewhere_accepts_no_input_although_it_is_in_memory(
    stage: Stage,
) -> None:
    client = await stage.client()
    await client.execute(Brittle, Add("a", 1))
    await parked(stage, client)

    with pytest.raises(InstanceHeldError, match=HELD):
        await client.execute(Brittle, Add("a", 1))

    assert await has_status(client, "parked")
    assert await client.state(Brittle, "a") == 1


async def test_an_instance_that_is_parked_elsewhere_rejects_no_input_although_it_is_in_memory(
    stage: Stage,
) -> None:
    """What it would be rejected for may not hold any more when the instance goes on."""
    client = await stage.client()
    await client.execute(Brittle, Add("a", 1))
    assert await client.execute(Brittle, Add("a", -1)) == Rejected("too little")
    await parked(stage, client)

    for input_id in (None, "r-1"):
        with pytest.raises(InstanceHeldError, match=HELD):
            await client.execute(Brittle, Add("a", -1), input_id=input_id)

    assert await client._core.store.deciders.read_receipts("brittle:a", ["r-1"]) == {}


async def test_an_instance_that_is_parked_elsewhere_takes_inputs_again_when_it_is_let_go(
    stage: Stage,
) -> None:
    client = await stage.client()
    await client.execute(Brittle, Add("a", 1))
    engine = await parked(stage, client)
    with pytest.raises(InstanceHeldError):
        await client.execute(Brittle, Add("a", 1))

    [message] = [one for one in await client.inbox("brittle:a") if one.kind == "input_taken"]
    await client.drop_message("brittle:a", message.no)
    await client.handle("a", Brittle).unpark()

    assert await client.execute(Brittle, Add("a", 1)) == Accepted((Added(1),), 2, 2)
    assert await engine.state(Brittle, "a") == 2


async def test_what_is_parked_can_be_terminated(stage: Stage) -> None:
    client = await stage.client()
    await client.execute(Brittle, Add("a", 1))
    await parked(stage, client)

    await client.handle("a", Brittle).terminate("enough")

    assert await has_status(client, "terminated")


# ----------------------------------------------------------------- without the code


async def test_a_client_without_the_code_queues_nothing_for_a_parked_instance(
    stage: Stage,
) -> None:
    client = await stage.client()
    await parked(stage, client)
    before = await client.inbox("brittle:a")

    with pytest.raises(InstanceHeldError, match=HELD):
        await give_json(client, 1)

    assert await client.inbox("brittle:a") == before


async def test_a_client_without_the_code_is_told_what_its_input_came_to_before_the_instance_was_parked(  # noqa: E501 - says it all
    stage: Stage,
) -> None:
    client = await stage.client()
    worker = await stage.engine([Brittle])
    first = await give_json(client, 1, input_id="r-1")
    await worker.close()
    await parked(stage, client)

    assert await give_json(client, 1, input_id="r-1") == first


async def test_waiting_for_a_worker_ends_when_the_instance_is_parked(stage: Stage) -> None:
    """The input stays queued: it is decided when somebody has let the instance go."""
    client = await stage.client()
    await client.send(Brittle, Add("a", 13))
    waiting = asyncio.create_task(give_json(client, 1, input_id="r-1"))
    await until(lambda: has_mail(client, 2))
    stage.expect_log("a turn of instance .* failed")
    stage.expect_log("is parked")
    await stage.engine([Brittle])

    with pytest.raises(InstanceHeldError, match=HELD) as held:
        await waiting
    await client.drop_message("brittle:a", (await mail(client))[0].no)
    await client.handle("a", Brittle).unpark()

    assert held.value.instance_id == "brittle:a"
    assert (held.value.status, held.value.reason) == ("parked", "ZeroDivisionError: unlucky")
    assert "the input stays queued and is decided then" in str(held.value)
    assert (await give_json(client, 1, input_id="r-1"))["version"] == 1


async def test_waiting_for_a_worker_ends_when_the_instance_stays_blocked(stage: Stage) -> None:
    class Broken(Brittle):
        def evolve(self, state: int, event: Added, /) -> int:
            raise KeyError("no longer known")

    client = await stage.client()
    await client.execute(Brittle, Add("a", 1))
    stage.expect_log("is blocked")
    await stage.engine([Broken])

    with pytest.raises(InstanceHeldError, match=r"is blocked: .*cannot fold event 3.*deploy code"):
        await give_json(client, 1)


async def mail(client: Client) -> list[Any]:
    return [one for one in await client.inbox("brittle:a") if one.kind == "input_taken"]


async def has_mail(client: Client, count: int) -> bool:
    return len(await mail(client)) == count


# ---------------------------------------------------------------------------- damaged rows


async def test_a_damaged_row_is_named_to_who_reads_and_where_the_instance_is_parked(
    stage: Stage,
) -> None:
    stage.expect_log("instance .* is parked")
    client = await stage.client()
    await client.execute(Brittle, Add("a", 1))
    [[body]] = rows.run(stage.url, "SELECT body FROM history WHERE seq = 3")
    rows.run(stage.url, "UPDATE history SET body = ? WHERE seq = 3", b"{damaged")
    place = "instance 'brittle:a', execution 1, event 3: stored event of kind 'event_recorded'"
    reader = await stage.client()

    for read in (
        reader.events(Brittle, "a"),
        reader.state(Brittle, "a"),
        reader.state(Brittle, "a", at=1),
        reader.transitions(Brittle, "a"),
    ):
        with pytest.raises(UnreadableEventError, match=f"{place} is damaged"):
            await read
    await stage.engine([Brittle])
    await reader.send(Brittle, Add("a", 2))
    await until(lambda: has_status(client, "parked"))

    assert place in str((await client.handle("a", Brittle).info()).reason)
    rows.run(stage.url, "UPDATE history SET body = ? WHERE seq = 3", body)


# ---------------------------------------------------------------- code that cannot begin


class Impure(Brittle):
    """Begins with something else each time, which only shows where it is watched."""

    name = "impure"

    def initial(self) -> int:
        return time.time_ns() % 2


class Unready(Brittle):
    """Can begin only while it is ready."""

    name = "unready"
    is_ready = True

    def initial(self) -> int:
        if not self.is_ready:
            raise LookupError("not ready")
        return 0


@pytest.mark.parametrize(("decider", "status"), [(Impure, "blocked"), (Unready, "parked")])
async def test_an_instance_that_cannot_begin_is_held_and_holds_up_no_other_of_its_claim(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, decider: type[Brittle], status: str
) -> None:
    stage.expect_log(f"is {status}")
    client = await stage.client()
    for name in "abc":
        await client.send(decider, Add(name, 1))
        await client.send(Brittle, Add(name, 1))
    monkeypatch.setattr(Unready, "is_ready", False)
    engine = await stage.engine([decider, Brittle])

    async def are_through() -> bool:
        held = [await client.handle(name, decider).info() for name in "abc"]
        states = [await client.state(Brittle, name) for name in "abc"]
        return {one.status for one in held} == {status} and states == [1, 1, 1]

    await until(are_through)
    await until(lambda: not engine._serving.turns.leases())


async def test_an_input_for_an_instance_that_cannot_begin_fails_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    await client.execute(Unready, Add("before", 1))
    monkeypatch.setattr(Unready, "is_ready", False)

    unready, brittle = await asyncio.gather(
        client.execute(Unready, Add("a", 1)),
        client.execute(Brittle, Add("a", 1)),
        return_exceptions=True,
    )

    assert isinstance(unready, LookupError)
    assert brittle == Accepted((Added(1),), 1, 1)
