"""The ledger: what activities and starters really did, kept outside the processes that may die."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from perdure import activity_context

What = Literal["begin", "end", "failed", "asked", "started", "ready", "refused", "forked"]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened."""

    what: What
    key: str
    """The idempotency key of a run; of a start, the instance id."""
    pid: int
    """The process that did it."""
    attempt: int = 0
    """Of a run; of what was refused, how much."""
    activity: str = ""


class Ledger:
    """Where lines are written. A worker is given one among its resources."""

    pid: int

    def append(self, line: Line) -> None:
        """Write a line; it stays whatever happens to the process."""
        raise NotImplementedError

    def note(self, what: What, key: str, attempt: int = 0, activity: str = "") -> None:
        """Write that something happened."""
        self.append(Line(what, key, self.pid, attempt, activity))


class FileLedger(Ledger):
    """A file for many processes.

    Every line is one write to a file opened with O_APPEND, so lines never mix, their order is the
    order in which things happened, and what was written before a kill is there.
    """

    def __init__(self, path: str) -> None:
        self.pid = os.getpid()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def append(self, line: Line) -> None:
        data = msgspec.json.encode(line) + b"\n"
        written = os.write(self._file, data)
        assert written == len(data), "a line of the ledger was cut"


@contextmanager
def noted() -> Iterator[int]:
    """Note that the activity that runs here begins, and how it ends; give its attempt."""
    context = activity_context()
    ledger = context.resource(Ledger)
    facts = (context.idempotency_key, context.attempt, context.activity)
    ledger.note("begin", *facts)
    try:
        yield context.attempt
    except Exception:
        ledger.note("failed", *facts)
        raise
    ledger.note("end", *facts)


def read_ledger(path: Path) -> list[Line]:
    """Return all lines of a file in the order they were written."""
    return LedgerTail(path).read()


def whole_lines(data: bytes) -> bytes:
    """Return the beginning of what was read that is written: of a line that is being written there
    may be a part only, or as many zeros as it is long."""
    written = data.partition(b"\0")[0]
    return written[: written.rfind(b"\n") + 1]


class LedgerTail:
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


def own_id(pid: int, number: int) -> str:
    """Return the id of an instance that a worker process starts by itself."""
    return f"own-{pid}-{number}"
