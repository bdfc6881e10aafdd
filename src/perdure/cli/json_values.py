"""Values on the command line: JSON, or `@FILE` for a file of it."""

from __future__ import annotations

import json
from pathlib import Path

from perdure.client.reading.info import Json
from perdure.errors import UsageError

MAX_FILE_BYTES = 64 << 20


def parse_value(text: str, *, what: str) -> Json:
    """Return a value that a person wrote.

    Args:
        text: JSON, or `@` and the name of a file of it.
        what: What it is for, for the error.

    Raises:
        UsageError: It is none, or the file cannot be read.
    """
    source = what
    if text.startswith("@"):
        source = f"{what} {text}"
        text = _read(text[1:], what)
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        shown = text if len(text) <= 60 else f"{text[:59]}…"
        raise UsageError(
            f"{source}: {shown!r} is not JSON. A text is in double quotes, and all of it in single "
            f"quotes for the shell: '{json.dumps(shown)}'; @FILE reads it from a file"
        ) from None
    return value


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _read(name: str, what: str) -> str:
    try:
        if Path(name).stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{what}: {name} is larger than {MAX_FILE_BYTES >> 20} MiB")
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{what}: {name} cannot be read: {error}") from error
