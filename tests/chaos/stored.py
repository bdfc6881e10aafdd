"""What a store holds of the bank, its tills, errands and pledges, as the oracle compares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from perdure.model.histories.events import (
    EventRecorded,
    InputRejected,
    InputTaken,
    StoredEvent,
    read_event,
)
from perdure.store.contents import Contents
from tests.chaos.pledges import read_pledges
from tests.chaos.till import Answered, read_tills
from tests.chaos.told import StepTold

PREFIX = "bank:"


class Entry(NamedTuple):
    """An event of an account."""

    mark: str
    amount: int


class Rejection(NamedTuple):
    """A rejection that is in the history of an account."""

    mark: str
    after: int
    """How many events were there."""


@dataclass
class Stored:
    """What the store holds."""

    entries: dict[str, list[Entry]] = field(default_factory=dict)
    """By account, in order."""
    rejections: dict[str, list[Rejection]] = field(default_factory=dict)
    receipts: set[tuple[str, str]] = field(default_factory=set)
    """Accounts and ids of inputs that have an outcome."""
    errands: dict[str, tuple[StepTold, ...] | None] = field(default_factory=dict)
    """What each errand returned, by its mark; None: it has not ended."""
    pledges: dict[str, str | None] = field(default_factory=dict)
    """What each pledge returned, by its mark; None: it waits."""


def stored_in(contents: Contents) -> Stored:
    """Read the accounts, tills, errands and pledges of a store."""
    stored = Stored(pledges=read_pledges(contents))
    for key, history in contents.histories.items():
        if key.instance_id.startswith(PREFIX):
            _read_account(stored, key.instance_id.removeprefix(PREFIX), history)
    for account, answered in read_tills(contents.histories):
        _read_till(stored, account, answered)
    for instance_id, receipts in contents.receipts.items():
        account = instance_id.removeprefix(PREFIX)
        stored.receipts |= {(account, one) for one, outcome in receipts.items() if outcome}
    for row in contents.instances.values():
        if row.name == "errand":
            steps = None
            if row.status.is_terminal and row.output is not None:
                steps = msgspec.json.decode(row.output, type=tuple[StepTold, ...])
            stored.errands[row.instance_id] = steps
    return stored


def _read_account(stored: Stored, account: str, history: Sequence[StoredEvent]) -> None:
    entries = stored.entries.setdefault(account, [])
    rejections = stored.rejections.setdefault(account, [])
    taken = ""
    for one in history:
        match read_event(one.kind, one.body):
            case InputTaken(input=input):
                taken = msgspec.json.decode(input)["mark"]
            case EventRecorded(event=event):
                entries.append(msgspec.json.decode(event, type=_Moved).entry)
            case InputRejected():
                rejections.append(Rejection(taken, len(entries)))


def _read_till(stored: Stored, account: str, answered: Sequence[Answered]) -> None:
    entries = stored.entries.setdefault(account, [])
    rejections = stored.rejections.setdefault(account, [])
    for one in answered:
        if one.is_refused:
            rejections.append(Rejection(one.mark, len(entries)))
        else:
            entries.append(Entry(one.mark, one.amount))


class _Moved(msgspec.Struct):
    amount: int
    mark: str

    @property
    def entry(self) -> Entry:
        return Entry(self.mark, self.amount)
