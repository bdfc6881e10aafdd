"""What callers asked for and what they were told, kept outside the processes that may die.

Every call has two lines: when it began and when it ended. One without an end was cut short by the
end of its process: whether it happened is not known, and nobody was told. Times are those of one
monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from tests.chaos.ledger import whole_lines

How = Literal["execute", "send", "update", "start", "result", "pledge", "keep", "pledged"]
"""The last three are of pledges: to start one, to keep it, and to hear what it returned."""
What = Literal["deposit", "withdraw", "transfer", "errand", "pledge"]
Answer = Literal[
    "accepted",
    "rejected",
    "sent",
    "started",
    "result",
    "refused",
    "unanswered",
    "unknown",
    "strange",
]
"""*Refused*: told that it never happened. *Unanswered*: told that no answer will come. *Unknown*:
told that it may have, or nothing at all. *Strange*: told what no caller should have to hear."""

NEVER = 1 << 62
"""A time after all others."""


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """Somebody makes a call."""

    mark: str
    """Of this call alone; of a result, that of the start."""
    client: str
    how: How
    what: What
    account: str = ""
    """Or the mark of the pledge that it is to keep."""
    amount: int = 0
    to: str = ""
    accounts: tuple[str, ...] = ()
    """Of an errand."""
    input_id: str = ""
    at_ns: int = msgspec.field(default_factory=time.monotonic_ns)


class StepTold(msgspec.Struct, frozen=True):
    """What an errand was told of one of its inputs."""

    mark: str
    answer: str
    version: int = 0
    balance: int = 0


class Told(msgspec.Struct, frozen=True, kw_only=True, tag="told"):
    """A call has ended."""

    mark: str
    how: How
    answer: Answer
    recorded: str = ""
    """The mark in the event: that of the first call with the same input id; of a pledge, that of
    the call that kept it."""
    version: int = 0
    balance: int = 0
    steps: tuple[StepTold, ...] = ()
    why: str = ""
    at_ns: int = msgspec.field(default_factory=time.monotonic_ns)


class WentBack(msgspec.Struct, frozen=True, kw_only=True, tag="went_back"):
    """A copy of the database took its place: what was committed in between is gone."""

    copied_ns: int
    """When the copying began: what was told before is in the copy."""
    ended_ns: int
    """When the one that was copied had ended: what began later is the copy's."""


Line = Begun | Told | WentBack


class Telling:
    """A file for many processes, see `ledger.FileLedger`."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)

    def note(self, line: Line) -> None:
        """Write a line; it stays whatever happens to the process."""
        data = msgspec.json.encode(line) + b"\n"
        written = os.write(self._file, data)
        assert written == len(data), "a line was cut"


class TellingTail:
    """Reads a file that grows, every line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0

    def read(self) -> list[Line]:
        """Return the lines that were written since the last time."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._place)
            data = file.read()
        data = whole_lines(data)
        self._place += len(data)
        return [msgspec.json.decode(line, type=Line) for line in data.splitlines()]
