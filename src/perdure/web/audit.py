"""Audit rows: who did what over HTTP, when, on what, and what it came to.

An action leaves two rows with one request id: *asked* before anything is done, and then its
outcome. If the first cannot be written, nothing is done. So there is no action without a row, also
if the process dies in between: then the row *asked* stands alone. One that is refused before
anything is asked of the store leaves one row, with the code of the refusal. Payloads and reasons
are in no row.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from perdure.errors import UsageError
from perdure.web.problems import RefusalError

audit_log = logging.getLogger("perdure.web.audit")

ASKED = "asked"
DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row of the record of actions."""

    at: datetime
    request_id: str
    """The same for both rows of an action."""
    who: str
    """The name of the token, what `authorize` said, or `browser` for the holder of the key."""
    action: str
    """The route's name, as in the OpenAPI document."""
    target: dict[str, str]
    """On what: the named parts of the path."""
    outcome: str
    """`asked`, then `done` or the code of the problem."""
    count: int | None = None
    """How many it was done to, where it may be many."""
    address: str = ""
    """From where."""

    def line(self) -> str:
        """Return the row as one line of JSON."""
        return json.dumps({**asdict(self), "at": self.at.isoformat()})


Audit: TypeAlias = Callable[[AuditRow], Awaitable[None] | None]
"""Keeps a row. What it raises keeps the action from being done."""


def audit_file(path: str | os.PathLike[str], /) -> Audit:
    """Return what appends rows to a file, each on the disk before anything is done.

    Each row is one line of JSON, written at once: several processes may share a file. The file is
    made for its owner only.

    Raises:
        UsageError: It cannot be written.
    """
    file = Path(path)
    try:
        _append(file, "")
    except OSError as error:
        raise UsageError(f"audit rows cannot be written to {file}: {error.strerror}") from error

    async def keep(row: AuditRow) -> None:
        # Opened for each: a file that was moved away by `logrotate` is made anew.
        await asyncio.to_thread(_append, file, row.line() + "\n")

    return keep


def audit_to_stderr(row: AuditRow) -> None:
    """Write a row to the standard error, as one line of JSON."""
    sys.stderr.write(row.line() + "\n")
    sys.stderr.flush()


async def keep_row(audit: Audit | None, row: AuditRow) -> None:
    """Keep a row; outcomes are logged as well.

    Raises:
        RefusalError: An action was asked for, and the row could not be kept.
    """
    if row.outcome != ASKED:
        audit_log.info("action", extra={**asdict(row), "at": row.at.isoformat()})
    if audit is None:
        return
    try:
        kept = audit(row)
        if inspect.isawaitable(kept):
            await kept
    except Exception as error:
        # Without the error's own text, which may name whatever.
        audit_log.error(
            "an audit row could not be kept",
            extra={"action": row.action, "outcome": row.outcome, "error": type(error).__name__},
        )
        if row.outcome == ASKED:
            raise RefusalError(
                503,
                "audit_unavailable",
                "nothing was done: the record of actions cannot be written",
                {"Retry-After": "5"},
            ) from error


def _append(file: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    content = text.encode()
    descriptor = os.open(file, flags, 0o600)
    try:
        if os.write(descriptor, content) < len(content):
            raise OSError("the disk is full")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
