"""Messages on their way into an instance.

A message has the kind and body of the event it becomes when a turn takes it. Numbers are given
under the instance's row lock, so a lower number never appears later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec


class Message(NamedTuple):
    """A message as the inbox keeps it. `timer_key` is set for timers; `execution` 0 means any.

    One that a continued instance gave to its next execution has a number below zero.
    """

    no: int
    effective_at_ms: int
    kind: str
    body: bytes
    execution: int = 0
    timer_key: str | None = None


class CarriedMessage(NamedTuple):
    """A message that an instance gives to its next execution."""

    effective_at_ms: int
    kind: str
    body: bytes


class Delivery(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A message for some instance."""

    instance_id: str
    kind: str
    body: bytes
    incarnation: int | None = None
    """Only for this incarnation; None: for the instance that has the id now."""
    execution: int = 0
    """Only for this execution; 0: for any."""
    outlives: bool = False
    """Whether the execution is compared when it is delivered, and one that takes over from it gets
    what was not taken: as the next one after a reset does."""
    message_id: str | None = None
    """Given twice, the message is delivered once."""
    call_id: str | None = None
    """Of the call, where several give one `message_id` and are told which of them was first: the
    one that was hears it again if it is run again because the answer was lost."""
    if_absent: Literal["buffer", "refuse", "drop"] = "drop"
    """What to do when the id was never started: keep the message until it is, or not."""
    hurries: bool = False
    """Whether a start that is delayed begins at once: a request to stop does not wait for it."""


class DeliveryStatus(StrEnum):
    """What became of a delivery."""

    DELIVERED = "delivered"
    BUFFERED = "buffered"  # kept for an instance that was not started yet
    DUPLICATE = "duplicate"  # its message_id was delivered before
    ENDED = "ended"  # the instance has ended; nothing was stored
    ABSENT = "absent"  # no such instance or incarnation; nothing was stored


def digest_of(messages: Iterable[Message], numbers: Collection[int]) -> int:
    """Return a number that tells messages with these numbers from others that have them."""
    digest = blake2b(digest_size=8)
    for no, at_ms, kind, body, *_ in messages:
        if no in numbers:
            digest.update(b"%d %d %s %d " % (no, at_ms, kind.encode(), len(body)))
            digest.update(body)
    return int.from_bytes(digest.digest()) >> 1 | 1
