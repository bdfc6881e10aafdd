"""Which hints the operations of a batch give to other processes, from what became of them.

What an instance does in the memory of its worker concerns no other process: its new jobs run where
it is, and it goes on there. Leases and signs of life concern none either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perdure.model.hints import HINTS, WITH_NEWS, WITH_WORK, Hint
from perdure.model.instances import NewInstance
from perdure.model.jobs import JobEnd, NewJob
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import Hold, Turn, TurnReceipt, TurnStatus, has_sent
from perdure.store.batching import LATER
from perdure.store.locked_turns import LockedTurn
from perdure.store.sql.commits.batch import Operation

_ACCEPTED = TurnStatus.ACCEPTED
_UNSENT = (DeliveryStatus.ENDED, DeliveryStatus.ABSENT)


def hints_of(operations: Iterable[Any], results: Iterable[Any]) -> Hint:
    """Return which hints a batch gives that was committed.

    Args:
        operations: All of it.
        results: What became of each.
    """
    has_work = has_news = False
    for operation, result in zip(operations, results, strict=True):
        if type(operation) is Turn and result is not LATER and result.status is _ACCEPTED:
            # Nearly all are that, and concern no other process: each is asked what is not known.
            if operation.is_plain:
                has_work = has_work or _waits(operation.jobs)
                has_news = has_news or operation.outcome is not None
            else:
                has_work = has_work or _gives_work(operation, result)
                has_news = has_news or _gives_news(operation)
        else:
            hint = hint_of(operation, result)
            has_work = has_work or hint in WITH_WORK
            has_news = has_news or hint in WITH_NEWS
        if has_work and has_news:
            break
    return HINTS[has_work + 2 * has_news]


def hint_of(operation: Any, result: Any) -> Hint:
    """Return which hints one operation gives."""
    if result is LATER:
        return Hint.NONE
    if type(operation) is Turn:
        return _hint_of_turn(operation, result)
    match operation:
        case LockedTurn():
            # None: it was not thought, or too late.
            turn = None if result is None else operation.turn
            return Hint.NONE if turn is None else _hint_of_turn(turn, result)
        case Operation():
            return _hint_of_work(operation)
        case NewInstance():
            # If the id was taken, what came with the start may have been delivered.
            return Hint.NONE if result is not None and not operation.messages else Hint.WORK
        case Delivery():
            return Hint.NONE if result in _UNSENT else Hint.WORK
        case JobEnd():
            return Hint.NONE if not result else _hint_of_end(operation)
        case Hold():
            # Other code may be tried on it, and callers are told that it stands.
            return Hint.BOTH if result else Hint.NONE
    return Hint.BOTH


def _hint_of_work(operation: Operation) -> Hint:
    if operation.is_news:
        return Hint.NEWS
    return Hint.NONE if operation.is_quiet else Hint.BOTH


def _hint_of_end(end: JobEnd) -> Hint:
    # What it sent to streams is read by those who wait for news.
    return Hint.WORK if end.sent is None else Hint.BOTH


def _hint_of_turn(turn: Turn, receipt: TurnReceipt) -> Hint:
    if receipt.status is not _ACCEPTED:
        # Results of its jobs may be in the inbox, and what came with a start.
        return Hint.WORK if turn.job_ends or turn.start is not None else Hint.NONE
    return HINTS[_gives_work(turn, receipt) + 2 * _gives_news(turn)]


def _gives_work(turn: Turn, receipt: TurnReceipt) -> bool:
    """Return whether an accepted turn leaves something that a worker may claim."""
    return bool(
        _waits(turn.jobs)
        or turn.timers
        or turn.deliveries
        or turn.children
        or turn.continued is not None
        or turn.rewound is not None
        or (turn.vanishes and receipt.has_unseen)
    )


def _waits(jobs: Sequence[NewJob]) -> bool:
    """Return whether one of some jobs is not leased by the commit that adds it."""
    for job in jobs:  # noqa: SIM110  # a generator costs more than what it asks
        if not job.leased:
            return True
    return False


def _gives_news(turn: Turn) -> bool:
    """Return whether a caller may wait for something that an accepted turn tells."""
    return bool(
        turn.outcome is not None
        or turn.continued is not None
        or turn.rewound is not None
        or turn.jobs_gone
        or turn.kv
        or turn.report is not None
        or has_sent(turn)
        or turn.receipts
        or turn.feed
        or turn.observations
    )
