"""Exceptions as they are recorded. They are part of histories: a new field has a default."""

from __future__ import annotations

from typing import Literal

import msgspec


class Cause(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An exception that another one came with."""

    type_name: str
    message: str
    link: Literal["cause", "context", "member"] = "cause"
    """Whether it caused the other, was being handled when that was raised, or is in its group."""
    place: str = ""
    causes: tuple[Cause, ...] = ()


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One failed attempt, or the error of something that ended badly."""

    type_name: str
    message: str
    traceback_text: str = ""
    at_ms: int = 0
    details: str = ""
    """The exception's content as JSON text, when its class is named in `raises=`."""
    place: str = ""
    """The user's line that raised it, as `shop.py:41 in charge`, if the message does not tell."""
    causes: tuple[Cause, ...] = ()
    """The exceptions that it came with."""
    not_rebuilt: str = ""
    """Why there are no details, although `raises=` names its class."""
    began_ms: int = 0
    """When the attempt began, of a failed one; 0: not on record."""
