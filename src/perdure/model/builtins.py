"""The activities that every worker has: how an orchestration reaches other instances.

They are ordinary jobs in the history, with these names and these values. Names that begin with
`perdure.` are ours; user definitions cannot have them.
"""

from __future__ import annotations

import msgspec

from perdure.model.events import NULL

RESERVED_PREFIX = "perdure."

RESULT = "perdure.result"
SEND = "perdure.send"
CANCEL = "perdure.cancel"
READ_KV = "perdure.read_kv"

BUILTINS = (RESULT, SEND, CANCEL, READ_KV)
"""The names of all of them."""


class ResultInput(msgspec.Struct, frozen=True):
    """Wait until an instance has ended."""

    instance_id: str


class ResultOutput(msgspec.Struct, frozen=True):
    """How it ended: a status, and what the instance's row keeps of it."""

    status: str
    output: msgspec.Raw = NULL
    reason: str = ""


class SendInput(msgspec.Struct, frozen=True):
    """Send a signal to an instance, exactly once."""

    instance_id: str
    signal: str
    value: msgspec.Raw


class CancelInput(msgspec.Struct, frozen=True):
    """Ask an instance to stop."""

    instance_id: str
    reason: str


class ReadKvInput(msgspec.Struct, frozen=True):
    """Read what an instance keeps under a key."""

    instance_id: str
    key: str


class ReadKvOutput(msgspec.Struct, frozen=True):
    """The value, or null if there is none."""

    value: msgspec.Raw = NULL
