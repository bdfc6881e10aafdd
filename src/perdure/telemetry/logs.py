"""Log lines: as JSON for machines, and without what only the history may show.

A log line of perdure is a constant text that names the instance, its definition and the error, with
facts beside it for machines: execution, version, attempt, worker. It never holds a value that users
hand over, and so never the text of their exceptions either: their class and their place.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from datetime import UTC, datetime
from pathlib import Path

MAX_PLACES = 20
"""How many places a log line names of where an exception came from, the innermost first."""


class JsonFormatter(logging.Formatter):
    """Writes each log record as one line of JSON, with all facts that came in `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        facts = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line.update({name: value for name, value in facts.items() if name not in line})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, default=str, ensure_ascii=False)


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def shown_error(error: BaseException | None) -> str:
    """Return what the text of a log line may say of an exception from user code: its class, and the
    innermost line of the user's that it came through."""
    if error is None:
        return "an unknown error"
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    theirs = [one for one in frames if not one[0].startswith(_PACKAGE)] or frames
    kind = type(error).__qualname__
    if not theirs:
        return kind
    file, line, function = theirs[-1]
    return f"{kind} at {os.path.basename(file)}:{line} in {function}"


_PACKAGE = str(Path(__file__).parent.parent)


def error_facts(error: BaseException | None) -> dict[str, str]:
    """Return what a log line may say of an exception from user code: its class and its place.

    Not its text, which may quote values: that is kept in the history, where only those look who
    may see values.
    """
    if error is None:
        return {}
    where = [
        f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    places = " < ".join(reversed(where[-MAX_PLACES:]))
    return {"error_type": type(error).__qualname__, "raised_at": places}
