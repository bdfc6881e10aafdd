"""`within`: what the client does and what its user does is one commit, whatever the driver."""

from __future__ import annotations

import pytest

from perdure import Accepted
from perdure.errors import (
    InstanceEndedError,
    UniqueKeyError,
    VersionConflictError,
)
from tests.engine.shop import Basket as ShopBasket
from tests.engine.shop import Buy, Note, Order, Pay, Place, Refused, Ship
from tests.engine.stage import Stage
from tests.within.conftest import Opener
from tests.within.programs import ALL, double, word
from tests.within.users import COUNT, INSERT


async def test_a_start_and_a_row_are_committed_together(stage: Stage, open_user: Opener) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)

    await user.begin()
    await user.run(INSERT)
    await user.ask(lambda client: client.start("a", double, 21))
    await user.commit()

    assert await engine.handle("a", double).result() == 42
    assert await user.run(COUNT) == 1


async def test_the_handle_of_a_start_waits_for_its_result_after_the_commit(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.begin()
    handle = await user.ask(lambda client: client.start(double, 4))

    await user.commit()
    result = await user.ask(lambda _: handle.result())

    assert result == 8


async def test_a_rollback_leaves_nothing(stage: Stage, open_user: Opener) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)

    await user.begin()
    await user.run(INSERT)
    await user.ask(lambda client: client.start("a", double, 21))
    await user.ask(lambda client: client.send(Order, Place("o")))
    await user.ask(lambda client: client.execute(ShopBasket, Buy("b", "shoes")))
    await user.rollback()

    assert (await engine.instances()).items == []
    assert await user.run(COUNT) == 0
    assert await (await engine.start("a", double, 2)).result() == 4


async def test_an_input_that_was_rolled_back_is_decided_again_as_if_it_were_the_first(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await engine.execute(Order, Place("o"))

    await user.begin()
    first = await user.ask(lambda client: client.execute(Order, Note("o", "first")))
    await user.rollback()
    await user.begin()
    again = await user.ask(lambda client: client.execute(Order, Note("o", "again")))
    more = await user.ask(lambda client: client.execute(Order, Note("o", "more")))
    await user.commit()

    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert (first.version, again.version, more.version) == (2, 2, 3)
    assert (await engine.state(Order, "o")).notes == ("again", "more")
    after = await engine.execute(Order, Note("o", "after"))
    assert isinstance(after, Accepted)
    assert after.version == 4


async def test_what_was_sent_before_in_the_same_transaction_is_decided_first(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await user.begin()

    await user.ask(lambda client: client.send(Order, Place("o", 7)))
    await user.ask(lambda client: client.send(Order, Note("o", "sent")))
    paid = await user.ask(lambda client: client.execute(Order, Pay("o", "r")))
    state = await user.ask(lambda client: client.state(Order, "o"))
    await user.commit()

    assert (paid.version, paid.reply) == (3, 7)
    assert (state.status, state.notes) == ("paid", ("sent",))
    assert (await engine.state(Order, "o")) == state


async def test_what_is_refused_does_not_spoil_the_transaction(
    stage: Stage, open_user: Opener
) -> None:
    engine = await stage.engine(ALL)
    user = await open_user(engine)
    await engine.execute(Order, Place("holder", reference="key"))
    ended = await engine.start("ended", double, 1)
    await ended.result()
    await user.begin()
    await user.run(INSERT)

    with pytest.raises(UniqueKeyError):
        await user.ask(lambda client: client.execute(Order, Place("other", reference="key")))
    with pytest.raises(VersionConflictError):
        await user.ask(lambda c: c.execute(Order, Pay("holder"), expected_version=7))
    with pytest.raises(InstanceEndedError):
        await user.ask(lambda client: client.handle("ended").send(word, "late"))
    rejected = await user.ask(lambda client: client.execute(Order, Ship("holder"), input_id="s"))
    await user.ask(lambda client: client.start("a", double, 5))
    await user.commit()

    assert rejected.reason == Refused("Ship while placed")
    assert await engine.handle("a", double).result() == 10
    assert await user.run(COUNT) == 1
    assert await engine.execute(Order, Ship("holder"), input_id="s") == rejected
