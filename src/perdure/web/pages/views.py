"""Ready-made views of the list of instances, and what is typed to begin where there are none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from perdure.client.reading.info import Json
from perdure.web.api.overview import DefinitionShown

VIEWS = (
    ("failed since yesterday", "status:failed since:24h"),
    ("held", "status:blocked,parked"),
    ("waiting for a signal", "waits:signal"),
    ("waiting for a promise", "waits:promise"),
    ("open for over a day", "status:running before:24h"),
)
"""What people look for every morning, as filter words."""

FIRST_PROGRAM = "perdure new hello.py && perdure dev hello.py"
"""Where no worker has anything that could be started."""

_PLACEHOLDERS: dict[str, Json] = {
    "string": "...",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}


def first_command(definitions: Iterable[DefinitionShown]) -> str:
    """Return what to type for a first instance: the start of an orchestration that a live worker
    has, with values in the place of its arguments."""
    for one in definitions:
        if one.kind == "orchestration" and one.version and one.workers:
            return " ".join(["perdure start", shlex.quote(one.name), *_arguments(one.schema)])
    return FIRST_PROGRAM


def _arguments(schema: Any) -> list[str]:
    if schema is None or not schema["properties"]:
        return []
    needed = [schema["properties"][name] for name in schema["required"]]
    given = [_PLACEHOLDERS.get(str(field.get("type"))) for field in needed]
    return [shlex.quote(json.dumps(dict(zip(schema["required"], given, strict=True))))]
