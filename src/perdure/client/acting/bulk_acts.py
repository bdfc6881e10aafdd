"""Doing one thing to all instances that a filter finds: the frame that every `..._all` is made in.

Which ones is found out first, as a whole: what is done on the way must not shift the list. If they
are not as many as the caller expects, nothing is done. Each is then acted on by itself, under the
incarnation that was found, so an id that was used again meanwhile is left alone. A call that is
broken off in the middle has done it to some: the next one finds those that are left, and to be
asked twice changes nothing for those that still match.

A new one is a `BulkAct` (`verb` for messages, the statuses it is for, and `do`, which does it to
one row and says whether anything had to be done) and a method in `bulk.py` that calls `act_on_all`
with it; `web/api/actions.py` and `cli/commands/act.py` have a line for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perdure.client.reading.lists import InstanceQuery, check_count, filter_of
from perdure.errors import (
    InstanceNotFoundError,
    PartlyDoneError,
    PerdureError,
    StoreError,
    UnexpectedCountError,
    UsageError,
)
from perdure.limits import PAGE_MAX
from perdure.model.admin import InstanceFilter, PageMark
from perdure.model.instances import InstanceRow, Status

if TYPE_CHECKING:
    from perdure.client.core import ClientCore

AT_ONCE = 100
"""How many instances are acted on at the same time: their writes share transactions."""

FAILED_OR_STOPPED = (Status.FAILED, Status.CANCELLED, Status.TERMINATED)


@dataclass(frozen=True, slots=True)
class BulkAct:
    """Something that is done to instances, one by one."""

    verb: str
    """As in "cancel"; the method is called `cancel_all`."""
    statuses: Sequence[Status]
    """Whom it is for. Others that the filter names are left out."""
    do: Callable[[InstanceRow], Awaitable[bool]]
    """Does it to one, and tells whether there was anything to do: there is not if it is not found.
    What else it raises refuses that one alone; a `StoreError` ends the whole."""


def check_filter(verb: str, which: InstanceQuery, statuses: Sequence[Status]) -> InstanceFilter:
    """Return which instances an act is for.

    Raises:
        UsageError: No condition was given, or none that the act is for can meet it.
    """
    wanted = filter_of(which)
    if replace(wanted, roots_only=False, with_builtins=True) == InstanceFilter():
        raise UsageError(
            f"{verb}_all needs a condition that says which instances, such as "
            'name="checkout", prefix="order-" or status="running"'
        )
    chosen = tuple(one for one in wanted.statuses or statuses if one in statuses)
    if not chosen:
        raise UsageError(
            f"status={', '.join(wanted.statuses)}: {verb}_all is for instances that are "
            f"{', '.join(statuses)}"
        )
    return replace(wanted, statuses=chosen)


async def act_on_all(core: ClientCore, act: BulkAct, which: InstanceQuery, *, expect: int) -> int:
    """Do something to all instances that match; return to how many there was anything to do.

    Raises:
        UsageError: No condition was given, or `expect` does not match; nothing was done.
        PartlyDoneError: Some refused; it was done to the others.
    """
    check_count("expect", expect, least=0)
    wanted = check_filter(act.verb, which, act.statuses)
    rows = await _find(core, wanted, most=expect)
    if len(rows) != expect:
        found = len(rows)
        if found > expect:
            found = max(found, await core.store.admin.count_instances(wanted))
        raise UnexpectedCountError(
            f"expect={expect:,}, but the filter matches {found:,} instances that {act.verb}_all is "
            "for; nothing was done. If an earlier call was broken off, these are the ones that "
            "are left",
            expected=expect,
            found=found,
        )
    done = 0
    refused: dict[str, str] = {}
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]
        answers = await asyncio.gather(*(act.do(row) for row in some), return_exceptions=True)
        for row, answer in zip(some, answers, strict=True):
            match answer:
                case InstanceNotFoundError():
                    pass  # It was deleted meanwhile: nothing to do.
                case PerdureError() if not isinstance(answer, StoreError):
                    refused[row.instance_id] = str(answer)
                case BaseException():
                    raise answer
                case _:
                    done += answer
    core.metrics.client_bulk.add((act.verb,), by=done)
    if refused:
        raise PartlyDoneError(f"{act.verb}_all", done, refused)
    return done


async def _find(core: ClientCore, wanted: InstanceFilter, *, most: int) -> list[InstanceRow]:
    """Return all that match, or one more than there may be."""
    found: list[InstanceRow] = []
    mark: PageMark | None = None
    while len(found) <= most:
        size = min(PAGE_MAX, most + 1 - len(found))
        rows, mark = await core.store.admin.list_page(wanted, limit=size, after=mark)
        found += rows
        if mark is None:
            break
    return found
