"""The page of failures: instances that failed, grouped by what went wrong."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, NamedTuple

from perdure.client.reading.info import InstanceInfo
from perdure.limits import PAGE_MAX
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.pages.content import PageContent
from perdure.web.pages.drawing import bar_chart

EXAMPLES = 3
STEPS = 60
"""How many bars show when instances of a group failed."""

_CHANGING = re.compile(
    r"[\w.+-]+@[\w.-]+|\w+://\S+|0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+|'[^']*'|\"[^\"]*\""
)
"""What differs between two messages of the same trouble: addresses, numbers, ids, quoted values."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


async def show(ask: CheckedRequest[Nothing, None]) -> PageContent:
    """Return the page: of the newest 500 that failed, and all that are blocked or parked."""
    failed = await ask.client.instances(status="failed", limit=PAGE_MAX)
    held = await ask.client.instances(status=["blocked", "parked"], limit=100)
    dead = await ask.client.dead_jobs(limit=100)
    groups = grouped(failed.items)
    return PageContent(
        template="failures.html",
        title="Failures",
        data={
            "groups": groups,
            "looked_at": len(failed.items),
            "has_more": failed.next is not None,
            "held": [
                {
                    "instance_id": one.instance_id,
                    "name": one.name,
                    "status": one.status,
                    "reason": one.reason or "",
                    "updated_at": one.updated_at,
                }
                for one in held.items
            ],
            "dead": dead.items,
            "has_more_dead": dead.next is not None,
        },
        drawing={"charts": when_failed(failed.items)},
    )


def when_failed(items: list[InstanceInfo]) -> dict[str, dict[str, Any]]:
    """Return for each group, by its fingerprint, a chart of when its instances failed. All have
    the same scale of time, from the first to the last failure that is looked at: a page that shows
    nothing new stays the same."""
    ended = {one.instance_id: one.ended_at for one in items if one.ended_at is not None}
    first, last = min(ended.values(), default=None), max(ended.values(), default=None)
    counts: dict[str, list[int]] = {}
    for one in items:
        bars = counts.setdefault(Trouble.of(one).fingerprint, [0] * STEPS)
        at = ended.get(one.instance_id)
        if at is not None and first is not None and last is not None:
            share = (at - first) / (last - first) if last > first else 1
            bars[round(share * (STEPS - 1))] += 1
    return {name: bar_chart({"failed": bars}) for name, bars in counts.items()}


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
