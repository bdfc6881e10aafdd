"""Whatever text a caller hands over is refused at the call, or comes back as it was.

None may reach the store and be an error there: a transaction is shared with others.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import Client, Handle, Promise, Signal, Update, orchestration
from perdure.errors import ResultTimeoutError, UsageError
from perdure.limits import MAX_ID_BYTES, MAX_TEXT_BYTES
from perdure.projection import EventMeta, Projection
from tests.each import each
from tests.engine.fed import Order, Place, Placed, Shipped
from tests.engine.stage import Stage, until

NASTY = (
    "\0",
    "a\0b",
    "\ud800",
    "a\udfffb",
    "x" * (MAX_ID_BYTES + 1),
    "x" * (MAX_TEXT_BYTES + 1),
    "ß" * MAX_TEXT_BYTES,
    "",
    " ",
    "a\nb\r\tc",
    "\x1b[31m\x9f",
    "../..",
    "a\\b",
    "'; DROP TABLE live; --",
    "%s $1 ? :name {0}",
    "\u202eevil\u200b",
    "e\u0301\u00e9",
    "\U0001f99c",
    "\ufffe\uffff",
)

go = Signal("go", str)
ask = Update("ask", str, str)
paid = Promise("paid", str)
A_MOMENT = timedelta(milliseconds=1)


@orchestration
async def waiting() -> str:
    return await go.receive()


class Seen(Projection[Placed | Shipped]):
    name = "seen"
    deciders = (Order,)

    async def handle(self, event: Placed | Shipped, meta: EventMeta, /) -> None: ...


class Door:
    """A client, and an instance of each sort to do something to."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.made = 0

    def fresh(self) -> str:
        self.made += 1
        return f"i-{self.made}"

    async def started(self) -> Handle[Any]:
        return await self.client.start(self.fresh(), waiting)


Call = Callable[[Door, str], Awaitable[object]]


async def start(door: Door, text: str) -> object:
    handle = await door.client.start(text, waiting)
    return (await handle.info()).instance_id


async def send_with_start(door: Door, text: str) -> object:
    handle = await door.client.send_with_start(go, "on", f"w{text}", waiting)
    return (await handle.info()).instance_id.removeprefix("w")


async def start_with_a_value(door: Door, text: str) -> object:
    @orchestration
    async def echo(value: str) -> str:
        return value

    return (await (await door.client.start(door.fresh(), echo, text)).info()).input["value"]


async def terminate(door: Door, text: str) -> object:
    handle = await door.started()
    await handle.terminate(text)
    return (await handle.info()).reason


async def cancel(door: Door, text: str) -> object:
    handle = await door.started()
    await handle.cancel(text)
    inbox = await door.client.inbox(handle.instance_id)
    return inbox[-1].data["reason"]


async def signal(door: Door, text: str) -> object:
    handle = await door.started()
    await handle.send(go, text)
    return (await door.client.inbox(handle.instance_id))[-1].data["value"]


async def signal_with_id(door: Door, text: str) -> object:
    handle = await door.started()
    for _ in range(2):
        await handle.send(go, "on", message_id=text)
    assert len(await door.client.inbox(handle.instance_id)) == 2
    return None


async def cancel_all(door: Door, text: str) -> object:
    handle = await door.started()
    await door.client.cancel_all(prefix=f"{handle.instance_id}.", expect=0, reason=text)
    await door.client.cancel_all(prefix=handle.instance_id, expect=1, reason=text)
    return (await door.client.inbox(handle.instance_id))[-1].data["reason"]


async def terminate_all(door: Door, text: str) -> object:
    handle = await door.started()
    await door.client.terminate_all(prefix=handle.instance_id, expect=1, reason=text)
    return (await handle.info()).reason


async def signal_all(door: Door, text: str) -> object:
    handle = await door.started()
    more: dict[str, Any] = {"message_id": door.fresh(), "prefix": handle.instance_id}
    await door.client.signal_all(go, text, expect=1, **more)
    return (await door.client.inbox(handle.instance_id))[-1].data["value"]


async def signal_all_with_id(door: Door, text: str) -> object:
    handle = await door.started()
    for _ in range(2):
        await door.client.signal_all(go, "on", expect=1, message_id=text, prefix=handle.instance_id)
    assert len(await door.client.inbox(handle.instance_id)) == 2
    return None


async def reset_all(door: Door, text: str) -> object:
    handle = await door.started()
    return await door.client.reset_all(prefix=handle.instance_id, expect=1, reason=text)


async def reset(door: Door, text: str) -> object:
    await (await door.started()).reset(reason=text)
    return None


async def fork(door: Door, text: str) -> object:
    other = await (await door.started()).fork(text)
    return (await other.info()).instance_id


