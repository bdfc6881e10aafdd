from __future__ import annotations

from perdure.backoff import MAX_DOUBLINGS, GrowingPause, pause_after


def test_a_pause_doubles_up_to_its_longest() -> None:
    pause = GrowingPause(1.0, 5.0)

    lengths = []
    for _ in range(5):
        lengths.append((pause.seconds, pause.is_longest))
        pause.grow()

    assert lengths == [(1.0, False), (2.0, False), (4.0, False), (5.0, True), (5.0, True)]


def test_a_pause_grows_by_its_factor() -> None:
    pause = GrowingPause(2.0, 100.0, factor=1.5)
    pause.grow()

    assert pause.seconds == 3.0


def test_a_pause_that_begins_anew_is_the_first_or_as_long_as_it_must_be() -> None:
    pause = GrowingPause(1.0, 5.0)
    pause.grow()

    pause.restart()
    assert pause.seconds == 1.0

    pause.restart(at_least_s=0.5)
    assert pause.seconds == 1.0

    pause.restart(at_least_s=7.0)
    assert (pause.seconds, pause.is_longest) == (7.0, True)


def test_a_pause_after_tries_in_vain_doubles_and_stays_finite() -> None:
    pauses = [pause_after(tries, first_s=0.5, longest_s=3.0) for tries in (0, 1, 2, 3, 10**9)]

    assert pauses == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert pause_after(10**9, first_s=1.0, longest_s=1e9) == 2**MAX_DOUBLINGS
