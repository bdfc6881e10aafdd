"""What is written of the end of a job that a person has put back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.authoring.registry import activity_key
from perdure.jobs.attempts import AttemptResult, Raised, Returned, conclude
from perdure.model.histories.events import (
    NULL,
    ActivityCompleted,
    ActivityFailed,
    EffectRetried,
    Event,
    Failure,
    read_event,
)
from perdure.model.jobs import ClaimedJob, JobFailures, JobKey, JobPolicy

POLICY = JobPolicy(max_attempts=2, returns_input=True, correlation="cart-7")
FIRST, LAST = Failure("OSError", "first", at_ms=1), Failure("OSError", "last", at_ms=5)
RETURNED = Returned(msgspec.Raw(b'{"tag":"Paid","input":{}}'))
RAISED = Raised(Failure("OSError", "last"))


def job(**fields: Any) -> ClaimedJob:
    defaults: dict[str, Any] = {
        "key": JobKey("order:1", 7, 1, 4),
        "token": 3,
        "queue": activity_key("charge", None),
        "input": b'{"order":"1"}',
        "policy": b"{}",
        "attempt": 2,
        "failures": JobFailures(1, (FIRST,)),
        "is_rerun": True,
    }
    return ClaimedJob(**(defaults | fields))


def written(job: ClaimedJob, outcome: AttemptResult) -> Event:
    end = conclude(job, POLICY, outcome, clock=lambda: 5, chance=lambda: 0)
    assert end.kind is not None
    return read_event(end.kind, end.body)


def test_a_result_is_written_with_what_its_decider_has_forgotten() -> None:
    assert written(job(), RETURNED) == EffectRetried(
        effect=4,
        activity="charge",
        result=RETURNED.result,
        failures=(FIRST,),
        returns_input=True,
        correlation="cart-7",
    )


def test_another_death_is_written_with_the_arguments() -> None:
    end = conclude(job(), POLICY, RAISED, clock=lambda: 5, chance=lambda: 0)

    assert end.is_dead
    assert read_event(end.kind or "", end.body) == EffectRetried(
        effect=4,
        activity="charge",
        failures=(FIRST, LAST),
        attempts=2,
        returns_input=True,
        input=msgspec.Raw(b'{"order":"1"}'),
        correlation="cart-7",
    )


@pytest.mark.parametrize("damaged", [b"", b"\xff", b'{"order":"\xff"}', b"{"])
def test_arguments_that_are_damaged_do_not_damage_the_message(damaged: bytes) -> None:
    event = written(job(input=damaged), RAISED)

    assert isinstance(event, EffectRetried)
    assert (event.attempts, event.input) == (2, NULL)


def test_the_call_of_an_orchestration_is_answered_as_ever() -> None:
    """It has failed, and stays so: nobody there would know what to do with anything else."""
    of_version = job(owner_version="1.0.0")

    assert isinstance(written(of_version, RETURNED), ActivityCompleted)
    assert isinstance(written(of_version, RAISED), ActivityFailed)


def test_an_effect_that_never_died_is_answered_as_ever() -> None:
    assert isinstance(written(job(is_rerun=False), RETURNED), ActivityCompleted)


def test_a_failure_that_is_tried_again_is_not_told() -> None:
    end = conclude(job(failures=JobFailures()), POLICY, RAISED, clock=lambda: 5, chance=lambda: 0)

    assert (end.kind, end.is_dead) == (None, False)
