"""Callers that wait for the store, and no longer than they want."""

from __future__ import annotations

import asyncio
from functools import partial

from perdure.turns.direct.patience import MANY, Patience
from tests.sizes import WITHIN_S


class Told:
    """Notes who was told, and when that were enough."""

    def __init__(self, enough: int) -> None:
        self.names: list[str] = []
        self.is_enough = asyncio.Event()
        self._enough = enough

    def tell(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._enough:
            self.is_enough.set()


async def test_whoever_waits_too_long_is_told_and_nobody_else() -> None:
    patience, told = Patience(), Told(enough=1)
    first = patience.begin(0.01, partial(told.tell, "first"))
    patience.begin(0.01, partial(told.tell, "second"))
    patience.begin(3600, partial(told.tell, "third"))

    patience.end(first)
    async with asyncio.timeout(WITHIN_S):
        await told.is_enough.wait()

    assert told.names == ["second"]


async def test_one_timer_serves_all_of_them() -> None:
    patience, told = Patience(), Told(enough=50)
    for number in range(50):
        patience.begin(0.005, partial(told.tell, str(number)))

    async with asyncio.timeout(WITHIN_S):
        await told.is_enough.wait()

    assert told.names == [str(number) for number in range(50)]


async def test_who_waits_for_a_shorter_time_is_told_before_those_who_began_earlier() -> None:
    patience, told = Patience(), Told(enough=2)
    patience.begin(3600, partial(told.tell, "patient"))
    patience.begin(0, partial(told.tell, "impatient"))
    # So much shorter that no pause of this process between the two can make up for it.
    patience.begin(-3600, partial(told.tell, "hasty"))

    async with asyncio.timeout(WITHIN_S):
        await told.is_enough.wait()

    assert told.names == ["hasty", "impatient"]


async def test_those_who_have_their_answer_are_not_kept() -> None:
    patience = Patience()
    for _ in range(10 * MANY):
        patience.end(patience.begin(3600, lambda: None))

    assert len(patience._due) <= MANY + 1
