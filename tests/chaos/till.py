"""A till: an account of the bank that is an orchestration, and whose movements are updates.

It answers or refuses each request once, and goes on as a new execution now and then, so requests
also arrive between two executions. What it answered is in its histories, in order: the oracle reads
a till as it reads an account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from perdure import Update, orchestration
from perdure.authoring.registry import Defined
from perdure.model.histories.events import SignalReceived, StoredEvent, UpdateAnswered, read_event
from perdure.model.updates import UpdateBody
from perdure.store.base import ExecutionKey
from tests.chaos.bank import TOO_LITTLE, Step

PREFIX = "till:"
ANSWERS_PER_EXECUTION = 20


@dataclass(frozen=True)
class Move:
    """Money into a till, or out of it where it is negative."""

    amount: int
    mark: str


move = Update("move", Move, Step)


@orchestration
async def till(version: int, balance: int) -> None:
    """Take requests one after another; its balance is never below zero."""
    for _ in range(ANSWERS_PER_EXECUTION):
        request = await move.receive()
        asked = request.value
        if balance + asked.amount < 0:
            request.refuse(TOO_LITTLE)
            continue
        version, balance = version + 1, balance + asked.amount
        request.answer(Step(asked.mark, "accepted", version, balance))
    till.continue_as_new(version, balance)


class Answered(msgspec.Struct, frozen=True):
    """A request with what the till said."""

    mark: str
    amount: int
    is_refused: bool


def read_tills(
    histories: Mapping[ExecutionKey, Sequence[StoredEvent]],
) -> Iterator[tuple[str, list[Answered]]]:
    """Return what each till answered, by its account, in order."""
    keys = sorted(key for key in histories if key.instance_id.startswith(PREFIX))
    tills: dict[str, list[Answered]] = {}
    for key in keys:
        answered = tills.setdefault(key.instance_id.removeprefix(PREFIX), [])
        answered.extend(_answered_in(histories, key))
    yield from tills.items()


def _answered_in(
    histories: Mapping[ExecutionKey, Sequence[StoredEvent]], key: ExecutionKey
) -> Iterator[Answered]:
    asked: dict[str, Move] = {}
    for one in histories[key]:
        match read_event(one.kind, one.body):
            case SignalReceived(value=value):
                body = msgspec.json.decode(value, type=UpdateBody)
                asked[body.id] = msgspec.json.decode(body.value, type=Move)
            case UpdateAnswered(update_id=update_id, refusal=refusal):
                known = asked[update_id]
                yield Answered(known.mark, known.amount, refusal is not None)


DEFINITIONS: list[Defined] = [till]
