"""The garbage collector waits for every turn of the process, and goes on after the last."""

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from perdure.core.orchestrations.loop import DurableLoop
from tests.sizes import WITHIN_S


class Nobody:
    """Owns a loop on which nothing happens."""

    now_ms = 0


class TurnInThread:
    """A turn on a thread of its own, from `begin` to `end`."""

    def __init__(self) -> None:
        self._begun, self._may_end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()
        assert self._begun.wait(WITHIN_S)

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with DurableLoop(Nobody(), None):  # type: ignore[abstract, arg-type]  # nothing runs on it
            self._begun.set()
            self._may_end.wait(WITHIN_S)


@pytest.fixture(autouse=True)
def _collector_stays_on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_end_of_a_turn_leaves_the_collector_off_for_a_turn_in_another_thread() -> None:
    first, second = TurnInThread(), TurnInThread()
    first.begin()
    second.begin()

    first.end()
    is_on_between = gc.isenabled()
    second.end()

    assert not is_on_between
    assert gc.isenabled()


def test_the_collector_stays_off_where_the_program_has_switched_it_off() -> None:
    gc.disable()
    first, second = TurnInThread(), TurnInThread()
    first.begin()
    second.begin()

    second.end()
    first.end()

    assert not gc.isenabled()


def test_a_child_forked_during_a_turn_of_another_thread_collects_garbage() -> None:
    turn = TurnInThread()
    turn.begin()

    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    turn.end()

    assert status == 0
