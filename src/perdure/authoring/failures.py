"""Exceptions as stored data, and back.

A failure keeps the name, message and traceback text of an exception, where it was raised, and the
exceptions that it came with: its causes, what was being handled, the members of a group. Only
exceptions that the activity names in `raises=` are rebuilt as themselves, from that list: no class
is ever looked up by a name found in stored data. All others are told by stand-ins.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from perdure.codec import JSON
from perdure.errors import (
    ActivityError,
    ChildError,
    InstanceFailedError,
    OutcomeError,
    PerdureError,
    RecordedError,
)
from perdure.limits import MAX_CAUSE_CHARS, MAX_CAUSES_KEPT
from perdure.limits import MAX_MESSAGE_CHARS as MAX_MESSAGE_CHARS
from perdure.limits import MAX_TRACEBACK_CHARS as MAX_TRACEBACK_CHARS
from perdure.model.histories.events import ActivityFailed, Cause, Failure

_PACKAGE = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


# ------------------------------------------------------------------ to stored data


def describe(
    error: BaseException, *, at_ms: int = 0, raises: Sequence[type[Exception]] = ()
) -> Failure:
    """Return an exception as it is stored."""
    details, not_rebuilt = _details(error) if isinstance(error, tuple(raises)) else ("", "")
    return Failure(
        type_name=_clean(type(error).__qualname__),
        message=_clean(_message_of(error)[:MAX_MESSAGE_CHARS]),
        traceback_text=_clean(_traceback_of(error)[-MAX_TRACEBACK_CHARS:]),
        at_ms=at_ms,
        details=details,
        place=_clean(_place_of(error)),
        causes=_Causes().of(error),
        not_rebuilt=not_rebuilt,
    )


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:
        return f"<its __str__ raised {type(broken).__name__}>"


def _traceback_of(error: BaseException) -> str:
    """Return the traceback with the user's lines alone, and those of all that it came with."""
    told = traceback.TracebackException.from_exception(error)
    _leave_out_ours(told)
    return "".join(told.format())


def _leave_out_ours(told: traceback.TracebackException) -> None:
    theirs = [frame for frame in told.stack if not _is_ours(frame.filename)]
    # A call that failed in a task of its own came through no line of the user's; its notes tell.
    if theirs or told.__notes__:
        told.stack = traceback.StackSummary.from_list(theirs)
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            _leave_out_ours(other)


def _place_of(error: BaseException) -> str:
    """Return the innermost line of the user's own that an exception came through; nothing for one
    whose message tells that."""
    if isinstance(error, OutcomeError | BaseExceptionGroup):
        return ""
    theirs = [place for place in _places(error.__traceback__) if not _is_ours(place[0])]
    own = [place for place in theirs if not place[0].startswith(_LIBRARIES)]
    if not theirs:
        return ""
    file, line, function = (own or theirs)[-1]
    return f"{Path(file).name}:{line} in {function}"


def _places(first: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    for frame, line in traceback.walk_tb(first):
        yield frame.f_code.co_filename, line, frame.f_code.co_name


def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE) or "/asyncio/" in filename


def _clean(text: str) -> str:
    # A lone surrogate (from surrogateescape) cannot be written as UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


class _Causes:
    """Collects the exceptions that one came with, as far as there is room."""

    def __init__(self) -> None:
        self._seen: dict[int, BaseException] = {}

    def of(self, error: BaseException) -> tuple[Cause, ...]:
        self._seen[id(error)] = error
        return tuple(self._causes_of(error))

    def _causes_of(self, error: BaseException) -> Iterator[Cause]:
        for link, other in _links_of(error):
            if id(other) not in self._seen and len(self._seen) <= MAX_CAUSES_KEPT:
                self._seen[id(other)] = other
                yield self._cause(link, other)

    def _cause(self, link: Literal["cause", "context", "member"], error: BaseException) -> Cause:
        if isinstance(error, RecordedError):
            name, message, place = error.type_name, error.message, error.place
        else:
            name, message = type(error).__qualname__, _message_of(error)
            place = _place_of(error)
        return Cause(
            type_name=_clean(name),
            message=_clean(message[:MAX_CAUSE_CHARS]),
            link=link,
            place=_clean(place),
            causes=tuple(self._causes_of(error)),
        )


