"""What is noticed of others that decide on the same instances, and for how long."""

from __future__ import annotations

import pytest

from perdure.turns.direct import contention
from perdure.turns.direct.contention import (
    AGAIN_WITHIN_S,
    HOT_WITHIN_S,
    LOCKED_TURNS,
    LOOKS,
    SLOW_FOR_S,
    Contention,
)


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(contention, "monotonic", lambda: now[0])
    return now


def refuse_twice(met: Contention, instance_id: str) -> None:
    met.refused(instance_id)
    met.refused(instance_id)


def test_who_has_met_nobody_neither_looks_nor_locks() -> None:
    met = Contention()

    assert (met.wants_look, met.wants_lock("i")) == (False, False)


def test_who_was_overtaken_looks_for_a_while() -> None:
    met = Contention()

    met.refused("i")

    assert not met.wants_lock("i")
    for _ in range(LOOKS):
        assert met.wants_look
        met.looked(is_overtaken=False)
    assert not met.wants_look


def test_who_is_overtaken_again_locks_that_instance_once(now_s: list[float]) -> None:
    """However long the second try has taken."""
    met = Contention()

    met.refused("i")
    now_s[0] += 1_000
    met.refused("i")
    now_s[0] += 1_000

    assert (met.wants_lock("i"), met.wants_lock("j")) == (True, False)
    met.locked("i", is_overtaken=False)
    assert not met.wants_lock("i")


def test_who_is_overtaken_soon_after_it_was_not_locks_that_instance(now_s: list[float]) -> None:
    met = Contention()
    for instance_id in "ij":
        met.refused(instance_id)
        met.accepted(instance_id)

    now_s[0] += AGAIN_WITHIN_S
    met.accepted("i")
    met.refused("i")
    now_s[0] += 0.1
    met.refused("j")

    assert (met.wants_lock("i"), met.wants_lock("j")) == (True, False)


def test_who_was_overtaken_after_its_last_locked_turn_locks_again_at_once() -> None:
    met = Contention()
    refuse_twice(met, "i")
    met.locked("i", is_overtaken=False)

    met.refused("i")

    assert met.wants_lock("i")


def test_an_instance_that_is_decided_on_now_and_then_is_not_locked(now_s: list[float]) -> None:
    """That others come between turns a second apart does not tell that they are in the way."""
    met = Contention()
    refuse_twice(met, "i")
    met.locked("i", is_overtaken=True)
    now_s[0] += HOT_WITHIN_S
    assert met.wants_lock("i")

    now_s[0] += 0.1

    assert not met.wants_lock("i")
    now_s[0] -= 0.1
    assert not met.wants_lock("i")


def test_a_look_that_finds_something_is_followed_by_more() -> None:
    met = Contention()
    met.refused("i")
    for _ in range(LOOKS - 1):
        met.looked(is_overtaken=False)

    met.looked(is_overtaken=True)
    met.looked(is_overtaken=False)

    assert met.wants_look


def test_where_others_come_between_locked_turns_they_go_on() -> None:
    met = Contention()
    refuse_twice(met, "i")

    met.locked("i", is_overtaken=True)

    for _ in range(LOCKED_TURNS):
        assert met.wants_lock("i")
        met.locked("i", is_overtaken=False)
    assert not met.wants_lock("i")


def test_code_that_was_too_slow_for_the_lock_gets_none_for_a_while(now_s: list[float]) -> None:
    met = Contention()
    met.too_slow("i")
    refuse_twice(met, "i")

    assert not met.wants_lock("i")
    now_s[0] += SLOW_FOR_S
    assert met.wants_lock("i")


def test_only_so_many_instances_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "MAX_KEPT", 3)
    met = Contention()

    for number in range(5):
        refuse_twice(met, str(number))
        met.too_slow(f"slow {number}")

    assert [met.wants_lock(str(number)) for number in range(5)] == [False, False, True, True, True]
