"""Failed instances grouped by what went wrong: a thousand failures of one trouble are one line.

The *fingerprint* of a failure is what it has in common with others of the same trouble: definition,
class, place, and what of the message does not change.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, NamedTuple

from perdure.client.reading.info import InstanceInfo

EXAMPLES = 3
"""How many ids of a group are named."""

_CHANGING = re.compile(
    r"[\w.+-]+@[\w.-]+|\w+://\S+|0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+|'[^']*'|\"[^\"]*\""
)
"""What differs between two messages of the same trouble: addresses, numbers, ids, quoted values."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def grouped(items: list[InstanceInfo]) -> list[dict[str, Any]]:
    """Return failed instances by fingerprint, the largest group first."""
    groups: dict[str, dict[str, Any]] = {}
    for one in items:
        trouble = Trouble.of(one)
        group = groups.setdefault(
            trouble.fingerprint,
            {
                "fingerprint": trouble.fingerprint,
                "name": one.name,
                "error": trouble.kind,
                "message": trouble.message,
                "place": trouble.place,
                "count": 0,
                "first_at": one.ended_at,
                "last_at": one.ended_at,
                "versions": [],
                "examples": [],
            },
        )
        group["count"] += 1
        if one.ended_at is not None:
            group["first_at"] = min(group["first_at"] or one.ended_at, one.ended_at)
            group["last_at"] = max(group["last_at"] or one.ended_at, one.ended_at)
        if one.version not in group["versions"]:
            group["versions"].append(one.version)
        if len(group["examples"]) < EXAMPLES:
            group["examples"].append(one.instance_id)
    return sorted(groups.values(), key=lambda group: -group["count"])


class Trouble(NamedTuple):
    """What an instance failed of."""

    kind: str
    message: str
    place: str
    fingerprint: str

    @staticmethod
    def of(one: InstanceInfo) -> Trouble:
        """Return what is on record of it."""
        error = one.output if isinstance(one.output, dict) else {}
        kind, message = str(error.get("type_name", "")), str(error.get("message", ""))
        place = innermost(str(error.get("traceback_text", "")))
        return Trouble(kind, message, place, fingerprint(one.name, kind, message, place))


def fingerprint(name: str, kind: str, message: str, place: str) -> str:
    """Return what failures of the same trouble have in common: definition, class, place and what
    of the message does not change."""
    same = _CHANGING.sub("#", message)
    return sha256("\0".join((name, kind, place.rpartition(":")[0], same)).encode()).hexdigest()[:12]


def innermost(traceback_text: str) -> str:
    """Return where it was raised, as `file.py:41 in fn`; nothing if that is not on record."""
    frames = _FRAME.findall(traceback_text)
    if not frames:
        return ""
    # Frames of perdure itself say nothing: each failed call of an activity goes through them.
    own = [frame for frame in frames if "/perdure/" not in frame[0]]
    file, line, function = (own or frames)[-1]
    return f"{file.rpartition('/')[2]}:{line} in {function}"
