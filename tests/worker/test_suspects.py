"""Which suspects a worker takes beside which."""

from __future__ import annotations

import pytest

from perdure import WorkerOptions
from perdure.model.suspects import ALONE_FOR_S, Suspects, suspect_after


class Watch:
    """A clock that stands still."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def suspects(watch: Watch) -> Suspects:
    return Suspects(WorkerOptions(), monotonic=watch)


def test_what_was_lost_once_keeps_no_suspect_away(suspects: Suspects) -> None:
    suspects.take("a", 1)
    suspects.begin("a")

    assert suspects.may_come()
    assert not suspects.end("a")


def test_a_suspect_is_alone_until_it_has_ended(suspects: Suspects) -> None:
    suspects.take("a", 2)
    suspects.begin("a")
    assert not suspects.may_come()

    assert suspects.end("a")

    assert suspects.may_come()


def test_a_suspect_that_runs_for_long_lets_the_next_one_come(
    suspects: Suspects, watch: Watch
) -> None:
    suspects.take("a", 2)
    suspects.begin("a")

    watch.now_s += ALONE_FOR_S

    assert suspects.may_come()


def test_a_suspect_that_waits_for_its_slot_has_not_run_for_long(
    suspects: Suspects, watch: Watch
) -> None:
    suspects.take("a", 2)

    watch.now_s += ALONE_FOR_S

    assert not suspects.may_come()


@pytest.mark.parametrize(("max_attempts", "after"), [(1, 1), (2, 1), (3, 2), (10, 2)])
def test_whoever_is_lost_beside_a_killer_is_alone_before_it_is_given_up(
    max_attempts: int, after: int
) -> None:
    assert suspect_after(WorkerOptions(max_attempts=max_attempts)) == after
