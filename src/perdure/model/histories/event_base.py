"""What all events have in common, and the two sorts that there are."""

from __future__ import annotations

from typing import ClassVar

import msgspec

NULL = msgspec.Raw(b"null")
"""No value. A field cannot be `Raw | None`: msgspec would read nothing but null into it."""


class KvEntry(msgspec.Struct, frozen=True, gc=False):
    """A value that an instance keeps under a key, and when it was set."""

    key: str
    value: msgspec.Raw
    updated_ms: int


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A recorded fact. Its number and time are kept beside it, see `StoredEvent`."""

    kind: ClassVar[str]


class MessageEvent(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A fact that came from outside and makes the code run on."""


class AskedEvent(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A fact that the code caused: it must ask for the same at every replay."""
