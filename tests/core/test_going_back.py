"""Going back to every event of histories made at random: what is kept is kept, the rest begins
again, and nothing that was open is lost."""

from __future__ import annotations

import os
import random

import pytest

from perdure.core.rewinding import cut_at
from tests.core.harness import new_execution
from tests.core.wandering import Player, drawn, drawn_steps, logs, received, wander

HISTORIES = 200 if os.environ.get("PERDURE_CHAOS_FULL") else 25


@pytest.fixture(autouse=True)
def forget_logs() -> None:
    logs.clear()


def wandered(seed: int) -> Player:
    draw = random.Random(seed)
    steps = drawn_steps(draw, draw.randint(3, 9))
    player = Player.begun(draw, steps)
    player.play(draw.choice([draw.randint(1, 8), 10_000]))
    return player


def check_from(before: Player, seen: list[object], number: int, *, fork: bool) -> Player:
    """Go back to an event and run to the end."""
    after = before.reset(number, fork=fork)
    after.check_replay()
    after.play()
    final = after.result
    # What was kept is what had been seen, draws included; what is drawn behind it is new.
    same = len(seen_before(before, number))
    assert final[:same] == seen[:same]
    assert not drawn(final[same:]) & drawn(seen)
    for name in ("news", "more"):
        assert received(final, name) == list(range(len(received(final, name))))
    assert after.shown() == (after.kv, after.report)
    after.check_replay()
    return after


def seen_before(player: Player, number: int) -> list[object]:
    """What the code had seen where it stood still, at or before an event."""
    kept = cut_at(player.history, number).kept
    if not kept:
        return []
    execution = new_execution(wander, id=player.execution.id)
    execution.replay(player.history[:kept])
    return logs.pop()


@pytest.mark.parametrize("fork", [False, True], ids=["reset", "fork"])
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_going_back_to_any_event_goes_on_from_there(seed: int, fork: bool) -> None:
    player = wandered(seed)
    seen = list(player.log)

    for number in range(1, len(player.history) + 1):
        check_from(player, seen, number, fork=fork)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_going_back_again_and_again_goes_on_from_there(seed: int) -> None:
    player = wandered(seed)
    draw = random.Random(-seed)

    for _ in range(6):
        seen = list(player.log)
        number = draw.randint(1, len(player.history))
        same = len(seen_before(player, number))
        player = player.reset(number, fork=draw.random() < 0.3)
        assert player.log[:same] == seen[:same]
        player.check_replay()
        player.play(draw.choice([0, 1, 3, 10_000]))
        player.check_replay()
    player.play()
    for name in ("news", "more"):
        assert received(player.result, name) == list(range(len(received(player.result, name))))
