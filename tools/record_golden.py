"""Records the golden histories: what tests/test_golden.py replays for ever.

    python -m tools.record_golden              record those that have no file yet
    python -m tools.record_golden --again NAME record one anew: only while it was never released
    python -m tools.record_golden --check      say which worlds would be recorded otherwise today

A file holds facts that no Python version changes: tracebacks are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from perdure.model.histories.digests import Digest
from perdure.model.histories.events import Failed, StoredEvent, read_event, write_event
from tests.core.harness import executions
from tests.golden.decider_worlds import GOLDEN_DECIDERS, GoldenDecider
from tests.golden.worlds import GOLDEN, Golden

FOLDER = Path(__file__).parent.parent / "tests/golden"
ALL: dict[str, Golden | GoldenDecider] = {**GOLDEN, **GOLDEN_DECIDERS}


def record(golden: Golden | GoldenDecider) -> dict[str, Any]:
    """Play a world and return its history with what is known at its end."""
    return record_execution(golden) if isinstance(golden, Golden) else record_decider(golden)


def record_decider(golden: GoldenDecider) -> dict[str, Any]:
    """Play the world of a decider."""
    world = golden.record()
    execution, definition = world.execution, world.definition
    return {
        "program": golden.program,
        "replayed_by": list(golden.replayed_by),
        "perdure": version("perdure"),
        "instance_id": world.instance_id,
        "open": list(execution.open),
        "timers": dict(sorted(execution.timers.items())),
        "state": json.loads(definition.state.encode(execution.state, "state")),
        "version": execution.fold.version,
        "digest": execution.digest().hex(),
        "events": as_json(world.history),
    }


def as_json(events: Iterable[StoredEvent]) -> list[dict[str, Any]]:
    """Return events as a file has them."""
    return [
        {"seq": seq, "kind": kind, "at_ms": at_ms, "body": body.decode()}
        for seq, kind, at_ms, body in events
    ]


def record_execution(golden: Golden) -> dict[str, Any]:
    """Play the world of an orchestration."""
    world = golden.record()
    execution = world.execution
    events = [without_traceback(event) for event in world.history]
    digest = Digest()
    for event in events:
        digest.feed(event.kind, event.at_ms, event.body)
    found = {
        "program": golden.program,
        "replayed_by": list(golden.replayed_by),
        "deployed_at": world.deployed_at,
        "perdure": version("perdure"),
        "instance_id": execution.instance_id,
        "incarnation": execution.id.incarnation,
        "execution": execution.execution,
        "open": world.open,
        "kv": world.values,
        "report": world.report,
        "digest": digest.value().hex(),
        "events": as_json(events),
    }
    for each in executions:  # those before the one that is recorded, too
        each.tear_down()
    executions.clear()
    return found


def without_traceback(event: StoredEvent) -> StoredEvent:
    """Return an event without the lines of code that a failure came by."""
    found = read_event(event.kind, event.body)
    if not isinstance(found, Failed):
        return event
    failure = msgspec.structs.replace(found.failure, traceback_text="")
    return event._replace(body=write_event(Failed(failure=failure)).body)


def write(golden: Golden | GoldenDecider, file: Path) -> None:
    """Write a history, one event per line."""
    found = record(golden)
    events = found.pop("events")
    head = json.dumps(found, indent=2, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n".join(f"    {json.dumps(event, ensure_ascii=False)}" for event in events)
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'{head},\n  "events": [\n{lines}\n  ]\n}}\n', encoding="utf-8")


def file_of(name: str) -> Path:
    """Return where a history is kept."""
    return FOLDER / ("deciders" if name in GOLDEN_DECIDERS else ".") / f"{name}.json"


def check() -> list[str]:
    """Return the names of worlds that would be recorded otherwise today."""
    found = [name for name in ALL if file_of(name).exists()]
    return [name for name in found if differs(ALL[name])]


def differs(golden: Golden | GoldenDecider) -> bool:
    """Return whether a world would be recorded otherwise today, but for the release."""
    now, then = record(golden), json.loads(file_of(golden.name).read_text(encoding="utf-8"))
    return any(now[key] != then[key] for key in then if key != "perdure")


def main(arguments: Sequence[str]) -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description="Record golden histories.")
    parser.add_argument("--again", action="append", default=[], choices=sorted(ALL))
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    if given.check:
        changed = check()
        sys.stdout.write("".join(f"{name} would be recorded otherwise\n" for name in changed))
        return 1 if changed else 0
    for name, golden in ALL.items():
        if name in given.again or not file_of(name).exists():
            write(golden, file_of(name))
            sys.stdout.write(f"recorded {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
