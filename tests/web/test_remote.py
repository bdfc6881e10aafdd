"""`Client("http://...")` says and does what a client of the store does."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest

from perdure import (
    Accepted,
    BlockingClient,
    Client,
    Context,
    Cron,
    Engine,
    Every,
    Orchestration,
    Promise,
    Rejected,
    Schedule,
    Signal,
    orchestration,
)
from perdure.cli.serving.http_server import served
from perdure.client.deciders.declaring import declare
from perdure.client.handle import Handle
from perdure.client.remote.client import RemoteClient
from perdure.client.remote.connection import ERRORS, error_of
from perdure.client.remote.handle import RemoteHandle
from perdure.errors import (
    AlreadyExistsError,
    InstanceCancelledError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    PayloadError,
    PerdureError,
    PromiseNotFoundError,
    PromiseRejectedError,
    ResultTimeoutError,
    StoreUnavailableError,
    UnexpectedCountError,
    UsageError,
    VersionConflictError,
)
from perdure.model.instances import Status
from perdure.repair import after, at_event, before
from perdure.web.access import make_token
from perdure.web.application import app
from perdure.web.problems import document_of
from tests.each import each
from tests.engine.stage import until
from tests.sizes import WITHIN_S
from tests.web.site import (
    DEFINITIONS,
    Account,
    Balance,
    Deposit,
    Deposited,
    Open,
    Opened,
    engine_with_all,
    go,
    long,
    memory_url,
    pack,
    quick,
    ship,
)

LONG = timedelta(seconds=60)
more = Signal("more", int)


@orchestration
async def telling(ctx: Context, n: int) -> int:
    """Reports, keeps a value, and waits between."""
    ctx.report({"at": 1})
    n += await more.receive()
    ctx.kv["sum"] = n
    ctx.report({"at": 2})
    return n + await more.receive()


@orchestration
async def again(times: int) -> int:
    """Continue as new so often."""
    if times:
        again.continue_as_new(times - 1)
    return times


@dataclass
class Pair:
    """The same store from both sides."""

    local: Client
    remote: Client
    url: str
    token: str


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with engine_with_all() as engine, serving(engine) as found:
        yield found


@pytest.fixture
async def fresh() -> AsyncIterator[Pair]:
    async with (
        Engine(memory_url(), [*DEFINITIONS, telling, promising, moving]) as engine,
        serving(engine) as found,
    ):
        yield found


@pytest.fixture
async def both(store_url: str) -> AsyncIterator[Pair]:
    """On each store."""
    async with (
        Engine(store_url, [*DEFINITIONS, telling, again, long]) as engine,
        serving(engine) as found,
    ):
        yield found


class serving:  # noqa: N801 - a context manager, as asyncio.timeout
    """A server on a port of this machine, and a client before it."""

    def __init__(self, engine: Client) -> None:
        self._engine = engine
        self._token, kept = make_token("test", scopes=["read", "write", "admin"])
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._served = served(app(engine, tokens=[kept]), [self._listening], drain_s=0)

    async def __aenter__(self) -> Pair:
        await self._served.__aenter__()
        url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._client = await Client(url, token=self._token).open()
        return Pair(self._engine, self._client, url, self._token)

    async def __aexit__(self, *error: Any) -> None:
        await self._client.close()
        await self._served.__aexit__(*error)


# ------------------------------------------------------------------- the interface


def _methods(kind: type) -> set[str]:
    return {
        name
        for name, found in inspect.getmembers(kind)
        if (callable(found) or isinstance(found, property)) and not name.startswith("_")
    }


def test_every_method_is_there_or_refused() -> None:
    """None may be inherited by accident: it would look for a store."""
    assert _methods(Client) - {"within"} <= set(vars(RemoteClient))
    assert _methods(Handle) <= set(vars(RemoteHandle))
    for kind, remote in ((Client, RemoteClient), (Handle, RemoteHandle)):
        for name in _methods(kind) - {"within", "telemetry", "start", "handle", "kv", "wait_kv"}:
            assert _parameters(remote, name) == _parameters(kind, name), name


def _parameters(kind: type, name: str) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(getattr(kind, name)).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]


QUESTIONS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "instances": lambda one: one.instances(status="completed"),
    "instances by ids": lambda one: one.instances(ids=["done-1", "failed-1"], limit=1),
    "instances that wait": lambda one: one.instances(waits="signal"),
    "count": lambda one: one.count(roots_only=True),
    "metrics": lambda one: one.metrics(),
    "queues": lambda one: one.queues(),
    "sessions": lambda one: one.sessions(),
    "dead jobs": lambda one: one.dead_jobs(),
    "count of dead jobs": lambda one: one.count_dead_jobs(activity="explode"),
    "inbox": lambda one: one.inbox("done-1"),
    "projections": lambda one: one.projections(),
    "schedules": lambda one: one.schedules(),
    "info": lambda one: one.handle("order/1").info(),
    "explain": lambda one: one.handle("done-1").explain(),
    "executions": lambda one: one.handle("done-1").executions(),
    "history": lambda one: one.handle("order/1").history(),
    "part of a history": lambda one: one.handle("order/1").history(1, after=1, limit=2),
    "events of a kind": lambda one: one.handle("done-1").history(kind="activity"),
    "events about a name": lambda one: one.handle("done-1").history(name="pack", limit=1),
    "events of failures": lambda one: one.handle("failed-1").history(1, failures=True),
    "tree": lambda one: one.handle("family-1").tree(),
    "stats": lambda one: one.handle("order/1").stats(),
    "jobs": lambda one: one.handle("order/1").jobs(),
    "progress": lambda one: one.handle("order/1").progress(),
    "report": lambda one: one.handle("order/1").report(),
    "kv": lambda one: one.handle("order/1").kv(),
    "result": lambda one: one.handle("done-1", quick).result(),
    "info of a decider": lambda one: one.handle("a-1", Account).info(),
    "state": lambda one: one.state(Account, "a-1"),
    "state before": lambda one: one.state(Account, "a-1", at=2),
    "events": lambda one: one.events(Account, "a-1"),
    "transitions": lambda one: one.transitions(Account, "a-1"),
    "state by name": lambda one: one.state_json("account", "a-1"),
    "state by name, before": lambda one: one.state_json("account", "a-1", at=1),
    "observations": lambda one: one.observations(Account, "a-1"),
    "some observations": lambda one: one.observations(Account, "a-1", after=1, limit=1),
    "who has a key": lambda one: one.key_holder(Account, "owner Ada"),
    "a key that is free": lambda one: one.key_holder(Account, "owner/nobody"),
    "events by name": lambda one: one.events_json("account", "a-1", after=1, limit=1),
}


async def test_both_give_the_same_answers(pair: Pair) -> None:
    for name, question in QUESTIONS.items():
        expected, found = await question(pair.local), await question(pair.remote)
        if name == "instances by ids":
            # Cursors are signed by the server.
            assert found.next is not None
            rest = await pair.remote.instances(ids=["done-1", "failed-1"], after=found.next)
            assert len(rest.items) == 1
            found, expected = found.items, expected.items
        assert found == expected, name
        assert type(found) is type(expected), name
    assert await pair.remote.state(Account, "a-1") == Balance("Ada", 42)
    assert await pair.remote.key_holder(Account, "owner Ada") == "a-1"
    assert len(await pair.remote.observations(Account, "a-1")) == 3
    [ours], [theirs] = await pair.local.workers(), await pair.remote.workers()
    assert theirs.worker_id == ours.worker_id
    assert {one[:3] for one in theirs.definitions} <= {one[:3] for one in ours.definitions}
    assert theirs.slots == ours.slots
    assert (theirs.instances, theirs.jobs) == (ours.instances, ours.jobs)
    assert [(one.definition.name, one.leased) for one in theirs.leases] == [
        (one.definition.name, one.leased) for one in ours.leases
    ]


REFUSALS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "info of nothing": lambda one: one.handle("nobody").info(),
    "result of nothing": lambda one: one.handle("nobody").result(),
    "report of nothing": lambda one: one.handle("nobody").report(),
    "kv of nothing": lambda one: one.handle("nobody").kv(),
    "a failure": lambda one: one.handle("failed-1").result(),
    "a signal too late": lambda one: one.handle("done-1").send(go, "now"),
    "a restart too early": lambda one: one.handle("order/1").restart(),
    "a taken id": lambda one: one.start("done-1", quick, "another"),
    "a child": lambda one: one.delete("toys-child"),
    "a dead job that is not there": lambda one: one.retry_dead_job("done-1:1:1:1"),
    "a projection that is not there": lambda one: one.projection("nothing"),
    "a schedule that is not there": lambda one: one.schedule("nothing").pause(),
    "an execution that is not there": lambda one: one.handle("done-1").history(7),
    "a kind of events": lambda one: one.handle("done-1").history(kind="nonsense"),
    "a condition": lambda one: one.instances(status="nonsense"),
    "a limit": lambda one: one.instances(limit=0),
    "an unknown decider": lambda one: one.send_json("nothing", "Open", {}, instance_id="a"),
    "a wrong input": lambda one: one.execute_json("account", "Open", {"account": 7}),
    "an argument": lambda one: one.start("new-1", ship, 7),  # type: ignore[call-overload]
}


async def test_both_refuse_the_same_with_the_same_errors(pair: Pair) -> None:
    for name, question in REFUSALS.items():
        told: list[PerdureError] = []
        for one in (pair.local, pair.remote):
            with pytest.raises(PerdureError) as refused:
                await question(one)
            told.append(refused.value)
        ours, theirs = told
        assert type(theirs) is type(ours), name
        assert str(theirs) == str(ours), name
        for fact in ("instance_id", "root_id", "status"):
            assert getattr(theirs, fact, None) == getattr(ours, fact, None), name


# --------------------------------------------------------------------------- doing


async def test_an_instance_is_started_told_and_waited_for(fresh: Pair) -> None:
    handle = await fresh.remote.start("a/b", telling, 1)
    assert (await fresh.remote.start("a/b", telling, 1)).instance_id == "a/b"

    first = await handle.wait_report(timeout=LONG)
    assert first is not None
    assert first.value == {"at": 1}
    with pytest.raises(ResultTimeoutError, match="signal 'more'"):
        await handle.result(timeout=timedelta(milliseconds=1))
    with pytest.raises(ResultTimeoutError, match="report after version 1"):
        await handle.wait_report(after=1, timeout=timedelta(milliseconds=1))
    with pytest.raises(ResultTimeoutError, match="value under key 'sum'"):
        await handle.wait_kv("sum", timeout=timedelta(milliseconds=1))

    waiting = asyncio.ensure_future(handle.wait_kv("sum", int, timeout=LONG))
    await handle.send(more, 10, message_id="m-1")
    await handle.send(more, 10, message_id="m-1")
    assert await waiting == 11
    second = await handle.wait_report(after=first.version, timeout=LONG)
    assert second is not None
    assert second.value == {"at": 2}
    await handle.send(more, 100)

    assert await handle.result(timeout=LONG) == 111
    assert await handle.wait_report(after=second.version) is None
    assert await handle.wait_kv("nothing") is None
    assert await handle.kv("sum", int) == 11
    [stored] = (await fresh.local.instances(name="telling")).items
    assert stored.input == {"n": 1}


async def test_a_start_by_name_a_delay_and_what_exists(fresh: Pair) -> None:
    named: Orchestration[..., str] = Orchestration.named("quick", str)
    by_place = await fresh.remote.start(named, "book")
    by_name = await fresh.remote.start("q-2", named, order="pen")
    assert await by_place.result(timeout=LONG) == "book packed"
    assert await by_name.result(timeout=LONG) == "pen packed"
    with pytest.raises(UsageError, match="by position and by name"):
        await fresh.remote.start(named, "a", other="b")

    later = await fresh.remote.start("q-3", ship.with_options(delay=timedelta(hours=1)), "cup")
    assert (await later.history()) == []
    await later.cancel("not any more")
    with pytest.raises(InstanceCancelledError) as cancelled:
        await later.result(timeout=LONG)
    assert cancelled.value.reason == "not any more"
    await later.restart()
    again = ship.with_options(if_exists="terminate")
    assert (await fresh.remote.start("q-3", again, "mug")).instance_id == "q-3"
    with pytest.raises(AlreadyExistsError):
        await fresh.remote.start("q-3", ship.with_options(if_exists="fail"), "mug")
    await later.terminate()
    with pytest.raises(InstanceTerminatedError, match="by test over HTTP"):
        await later.result(timeout=LONG)
    with pytest.raises(InstanceEndedError):
        await later.send(go, "now")
    assert await later.unpark() is False
    assert (await later.delete()).instances == 1
    with pytest.raises(InstanceNotFoundError):
        await later.info()


async def test_jobs_and_inboxes_are_mended(pair: Pair) -> None:
    [dead] = (await pair.remote.dead_jobs()).items
    await pair.remote.retry_dead_job(dead.key)
    await waits_until_dead(pair.local)
    assert await pair.remote.retry_dead_jobs(activity="explode") == 1
    await waits_until_dead(pair.local)
    await pair.remote.forget_dead_job(dead.key)
    assert await pair.remote.count_dead_jobs() == 0

    orphan: Orchestration[..., str] = Orchestration.named("orphan", str)
    await pair.remote.start("o-1", orphan)
    [message] = await pair.remote.inbox("o-1")
    assert message.kind == "started"
    with pytest.raises(UsageError, match="no job"):
        await pair.remote.complete_job("done-1:1:1:1", "x")
    with pytest.raises(UsageError, match="no job"):
        await pair.remote.fail_job("done-1:1:1:1", ValueError("x"))


@orchestration
async def moving() -> None:
    """Goes on with a version that no worker has, and takes its messages along."""
    await go.receive()
    moving.with_options(version="9.0.0").continue_as_new()


async def test_a_message_that_was_carried_over_is_dropped(fresh: Pair) -> None:
    handle = await fresh.remote.start("m-1", moving)
    await handle.send(more, 7)
    await handle.send(go, "on")

    async def carried() -> list[int]:
        return [one.no for one in await fresh.remote.inbox("m-1") if one.no < 0]

    await until(carried)
    [no] = await carried()
    await fresh.remote.drop_message("m-1", no)

    assert [one.kind for one in await fresh.local.inbox("m-1")] == ["started"]


async def waits_until_dead(engine: Client) -> None:
    await until(lambda: engine.count_dead_jobs())


async def test_inputs_are_decided_over_http(fresh: Pair) -> None:
    opened = await fresh.remote.execute_json("account", "Open", {"account": "x", "owner": "Eve"})
    assert (opened["outcome"], opened["version"]) == ("accepted", 1)
    await fresh.remote.send(Account, Deposit("x", 5), input_id="d-1")
    await fresh.remote.send(Account, Deposit("x", 5), input_id="d-1")

    async def is_deposited() -> bool:
        return await fresh.remote.state(Account, "x") == Balance("Eve", 5)

    await until(is_deposited)
    with pytest.raises(PayloadError):
        await fresh.remote.send(Account, "nothing")  # type: ignore[misc]


shipped = Promise("shipped", str)


@orchestration
async def promising(ctx: Context) -> str:
    made = [shipped.make(), shipped.make()]
    ctx.kv["tokens"] = [one.token for one in made]
    seen = await made[0].receive()
    try:
        await made[1].receive()
    except PromiseRejectedError as error:
        return f"{seen}, {error.reason}"
    return "?"


async def test_promises_are_kept_over_http(fresh: Pair) -> None:
    remote = fresh.remote
    handle = await remote.start("p-1", promising)
    first, second = await handle.wait_kv("tokens", list[str], timeout=WITHIN_S) or []

    with pytest.raises(PromiseNotFoundError):
        await remote.resolve(shipped, first[:-1], "x")
    with pytest.raises(UsageError, match="is of promise 'shipped', not of 'paid'"):
        await remote.resolve(Promise("paid", str), first, "x")
    with pytest.raises(PayloadError):
        await remote.resolve(shipped, first, 7)  # type: ignore[misc]
    assert [await remote.resolve(shipped, first, text) for text in "ab"] == [True, False]
    assert [await remote.reject(second, text) for text in "cd"] == [True, False]

    assert await handle.result() == "a, c"
    await remote.handle("p-1").restart()
    with pytest.raises(InstanceEndedError):
        await remote.resolve(shipped, first, "x")


async def test_one_thing_is_done_to_many_over_http(fresh: Pair) -> None:
    remote = fresh.remote
    for number in range(3):
        await remote.start(f"many-{number}", ship, "book")

    since = datetime.now(UTC) - timedelta(days=1)
    with pytest.raises(UnexpectedCountError, match="nothing was done") as caught:
        await remote.terminate_all(prefix="many-", created_after=since, expect=2)
    assert (caught.value.expected, caught.value.found) == (2, 3)
    with pytest.raises(UsageError, match="cancel_all needs a condition"):
        await remote.cancel_all(expect=0)
    unheard = Signal("unheard", str)
    for reached in (3, 0):
        sent = await remote.signal_all(unheard, "x", prefix="many-", expect=3, message_id="m-1")
        assert sent == reached
    assert await remote.retry_all(prefix="many-", expect=3) == 0
    assert await remote.unpark_all(prefix="many-", expect=0) == 0
    assert await remote.terminate_all(prefix="many-", created_after=since, expect=3) == 3

    assert await remote.count(prefix="many-", status="terminated") == 3


async def test_instances_are_reset_and_forked_over_http(fresh: Pair) -> None:
    remote = fresh.remote
    handle = await remote.start("r-1", quick, "book")
    first = await handle.result()

    plan = await handle.plan(before(pack))
    assert plan == await fresh.local.handle("r-1").plan(before(pack))
    assert plan.runs_again == ("pack",)
    await handle.reset(before(pack), reason="once more")
    assert await handle.result() == first
    [started, *_] = await fresh.local.handle("r-1").history()
    assert started.data["origin"]["reason"] == "once more (by test)"
    other = await handle.fork("r-2", after(pack).returning("other"))
    assert await other.result() == "other"
    await remote.reset_all(at_event(1), prefix="r-", expect=2)
    assert await other.result() == first
    with pytest.raises(UsageError, match="has no event 99"):
        await handle.reset(at_event(99))
    with pytest.raises(AlreadyExistsError):
        await handle.fork("r-2", at_event(1))
    assert await remote.reset_all(prefix="r-", expect=0) == 0


async def test_instances_are_moved_to_another_version_over_http(fresh: Pair) -> None:
    handle = await fresh.remote.start("r-1", quick, "book")
    await handle.result()
    later = fresh.remote.handle("r-1", quick.with_options(version="7.0.0"))
    other = fresh.remote.handle(
        "r-1", Orchestration.named("other", str).with_options(version="7.0.0")
    )

    await later.fork("r-2", before(pack))
    await later.reset(before(pack))

    assert (await handle.info()).version == "7.0.0"
    assert (await fresh.remote.handle("r-2").info()).version == "7.0.0"
    with pytest.raises(UsageError, match="cannot be moved to version"):
        await other.reset(before(pack))


async def test_a_schedule_is_put_and_steered_over_http(fresh: Pair) -> None:
    nightly = Schedule(
        "night/ly", [Cron("0 2 * * *", "Europe/Berlin"), Every(timedelta(days=9))], quick, "toys"
    ).with_options(overlap="queue", except_on=[date(2026, 12, 25)], jitter=timedelta(seconds=1))

    handle = await fresh.remote.put_schedule(nightly)
    local = fresh.local.schedule("night/ly")
    assert await handle.info() == await local.info()
    assert not await declare(fresh.local, nightly, by_code=False)
    await handle.pause("migration")
    assert (await local.info()).paused == "migration"
    await handle.resume()
    started = await handle.trigger(trigger_id="t-1")
    assert started == "night/ly@trigger#t-1"
    assert (await fresh.local.handle(started, quick).result()) == (
        await (await fresh.local.start(quick, "toys")).result()
    )
    assert await handle.backfill(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))

    async def is_done() -> bool:
        return not (await handle.info()).running

    await until(is_done)
    await handle.delete()
    assert await fresh.remote.schedules() == []
    with pytest.raises(UsageError, match="time zone"):
        await handle.backfill(datetime(2026, 1, 1), datetime(2026, 1, 3, tzinfo=UTC))


async def test_a_transaction_of_the_callers_is_refused_with_advice(pair: Pair) -> None:
    with pytest.raises(
        UsageError, match=r"within cannot be done over HTTP: a transaction of yours"
    ):
        pair.remote.within(object())


async def test_an_input_is_decided_over_http_with_the_same_answers(both: Pair) -> None:
    remote, local = both.remote, both.local

    opened = await remote.execute(Account, Open("a-1", "Ada"))
    paid = await remote.execute(Account, Deposit("a-1", 40), input_id="d-1", expected_version=1)
    again = await remote.execute(Account, Deposit("a-1", 40), input_id="d-1")
    here = await local.execute(Account, Deposit("a-1", 40), input_id="d-1")

    assert isinstance(opened, Accepted)
    assert opened.events == (Opened("Ada"),)
    assert isinstance(paid, Accepted)
    assert (paid.events, paid.state, paid.version) == ((Deposited(40),), Balance("Ada", 40), 2)
    assert paid == again == here
    with pytest.raises(VersionConflictError):
        await remote.execute(Account, Deposit("a-1", 1), expected_version=7)


async def test_a_rejection_comes_over_http_as_what_the_decider_says(pair: Pair) -> None:
    there = await pair.remote.execute(Account, Deposit("a-1", 101))
    here = await pair.local.execute(Account, Deposit("a-1", 101))

    assert isinstance(there, Rejected)
    assert there == here


async def test_a_server_without_the_code_has_a_worker_decide() -> None:
    url = memory_url()
    async with Engine(url, DEFINITIONS) as engine, Client(url) as store, serving(store) as bare:
        opened = await bare.remote.execute(Account, Open("a-9", "Ada"), input_id="o-1")

        assert isinstance(opened, Accepted)
        assert (opened.events, opened.version) == ((Opened("Ada"),), 1)
        assert opened.state == await engine.state(Account, "a-9")


async def test_an_input_is_tried_over_http_and_nothing_is_written(pair: Pair) -> None:
    before = await pair.local.events(Account, "a-1")
    for given in (Deposit("a-1", 5), Deposit("a-1", 101), Open("a-2", "Eva")):
        there = await pair.remote.dry_run(Account, given)
        assert there == await pair.local.dry_run(Account, given)
    with pytest.raises(VersionConflictError):
        await pair.remote.dry_run(Account, Deposit("a-1", 5), expected_version=99)

    assert await pair.local.events(Account, "a-1") == before


async def test_a_signal_starts_its_instance_over_http(both: Pair) -> None:
    started = await both.remote.send_with_start(more, 1, "t-1", telling, 10)
    await both.remote.send_with_start(more, 2, "t-1", telling, 99)

    assert await started.result(timeout=LONG) == 13
    with pytest.raises(InstanceEndedError):
        await both.remote.send_with_start(more, 3, "t-1", telling, 10)


async def test_a_signal_that_starts_is_sent_once_under_its_key(both: Pair) -> None:
    body = {"name": "more", "value": 1, "orchestration": telling.name, "input": [10]}
    headers = {"Authorization": f"Bearer {both.token}", "Idempotency-Key": "m-1"}
    async with httpx.AsyncClient(base_url=both.url, headers=headers) as http:
        for _ in range(2):
            answer = await http.post("/api/instances/t-2/signals-with-start", json=body)
            assert answer.status_code == 200
        await both.remote.handle("t-2").send(more, 2)
        assert await both.remote.handle("t-2", telling).result(timeout=LONG) == 13

        # Also when it has ended meanwhile: it was sent.
        assert (
            await http.post("/api/instances/t-2/signals-with-start", json=body)
        ).status_code == 200


async def test_ended_instances_are_deleted_over_http_by_a_filter(pair: Pair) -> None:
    with pytest.raises(UsageError, match="delete_all needs a condition"):
        await pair.remote.delete_all()
    with pytest.raises(UnexpectedCountError):
        await pair.remote.delete_all(ids=["done-1", "failed-1"], expect=7)
    with pytest.raises(UsageError, match="no filter 'nme'"):
        await pair.remote.delete_all(nme="x")  # type: ignore[call-arg]

    first = await pair.remote.delete_all(ids=["done-1", "order/1"], status="completed")
    rest = await pair.remote.delete_all(ids=["failed-1"], expect=1, limit=1)

    with pytest.raises(UsageError, match="only instances that have ended are deleted"):
        await pair.remote.delete_all(status="running", prefix="order")
    assert (first.instances, rest.instances) == (1, 1)
    assert await pair.local.count(ids=["done-1", "order/1", "failed-1"]) == 1


async def test_earlier_executions_are_pruned_over_http(both: Pair) -> None:
    for number in (1, 2):
        handle = await both.local.start(f"again-{number}", again, 3)
        await handle.result(timeout=LONG)
    with pytest.raises(UsageError, match="has no time zone"):
        await both.remote.prune(before=datetime(2026, 1, 1))

    none = await both.remote.handle("again-1").prune(before=datetime(2020, 1, 1, tzinfo=UTC))
    one = await both.remote.handle("again-1").prune(keep_last=2)
    rest = await both.remote.prune(prefix="again-")

    assert (none.executions, one.executions, rest.executions) == (0, 2, 4)
    assert len(await both.local.handle("again-2").executions()) == 1


async def test_a_server_removes_nothing_that_was_not_counted_or_named(fresh: Pair) -> None:
    """SEC-34: an explicit filter and the expected count, or a word that all are meant."""
    for number in (1, 2):
        await (await fresh.local.start(f"q-{number}", quick, "x")).result(timeout=LONG)
    asked: dict[str, dict[str, Any]] = {
        "instances-delete": {"where": {"prefix": "q-"}},
        "instances-delete ": {"where": {"prefix": "q-"}, "expect": 1},
        "instances-delete  ": {"where": {}, "expect": 2},
        "instances-prune": {},
    }
    headers = {"Authorization": f"Bearer {fresh.token}"}
    async with httpx.AsyncClient(base_url=fresh.url, headers=headers) as http:
        codes = [
            (await http.post(f"/api/{route.strip()}", json=body)).json()["code"]
            for route, body in asked.items()
        ]
        body = {"where": {"prefix": "q-"}, "expect": 2, "limit": 1}
        one = (await http.post("/api/instances-delete", json=body)).json()

    assert codes == ["invalid_body", "unexpected_count", "usage", "empty_filter"]
    assert one["instances"] == 1
    assert await fresh.local.count(prefix="q-") == 1


async def test_an_export_over_http_is_that_of_the_store(pair: Pair) -> None:
    for instance_id in ("done-1", "order/1"):
        there = await pair.remote.handle(instance_id).export()
        assert there == await pair.local.handle(instance_id).export()
    with pytest.raises(UsageError, match="has no execution 9"):
        await pair.remote.handle("done-1").export(9)


async def test_a_long_export_comes_in_parts(both: Pair) -> None:
    await (await both.local.start("long-1", long, 700)).result(timeout=LONG)

    there = await both.remote.handle("long-1").export()

    assert there == await both.local.handle("long-1").export()
    assert len(there) > 701


async def test_workers_of_another_time_are_listed_over_http(pair: Pair) -> None:
    [seen] = await pair.remote.workers(seen_within=timedelta(days=1))
    with pytest.raises(UsageError, match="seen_within"):
        await pair.remote.workers(seen_within="nonsense")  # type: ignore[arg-type]

    assert seen.pid == os.getpid()


async def test_only_so_many_dead_jobs_are_put_back_over_http(pair: Pair) -> None:
    assert await pair.remote.retry_dead_jobs(limit=1, activity="explode") == 1


async def test_inputs_wait_over_http_for_a_decider_that_comes_later(fresh: Pair) -> None:
    await fresh.remote.send_json("later", "Go", {}, instance_id="c", allow_unknown=True)

    assert len(await fresh.remote.inbox("later:c")) > 0


async def test_a_blocking_client_goes_over_http_too(pair: Pair) -> None:
    def ask() -> tuple[Status, str]:
        with BlockingClient(pair.url, token=pair.token) as client:
            handle = client.handle("done-1", quick)
            return handle.info().status, handle.result()

    assert await asyncio.to_thread(ask) == (Status.COMPLETED, "book packed")


# ---------------------------------------------------------------------- the server


async def test_a_wrong_token_and_a_server_that_is_gone_are_said(pair: Pair) -> None:
    async with Client(pair.url, token="pdr_wrong") as client:
        with pytest.raises(UsageError, match=r"refused it \(401\): this needs a token"):
            await client.metrics()
    async with Client("http://127.0.0.1:1") as client:
        with pytest.raises(StoreUnavailableError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
            await client.metrics()
    with pytest.raises(UsageError, match="not open"):
        await Client(pair.url).metrics()


def test_what_is_no_url_of_a_server_is_refused() -> None:
    for url in ("http://me:secret@host", "https://host?token=x", "https://"):
        with pytest.raises(UsageError) as refused:
            Client(url)
        assert "secret" not in str(refused.value)
    with pytest.raises(UsageError, match="a store takes none"):
        Client("sqlite://:memory:", token="x")
    with pytest.raises(UsageError, match="a store URL looks like"):
        Engine("https://host", [])
    with pytest.raises(UsageError, match="serves a store, not another server"):
        app("https://host", insecure_no_auth=True)


@each(sorted(ERRORS))
def test_an_error_is_of_its_class_again(code: str) -> None:
    kind = ERRORS[code]
    bare = kind.__new__(kind, "what happened")
    Exception.__init__(bare, "what happened")

    document, _ = document_of(bare)
    again = error_of(document["status"], document, "http://x")

    assert type(again) is kind
    assert str(again) == document["detail"]


async def test_a_failure_names_the_original(pair: Pair) -> None:
    with pytest.raises(InstanceFailedError) as ours:
        await pair.local.handle("failed-1").result()
    with pytest.raises(InstanceFailedError) as theirs:
        await pair.remote.handle("failed-1").result()

    assert (theirs.value.type_name, theirs.value.message) == (
        ours.value.type_name,
        ours.value.message,
    )
