"""User code that seeds the generators of the process: ids must not repeat because of it (S48)."""

from __future__ import annotations

import os
import random

import pytest

from perdure import Status, activity, orchestration
from perdure.ids import AT_ONCE, chance, fresh_id, fresh_name
from tests.engine.stage import Stage


@activity
async def seeded(number: int) -> int:
    random.seed(0)
    return number + 1


@orchestration
async def five_steps(number: int) -> int:
    for _ in range(5):
        number = await seeded(number)
    return number


async def test_what_is_told_is_stored_although_every_activity_seeds_random(stage: Stage) -> None:
    engine = await stage.engine([five_steps, seeded])

    handles = [await engine.start(f"i-{number}", five_steps, number) for number in range(5)]

    assert [await handle.result() for handle in handles] == [5, 6, 7, 8, 9]
    for handle in handles:
        assert (await handle.info()).status is Status.COMPLETED
        assert len(await handle.history()) == 12


def test_ids_do_not_repeat_after_a_seed() -> None:
    found = []
    for _ in range(100):
        random.seed(7)
        found += [fresh_id(), fresh_name(), chance()]

    assert len(set(found)) == 300


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_draws_other_ids() -> None:
    fresh_id()
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(mouth, str(fresh_id()).encode())
        os._exit(0)
    os.waitpid(child, 0)

    ours = {fresh_id() for _ in range(2 * AT_ONCE)}

    assert int(os.read(ear, 100)) not in ours
    assert len(ours) == 2 * AT_ONCE
    os.close(ear)
    os.close(mouth)
