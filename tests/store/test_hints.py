"""Which hints each kind of change gives to other processes."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.model.hints import Hint
from perdure.model.instances import Stamp, Status
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.messages import DeliveryStatus
from perdure.model.turns import (
    NOBODY,
    ChildStart,
    Hold,
    KvChange,
    TurnReceipt,
    TurnStatus,
)
from perdure.store.batching import LATER
from perdure.store.sql.commits.batch import Operation
from perdure.store.sql.commits.hints import hint_of, hints_of
from tests.contract.store_values import (
    FED,
    continuation,
    first_turn,
    given,
    job,
    message,
    new_instance,
    next_turn,
    observed,
    outcome,
    timer,
)

NONE, WORK, NEWS, BOTH = Hint.NONE, Hint.WORK, Hint.NEWS, Hint.BOTH
ACCEPTED = TurnReceipt(TurnStatus.ACCEPTED)
STAMP = Stamp(1, 1, 2, 1)
KEY = JobKey("i", 1, 1, 2)


def turn(**fields: Any) -> Any:
    return next_turn("i", STAMP, **fields)


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({}, NONE),
        ({"jobs": (job(2, leased=True),)}, NONE),
        ({"timers_gone": ("2",)}, NONE),
        ({"jobs": (job(2, leased=True), job(3))}, WORK),
        ({"timers": (timer(2, 1 << 50),)}, WORK),
        ({"deliveries": (message("other"),)}, WORK),
        ({"children": (ChildStart(new_instance("child"), None),)}, WORK),
        ({"outcome": outcome()}, NEWS),
        ({"report": b"1"}, NEWS),
        ({"kv": (KvChange("k", b"1"),)}, NEWS),
        ({"receipts": (given(),)}, NEWS),
        ({"feed": (FED,)}, NEWS),
        ({"observations": (observed(),)}, NEWS),
        ({"jobs_gone": (2,)}, NEWS),
        ({"continued": continuation()}, BOTH),
        ({"outcome": outcome(), "deliveries": (message("parent"),)}, BOTH),
    ],
)
def test_an_accepted_turn_hints_at_what_concerns_others(fields: dict[str, Any], hint: Hint) -> None:
    assert hint_of(turn(**fields), ACCEPTED) == hint
    assert hints_of([turn(**fields)], [ACCEPTED]) == hint


def test_a_first_turn_that_goes_on_in_memory_concerns_no_other_process() -> None:
    assert hint_of(first_turn(new_instance()), ACCEPTED) == NONE


def test_a_vanished_start_hints_at_the_messages_that_are_left() -> None:
    left = TurnReceipt(TurnStatus.ACCEPTED, 2, has_unseen=True)

    assert hint_of(turn(vanishes=True), left) == WORK
    assert hint_of(turn(vanishes=True), ACCEPTED) == NONE


@pytest.mark.parametrize("status", [TurnStatus.REFUSED, TurnStatus.TAKEN, TurnStatus.KEY_TAKEN])
def test_a_refused_turn_hints_at_the_results_that_may_be_in_the_inbox(status: TurnStatus) -> None:
    end = JobEnd(key=KEY, token=1, kind="completed", body=b"")

    assert hint_of(turn(outcome=outcome(), job_ends=(end,)), TurnReceipt(status)) == WORK
    assert hint_of(first_turn(new_instance()), TurnReceipt(status)) == WORK
    assert hint_of(turn(outcome=outcome()), TurnReceipt(status)) == NONE


@pytest.mark.parametrize(
    ("operation", "result", "hint"),
    [
        (new_instance(), None, WORK),
        (new_instance(), object(), NONE),
        (new_instance(messages=(message(),)), object(), WORK),
        (message(), DeliveryStatus.DELIVERED, WORK),
        (message(), DeliveryStatus.DUPLICATE, WORK),
        (message(), DeliveryStatus.ENDED, NONE),
        (message(), DeliveryStatus.ABSENT, NONE),
        (JobEnd(key=KEY, token=1, retry_at_ms=1), True, WORK),
        (JobEnd(key=KEY, token=1, retry_at_ms=1), False, NONE),
        (Hold("i", STAMP, 0, Status.PARKED, NOBODY, ""), True, BOTH),
        (Hold("i", STAMP, 0, Status.PARKED, NOBODY, ""), False, NONE),
        (Operation(lambda t: None), None, BOTH),
        (Operation(lambda t: None, is_quiet=True), None, NONE),
    ],
)
def test_every_other_change_hints_at_what_it_is_for(
    operation: Any, result: Any, hint: Hint
) -> None:
    assert hint_of(operation, result) == hint


def test_what_is_put_off_gives_its_hint_when_it_is_done() -> None:
    assert hint_of(message(), LATER) == NONE


def test_a_batch_gives_the_hints_of_all() -> None:
    assert hints_of([], []) == NONE
    assert hints_of([turn(), message()], [ACCEPTED, DeliveryStatus.DELIVERED]) == WORK
    assert hints_of([turn(report=b"1"), message()], [ACCEPTED, DeliveryStatus.DELIVERED]) == BOTH
