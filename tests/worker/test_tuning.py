"""What a worker changes of Python's own settings, and that it puts them back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from perdure.model.options import WorkerOptions
from perdure.worker.tuning import PythonTuning
from tests.collector import count_frozen


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    thresholds, switch_s = gc.get_threshold(), sys.getswitchinterval()
    monkeypatch.setattr(gc, "get_freeze_count", count_frozen)
    gc.unfreeze()
    yield
    gc.freeze()  # As all tests have it: see tests/collector.py.
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(switch_s)


def test_a_worker_has_the_collector_look_more_seldom_and_at_new_objects_alone() -> None:
    before = settings()
    tuning = PythonTuning(WorkerOptions())

    tuning.apply()

    assert gc.get_threshold()[0] == WorkerOptions().collect_after
    assert gc.get_freeze_count() > 1_000
    assert sys.getswitchinterval() == pytest.approx(0.001)
    tuning.undo()
    assert settings() == before


def test_nothing_is_changed_that_is_to_be_left_alone() -> None:
    before = settings()

    PythonTuning(WorkerOptions(collect_after=0, thread_switch=0)).apply()

    assert settings() == before


def test_what_others_have_had_passed_over_stays_so() -> None:
    """The user, or the other worker of a process: who was first ends it."""
    first, second = PythonTuning(WorkerOptions()), PythonTuning(WorkerOptions())
    first.apply()
    second.apply()

    second.undo()

    assert gc.get_freeze_count() > 1_000
    first.undo()
    assert gc.get_freeze_count() == 0


def settings() -> tuple[object, ...]:
    return gc.get_threshold(), gc.get_freeze_count(), sys.getswitchinterval()
