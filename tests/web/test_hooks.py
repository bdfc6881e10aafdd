"""`perdure.web.hooks`: POST /{token} keeps a promise, for whoever has the token."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from perdure import Context, Engine, Promise, orchestration
from perdure.errors import UsageError
from perdure.web import hooks
from tests.engine.stage import until
from tests.web.site import memory_url


@dataclass(frozen=True)
class Receipt:
    number: str
    cents: int


paid = Promise("paid", Receipt)
private = Promise("private", str)


@orchestration
async def deposit(ctx: Context) -> int:
    due, own = paid.make(), private.make()
    ctx.kv["paid"], ctx.kv["private"] = due.token, own.token
    return (await due.receive()).cents


class Shop:
    """An engine, one instance that waits, and a sender of calls."""

    def __init__(self, engine: Engine, sender: httpx.AsyncClient, tokens: dict[str, str]) -> None:
        self.engine = engine
        self.sender = sender
        self.token = tokens["paid"]
        self.private = tokens["private"]


@asynccontextmanager
async def opened(
    verify: Callable[[Request], Awaitable[bool]] | None = None,
) -> AsyncIterator[Shop]:
    async with Engine(memory_url(), [deposit]) as engine:
        site = Starlette(routes=[Mount("/hooks", hooks(engine, [paid], verify=verify))])
        handle = await engine.start("d-1", deposit)
        await until(lambda: handle.kv("private"))
        transport = httpx.ASGITransport(site)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop/hooks/") as sender:
            yield Shop(engine, sender, await handle.kv())


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with opened() as found:
        yield found


BODY = {"number": "r-1", "cents": 4200}


async def test_a_call_keeps_the_promise_once(shop: Shop) -> None:
    first = await shop.sender.post(shop.token, json=BODY)
    again = await shop.sender.post(shop.token, json=BODY | {"cents": 1})

    assert (first.status_code, first.json()) == (200, {"first": True})
    assert (again.status_code, again.json()) == (200, {"first": False})
    assert await shop.engine.handle("d-1", deposit).result() == 4200
    # Also after the end.
    assert (await shop.sender.post(shop.token, json=BODY)).json() == {"first": False}


async def test_any_type_of_content_that_is_json_will_do(shop: Shop) -> None:
    answer = await shop.sender.post(
        shop.token, content=b'{"number": "r", "cents": 1}', headers={"Content-Type": "text/plain"}
    )

    assert answer.json() == {"first": True}


async def test_what_does_not_fit_is_told_and_stores_nothing(shop: Shop) -> None:
    for content in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"number": 7, "cents": 1}',
        b'{"number": "r"}',
        b"\xff\xfe",
        b'{"number": "r", "number": "s", "cents": 1}',
        b"[" * 10_000,
        b"NaN",
    ):
        answer = await shop.sender.post(shop.token, content=content)
        assert answer.status_code == 422, content
        assert answer.headers["content-type"] == "application/problem+json"
        assert "d-1" not in answer.text

    assert await shop.engine.inbox("d-1") == []
    assert (await shop.sender.post(shop.token, json=BODY)).json() == {"first": True}


async def test_a_body_that_is_too_large_is_not_read(shop: Shop) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    large = await shop.sender.post(shop.token, content=b" " * (256 * 1024) + b"{}")
    for_ever = await shop.sender.post(shop.token, content=endless())

    assert [large.status_code, for_ever.status_code] == [413, 413]


async def test_wrong_tokens_are_answered_as_paths_that_are_not_there(shop: Shop) -> None:
    random = Random(3)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    wrong = []
    for _ in range(50):
        at = random.randrange(len(shop.token))
        other = random.choice(letters.replace(shop.token[at], ""))
        wrong.append(shop.token[:at] + other + shop.token[at + 1 :])
    wrong += [shop.token[:-1], f"{shop.token}A", shop.private, "x", "a/b", "%00", "%ff", "é"]

    answers = [await shop.sender.post(one, json=BODY) for one in wrong]

    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.text for answer in answers}) == 1
    assert (await shop.sender.get(shop.token)).status_code == 405
    assert (await shop.sender.post(shop.token, json=BODY)).json() == {"first": True}


async def test_a_promise_that_is_over_is_gone(shop: Shop) -> None:
    await shop.engine.handle("d-1").terminate("closed")
    late = await shop.sender.post(shop.token, json=BODY)
    await shop.engine.delete("d-1")
    deleted = await shop.sender.post(shop.token, json=BODY)

    assert (late.status_code, late.json()["code"]) == (410, "gone")
    assert "d-1" not in late.text
    assert deleted.status_code == 404


KEY = b"whsec"


async def signed(request: Request) -> bool:
    right = hmac.new(KEY, await request.body(), hashlib.sha256).hexdigest()
    return hmac.compare_digest(request.headers.get("x-signature", ""), right)


async def test_the_senders_signature_is_checked_before_the_body_is_looked_into() -> None:
    async with opened(signed) as shop:
        content = b'{"number": "r", "cents": 1}'
        good = {"X-Signature": hmac.new(KEY, content, hashlib.sha256).hexdigest()}

        none = await shop.sender.post(shop.token, content=content)
        other = await shop.sender.post(shop.token, content=b"{", headers=good)
        unknown = await shop.sender.post("x", content=content, headers=good)
        first = await shop.sender.post(shop.token, content=content, headers=good)

        assert [none.status_code, other.status_code, unknown.status_code] == [403, 403, 404]
        assert first.json() == {"first": True}


def test_what_cannot_work_is_refused_when_it_is_made() -> None:
    engine = Engine(memory_url(), [deposit])

    with pytest.raises(UsageError, match="needs the promises"):
        hooks(engine, [])
    with pytest.raises(UsageError, match="two promises are named 'paid'"):
        hooks(engine, [paid, Promise("paid", str)])
    with pytest.raises(UsageError, match="is not a promise"):
        hooks(engine, ["paid"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="Client or Engine of the store itself"):
        hooks("sqlite:///shop.db", [paid])  # type: ignore[arg-type]
