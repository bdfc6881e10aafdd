"""`within`: what can be done inside a transaction, and in which order it takes effect."""

from __future__ import annotations

import pytest

from perdure import Status
from perdure.errors import (
    AlreadyExistsError,
    InstanceNotFoundError,
    UsageError,
)
from tests.engine.shop import Basket as ShopBasket
from tests.engine.shop import Buy, Note, Order, Pay, Place
from tests.engine.stage import Stage, until
from tests.within.conftest import Opener
from tests.within.programs import ALL, double, listen, word
from tests.within.users import COUNT, INSERT

DRIVERS = ["asyncpg", "psycopg", "sqlite3"]
"""One of each sort: of an event loop, of a thread, of a file."""


async def test_an_instance_is_seen_by_others_only_after_the_commit(
    stage: Stage, open_user: Opener
) -> None:
    client = await stage.client()
    user = await open_user(client)
    await user.begin()

    await user.ask(lambda client: client.start("a", double, 1))
    inside = await user.ask(lambda client: client.handle("a").info())
    with pytest.raises(InstanceNotFoundError):
        await client.handle("a").info()
    await user.commit()

    assert inside.status is Status.RUNNING
    assert (await client.handle("a").info()).status is Status.RUNNING


async def test_what_was_sent_in_a_transaction_is_decided_before_what_is_executed_after_it(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.ask_outside(lambda client: client.execute(Order, Place("o")))
    await user.begin()

    await user.ask(lambda client: client.send(Order, Note("o", "sent")))
    await user.commit()
    paid = await user.ask_outside(lambda client: client.execute(Order, Pay("o", "r")))

    assert paid.state.notes == ("sent",)


async def test_signals_sent_inside_and_outside_arrive_in_the_order_they_were_sent(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    handle = await engine.start("a", listen, 4)

    await user.begin()
    await user.ask(lambda client: client.handle("a").send(word, "one"))
    await user.commit()
    await user.ask_outside(lambda client: client.handle("a").send(word, "two"))
    await user.begin()
    await user.ask(lambda client: client.handle("a").send(word, "three"))
    await user.commit()
    await user.ask_outside(lambda client: client.send_with_start(word, "four", "a", listen, 4))

    assert await handle.result() == ["one", "two", "three", "four"]


async def test_a_signal_reaches_an_instance_that_the_same_transaction_starts(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.begin()

    await user.ask(lambda client: client.handle("a").send(word, "early"))
    await user.ask(lambda client: client.start("a", listen, 3))
    await user.ask(lambda client: client.handle("a").send(word, "late"))
    await user.ask(lambda client: client.send_with_start(word, "again", "a", listen, 3))
    await user.commit()

    assert await engine.handle("a", listen).result() == ["early", "late", "again"]


async def test_a_signal_starts_an_instance_that_is_not_there(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.begin()

    await user.ask(lambda client: client.send_with_start(word, "hello", "a", listen, 1))
    await user.commit()

    assert await engine.handle("a", listen).result() == ["hello"]


async def test_the_effect_of_a_decision_runs_after_the_commit(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.begin()

    await user.ask(lambda client: client.execute(ShopBasket, Buy("b", "shoes")))
    await user.commit()

    async def is_settled() -> bool:
        return len((await engine.state(ShopBasket, "b")).settled) == 1

    await until(is_settled)


async def test_an_id_that_is_taken_is_joined_or_refused_and_the_rest_is_committed(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await engine.start("a", double, 1)
    await user.begin()
    await user.run(INSERT)

    joined = await user.ask(lambda client: client.start("a", double, 1))
    with pytest.raises(AlreadyExistsError, match="another input"):
        await user.ask(lambda client: client.start("a", double, 2))
    await user.commit()

    assert joined.instance_id == "a"
    assert await user.run(COUNT) == 1


async def test_an_input_with_an_id_is_decided_once(stage: Stage, open_user: Opener) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.begin()

    first = await user.ask(lambda client: client.execute(Order, Place("o", 3), input_id="1"))
    again = await user.ask(lambda client: client.execute(Order, Place("o", 3), input_id="1"))
    await user.commit()

    assert first == again
    assert await engine.execute(Order, Place("o", 3), input_id="1") == first


async def test_waiting_and_tidying_are_for_the_client_itself(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    handle = await engine.start("a", listen, 1)
    await user.begin()

    for what in (
        lambda client: client.handle("a").result(),
        lambda client: client.handle("a").terminate(),
        lambda client: client.handle("a").unpark(),
        lambda client: client.delete("a", force=True),
        lambda client: client.execute_json("nobody", "X", {}, instance_id="1"),
        lambda client: client.within(object()),
    ):
        with pytest.raises(UsageError, match=r"inside a transaction|before the transaction"):
            await user.ask(what)
    await user.commit()

    await handle.send(word, "on")
    assert await handle.result() == ["on"]
