"""What the built-in orchestrations of `for_each` are given and return, as it is stored.

These are histories: a field is never renamed, a new one has a default. Items are JSON as the codec
of the caller, or of the source, wrote them; no worker needs the user's types to hand them on.
"""

from __future__ import annotations

import msgspec

from perdure.model.histories.events import NULL

FOR_EACH = "perdure.for_each"
PAGE = "perdure.page"
PAGING_VERSION = "1.0.0"

MAX_FAILURES_TOLD = 20
"""How many failures of items a tally keeps, the first ones; the others are only counted."""


class CallPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that is made again and again with one argument: what it is, and how it is queued."""

    kind: str
    """"activity" or "orchestration"."""
    name: str
    before: str
    """What stands before the argument in the stored arguments, and behind it."""
    behind: str
    version: str = ""
    policy: msgspec.Raw = NULL
    tag: str | None = None
    session: str | None = None
    deadline_ms: int | None = None
    start_within_ms: int | None = None
    delay_ms: int = 0

    def arguments(self, value: bytes) -> bytes:
        """Return the stored arguments of a call with a value."""
        return b"%b%b%b" % (self.before.encode(), value, self.behind.encode())


class ForEachInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the coordinator is to do, and how far it is; an execution that continues as new hands
    the next one the rest."""

    do: CallPlan
    pages: int
    page_size: int
    max_failures: int | None
    source: CallPlan | None = None
    next: str | None = None
    """Where the source goes on."""
    is_read: bool = False
    """Whether the source has been read to its end; with no source it has."""
    results: str = ""
    """The stream that results go to; nothing: none."""
    total: int | None = None
    """How many items there are, if that is known."""
    begun: int = 0
    """How many items were handed to pages."""
    done: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()
    items: tuple[msgspec.Raw, ...] = ()
    """Items that were read and not handed to a page yet."""


class PageInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some items, and what is to be done with each."""

    do: CallPlan
    first: int
    """The number of the first item, from 0."""
    may_fail: int | None
    """How many may fail before the rest is given up; None: any number."""
    results: str = ""
    """The stream that results go to; nothing: none."""
    results_of: str = ""
    """The instance whose stream that is: the one that called `for_each`."""
    results_incarnation: int = 0
    items: tuple[msgspec.Raw, ...] = ()


class ResultsPlan(msgspec.Struct, frozen=True):
    """What coordinators and pages are told of results."""

    results: str = ""
    results_of: str = ""


def results_plan(name: str, input: bytes) -> ResultsPlan | None:
    """Return where an orchestration sends results that is a part of a `for_each`; None: nowhere."""
    if name not in (FOR_EACH, PAGE):
        return None
    plan = msgspec.json.decode(input, type=ResultsPlan)
    return plan if plan.results else None


class ForEachOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many items are done and have failed: of a page, or of all."""

    done: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()


class SourcePage(msgspec.Struct, frozen=True):
    """What a source returned, as its codec wrote it."""

    items: tuple[msgspec.Raw, ...]
    next: str | None
