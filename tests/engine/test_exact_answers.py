"""What callers are told is what the store holds, whatever is cut, refused or overtaken (S45)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from perdure import Accepted, Client
from perdure.errors import StoreError
from tests.engine.accounts import Account, Deposit, Moved, movements
from tests.engine.stage import Stage, until
from tests.sizes import WITHIN_S
from tests.wire import Proxy, writes


@pytest.fixture
def url(postgres_url: str) -> str:
    """PostgreSQL alone: elsewhere there is no line to cut."""
    return postgres_url


@pytest.fixture
async def proxy(stage: Stage) -> AsyncIterator[Proxy]:
    async with Proxy(stage.url) as proxy:
        yield proxy


@pytest.mark.parametrize("is_first", [True, False], ids=["the first input", "a later input"])
async def test_an_input_whose_answer_was_lost_and_that_was_overtaken_is_recorded_once(
    stage: Stage, proxy: Proxy, is_first: bool
) -> None:
    other = await stage.client()
    stage.allow_log("the store cannot be written now")
    async with Client(proxy.url, create=True) as client:
        for name in ("both", "lanes", "are", "warm"):
            await client.execute(Account, Deposit(name, 1))
        if not is_first:
            await client.execute(Account, Deposit("a", 100))
        proxy.cut_after(writes)
        asking = asyncio.create_task(client.execute(Account, Deposit("a", 50)))
        await until(lambda: proxy.cuts)
        proxy.stall()
        await other.execute(Account, Deposit("a", 1))
        proxy.flow()
        async with asyncio.timeout(WITHIN_S):
            answer = await asking

        assert isinstance(answer, Accepted)
        assert answer.events == (Moved(50),)
    assert await movements(other, "a") == ([] if is_first else [100]) + [50, 1]


async def test_a_neighbour_that_the_database_refuses_changes_nobody_s_answer(
    stage: Stage,
) -> None:
    """A rule of an operator's refuses one account: the others are recorded once, and told so."""
    client = await stage.client()
    await client.execute(Account, Deposit("x", 100))
    with psycopg.connect(stage.url, autocommit=True) as connection:
        connection.execute(
            """
            CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.instance_id = 'account:y' THEN RAISE EXCEPTION 'y is closed'; END IF;
                RETURN NEW;
            END $$;
            """
        )
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON perdure.history "
            "FOR EACH ROW EXECUTE FUNCTION public.refuse()"
        )

    async with asyncio.timeout(WITHIN_S):
        x, y, z = await asyncio.gather(
            client.execute(Account, Deposit("x", 50)),
            client.execute(Account, Deposit("y", 50)),
            client.execute(Account, Deposit("z", 50)),
            return_exceptions=True,
        )

    assert isinstance(x, Accepted)
    assert isinstance(z, Accepted)
    assert isinstance(y, StoreError)
    assert "y is closed" in str(y)
    assert await movements(client, "x") == [100, 50]
    assert await movements(client, "z") == [50]