async def update(door: Door, text: str) -> object:
    return await (await door.started()).update(ask, text, timeout=A_MOMENT)


async def update_with_id(door: Door, text: str) -> object:
    return await (await door.started()).update(ask, "on", update_id=text, timeout=A_MOMENT)


async def update_with_start(door: Door, text: str) -> object:
    soon = ask.with_options(timeout=A_MOMENT)
    return await door.client.update_with_start(soon, "on", f"u{text}", waiting)


async def execute(door: Door, text: str) -> object:
    order = door.fresh()
    for _ in range(2):
        await door.client.execute(Order, Place(order), input_id=text)
    [event] = await door.client.events(Order, order)
    return event.input_id


async def execute_within(door: Door, text: str) -> object:
    order = door.fresh()
    await door.client.execute(Order, Place(order), correlation=text)
    [event] = await door.client.events(Order, order)
    return event.correlation


async def execute_a_value(door: Door, text: str) -> object:
    order = door.fresh()
    await door.client.execute(Order, Place(order, text))
    [event] = await door.client.events(Order, order)
    return event.event.sku


async def execute_for(door: Door, text: str) -> object:
    await door.client.execute(Order, Place(text))
    assert (await door.client.state(Order, text)).placed
    return text


async def send(door: Door, text: str) -> object:
    order = door.fresh()
    for _ in range(2):
        await door.client.send(Order, Place(order), input_id=text)
    assert len(await door.client.inbox(f"order:{order}")) == 2
    return None


async def send_within(door: Door, text: str) -> object:
    order = door.fresh()
    await door.client.send(Order, Place(order), correlation=text)
    return (await door.client.inbox(f"order:{order}"))[-1].data.get("correlation", "")


def json_call(**given: str) -> Call:
    """Return a call of `send_json` and `execute_json` with the text in one place."""

    async def call(door: Door, text: str) -> object:
        order = door.fresh()
        more: dict[str, Any] = {"decider": "order", "tag": "Place", "instance_id": order}
        more |= dict.fromkeys(given, text)
        decider, tag = more.pop("decider"), more.pop("tag")
        await door.client.send_json(decider, tag, {"order_id": order}, **more)
        within = timedelta(milliseconds=1)
        try:
            await door.client.execute_json(
                decider, tag, {"order_id": order}, timeout=within, **more
            )
        except ResultTimeoutError:
            return None
        raise AssertionError("nobody can have decided it")

    return call


async def pause(door: Door, text: str) -> object:
    await door.client.pause_projection("seen", reason=text)
    return (await door.client.projection("seen")).reason


async def fail_job(door: Door, text: str) -> object:
    await door.client.fail_job("i-1/1/1/1", text)
    return None


def reads(call: Callable[[Client, str], Awaitable[object]]) -> Call:
    """Return a call that only looks something up."""

    async def looked_up(door: Door, text: str) -> object:
        await call(door.client, text)
        return None

    return looked_up


KEEPING: dict[str, Call] = {
    "Client.start": start,
    "Client.start, value": start_with_a_value,
    "Client.send_with_start": send_with_start,
    "Client.execute, input_id": execute,
    "Client.execute, correlation": execute_within,
    "Client.execute, value": execute_a_value,
    "Client.execute, instance": execute_for,
    "Client.send, input_id": send,
    "Client.send, correlation": send_within,
    "Client.send_json, execute_json: tag": json_call(tag=""),
    "Client.send_json, execute_json: instance_id": json_call(instance_id=""),
    "Client.send_json, execute_json: input_id": json_call(input_id=""),
    "Client.send_json, execute_json: correlation": json_call(correlation=""),
    "Client.cancel_all": cancel_all,
    "Client.terminate_all": terminate_all,
    "Client.signal_all": signal_all,
    "Client.signal_all, message_id": signal_all_with_id,
    "Client.reset_all": reset_all,
    "Client.update_with_start": update_with_start,
    "Client.pause_projection": pause,
    "Client.fail_job": fail_job,
    "Handle.send": signal,
    "Handle.send, message_id": signal_with_id,
    "Handle.cancel": cancel,
    "Handle.terminate": terminate,
    "Handle.reset": reset,
    "Handle.fork": fork,
    "Handle.update": update,
    "Handle.update, update_id": update_with_id,
}
"""Ways to hand over a text that write. Those that keep it return what is kept."""

