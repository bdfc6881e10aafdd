"""The activities that every worker has: how an orchestration reaches other instances.

They are ordinary jobs in the history, with these names and these values. Names that begin with
`perdure.` are ours; user definitions cannot have them.
"""

from __future__ import annotations

import msgspec

from perdure.model.histories.events import NULL

RESERVED_PREFIX = "perdure."

RESULT = "perdure.result"
SEND = "perdure.send"
CANCEL = "perdure.cancel"
READ_KV = "perdure.read_kv"
UPDATE = "perdure.update"
SEND_INPUT = "perdure.send_input"
EXECUTE = "perdure.execute"
WAIT_EVENT = "perdure.wait_event"

SCHEDULE = "perdure.schedule"
"""The decider of schedules, which every worker has."""

BUILTINS = (RESULT, SEND, CANCEL, READ_KV, SEND_INPUT, UPDATE)
"""Those that any worker can run."""

OF_DECIDER = (EXECUTE, WAIT_EVENT)
"""Those that need the code of a decider. Its name is the tag of such a call, so that only workers
take it that have the decider."""

LONG = (RESULT, UPDATE, *OF_DECIDER)
"""Those that may take as long as other instances do."""


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


class UpdateInput(msgspec.Struct, frozen=True):
    """Ask an instance, exactly once, and wait until it has answered."""

    instance_id: str
    update: str
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


class GiveInput(msgspec.Struct, frozen=True):
    """Give an input to an instance of a decider, exactly once: to be decided soon, or now."""

    instance_id: str
    """As stored, with the decider's name before it."""
    decider: str
    tag: str
    input: msgspec.Raw


class WrittenEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of a decider, as its code wrote it."""

    tag: str
    event: msgspec.Raw
    shape: int = 1


class ExecuteOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an input came to: accepted, rejected or completed."""

    outcome: str
    events: tuple[WrittenEvent, ...] = ()
    state: msgspec.Raw = NULL
    version: int = 0
    reply: msgspec.Raw = NULL
    tag: str = ""
    """Which of the decider's rejections the reason is."""
    reason: msgspec.Raw = NULL


class WaitEventInput(msgspec.Struct, frozen=True):
    """Wait until an instance of a decider has recorded one of some events."""

    instance_id: str
    decider: str
    tags: tuple[str, ...]
    after: int
    """Events up to this version do not count."""


class WaitEventOutput(msgspec.Struct, frozen=True):
    """The first such event, and how many events the instance had with it."""

    event: WrittenEvent
    version: int
