"""`perdure promise`: kept and rejected by token."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure import Context, Engine, Promise, orchestration
from perdure.errors import PromiseRejectedError
from tests.cli.commands import typed
from tests.engine.stage import OPTIONS
from tests.sizes import WITHIN_S

paid = Promise("paid", int)


@orchestration
async def deposit(ctx: Context) -> str:
    due = paid.make()
    ctx.kv["token"] = due.token
    try:
        return f"{await due.receive()} cents"
    except PromiseRejectedError as error:
        return error.reason


@pytest.fixture
def url(folder: Path) -> str:
    return f"sqlite:///{folder}/shop.db"


async def token_of(url: str, instance_id: str) -> str:
    async with Engine(url, [deposit], options=OPTIONS) as engine:
        handle = await engine.start(instance_id, deposit)
        return str(await handle.wait_kv("token", timeout=WITHIN_S))


async def result_of(url: str, instance_id: str) -> str:
    async with Engine(url, [deposit], options=OPTIONS) as engine:
        return await engine.handle(instance_id, deposit).result(timeout=WITHIN_S)


def test_a_promise_is_kept_by_its_token(url: str) -> None:
    token = asyncio.run(token_of(url, "d-1"))

    first = typed("promise", "resolve", token, "4200", store=url)
    again = typed("promise", "resolve", "-", "1", store=url, stdin=f"{token}\n")

    assert (first.exit_code, first.stderr) == (0, "resolved\n")
    assert (again.exit_code, again.stderr) == (
        0,
        "it was resolved or rejected before; nothing has changed\n",
    )
    assert asyncio.run(result_of(url, "d-1")) == "4200 cents"


def test_a_promise_is_rejected_with_a_reason(url: str) -> None:
    token = asyncio.run(token_of(url, "d-1"))

    done = typed("promise", "reject", token, "--reason", "card declined", store=url)

    assert (done.exit_code, done.stderr) == (0, "rejected\n")
    assert asyncio.run(result_of(url, "d-1")) == "card declined"


def test_a_wrong_token_is_not_found_and_not_repeated(url: str) -> None:
    token = asyncio.run(token_of(url, "d-1"))

    for verb in ("resolve", "reject"):
        done = typed("promise", verb, token[1:], store=url)
        assert done.exit_code == 3
        assert token[1:] not in done.stderr
        assert "is for no promise of this store" in done.stderr