LOOKING_UP: dict[str, Call] = {
    "Client.fail_job, key": reads(lambda client, text: client.fail_job(text, "no")),
    "Client.complete_job": reads(lambda client, text: client.complete_job(text, None)),
    "Client.retry_dead_job": reads(lambda client, text: client.retry_dead_job(text)),
    "Client.forget_dead_job": reads(lambda client, text: client.forget_dead_job(text)),
    "Client.dead_jobs": reads(lambda client, text: client.dead_jobs(after=text)),
    "Client.dead_jobs, activity": reads(lambda client, text: client.dead_jobs(activity=text)),
    "Client.instances": reads(lambda client, text: client.instances(after=text)),
    "Client.instances, prefix": reads(lambda client, text: client.instances(prefix=text)),
    "Client.instances, name": reads(lambda client, text: client.instances(name=text)),
    "Client.instances, parent": reads(lambda client, text: client.instances(parent=text)),
    "Client.instances, tag": reads(lambda client, text: client.instances(tag=text)),
    "Client.delete": reads(lambda client, text: client.delete(text)),
    "Client.drop_message": reads(lambda client, text: client.drop_message(text, 1)),
    "Client.inbox": reads(lambda client, text: client.inbox(text)),
    "Client.handle": reads(lambda client, text: client.handle(text).info()),
    "Client.state": reads(lambda client, text: client.state(Order, text)),
    "Client.events": reads(lambda client, text: client.events(Order, text)),
    "Client.state_json": reads(lambda client, text: client.state_json(text, "o")),
    "Client.state_json, instance": reads(lambda client, text: client.state_json("order", text)),
    "Client.events_json": reads(lambda client, text: client.events_json(text, "o")),
    "Client.events_json, instance": reads(lambda client, text: client.events_json("order", text)),
    "Client.schedule": reads(lambda client, text: client.schedule(text).info()),
    "Client.resolve": reads(lambda client, text: client.resolve(paid, text, "on")),
    "Client.reject": reads(lambda client, text: client.reject(text, "no")),
    "Client.reject, reason": reads(lambda client, text: client.reject("no-token", text)),
    "Client.transitions": reads(lambda client, text: client.transitions(Order, text)),
    "Client.observations": reads(lambda client, text: client.observations(Order, text)),
    "Client.key_holder": reads(lambda client, text: client.key_holder(Order, text)),
    "Client.projection": reads(lambda client, text: client.projection(text)),
    "Client.resume_projection": reads(lambda client, text: client.resume_projection(text)),
    "Client.rebuild_projection": reads(lambda client, text: client.rebuild_projection(text)),
    "Client.forget_projection": reads(lambda client, text: client.forget_projection(text)),
    "Handle.history, kind": reads(lambda client, text: client.handle("i-1").history(kind=text)),
    "Handle.history, name": reads(lambda client, text: client.handle("i-1").history(name=text)),
    "Handle.wait_kv": reads(
        lambda client, text: client.handle("i-1").wait_kv(text, timeout=timedelta(0))
    ),
}
"""Ways to hand over a text by which nothing changes: what they ask for is not there."""

OURS = {
    "Client.code_of",
    "Client.execute_input",
    "Client.find_decider",
    "Client.is_here",
    "Client.noticed_end",
    "Client.noticed_gone",
    "Client.noticed_mail",
    "Client.send_input",
    "Client.stop_jobs",
    "Client.wait_ended",
    "Client.wait_kept",
    "Client.wait_reported",
}
"""For the worker, which hands over what was checked."""


@pytest.fixture
async def door(stage: Stage) -> Door:
    engine = await stage.engine([Seen])

    async def is_known() -> bool:
        return bool(await engine.projections())

    await until(is_known)
    await engine.close()
    door = Door(await stage.client())
    await door.started()
    return door


async def hand_over(call: Call, door: Door) -> None:
    for text in NASTY:
        try:
            kept = await call(door, text)
        except (UsageError, ResultTimeoutError):
            continue
        assert kept in (None, text), f"{text[:20]!r} came back as {kept!r}"


@pytest.mark.parametrize("name", KEEPING)
async def test_a_text_is_refused_at_the_call_or_comes_back_as_it_was(door: Door, name: str) -> None:
    await hand_over(KEEPING[name], door)


@each(LOOKING_UP)
async def test_a_text_that_nothing_is_called_is_refused_or_not_found(name: str, door: Door) -> None:
    await hand_over(LOOKING_UP[name], door)


def test_no_method_that_takes_a_text_is_forgotten() -> None:
    taking = {
        f"{cls.__name__}.{name}"
        for cls in (Client, Handle)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
        and any(
            "str" in str(one.annotation) for one in inspect.signature(method).parameters.values()
        )
    }

    named = {name.partition(",")[0].partition(":")[0] for name in (*KEEPING, *LOOKING_UP)}
    assert taking - OURS - named - {"Client.execute_json"} == set()
