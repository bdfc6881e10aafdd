"""Exceptions as stored data, and back.

A failure keeps the name, message and traceback text of an exception. Only exceptions that the
activity names in `raises=` are rebuilt as themselves, from that list: no class is ever looked up by
a name found in stored data.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure.codec import JSON
from perdure.errors import ActivityError, PerdureError
from perdure.limits import MAX_MESSAGE_CHARS as MAX_MESSAGE_CHARS
from perdure.limits import MAX_TRACEBACK_CHARS as MAX_TRACEBACK_CHARS
from perdure.model.events import ActivityFailed, Failure

_PACKAGE = str(Path(__file__).parent.parent)


def describe(
    error: BaseException, *, at_ms: int = 0, raises: Sequence[type[Exception]] = ()
) -> Failure:
    """Return an exception as it is stored."""
    return Failure(
        type_name=_clean(type(error).__qualname__),
        message=_clean(_message_of(error)[:MAX_MESSAGE_CHARS]),
        traceback_text=_clean(_traceback_of(error)[-MAX_TRACEBACK_CHARS:]),
        at_ms=at_ms,
        details=_details(error) if isinstance(error, tuple(raises)) else "",
    )


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
    )
    original = _rebuild(last, raises)
    if original is None:
        return error
    original.__cause__ = error
    return original


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:
        return f"<its __str__ raised {type(broken).__name__}>"


def _traceback_of(error: BaseException) -> str:
    """Return the traceback from the user's first line on."""
    first = error.__traceback__
    while first is not None and _is_ours(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    return "".join(traceback.format_exception(type(error), error, first or error.__traceback__))


def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE) or "/asyncio/" in filename


def _clean(text: str) -> str:
    # A lone surrogate (from surrogateescape) cannot be written as UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


def _details(error: BaseException) -> str:
    """Return the exception's content, if it is plain JSON; nothing otherwise."""
    content = {"class": _class_name(type(error)), "args": list(error.args), "state": vars(error)}
    try:
        return JSON.encode(content, "exception").decode()
    except PerdureError:
        return ""


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
