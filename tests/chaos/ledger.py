"""The ledger: what activities and starters really did, in a file that outlives their processes.

Every line is one write to a file opened with O_APPEND, so lines of many processes never mix and
their order is the order in which things happened. Nothing is buffered in the process: what was
written before a kill is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from perdure import activity_context

LEDGER = "PERDURE_CHAOS_LEDGER"
"""Environment variable with the path of the ledger."""

What = Literal["begin", "end", "failed", "asked", "started", "ready"]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened."""

    what: What
    key: str
    """The idempotency key of a run; of a start, the instance id."""
    pid: int
    attempt: int = 0
    activity: str = ""


class Ledger:
    """The file, open for appending."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, what: What, key: str, attempt: int = 0, activity: str = "") -> None:
        """Append one line."""
        line = Line(what, key, os.getpid(), attempt, activity)
        data = msgspec.json.encode(line) + b"\n"
        written = os.write(self._file, data)
        assert written == len(data), "a line of the ledger was cut"

    @contextmanager
    def run(self) -> Iterator[int]:
        """Note that the activity that runs here begins, and how it ends; give its attempt."""
        context = activity_context()
        facts = (context.idempotency_key, context.attempt, context.activity)
        self.write("begin", *facts)
        try:
            yield context.attempt
        except Exception:
            self.write("failed", *facts)
            raise
        self.write("end", *facts)


def read_ledger(path: Path) -> list[Line]:
    """Return all lines in the order they were written."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines()]
