"""Updates, keys and queries in a trial."""

from __future__ import annotations

import pytest

from perdure import Key, Query, Update, orchestration
from perdure.errors import ResultTimeoutError, UpdateRefusedError
from perdure.testing import Trial

add = Update("add", int, int)
unheard = Update("unheard", int, int)
total = Key("total", int)
seen = Query("seen", list[int])


@orchestration
async def adding() -> None:
    values: list[int] = []
    seen.answer_with(lambda: values)
    async for request in add:
        if request.value < 0:
            request.refuse("less than nothing")
            continue
        values.append(request.value)
        total.set(sum(values))
        request.answer(len(values))


async def test_a_trial_is_asked_and_answers_before_and_after_a_crash() -> None:
    async with Trial([adding]) as trial:
        handle = await trial.start("a", adding)

        assert await handle.update(add, 3, update_id="u-1") == 1
        await trial.crash()
        assert await handle.update(add, 3, update_id="u-1") == 1
        assert await handle.update(add, 4) == 2
        assert await handle.kv(total) == 7
        with pytest.raises(UpdateRefusedError):
            await handle.update(add, -1)


async def test_what_a_trial_does_not_take_is_said_at_once() -> None:
    async with Trial([adding]) as trial:
        handle = await trial.start("a", adding)

        with pytest.raises(ResultTimeoutError, match="holds 1 update 'unheard'"):
            await handle.update(unheard, 3)
