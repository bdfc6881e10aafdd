"""`Client("http://...")` says and does what a client of the store does."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from perdure import (
    BlockingClient,
    Client,
    Context,
    Cron,
    Engine,
    Every,
    Orchestration,
    Promise,
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
    Open,
    engine_with_all,
    go,
    memory_url,
    pack,
    quick,
    ship,
)

LONG = timedelta(seconds=30)
more = Signal("more", int)


@orchestration
async def telling(ctx: Context, n: int) -> int:
    """Reports, keeps a value, and waits between."""
    ctx.report({"at": 1})
    n += await more.receive()
    ctx.kv["sum"] = n
    ctx.report({"at": 2})
    return n + await more.receive()


@dataclass
class Pair:
    """The same store from both sides."""

    local: Engine
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
        Engine(memory_url(), [*DEFINITIONS, telling, promising]) as engine,
        serving(engine) as found,
    ):
        yield found


class serving:  # noqa: N801 - a context manager, as asyncio.timeout
    """A server on a port of this machine, and a client before it."""

    def __init__(self, engine: Engine) -> None:
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


async def waits_until_dead(engine: Engine) -> None:
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


async def test_what_needs_the_store_itself_is_refused_with_advice(pair: Pair) -> None:
    remote, handle = pair.remote, pair.remote.handle("done-1")
    asked: dict[str, Callable[[], Any]] = {
        "within": lambda: remote.within(object()),
        "execute": lambda: remote.execute(Account, Open("a", "b")),
        "dry_run": lambda: remote.dry_run(Account, Open("a", "b")),
        "send_with_start": lambda: remote.send_with_start(go, "x", "s-1", ship, "a"),
        "delete_all": lambda: remote.delete_all(status="completed"),
        "prune": lambda: remote.prune(),
        "prune of one": lambda: handle.prune(),
        "workers": lambda: remote.workers(seen_within=timedelta(days=1)),
        "retry_dead_jobs": lambda: remote.retry_dead_jobs(limit=1),
        "allow_unknown": lambda: remote.send_json(
            "a", "b", {}, instance_id="c", allow_unknown=True
        ),
    }

    async def answer(question: Callable[[], Any]) -> None:
        await question()

    for question in asked.values():
        with pytest.raises(UsageError, match=r"cannot be done over HTTP: .{10}"):
            await answer(question)


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
