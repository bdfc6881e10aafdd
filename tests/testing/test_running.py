"""Activities in plain tests: with the context that they have at a worker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure import ActivityContext, activity, activity_context
from perdure.errors import UsageError
from perdure.testing import activity_context as as_activity


class Bank:
    """A resource."""

    account = "a-7"


@activity
async def charge(ctx: ActivityContext, amount: int) -> str:
    ctx.heartbeat({"at": amount})
    return f"{ctx.resource(Bank).account} {amount} try {ctx.attempt} {ctx.last_details(dict)}"


async def test_an_activity_has_its_context() -> None:
    with as_activity(attempt=2, resources=[Bank()], last_details={"at": 1}) as ctx:
        said = await charge(5)

    assert said == "a-7 5 try 2 {'at': 1}"
    assert ctx.details == b'{"at":5}'


def test_a_function_that_is_not_async_has_it_too() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    with as_activity(instance_id="i-1", tag="gpu", timeout=timedelta(seconds=5), now=noon):
        ctx = activity_context()

        assert (ctx.instance_id, ctx.tag, ctx.attempt) == ("i-1", "gpu", 1)
        assert ctx.scheduled_at == noon
        assert ctx.deadline == noon + timedelta(seconds=5)
        assert ctx.idempotency_key == "i-1:1:1:1"


async def test_a_cancelled_activity_is_told() -> None:
    with as_activity(resources=[Bank()]) as ctx:
        ctx.cancel()

        with pytest.raises(asyncio.CancelledError):
            await charge(5)


def test_the_context_ends_with_the_block() -> None:
    with as_activity():
        activity_context()

    with pytest.raises(UsageError, match="no activity runs here"):
        activity_context()


def test_attempts_count_from_one() -> None:
    with pytest.raises(UsageError, match="attempts count from 1"), as_activity(attempt=0):
        pass
