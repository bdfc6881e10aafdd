"""Lengths of time: a timedelta or a number of seconds wherever one is taken."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

import perdure
import perdure.projection
import perdure.testing
from perdure import Every, Retention, Retry, Schedule, WorkerOptions, orchestration
from perdure.authoring.deciders.projection import time_of
from perdure.projection import EventMeta, Projection

WORDS: Any = "5 min"
NOTHING: Any = None


@orchestration
async def report() -> None: ...


class Kept(Projection[Any]):
    name = "kept"
    deciders = "all"
    timeout: ClassVar[float] = 2.5

    async def handle(self, event: Any, meta: EventMeta) -> None: ...


def test_what_is_given_in_seconds_is_read_as_a_timedelta() -> None:
    options = WorkerOptions(lease_for=45, retention=Retention(ended=60, unborn=None))

    assert options.lease_for == timedelta(seconds=45)
    assert options.retention == Retention(ended=timedelta(minutes=1), unborn=None)
    assert replace(options, poll_max=0.5).poll_max == timedelta(milliseconds=500)
    assert Retry(first_delay=0.25).first_delay == timedelta(milliseconds=250)
    assert Every(300, 1) == Every(timedelta(minutes=5), timedelta(seconds=1))
    assert time_of(Kept()) == timedelta(seconds=2.5)


def test_what_is_left_out_is_the_default_and_kept_by_the_object_itself() -> None:
    fields = {one.name: one.default for one in dataclasses.fields(WorkerOptions)}

    assert fields["lease_for"] == WorkerOptions().lease_for == timedelta(seconds=30)
    assert inspect.ismemberdescriptor(inspect.getattr_static(WorkerOptions, "lease_for"))


def test_schedules_take_seconds() -> None:
    schedule = Schedule("s", Every(60), report).with_options(within=3600, jitter=0.5)

    assert schedule.spec.within_ms == 3_600_000
    assert schedule.spec.jitter_ms == 500


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Every(WORDS), "period must be a timedelta or a number of seconds"),
        (lambda: Every(0.0001), "whole milliseconds"),
        (lambda: Schedule("s", Every(60), report).with_options(jitter=WORDS), "jitter must be a"),
        (lambda: Schedule("s", Every(60), report).with_options(within=-1), "not be negative"),
        (lambda: Retention(ended=WORDS), "ended must be a timedelta or a number of seconds"),
        (lambda: WorkerOptions(lease_for=NOTHING), "lease_for must be a timedelta"),
    ],
)
def test_what_is_no_length_of_time_is_refused_in_words(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_no_parameter_takes_a_timedelta_alone() -> None:
    """Type checkers would refuse a number of seconds there."""
    alone = [
        f"{where}({parameter.name}: {parameter.annotation})"
        for where, function in _functions()
        for parameter in inspect.signature(function).parameters.values()
        if "timedelta" in str(parameter.annotation)
    ]

    assert alone == []


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in (perdure, perdure.projection, perdure.testing):
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.isfunction(one):
                yield name, one
            elif inspect.isclass(one):
                for member, value in inspect.getmembers(one, inspect.isfunction):
                    is_ours = value.__module__.startswith("perdure.")
                    if is_ours and (not member.startswith("_") or member == "__init__"):
                        yield f"{name}.{member}", value
