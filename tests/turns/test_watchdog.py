"""Which turns are said to compute too long, and are interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from perdure.turns.watchdog import TurnTooLongError, Watchdog

WARNS_AFTER_S, ENDS_AFTER_S = 5, 60


def test_a_turn_is_warned_of_and_then_interrupted_where_it_computes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def turn() -> None:
        with watched() as watchdog:
            look(watchdog, 6)
            assert "a turn of ship computes for 6.0 s at " in caplog.text
            look(watchdog, 61)
            compute()

    with pytest.raises(TurnTooLongError, match="longer than 60 s, at "):
        turn()


def test_time_in_which_the_process_stood_still_is_no_turns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with watched() as watchdog:
        look(watchdog, 3_600, still_s=3_599)
        compute()

    assert not caplog.text


def test_what_a_turn_computes_after_the_process_stood_still_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It stood still for longer than the turn has run: the turn began meanwhile."""
    with watched() as watchdog:
        look(watchdog, 20, still_s=3_600)
        assert not caplog.text
        look(watchdog, 26)

    assert "computes for 6.0 s" in caplog.text


@contextmanager
def watched() -> Iterator[Watchdog]:
    """A turn of `ship` that begins now."""
    watchdog = Watchdog(timedelta(seconds=WARNS_AFTER_S), timedelta(seconds=ENDS_AFTER_S))
    try:
        with watchdog.watching("s-1", "ship"):
            yield watchdog
    finally:
        watchdog.close()


def look(watchdog: Watchdog, after_s: float, *, still_s: float = 0) -> None:
    """Look from another thread, as the watchdog's own does, so long after now."""
    now_s = time.monotonic() + after_s
    thread = threading.Thread(target=watchdog.look, args=(now_s,), kwargs={"still_s": still_s})
    thread.start()
    thread.join()


def compute() -> None:
    """Have a strike come, if there is one: it comes at a jump backwards."""
    for _ in range(1_000):
        pass