def _links_of(
    error: BaseException,
) -> Iterator[tuple[Literal["cause", "context", "member"], BaseException]]:
    if isinstance(error, OutcomeError) and error.origin is not None:
        yield "cause", error.origin
    if error.__cause__ is not None:
        yield "cause", error.__cause__
    is_hidden = error.__suppress_context__ and error.__cause__ is None  # raise ... from None
    if error.__context__ is not None and not is_hidden:
        yield "context", error.__context__
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for member in error.members if isinstance(error, RecordedError) else members:
        yield "member", member


def _details(error: BaseException) -> tuple[str, str]:
    """Return the exception's content, if it is plain JSON; or else why not."""
    content = {"class": _class_name(type(error)), "args": list(error.args), "state": vars(error)}
    try:
        return JSON.encode(content, "exception").decode(), ""
    except PerdureError as problem:
        return "", _clean(str(problem)[:MAX_CAUSE_CHARS])


# ---------------------------------------------------------------- from stored data


def revive_activity_error(
    activity: str, failed: ActivityFailed, raises: Sequence[type[Exception]]
) -> BaseException:
    """Return the exception that the caller of a failed activity sees."""
    last = failed.failures[-1]
    error = ActivityError(
        activity,
        type_name=last.type_name,
        message=last.message,
        traceback_text=last.traceback_text,
        attempts=failed.attempts,
        place=last.place,
        origin=recorded(last),
        not_rebuilt=last.not_rebuilt,
    )
    original = _rebuild(last, raises)
    if original is None:
        return error
    original.__cause__ = error
    return original


def revive_child_error(instance_id: str, status: str, failure: Failure) -> ChildError:
    """Return the exception that the parent of a child sees that did not complete."""
    return ChildError(
        instance_id,
        status=status,
        type_name=failure.type_name,
        message=failure.message,
        traceback_text=failure.traceback_text,
        place=failure.place,
        origin=recorded(failure),
    )


def instance_failure(instance_id: str, failure: Failure) -> InstanceFailedError:
    """Return the exception that a caller sees who waits for a failed instance."""
    error = InstanceFailedError(
        instance_id,
        type_name=failure.type_name,
        message=failure.message,
        traceback_text=failure.traceback_text,
        place=failure.place,
        origin=recorded(failure),
    )
    error.__cause__ = error.origin
    return error


def recorded(failure: Failure | Cause) -> RecordedError:
    """Return the stand-in for a recorded exception, with those for all that it came with."""
    linked = [(cause.link, recorded(cause)) for cause in failure.causes]
    members = tuple(other for link, other in linked if link == "member")
    error = RecordedError(failure.type_name, failure.message, place=failure.place, members=members)
    for link, other in linked:
        if link == "context":
            error.__context__ = other
    for link, other in linked:
        if link == "cause":
            error.__cause__ = other
            break
    return error


def _rebuild(failure: Failure, raises: Sequence[type[Exception]]) -> Exception | None:
    if not failure.details:
        return None
    content: dict[str, Any] = JSON.decode(failure.details.encode())
    for named in raises:
        for kind in (named, *_subclasses(named)):
            if _class_name(kind) == content["class"]:
                # Not kind(*args): many exceptions take other arguments than they keep.
                error = kind.__new__(kind, *content["args"])
                error.args = tuple(content["args"])
                vars(error).update(content["state"])
                return error
    return None


def _class_name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _subclasses(kind: type[Exception]) -> list[type[Exception]]:
    found = list(kind.__subclasses__())
    for subclass in kind.__subclasses__():
        found += _subclasses(subclass)
    return found
