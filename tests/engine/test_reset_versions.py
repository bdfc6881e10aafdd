"""Going back and on with another version: of the same instance, or of one that branches off."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from perdure import Defined, Status, activity, context, orchestration
from perdure.checking.invariants import check
from perdure.errors import InstanceFailedError, UsageError
from perdure.repair import at_event, before
from tests.engine.stage import Stage, options

COLD = options(hot_instances=0)


@dataclass
class Outside:
    """What is around the orchestrations of one test."""

    calls: list[str] = field(default_factory=list)


outside = Outside()


@pytest.fixture(autouse=True)
def fresh_outside() -> None:
    global outside
    outside = Outside()


@activity
async def price(item: str) -> int:
    outside.calls.append(f"price {item}")
    return len(item)


@activity
async def charge(amount: int) -> str:
    outside.calls.append(f"charge {amount}")
    raise ConnectionError("this bank is gone")


@activity
async def charge_by_card(amount: int) -> str:
    outside.calls.append(f"by card {amount}")
    return f"paid {amount}"


@orchestration(name="checkout", version="1.0.0")
async def first(item: str) -> str:
    return await charge(await price(item))


@orchestration(name="checkout", version="2.0.0")
async def second(item: str) -> str:
    paid = await charge_by_card(await price(item))
    return f"{paid} on {context().version}"


@orchestration(name="checkout", version="3.0.0")
async def unfit(item: str) -> str:
    return await charge_by_card(len(item))


@orchestration
async def other(item: str) -> str:
    return item


ALL: list[Defined] = [price, charge, charge_by_card, first, second, unfit, other]
second_by_name = first.with_options(version="2.0.0")


async def failed(stage: Stage, *, cold: bool = False) -> None:
    """Let the first version fail."""
    engine = await stage.engine(ALL, options=COLD if cold else options())
    handle = await engine.start("c-1", first, "book")
    with pytest.raises(InstanceFailedError):
        await handle.result()
    outside.calls.clear()


@pytest.mark.parametrize("cold", [False, True], ids=["hot", "cold"])
async def test_what_failed_goes_on_with_the_version_of_the_handle(stage: Stage, cold: bool) -> None:
    await failed(stage, cold=cold)
    client = await stage.client()

    handle = client.handle("c-1", second_by_name)
    await handle.reset(before(charge), reason="moved")

    assert await handle.result() == "paid 4 on 2.0.0"
    assert outside.calls == ["by card 4"]
    info = await handle.info()
    assert (info.version, info.execution) == ("2.0.0", 2)
    assert (await handle.history())[0].data["version"] == "2.0.0"
    assert (await handle.history(1))[0].data["version"] == "1.0.0"
    assert await check(client._core.store) == []


async def test_without_a_version_it_stays_on_its_own(stage: Stage) -> None:
    await failed(stage)
    client = await stage.client()

    await client.handle("c-1", second).reset(before(charge))

    with pytest.raises(InstanceFailedError):
        await client.handle("c-1").result()
    assert outside.calls == ["charge 4"]


async def test_what_starts_over_does_so_on_the_other_version(stage: Stage) -> None:
    await failed(stage)
    handle = (await stage.client()).handle("c-1", second_by_name)

    await handle.reset(before(price))

    assert await handle.result() == "paid 4 on 2.0.0"
    assert outside.calls == ["price book", "by card 4"]


async def test_a_fork_goes_on_with_the_version_of_the_handle(stage: Stage) -> None:
    await failed(stage)
    client = await stage.client()
    handle = client.handle("c-1", second_by_name)

    forked = await handle.fork("c-2", before(charge))

    assert await forked.result() == "paid 4 on 2.0.0"
    assert (await forked.info()).version == "2.0.0"
    assert (await handle.info()).version == "1.0.0"
    assert await check(client._core.store) == []


async def test_a_plan_tries_the_code_of_that_version(stage: Stage) -> None:
    engine = await stage.engine(ALL)
    handle = await engine.start("c-1", first, "book")
    with pytest.raises(InstanceFailedError):
        await handle.result()

    fits = await engine.handle("c-1", second_by_name).plan(at_event(2))
    fits_not = await engine.handle("c-1", first.with_options(version="3.0.0")).plan(before(charge))

    assert fits.checked
    assert fits.mismatch is None
    assert fits_not.mismatch is not None
    assert "charge_by_card" in fits_not.mismatch


async def test_no_worker_takes_it_that_has_only_the_old_version(stage: Stage) -> None:
    engine = await stage.engine([price, charge, first])
    handle = await engine.start("c-1", first, "book")
    with pytest.raises(InstanceFailedError):
        await handle.result()

    await engine.handle("c-1", second_by_name).reset(before(charge))

    info = await handle.info()
    assert info.status is Status.RUNNING
    assert info.version == "2.0.0"
    assert "2.0.0" in (await handle.explain())


async def test_a_version_of_another_orchestration_is_refused(stage: Stage) -> None:
    await failed(stage)
    handle = (await stage.client()).handle("c-1", other.with_options(version="2.0.0"))
    words = "is of orchestration 'checkout' and cannot be moved"

    with pytest.raises(UsageError, match=words):
        await handle.reset(before(charge))
    with pytest.raises(UsageError, match=words):
        await handle.fork("c-2", before(charge))
    with pytest.raises(UsageError, match=words):
        await handle.plan(before(charge))
    assert (await handle.info()).execution == 1
