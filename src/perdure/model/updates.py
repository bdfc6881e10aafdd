"""Updates on their way: how a request lies in a signal, and what a receipt keeps of its outcome.

A request is a signal under a reserved name with an id. Its receipt is that of the message by which
it came, so a request that is given again is delivered once, and gets the outcome of the first.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.model.histories.events import NULL, Body, SignalReceived, write_event

UPDATE_PREFIX = "update:"
"""Before the names of signals that are requests, and before the ids of their messages."""


class UpdateBody(msgspec.Struct, frozen=True):
    """The value of a signal that is a request."""

    id: str
    value: msgspec.Raw


class UpdateOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a request."""

    outcome: Literal["answered", "refused", "unanswered"]
    answer: msgspec.Raw = NULL
    reason: str = ""
    """Why it was refused; of one that is unanswered, what its execution came to."""
    given: dict[str, str] = {}
    """A digest of each field of what was asked."""


_outcomes = msgspec.json.Decoder(UpdateOutcome)


def request_message(name: str, update_id: str, value: bytes) -> Body:
    """Return a request as the message by which it comes."""
    body = UpdateBody(update_id, msgspec.Raw(value))
    raw = msgspec.Raw(msgspec.json.encode(body))
    return write_event(SignalReceived(name=f"{UPDATE_PREFIX}{name}", value=raw))


def read_request(event: SignalReceived) -> tuple[str, bytes]:
    """Return the name of the update that a signal asks, and what it asks."""
    body = msgspec.json.decode(event.value, type=UpdateBody)
    return event.name.removeprefix(UPDATE_PREFIX), bytes(body.value)


def receipt_id(update_id: str) -> str:
    """Return the id of the message, and so of the receipt, of a request."""
    return f"{UPDATE_PREFIX}{update_id}"


def read_outcome(data: bytes) -> UpdateOutcome:
    """Return a stored outcome."""
    return _outcomes.decode(data)
