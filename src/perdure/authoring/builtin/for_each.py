"""`for_each`: something for each of very many items, with two events in the caller's history.

The call is a child, `perdure.for_each`, which every worker serves (`paging`). Items that are handed
over as a sequence go into its input; items of a source are read there, page by page.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, get_args, get_origin, overload

import msgspec

from perdure.authoring.activity import Activity
from perdure.authoring.call import Call
from perdure.authoring.failures import revive_child_error
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.scope import ChildRequest, Place, current_scope
from perdure.authoring.stream import Stream
from perdure.clock import to_ms
from perdure.codec import (
    ArgumentsCodec,
    UnboundArgumentsCodec,
    argument_type,
    around_argument,
    show,
)
from perdure.errors import LimitExceededError, OptionError, TooManyFailuresError, UsageError
from perdure.limits import (
    MAX_PAGE_SIZE,
    MAX_PAGES_AT_ONCE,
    MAX_PAGES_UNDER_WAY,
    MAX_PAYLOAD_BYTES,
)
from perdure.model.histories.events import ChildFailed
from perdure.model.histories.paging import (
    FOR_EACH,
    PAGING_VERSION,
    CallPlan,
    ForEachInput,
    ForEachOutput,
)
from perdure.tallies import Tally

T = TypeVar("T")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)

_SOURCE_FORM = (
    "let an activity return them page by page, `async def unpaid(after: str | None) -> "
    "Page[Invoice]`, and hand that over: for_each(do, unpaid)"
)


@dataclass(frozen=True, slots=True)
class Page(Generic[T_co]):
    """What a source returns: some items, and where the next ones begin."""

    items: Sequence[T_co]
    next: str | None
    """What the source is called with for the next page; None: these are the last items."""


@overload
def for_each(
    do: Activity[[T], R] | Orchestration[[T], R],
    items: Sequence[T],
    /,
    *,
    pages: int = 8,
    page_size: int = 1_000,
    max_failures: int | None = 0,
    results: Stream[R] | None = None,
) -> Coroutine[object, None, Tally]: ...
@overload
def for_each(
    do: Activity[[T], R] | Orchestration[[T], R],
    source: Activity[[str | None], Page[T]],
    /,
    *,
    pages: int = 8,
    page_size: int = 1_000,
    max_failures: int | None = 0,
    results: Stream[R] | None = None,
) -> Coroutine[object, None, Tally]: ...
def for_each(
    do: Any,
    items: Any,
    /,
    *,
    pages: int = 8,
    page_size: int = 1_000,
    max_failures: int | None = 0,
    results: Stream[Any] | None = None,
) -> Coroutine[object, None, Tally]:
    """Do something for each of very many items, some pages of them at a time, on any workers.

    However many items there are, the history of the caller has two events. Each item is done at
    least once, as an activity is, and counted once. A source is called with None first, then with
    the `next` of the page before; each of its pages is read once.

    Args:
        do: An activity or orchestration that takes one item, with its options: retries, tags.
        items: The items, up to 2 MiB of them; or an activity that returns a page of them at a time.
        pages: How many pages are under way at the same time.
        page_size: How many items a page has at most. What a source returns is cut, never joined.
        max_failures: How many items may fail, that is, be out of attempts; None: any number.
        results: A stream of this instance that gets the results, each once, page by page as these
            end, those of a page in the order of its items. `Item.number` says of which item it is.

    Raises (at the `await`):
        TooManyFailuresError: More items have failed. What was under way is cancelled.
        ChildError: The source failed for good, or a page was ended by hand.

    Raises:
        UsageError: Called outside an orchestration, or with something else than said above.
        LimitExceededError: The items of a sequence are too large, or too many pages of that size.
    """
    scope = current_scope()
    if scope is None:
        raise UsageError(
            "for_each(...) works only inside an orchestration: call it in one, and start that"
        )
    _check_options(pages, page_size, max_failures)
    source, encoded = _checked_items(do, items, page_size)
    asked = ForEachInput(
        do=_plan_of(do),
        pages=pages,
        page_size=page_size,
        max_failures=max_failures,
        results=_stream_name(do, results),
        source=source,
        total=len(encoded) if source is None else None,
        items=encoded,
    )
    frame = sys._getframe(1)
    return Call(scope, _request(do, asked, Place(frame.f_code, frame.f_lasti)))


def _request(do: Any, asked: ForEachInput, place: Place) -> ChildRequest:
    """Return the child that does it."""
    return ChildRequest(
        label=FOR_EACH,
        place=place,
        version=PAGING_VERSION,
        instance_id=None,
        input=msgspec.json.encode(asked),
        on_parent_close="cancel",
        decode=_tally,
        same_input=partial(_is_same, do),
        revive=_revive,
    )


# ------------------------------------------------------------------- what was given


def _checked_items(
    do: Any, items: Any, page_size: int
) -> tuple[CallPlan | None, tuple[msgspec.Raw, ...]]:
    """Return the source of the items, or the items themselves."""
    if isinstance(items, Activity):
        _check_source(do, items)
        return _plan_of(items), ()
    return None, _encode_items(do, items, page_size)


def _check_options(pages: object, page_size: object, max_failures: object) -> None:
    for name, given, lowest, highest in (
        ("pages", pages, 1, MAX_PAGES_UNDER_WAY),
        ("page_size", page_size, 1, MAX_PAGE_SIZE),
        ("max_failures", max_failures, 0, sys.maxsize),
    ):
        if given is None and name == "max_failures":
            continue
        if not isinstance(given, int) or isinstance(given, bool):
            raise OptionError(f"{name} must be a whole number, got {given!r}")
        if not lowest <= given <= highest:
            up_to = "" if highest == sys.maxsize else f" and at most {highest:,}"
            raise OptionError(f"{name} must be at least {lowest}{up_to}, got {given:,}")


def _codec_of(do: Any) -> ArgumentsCodec | UnboundArgumentsCodec:
    if not isinstance(do, Activity | Orchestration):
        raise UsageError(
            f"{do!r} is neither an activity nor an orchestration: for_each calls one for each item"
        )
    if isinstance(do, Orchestration) and do.options.instance_id is not None:
        raise UsageError(
            f"{do.name}.with_options(instance_id={do.options.instance_id!r}) has one id for all "
            "items: leave it out, and each gets an id of its own"
        )
    return do.definition.codec


def _check_source(do: Any, source: Activity[..., Any]) -> None:
    """Refuse a source whose items are not stored as `do` reads them."""
    takes = argument_type(do.name, _codec_of(do))
    if source.is_elsewhere:
        return
    returned = source.definition.codec.returns.annotation
    if get_origin(returned) is not Page:
        raise UsageError(
            f"{source.name} is annotated to return {show(returned)}: a source returns Page[...], "
            f"as in `async def {source.name}(after: str | None) -> Page[{show(takes)}]`"
        )
    [gives] = get_args(returned)
    if not do.is_elsewhere and gives != takes:
        # They are handed on as they are stored, by workers that have neither type.
        raise UsageError(
            f"{source.name} returns Page[{show(gives)}] and {do.name} takes {show(takes)}: "
            "annotate both alike"
        )


def _stream_name(do: Any, results: object) -> str:
    """Return the name of the stream that results go to; nothing: none."""
    if results is None:
        return ""
    if not isinstance(results, Stream):
        raise UsageError(f"{results!r} is not a stream: results=Stream(name, type)")
    gives = do.definition.codec.returns.annotation
    if gives is None:
        gives = type(None)
    if not do.is_elsewhere and gives != results.type:
        raise UsageError(
            f"{do.name} returns {show(gives)} and stream {results.name!r} has items of type "
            f"{show(results.type)}: they are handed on as they are stored, so name the same type"
        )
    return results.name


def _encode_items(do: Any, items: object, page_size: int) -> tuple[msgspec.Raw, ...]:
    codec = _codec_of(do)
    if isinstance(items, str | bytes | bytearray) or not isinstance(items, Sequence):
        raise UsageError(
            f"for_each takes a list of items, or a source, and got {type(items).__name__}: hand "
            f"over list(...), or {_SOURCE_FORM}"
        )
    before, behind = around_argument(do.name, codec)
    start, end = len(before.encode()), -len(behind.encode())
    found = tuple(msgspec.Raw(codec.encode((item,), {})[start:end]) for item in items)
    size = sum(map(len, map(bytes, found))) + len(found)
    if size > MAX_PAYLOAD_BYTES:
        raise LimitExceededError(
            f"for_each({do.name}, ...): the size of all items in bytes",
            allowed=MAX_PAYLOAD_BYTES,
            found=size,
            advice=_SOURCE_FORM,
        )
    count = -(-len(found) // page_size)
    if count > MAX_PAGES_AT_ONCE:
        raise LimitExceededError(
            f"for_each({do.name}, ...): the number of pages of {page_size:,} items",
            allowed=MAX_PAGES_AT_ONCE,
            found=count,
            advice=f"give a larger page_size, or {_SOURCE_FORM}",
        )
    return found


def _plan_of(called: Activity[..., Any] | Orchestration[..., Any]) -> CallPlan:
    before, behind = around_argument(called.name, called.definition.codec)
    if isinstance(called, Orchestration):
        return CallPlan(
            kind="orchestration",
            name=called.name,
            before=before,
            behind=behind,
            version=called.version,
            delay_ms=called.options.delay_ms,
        )
    options = called.options
    deadline, start_within = options.deadline, options.start_within
    return CallPlan(
        kind="activity",
        name=called.name,
        before=before,
        behind=behind,
        policy=msgspec.Raw(called.policy),
        tag=options.tag,
        session=options.session,
        deadline_ms=None if deadline is None else to_ms(deadline),
        start_within_ms=None if start_within is None else to_ms(start_within),
    )


# --------------------------------------------------------------- what came of it


def _is_same(do: Any, recorded: bytes, asked: bytes) -> bool:
    """Return whether two calls are one and the same for today's code: the same is done for the same
    items. How, in which pages and how often may have changed: what is on record counts."""
    if recorded == asked:
        return True
    before = msgspec.json.decode(recorded, type=ForEachInput)
    now = msgspec.json.decode(asked, type=ForEachInput)
    if _called(before.do) != _called(now.do) or _called(before.source) != _called(now.source):
        return False
    if len(before.items) != len(now.items):
        return False
    same = do.definition.codec.same
    return all(
        same(before.do.arguments(bytes(one)), now.do.arguments(bytes(other)))
        for one, other in zip(before.items, now.items, strict=True)
    )


def _called(plan: CallPlan | None) -> tuple[str, str] | None:
    return None if plan is None else (plan.kind, plan.name)


def _tally(data: bytes) -> Tally:
    found = msgspec.json.decode(data, type=ForEachOutput)
    return Tally(done=found.done, failed=found.failed, failures=found.failures)


class _CountedItems(msgspec.Struct):
    """What a failure keeps of a `TooManyFailuresError`, whatever module that is in."""

    done: int
    failed: int
    failures: tuple[str, ...]


class _KeptError(msgspec.Struct):
    state: _CountedItems


def _revive(instance_id: str, failed: ChildFailed) -> BaseException:
    failure = failed.failure
    error = revive_child_error(instance_id, failed.status, failure)
    if failure.type_name != TooManyFailuresError.__name__ or not failure.details:
        return error
    counted = msgspec.json.decode(failure.details, type=_KeptError).state
    too_many = TooManyFailuresError(
        Tally(done=counted.done, failed=counted.failed, failures=counted.failures)
    )
    too_many.__cause__ = error
    return too_many
