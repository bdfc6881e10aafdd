"""Is what callers were told what the store holds, once?

A pure comparison of two things: the lines of `told`, and the accounts of `bank`, the tills and the
pledges as they are stored when all work is done. What must hold:

- An answer is an event, a recorded rejection, a message or an instance; one each.
- No event lacks a caller or a cause, and none is there twice.
- What was refused never happened.
- Inputs with one id are decided once, and all who gave it hear the same.
- Order in real time: what began after another call had ended comes later in the history, with the
  number and the balance that its caller was told; a rejection was right at a moment of its call.
- What a client has sent comes before what it has decided afterwards.
- No balance is below zero, and no money comes or goes but by deposits and withdrawals.

A database that went back (`WentBack`) may have lost what was told meanwhile, but only a suffix of
it; all else must hold all the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import msgspec

from tests.chaos.bank import ARRIVED, SIGN
from tests.chaos.pledges import is_of_pledge, pledges_not_as_told
from tests.chaos.stored import Entry, Stored
from tests.chaos.told import NEVER, Begun, Line, StepTold, Told, WentBack


def violations(lines: Iterable[Line], stored: Stored) -> list[str]:
    """Return all that is wrong; an empty list is good news."""
    known = list(lines)
    of_bank = [line for line in known if not is_of_pledge(line)]
    case = _Case(*_with_marks_of_calls(of_bank, stored))

    def may_be_lost(begun: Begun, told: Told | None) -> bool:
        return case.may_be_lost(Call(begun, told))

    return [
        *case.twice(),
        *case.without_cause(),
        *case.not_arrived(),
        *case.not_as_told(),
        *case.errands_not_as_told(),
        *case.out_of_order(),
        *case.overtaken(),
        *case.lost_before_kept(),
        *case.not_adding_up(),
        *pledges_not_as_told(known, stored.pledges, may_be_lost),
    ]


def _with_marks_of_calls(lines: list[Line], stored: Stored) -> tuple[list[Line], Stored]:
    """Let what came of an input with an id have the mark of the first call that gave it."""
    first: dict[str, Begun] = {}
    for line in lines:
        if isinstance(line, Begun) and line.input_id:
            known = first.get(line.input_id)
            if known is None or line.at_ns < known.at_ns:
                first[line.input_id] = line

    def mark_of(mark: str) -> str:
        caller = _caller_of(mark)
        return first[caller].mark + mark.removeprefix(caller) if caller in first else mark

    told: list[Line] = [
        msgspec.structs.replace(line, recorded=mark_of(line.recorded))
        if isinstance(line, Told)
        else line
        for line in lines
    ]
    entries = {
        account: [one._replace(mark=mark_of(one.mark)) for one in some]
        for account, some in stored.entries.items()
    }
    rejections = {
        account: [one._replace(mark=mark_of(one.mark)) for one in some]
        for account, some in stored.rejections.items()
    }
    return told, replace(stored, entries=entries, rejections=rejections)


@dataclass
class Call:
    """A call from its begin to its end."""

    begun: Begun
    told: Told | None = None

    @property
    def mark(self) -> str:
        return self.begun.mark

    @property
    def begun_ns(self) -> int:
        return self.begun.at_ns

    @property
    def ended_ns(self) -> int:
        """When its caller knew; never, if it never did."""
        return NEVER if self.answer == "unknown" or self.told is None else self.told.at_ns

    @property
    def answer(self) -> str:
        return "unknown" if self.told is None else self.told.answer

    def __str__(self) -> str:
        begun = self.begun
        with_id = f" with id {begun.input_id}" if begun.input_id else ""
        what = f"{begun.how} {begun.what} {begun.amount} {begun.account}{with_id}"
        return f"{self.mark} ({what}, told {self.answer})"


class Place(NamedTuple):
    """Where an event is."""

    account: str
    number: int
    """From 0."""


class _Case:
    def __init__(self, lines: Sequence[Line], stored: Stored) -> None:
        self.stored = stored
        self.calls: dict[str, Call] = {}
        self.results: dict[str, Call] = {}
        self.gone_back = [line for line in lines if isinstance(line, WentBack)]
        for line in lines:
            if isinstance(line, Begun):
                self._of(line).setdefault(line.mark, Call(line))
        for line in lines:
            if isinstance(line, Told):
                self._of(line)[line.mark].told = line
        self.places: dict[str, list[Place]] = defaultdict(list)
        for account, entries in stored.entries.items():
            for index, entry in enumerate(entries):
                self.places[entry.mark].append(Place(account, index))
        self.balances = {
            account: [0, *accumulate(entry.amount for entry in entries)]
            for account, entries in stored.entries.items()
        }

    def _of(self, line: Begun | Told) -> dict[str, Call]:
        return self.results if line.how == "result" else self.calls

    # ----------------------------------------------------------------- what is there

    @cached_property
    def rejected(self) -> dict[str, list[tuple[str, int]]]:
        """Where rejections are recorded, by mark."""
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for account, rejections in self.stored.rejections.items():
            for one in rejections:
                found[one.mark].append((account, one.after))
        return found

    @cached_property
    def groups(self) -> dict[tuple[str, str], list[Call]]:
        """Calls that are one input: those with one id, all others by themselves."""
        found: dict[tuple[str, str], list[Call]] = defaultdict(list)
        for call in self.calls.values():
            if call.begun.how != "start":
                found[call.begun.account, call.begun.input_id or call.mark].append(call)
        return found

    def group_of(self, call: Call) -> list[Call]:
        return self.groups[call.begun.account, call.begun.input_id or call.mark]

    def decisions(self, marks: Iterable[str]) -> int:
        return sum(len(self.places[mark]) + len(self.rejected[mark]) for mark in marks)

    def may_be_lost(self, call: Call) -> bool:
        """Return whether a call may have been answered by a database whose place a copy took."""
        return any(
            call.begun_ns < one.ended_ns and call.ended_ns > one.copied_ns for one in self.gone_back
        )

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """When the call of each event began, and by when the event was there."""
        ends: dict[str, int] = defaultdict(lambda: NEVER)
        for call in self.calls.values():
            if call.told is not None and call.answer == "accepted" and not self.may_be_lost(call):
                ends[call.told.recorded] = min(ends[call.told.recorded], call.ended_ns)
        found = {}
        for mark in self.places:
            caller = self.calls.get(_caller_of(mark))
            begun_ns = 0 if caller is None else caller.begun_ns
            found[mark] = (begun_ns, ends[mark])
        return found

    # ----------------------------------------------------------------- once, and caused

    def twice(self) -> Iterator[str]:
        """Find what is decided more than once."""
        for (account, name), group in self.groups.items():
            count = self.decisions(call.mark for call in group)
            if count > 1:
                callers = ", ".join(map(str, group))
                yield f"twice: {account}: input {name} is decided {count} times: {callers}"
        for mark in {*self.places, *self.rejected} - self.calls.keys():
            if self.decisions([mark]) > 1:
                yield f"twice: {mark} is decided {self.decisions([mark])} times"

    def without_cause(self) -> Iterator[str]:
        """Find events that nobody asked for, or not like this."""
        for mark, places in self.places.items():
            expected = self._expected(mark)
            for account, index in places:
                amount = self.stored.entries[account][index].amount
                if expected is None:
                    yield f"no caller: {account} has {amount} by {mark}, which nobody asked for"
                elif expected != Entry(account, amount):
                    yield f"not as asked: {account} has {amount} by {mark}, not {expected}"

    def _expected(self, mark: str) -> Entry | None:
        """Return the account and the amount of an event by its mark."""
        call = self.calls.get(_caller_of(mark))
        if call is None:
            return None
        begun = call.begun
        if begun.what == "errand":
            number = int(mark.partition("/")[2] or len(begun.accounts))
            if number >= len(begun.accounts):
                return None
            return Entry(begun.accounts[number], -begun.amount if number % 3 == 1 else begun.amount)
        if not mark.endswith(ARRIVED):
            return Entry(begun.account, SIGN[begun.what] * begun.amount)
        has_left = begun.what == "transfer" and self.places[call.mark]
        return Entry(begun.to, begun.amount) if has_left else None

    def not_arrived(self) -> Iterator[str]:
        """Find transfers that have left one account and not come to the other."""
        for call in self.calls.values():
            if call.begun.what == "transfer" and self.places[call.mark]:
                arrived = self.decisions([call.mark + ARRIVED])
                if arrived != 1:
                    yield f"not arrived: {call} has left, and arrived {arrived} times"

    # ------------------------------------------------------------------------ as told

    def not_as_told(self) -> Iterator[str]:
        """Compare each answer with what is stored."""
        checks = {
            "accepted": self._accepted,
            "rejected": self._rejected,
            "sent": self._sent,
            "started": self._started,
            "refused": self._refused,
            "unanswered": self._unanswered,
            "strange": self._strange,
        }
        for call in self.calls.values():
            if call.answer in checks:
                yield from checks[call.answer](call)
        for (account, name), group in self.groups.items():
            told = {
                (call.answer, call.told.recorded)
                for call in group
                if call.told is not None
                and call.answer in ("accepted", "rejected")
                and not self.may_be_lost(call)
            }
            if len(told) > 1:
                yield f"two answers: {account}: input {name} came to {sorted(told)}"

    def _accepted(self, call: Call) -> Iterator[str]:
        told = call.told
        assert told is not None
        if told.recorded not in {one.mark for one in self.group_of(call)}:
            yield f"another's answer: {call} was told {told.recorded}"
        elif not self.may_be_lost(call):
            yield from self._not_there(
                str(call), call.begun.account, told.recorded, told.version, told.balance
            )

    def _not_there(
        self, who: str, account: str, mark: str, version: int, balance: int
    ) -> Iterator[str]:
        places = [place for place in self.places[mark] if place.account == account]
        if not places:
            yield f"not there: {who} was accepted, and there is no such event"
        elif places[0].number + 1 != version:
            yield f"not as told: {who} is event {places[0].number + 1}, not {version}"
        elif self.balances[account][version] != balance:
            there = self.balances[account][version]
            yield f"not as told: {who} left {there}, told was {balance}"

    def _rejected(self, call: Call) -> Iterator[str]:
        if self.may_be_lost(call):
            return
        group = self.group_of(call)
        if any(self.places[one.mark] for one in group):
            yield f"rejected and there: {call}"
        elif call.begun.what == "deposit":
            yield f"wrongly rejected: {call}"
        else:
            begun_ns = min(one.begun_ns for one in group)
            account = call.begun.account
            least = min(self._balances_within(account, begun_ns, call.ended_ns))
            if least >= call.begun.amount:
                yield f"wrongly rejected: {call}, and {account} never had less than {least}"

    def _balances_within(self, account: str, begun_ns: int, ended_ns: int) -> list[int]:
        """Return the balances that an account may have had at a moment of a call."""
        entries = self.stored.entries.get(account, [])
        first, last = 0, len(entries)
        for index, entry in enumerate(entries):
            entry_begun_ns, entry_ended_ns = self.spans[entry.mark]
            if entry_ended_ns < begun_ns:
                first = index + 1
            if entry_begun_ns > ended_ns:
                last = min(last, index)
        # Where both cross, the events are out of order, which is found elsewhere.
        return self.balances.get(account, [0])[min(first, last) : last + 1]

    def _sent(self, call: Call) -> Iterator[str]:
        marks = [one.mark for one in self.group_of(call)]
        # A rejection of an `execute` with an id is a receipt and nothing else.
        is_kept = (call.begun.account, call.begun.input_id) in self.stored.receipts
        if not (self.decisions(marks) or is_kept or self._may_leave_no_trace(call)):
            yield f"not there: {call} was never decided"

    def _may_leave_no_trace(self, call: Call) -> bool:
        """Return whether it may be lost, or was rejected when there was no such account."""
        if self.may_be_lost(call):
            return True
        entries = self.stored.entries.get(call.begun.account, [])
        is_first = not entries or self.spans[entries[0].mark][1] > call.begun_ns
        return call.begun.what != "deposit" and is_first

    def _started(self, call: Call) -> Iterator[str]:
        if call.mark not in self.stored.errands and not self.may_be_lost(call):
            yield f"not there: {call}"

    def _refused(self, call: Call) -> Iterator[str]:
        is_there = self.decisions([call.mark]) or call.mark in self.stored.errands
        if is_there:
            yield f"refused and there: {call}: {call.told.why if call.told else ''}"

    def _unanswered(self, call: Call) -> Iterator[str]:
        # No till ends or is deleted: only a database that went back forgets what it was asked.
        if not self.may_be_lost(call):
            yield f"unanswered: {call}"

    @staticmethod
    def _strange(call: Call) -> Iterator[str]:
        yield f"strange: {call}: {call.told.why if call.told else ''}"

    def errands_not_as_told(self) -> Iterator[str]:
        """Compare what errands returned, and what each heard of its inputs."""
        for mark, steps in self.stored.errands.items():
            start, result = self.calls.get(mark), self.results.get(mark)
            if start is None:
                yield f"no caller: errand {mark}, which nobody started"
                continue
            if steps is None:
                yield f"not ended: errand {mark}"
                continue
            told = None if result is None or result.answer != "result" else result.told
            is_kept = result is not None and not self.may_be_lost(result)
            if told is not None and is_kept and told.steps != steps:
                yield f"not as told: errand {mark} returned {steps}, told was {told.steps}"
            # It may have heard from a database that is gone, and told that to the one in its place.
            heard = Call(start.begun, told)
            if not self.may_be_lost(heard):
                yield from self._steps(start.begun, steps)
        for mark, result in self.results.items():
            is_lost = mark not in self.stored.errands and not self.may_be_lost(result)
            if result.answer == "result" and is_lost:
                yield f"not there: errand {mark} was told to have ended"

    def _steps(self, begun: Begun, steps: Sequence[StepTold]) -> Iterator[str]:
        for number, step in enumerate(steps):
            who = f"step {step.mark}, told {step.answer}"
            if step.mark != f"{begun.mark}/{number}":
                yield f"another's answer: {who}, as {begun.mark}/{number}"
            elif step.answer == "accepted":
                account = begun.accounts[number]
                yield from self._not_there(who, account, step.mark, step.version, step.balance)
            elif step.answer == "rejected":
                if self.places[step.mark]:
                    yield f"rejected and there: {who}"
            elif step.answer != "sent" or not self.decisions([step.mark]):
                yield f"not there: {who}"

    # ---------------------------------------------------------------- order and money

    def out_of_order(self) -> Iterator[str]:
        """Find events that were there before the call of an earlier one began."""
        for account, entries in self.stored.entries.items():
            latest, latest_ns = "", 0
            for entry in entries:
                begun_ns, ended_ns = self.spans[entry.mark]
                if ended_ns < latest_ns:
                    yield f"out of order: {account}: {latest} began after {entry.mark} had ended"
                if begun_ns > latest_ns:
                    latest, latest_ns = entry.mark, begun_ns
        for mark, places in self.rejected.items():
            call = self.calls.get(_caller_of(mark))
            for account, after in places:
                if call is not None and call.begun.what in ("withdraw", "transfer"):
                    had = self.balances[account][after]
                    if had >= call.begun.amount:
                        yield f"wrongly rejected: {call}, and {account} had {had}"

    def overtaken(self) -> Iterator[str]:
        """Find what a client had decided before what it had sent earlier."""
        sent: dict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
        for call in self.calls.values():
            if call.answer == "sent" and not call.begun.input_id and not self.may_be_lost(call):
                places = [
                    *(index for account, index in self.places[call.mark]),
                    *(after for _, after in self.rejected[call.mark]),
                ]
                if places:
                    key = (call.begun.client, call.begun.account)
                    sent[key].append((call.ended_ns, places[0], call.mark))
        for before in sent.values():
            before.sort()
        for call in self.calls.values():
            before = sent[call.begun.client, call.begun.account]
            if call.answer != "accepted" or call.begun.input_id or not self.places[call.mark]:
                continue
            index = self.places[call.mark][0].number
            for _, place, mark in before[: bisect_left(before, (call.begun_ns, 0, ""))]:
                if place > index:
                    yield f"overtaken: {mark} was sent before {call} began, and is decided after"

    def lost_before_kept(self) -> Iterator[str]:
        """Find what is lost although something later is kept: not a suffix."""
        for back in self.gone_back:
            within = [
                call
                for call in self.calls.values()
                if call.begun_ns > back.copied_ns and call.ended_ns < back.ended_ns
            ]
            # What began when the copying had begun and was told by the old one is not in the copy
            # if anything is lost that was told earlier.
            told = [one for one in within if one.answer == "accepted" and not one.begun.input_id]
            lost = [call for call in told if not self.places[call.mark]]
            first_ns = min((call.ended_ns for call in lost), default=NEVER)
            for call in told:
                if call.begun_ns > first_ns and self.places[call.mark]:
                    yield f"kept: {call}, although {len(lost)} told before are lost"

    def not_adding_up(self) -> Iterator[str]:
        """Count the money."""
        for account, balances in self.balances.items():
            if min(balances) < 0:
                yield f"below zero: {account} had {min(balances)}"
        there = sum(balances[-1] for balances in self.balances.values())
        asked = 0
        for mark in [mark for mark, places in self.places.items() if places]:
            expected, call = self._expected(mark), self.calls.get(_caller_of(mark))
            if expected is not None and call is not None and call.begun.what != "transfer":
                asked += expected.amount
        if there != asked:
            yield f"money: the accounts have {there}, deposits less withdrawals are {asked}"


def _caller_of(mark: str) -> str:
    """Return the mark of the call that an event comes from."""
    return mark.removesuffix(ARRIVED).partition("/")[0]
