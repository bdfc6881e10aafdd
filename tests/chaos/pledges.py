"""Pledges: promises that several callers keep at once, and an oracle for what they were told.

Whoever is told to be first is first for ever: the pledge returns the mark of that call. All others
are told that they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from perdure import Key, Promise, orchestration
from perdure.authoring.registry import Defined
from perdure.errors import PromiseRejectedError
from perdure.store.contents import Contents
from tests.chaos.told import Begun, Line, Told

kept = Promise("kept", str)
token_of = Key("token", str)


@orchestration
async def pledge() -> str:
    """Return the mark of the call that was first."""
    due = kept.make()
    token_of.set(due.token)
    try:
        return await due.receive()
    except PromiseRejectedError as error:
        return error.reason


DEFINITIONS: list[Defined] = [pledge]


def read_pledges(contents: Contents) -> dict[str, str | None]:
    """Return what each pledge returned, by its mark; None: it waits."""
    return {
        row.instance_id: None if row.output is None else msgspec.json.decode(row.output, type=str)
        for row in contents.instances.values()
        if row.name == pledge.name
    }


def is_of_pledge(line: Line) -> bool:
    """Return whether a line is about a pledge."""
    return isinstance(line, Begun | Told) and line.how in ("pledge", "keep", "pledged")


def pledges_not_as_told(
    lines: Iterable[Line],
    pledges: dict[str, str | None],
    may_be_lost: Callable[[Begun, Told | None], bool],
) -> Iterator[str]:
    """Compare what the callers of each pledge were told with what it returned."""
    begun: dict[tuple[str, str], Begun] = {}
    told: dict[tuple[str, str], Told] = {}
    for line in filter(is_of_pledge, lines):
        if isinstance(line, Begun):
            begun[line.mark, line.how] = line
        elif isinstance(line, Told):
            told[line.mark, line.how] = line
    for mark, returned in pledges.items():
        if (mark, "pledge") not in begun:
            yield f"no caller: pledge {mark}, which nobody started"
        asked = begun.get((returned or "", "keep"))
        if returned is not None and (asked is None or asked.account != mark):
            yield f"no caller: pledge {mark} was kept by {returned}, which is no call for it"
    for key, call in begun.items():
        answer = told.get(key)
        if answer is not None and not may_be_lost(call, answer):
            yield from _not_as_told(call, answer, pledges)


def _not_as_told(call: Begun, answer: Told, pledges: dict[str, str | None]) -> Iterator[str]:
    who = f"{call.mark} ({call.how}, told {answer.answer})"
    returned = pledges.get(call.account or call.mark)
    match call.how, answer.answer:
        case _, "strange":
            yield f"strange: {who}: {answer.why}"
        case "pledge", "started" if call.mark not in pledges:
            yield f"not there: {who}"
        case "pledge", "refused" if call.mark in pledges:
            yield f"refused and there: {who}"
        case "keep", "accepted" if returned != call.mark:
            yield f"not as told: {who} was first, and it returned {returned}"
        case "keep", "rejected" | "refused" if returned == call.mark:
            yield f"not as told: {who} was first"
        case "keep", "rejected" if returned is None:
            yield f"not as told: {who} was too late, and nobody was before"
        case "pledged", "result" if returned != answer.recorded:
            yield f"not as told: {who} returned {returned}, told was {answer.recorded}"
