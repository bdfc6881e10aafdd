"""Texts that a caller hands over as they are: ids and names, and words for people.

What a database cannot keep is refused at the call that brings it. Later it would be an error of a
transaction that others share.
"""

from __future__ import annotations

import re

from perdure.errors import InvalidIdError, LimitExceededError, PayloadError
from perdure.limits import MAX_ID_BYTES, MAX_TEXT_BYTES

_FORBIDDEN_IN_IDS = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|\.\./|\A\.\.?\Z")
_LONE_SURROGATE = "holds a lone surrogate, which is not text"


def check_id(what: str, value: object) -> str:
    """Return an id, name or tag that can be stored, shown and put into a URL.

    Raises:
        InvalidIdError: It is no text of 1 to `MAX_ID_BYTES` bytes, or has a control character, a
            backslash, `../` or a lone surrogate in it, or is `.` or `..`, which a URL leaves out.
    """
    if not isinstance(value, str):
        raise InvalidIdError(what, value, f"is {type(value).__name__}; it must be str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidIdError(what, value, _LONE_SURROGATE) from None
    if not 1 <= size <= MAX_ID_BYTES:
        raise InvalidIdError(what, value, f"has {size} bytes; allowed are 1 to {MAX_ID_BYTES}")
    if found := _FORBIDDEN_IN_IDS.search(value):
        raise InvalidIdError(what, value, f"contains {found[0]!r}, which is not allowed in one")
    return str.__str__(value)


def check_text(what: str, value: object) -> str:
    """Return words for people, which may be empty and may have several lines.

    Raises:
        PayloadError: It is no text, or has a NUL or a lone surrogate in it, which PostgreSQL cannot
            keep.
        LimitExceededError: It is longer than `MAX_TEXT_BYTES`.
    """
    if not isinstance(value, str):
        raise PayloadError(what, f"is {type(value).__name__}; it must be str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise PayloadError(what, _LONE_SURROGATE) from None
    if "\0" in value:
        raise PayloadError(what, "contains '\\x00', which a database cannot keep; leave it out")
    if size > MAX_TEXT_BYTES:
        advice = "keep it short, and put the rest into a value"
        raise LimitExceededError(
            f"{what}, in bytes,", allowed=MAX_TEXT_BYTES, found=size, advice=advice
        )
    return str.__str__(value)
