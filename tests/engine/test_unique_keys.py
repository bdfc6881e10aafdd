"""Business keys: no two instances of a decider have the same."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Accepted
from perdure.errors import InstanceNotFoundError, UniqueKeyError
from tests.engine.shop import Noted, Order, OrderState, Pay, Place, Placed, Rename, Ship
from tests.engine.stage import Stage, kinds, until


async def test_a_taken_key_is_refused_and_its_holder_named(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))

    with pytest.raises(
        UniqueKeyError, match="'ref' of decider 'order' is taken by 'o-1'"
    ) as caught:
        await engine.execute(Order, Place("o-2", reference="ref"))

    assert (caught.value.key, caught.value.decider, caught.value.holder) == ("ref", "order", "o-1")
    assert await engine.count() == 1
    assert await engine.key_holder(Order, "ref") == "o-1"
    assert await engine.key_holder(Order, "free") is None


async def test_an_input_that_repeats_its_own_key_is_fine(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))

    answer = await engine.execute(Order, Rename("o-1", "ref"))

    assert isinstance(answer, Accepted)


async def test_a_key_is_checked_when_it_changes(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="one"))
    await engine.execute(Order, Place("o-2", reference="two"))

    with pytest.raises(UniqueKeyError, match=r"'one'.*'o-1'"):
        await engine.execute(Order, Rename("o-2", "one"))

    assert (await engine.state(Order, "o-2")).notes == ()
    await engine.execute(Order, Rename("o-1", "three"))
    answer = await engine.execute(Order, Rename("o-2", "one"))
    assert isinstance(answer, Accepted)
    assert await engine.key_holder(Order, "one") == "o-2"
    assert await engine.key_holder(Order, "two") is None
    assert await engine.key_holder(Order, "three") == "o-1"


async def test_completion_frees_the_key(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))
    await engine.execute(Order, Pay("o-1"))
    await engine.execute(Order, Ship("o-1"))

    assert await engine.key_holder(Order, "ref") is None
    answer = await engine.execute(Order, Place("o-2", reference="ref"))
    assert answer == Accepted((Placed(10),), OrderState("placed", 10), 1)


@pytest.mark.parametrize("how", ["terminate", "delete"])
async def test_the_end_by_an_operator_frees_the_key(stage: Stage, how: str) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))
    handle = engine.handle("o-1", Order)

    await (handle.terminate() if how == "terminate" else handle.delete(force=True))

    answer = await engine.execute(Order, Place("o-2", reference="ref"))
    assert isinstance(answer, Accepted)


async def test_of_many_that_want_a_key_one_gets_it(stage: Stage) -> None:
    one, two = await stage.engine([Order]), await stage.engine([Order])
    given = [
        door.execute(Order, Place(f"{name}-{number}", reference="ref"))
        for name, door in (("one", one), ("two", two))
        for number in range(10)
    ]

    answers = await asyncio.gather(*given, return_exceptions=True)

    holder = await one.key_holder(Order, "ref")
    assert sum(isinstance(answer, Accepted) for answer in answers) == 1
    refused = [answer for answer in answers if isinstance(answer, UniqueKeyError)]
    assert len(refused) == 19
    assert {error.holder for error in refused} == {holder}
    assert await one.count() == 1


async def test_others_of_the_same_turn_are_not_disturbed_by_a_taken_key(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))
    await engine.execute(Order, Place("o-2"))
    given = [
        engine.execute(Order, Rename("o-2", reference))
        for reference in ("a", "ref", "b", "ref", "c")
    ]

    answers = await asyncio.gather(*given, return_exceptions=True)

    assert [type(answer).__name__ for answer in answers] == [
        "Accepted",
        "UniqueKeyError",
        "Accepted",
        "UniqueKeyError",
        "Accepted",
    ]
    holders = [await engine.key_holder(Order, reference) for reference in ("a", "b", "c", "ref")]
    assert sorted(filter(None, holders)) == ["o-1", "o-2"]
    assert holders[-1] == "o-1"


async def test_a_sent_input_whose_key_is_taken_is_rejected_on_record(stage: Stage) -> None:
    stage.expect_log(r"decider 'order', instance 'o-2', is refused: the unique key 'ref' is taken")
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))
    await engine.execute(Order, Place("o-2"))

    await engine.send(Order, Rename("o-2", "ref"), input_id="req-1")
    await engine.send(Order, Rename("o-2", "mine"))

    async def is_done() -> bool:
        return await engine.key_holder(Order, "mine") == "o-2"

    await until(is_done)
    history = await engine.handle("o-2", Order).history()
    assert kinds(history)[-4:] == [
        "input_taken",
        "input_rejected",
        "input_taken",
        "event_recorded",
    ]
    assert history[-3].data["reason"] == {"key": "ref", "holder": "order:o-1"}
    assert history[-1].data["tag"] == Noted.__name__
    with pytest.raises(UniqueKeyError, match=r"'ref'.*'o-1'"):
        await engine.execute(Order, Rename("o-2", "ref"), input_id="req-1")


async def test_a_sent_first_input_whose_key_is_taken_leaves_no_instance_but_a_warning(
    stage: Stage,
) -> None:
    refusal = r"input Place .* instance 'o-2', is refused: the unique key 'ref' is taken by 'o-1'"
    stage.expect_log(refusal)
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))

    await engine.send(Order, Place("o-2", reference="ref"), input_id="req-1")

    async def is_gone() -> bool:
        try:
            await engine.handle("o-2", Order).info()
        except InstanceNotFoundError:
            return True
        return False

    await until(is_gone)
    assert len(stage.logged(refusal)) == 1
    with pytest.raises(UniqueKeyError, match=r"'ref'.*'o-1'"):
        await engine.execute(Order, Place("o-2", reference="ref"), input_id="req-1")


async def test_a_key_survives_a_restart(stage: Stage) -> None:
    engine = await stage.engine([Order])
    await engine.execute(Order, Place("o-1", reference="ref"))
    await engine.close()

    later = await stage.engine([Order])

    with pytest.raises(UniqueKeyError):
        await later.execute(Order, Place("o-2", reference="ref"))
