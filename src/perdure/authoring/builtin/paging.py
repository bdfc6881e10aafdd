"""The built-in orchestrations behind `for_each`, version 1.0.0. Frozen: histories replay over them.

`perdure.for_each` is the coordinator. It reads items from a source, page by page, hands them to
children (`perdure.page`), keeps some of those under way, and counts what they return. It continues
as new before its history grows long, with nothing under way then. A page calls what is to be done
for each of its items, and returns how many are done.

What is asked for here, and in which order, never changes. Another manner is another version, in a
file beside this one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TypeVar

import msgspec

from perdure.authoring.call import Call
from perdure.authoring.failures import revive_activity_error
from perdure.authoring.scope import (
    ActivityRequest,
    AnyRequest,
    ChildRequest,
    ContinueRequest,
    Place,
    Scope,
    current_scope,
)
from perdure.errors import (
    ActivityError,
    ChildError,
    LimitExceededError,
    TooManyFailuresError,
    UsageError,
)
from perdure.limits import MAX_PAGES_AT_ONCE
from perdure.model.histories.paging import (
    FOR_EACH,
    MAX_FAILURES_TOLD,
    PAGE,
    PAGING_VERSION,
    CallPlan,
    ForEachInput,
    ForEachOutput,
    PageInput,
    SourcePage,
)
from perdure.model.streams import ForwardedItems
from perdure.tallies import Tally

R = TypeVar("R")

EVENTS_PER_EXECUTION = 900
"""How many events of pages and reads an execution of the coordinator records; then it continues as
new. Its start and its end come on top."""

EVENTS_PER_PAGE, EVENTS_PER_READ = 3, 2
"""A page is called, answers, and is reported; a read is called and answers."""

BYTES_PER_EXECUTION = 6_000_000
"""So many bytes of items are read and handed on; then it continues as new."""

SHOWN_ITEM_CHARS = 80
SHOWN_FAILURE_CHARS = 300
"""How much is kept of an item, and of the whole text, that tells of its failure."""


async def for_each_1_0_0(plan: ForEachInput) -> ForEachOutput:
    """Hand all items to pages, and return what they came to."""
    scope = current_scope()
    assert scope is not None, "built-in orchestrations are run by workers alone"
    return await _Coordinator(scope, plan).run()


async def page_1_0_0(plan: PageInput) -> ForEachOutput:
    """Do something for each item of a page."""
    scope = current_scope()
    assert scope is not None, "built-in orchestrations are run by workers alone"
    return await _PageOfItems(scope, plan).run()


class _Coordinator:
    """One execution of `perdure.for_each`."""

    def __init__(self, scope: Scope, plan: ForEachInput) -> None:
        self._scope = scope
        self._plan = plan
        self._items = plan.items
        self._next = plan.next
        self._is_read = plan.is_read or plan.source is None
        self._begun = plan.begun
        self._done = plan.done
        self._failed = plan.failed
        self._failures = plan.failures
        self._results = ("", "", 0)
        """The stream that results go to, and whose it is."""
        if plan.results and scope.parent is not None:
            self._results = plan.results, scope.parent.instance_id, scope.parent.incarnation
        self._open: dict[asyncio.Task[bytes], None] = {}
        """Pages under way, in the order of their starts."""
        self._events = 0
        self._bytes = 0

    async def run(self) -> ForEachOutput:
        while self._items or not self._is_read:
            if self._items:
                await self._hand_out()
            else:
                await self._read()
        while self._open:
            await self._wait()
        return ForEachOutput(self._done, self._failed, self._failures)

    async def _hand_out(self) -> None:
        """Start pages with all items at hand, as far as pages may be under way."""
        size = self._plan.page_size
        count = -(-len(self._items) // size)
        if count > MAX_PAGES_AT_ONCE:
            raise _too_many_pages(len(self._items), size, count)
        is_full = self._events + count * EVENTS_PER_PAGE > EVENTS_PER_EXECUTION
        if is_full and self._events > EVENTS_PER_READ:
            await self._continue()
        while self._items:
            while len(self._open) >= self._plan.pages:
                await self._wait()
            self._start(self._items[:size])
            self._items = self._items[size:]

    def _start(self, items: tuple[msgspec.Raw, ...]) -> None:
        plan = self._plan
        may_fail = None if plan.max_failures is None else plan.max_failures - self._failed
        page = PageInput(plan.do, self._begun, may_fail, *self._results, items)
        data = msgspec.json.encode(page)
        call = _call(self._scope, partial(_page_request, data))
        self._open[asyncio.create_task(call)] = None
        self._begun += len(items)
        self._events += EVENTS_PER_PAGE
        self._bytes += len(data)

    async def _read(self) -> None:
        """Read the next page of the source."""
        source = self._plan.source
        assert source is not None, "without a source there is nothing to be read"
        if (
            self._events + EVENTS_PER_READ + EVENTS_PER_PAGE > EVENTS_PER_EXECUTION
            or self._bytes > BYTES_PER_EXECUTION
        ):
            await self._continue()
        asked = self._next
        request = partial(activity_request, source, msgspec.json.encode(asked), bytes)
        reading = asyncio.create_task(_call(self._scope, request))
        self._events += EVENTS_PER_READ
        while not reading.done():
            await self._wait(reading)
        data = reading.result()
        found = _read_page(source.name, data)
        self._bytes += len(data)
        if found.next is not None and found.next == asked:
            raise UsageError(
                f"source {source.name!r} returned a page whose next is {asked!r}, which it had "
                "been asked for: it would be read for ever. Return where the next page begins, or "
                "None"
            )
        self._items, self._next, self._is_read = found.items, found.next, found.next is None

    async def _continue(self) -> None:
        """Wait for the pages under way, and go on with a new history."""
        while self._open:
            await self._wait()
        rest = msgspec.structs.replace(
            self._plan,
            next=self._next,
            is_read=self._is_read,
            begun=self._begun,
            done=self._done,
            failed=self._failed,
            failures=self._failures,
            items=self._items,
        )
        frame = sys._getframe()
        self._scope.continue_as_new(
            ContinueRequest(
                label=FOR_EACH,
                place=Place(frame.f_code, frame.f_lasti),
                version=PAGING_VERSION,
                input=msgspec.json.encode(rest),
                same_input=bytes.__eq__,
            )
        )

    async def _wait(self, reading: asyncio.Task[bytes] | None = None) -> None:
        """Wait until a page has ended, or the read; count what pages returned."""
        waiting = [*self._open] if reading is None else [reading, *self._open]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in self._open if task in done]:
            del self._open[task]
            self._count(msgspec.json.decode(task.result(), type=ForEachOutput))

    def _count(self, page: ForEachOutput) -> None:
        plan = self._plan
        self._done += page.done
        self._failed += page.failed
        self._failures = (self._failures + page.failures)[:MAX_FAILURES_TOLD]
        self._scope.context.report(
            {
                "done": self._done,
                "failed": self._failed,
                "failures": list(self._failures),
                "total": plan.total,
            }
        )
        if plan.max_failures is not None and self._failed > plan.max_failures:
            raise TooManyFailuresError(
                Tally(done=self._done, failed=self._failed, failures=self._failures)
            )


class _PageOfItems:
    """One execution of `perdure.page`."""

    def __init__(self, scope: Scope, plan: PageInput) -> None:
        self._scope = scope
        self._plan = plan
        self._left = len(plan.items)
        self._done = 0
        self._failed = 0
        self._failures: list[str] = []
        self._results: dict[int, bytes] = {}
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> ForEachOutput:
        for number, item in enumerate(self._plan.items, self._plan.first):
            asyncio.create_task(self._one(number, bytes(item)))  # noqa: RUF006 - its call does
        if self._left:
            # What is still open when it is over is given up: the end of an instance does that.
            await self._over
        if self._results:
            self._send_results()
        return ForEachOutput(self._done, self._failed, tuple(self._failures))

    def _send_results(self) -> None:
        """Send results to the stream of the caller, in the order of the items."""
        plan = self._plan
        numbers = tuple(sorted(self._results))
        items = tuple(self._results[number] for number in numbers)
        to = plan.results_of, plan.results_incarnation, plan.results
        self._scope.forward(ForwardedItems(*to, items, numbers=numbers))

    async def _one(self, number: int, item: bytes) -> None:
        do, may_fail = self._plan.do, self._plan.may_fail
        make = activity_request if do.kind == "activity" else _child_request
        try:
            result = await _call(self._scope, partial(make, do, item, bytes))
            self._done += 1
            if self._plan.results:
                self._results[number] = result
        except (ActivityError, ChildError) as error:
            self._failed += 1
            if len(self._failures) < MAX_FAILURES_TOLD:
                self._failures.append(_told(number, item, error))
        self._left -= 1
        is_over = not self._left or (may_fail is not None and self._failed > may_fail)
        if is_over and not self._over.done():
            self._over.set_result(None)


def _read_page(source: str, data: bytes) -> SourcePage:
    try:
        return msgspec.json.decode(data, type=SourcePage)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"source {source!r} returned something else than a Page(items, next): {error}"
        ) from None


def _told(number: int, item: bytes, error: ActivityError | ChildError) -> str:
    shown = item.decode(errors="replace")
    if len(shown) > SHOWN_ITEM_CHARS:
        shown = f"{shown[:SHOWN_ITEM_CHARS]}..."
    return f"item {number}, {shown}: {error.type_name}: {error.message}"[:SHOWN_FAILURE_CHARS]


def _too_many_pages(items: int, page_size: int, count: int) -> LimitExceededError:
    return LimitExceededError(
        f"pages of {page_size:,} that one page of the source is cut into, of its {items:,} items,",
        allowed=MAX_PAGES_AT_ONCE,
        found=count,
        advice="let the source return fewer items at a time, or give for_each a larger page_size",
    )


def _call(scope: Scope, request: Callable[[Place], AnyRequest]) -> Coroutine[object, None, bytes]:
    frame = sys._getframe(1)
    return Call(scope, request(Place(frame.f_code, frame.f_lasti)))


def _page_request(data: bytes, place: Place) -> ChildRequest:
    return ChildRequest(
        label=PAGE,
        place=place,
        version=PAGING_VERSION,
        instance_id=None,
        input=data,
        on_parent_close="cancel",
        decode=bytes,
        same_input=bytes.__eq__,
    )


def activity_request(
    plan: CallPlan, value: bytes, decode: Callable[[bytes], R], place: Place
) -> ActivityRequest:
    """Return the call of an activity with a value."""
    return ActivityRequest(
        label=plan.name,
        place=place,
        input=plan.arguments(value),
        tag=plan.tag,
        session=plan.session,
        deadline_ms=plan.deadline_ms,
        start_within_ms=plan.start_within_ms,
        policy=bytes(plan.policy),
        decode=decode,
        same_input=bytes.__eq__,
        revive=partial(revive_activity_error, plan.name, raises=()),
    )


def _child_request(
    plan: CallPlan, value: bytes, decode: Callable[[bytes], R], place: Place
) -> ChildRequest:
    return ChildRequest(
        label=plan.name,
        place=place,
        version=plan.version,
        instance_id=None,
        input=plan.arguments(value),
        on_parent_close="cancel",
        decode=decode,
        same_input=bytes.__eq__,
        delay_ms=plan.delay_ms,
    )
