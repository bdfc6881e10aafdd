"""Promises on the pages: listed while they are open, kept there; the secret is on none of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure import Context, Engine, Promise, orchestration
from perdure.web import make_token
from perdure.web.application import app
from tests.engine.stage import until
from tests.web.site import caller, memory_url

paid = Promise("paid", int)


@orchestration
async def deposit(ctx: Context) -> int:
    due, other = paid.make(), paid.make()
    ctx.kv["token"] = due.token
    return await due.receive() + await other.receive()


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Engine(memory_url(), [deposit]) as engine:
        handle = await engine.start("d-1", deposit)
        await until(lambda: handle.kv("token"))
        yield engine


async def is_received(engine: Engine) -> bool:
    return "signal_received" in [one.kind for one in await engine.handle("d-1").history()]


async def test_open_promises_are_listed_and_kept_from_the_page(engine: Engine) -> None:
    token, kept = make_token("test", scopes=["read", "write"])
    promise = str(await engine.handle("d-1").kv("token"))
    async with caller(app(engine, tokens=[kept]), Authorization=f"Bearer {token}") as site:
        before = (await site.get("/i/d-1?tab=jobs")).text
        answer = await site.post("/api/promises/resolve", json={"token": promise, "value": 7})
        again = await site.post("/api/promises/reject", json={"token": promise, "reason": "no"})
        wrong = await site.post("/api/promises/resolve", json={"token": promise[:-1]})
        await until(lambda: is_received(engine))
        after = (await site.get("/i/d-1?tab=jobs")).text

    assert before.count("&#34;token&#34;") == 4
    assert f"&#34;token&#34;: &#34;{promise}&#34;" in before
    assert (answer.json(), again.json()) == ({"first": True}, {"first": False})
    assert (wrong.status_code, wrong.json()["code"]) == (404, "promise_not_found")
    assert promise not in wrong.text
    assert after.count("&#34;token&#34;") == 2


@orchestration
async def patient(ctx: Context, values: int) -> int:
    for number in range(values):
        ctx.kv["number"] = number
    due = paid.make()
    ctx.kv["token"] = due.token
    return await due.receive()


async def test_a_promise_that_was_made_late_in_a_long_history_is_listed() -> None:
    async with Engine(memory_url(), [patient]) as engine:
        handle = await engine.start("p-1", patient, 1_200)
        await until(lambda: handle.kv("token"))
        async with caller(app(engine, insecure_no_auth=True)) as site:
            shown = (await site.get("/i/p-1.json?tab=jobs")).json()

    assert [(one["seq"], one["name"]) for one in shown["promises"]] == [(1_202, "paid")]
    assert shown["more_promises"] == 0


async def test_who_only_reads_is_given_no_button(engine: Engine) -> None:
    token, kept = make_token("test", scopes=["read"])
    promise = str(await engine.handle("d-1").kv("token"))
    async with caller(app(engine, tokens=[kept]), Authorization=f"Bearer {token}") as site:
        page = (await site.get("/i/d-1?tab=jobs")).text
        refused = await site.post("/api/promises/resolve", json={"token": promise, "value": 7})

    assert "data-body" not in page
    assert promise not in page
    assert refused.status_code == 403


async def test_no_page_and_no_route_shows_the_secret(engine: Engine) -> None:
    token, kept = make_token("test", scopes=["read", "write", "admin"])
    secret = await engine._core.read_secret()
    paths = ["/", "/queues", "/workers", "/failures", "/definitions", "/projections", "/i/d-1"]
    paths += [f"/i/d-1?tab={tab}" for tab in ("history", "jobs", "timeline", "check", "streams")]
    paths += [f"/api/{one}" for one in ("totals", "instances", "instances/d-1/history", "workers")]
    async with caller(app(engine, tokens=[kept]), Authorization=f"Bearer {token}") as site:
        texts = [(await site.get(path)).text for path in paths]

    assert any("d-1" in text for text in texts)
    for form in (secret.hex(), repr(secret)[2:-1]):
        assert not any(form in text for text in texts)
