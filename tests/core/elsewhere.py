"""Replays recorded histories in another process: other hash seed, other addresses.

    python -m tests.core.elsewhere record FILE      record every scenario
    python -m tests.core.elsewhere replay FILE      replay them; prints those that do not match

The file can be carried to another Python version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from perdure.core.orchestrations.execution import Execution
from perdure.errors import NondeterminismError
from perdure.model.histories.events import StoredEvent
from tests.core import programs
from tests.core.harness import ID, Script, executions, new_execution
from tests.core.scenarios import SCENARIOS


def write(scripts: dict[str, Script], file: Path) -> None:
    records = {
        name: {
            "program": script.orchestration.name,
            "history": [(*event[:3], event.body.decode()) for event in script.history],
            "execution": script.execution.execution,
            "digest": script.execution.digest().hex(),
            "open": script.open,
            "state": state_of(script.execution),
        }
        for name, script in scripts.items()
    }
    file.write_text(json.dumps(records))


def state_of(execution: Execution) -> list[str]:
    """What an execution keeps and reports, as text."""
    entries = sorted(execution.scope.kv.values(), key=lambda entry: entry.key)
    kept = [f"{entry.key}={bytes(entry.value)!r} at {entry.updated_ms}" for entry in entries]
    return [*kept, f"{execution.scope.report!r}"]


def replay(file: Path) -> dict[str, str]:
    """Return what went wrong, by the name of the record."""
    problems: dict[str, str] = {}
    for name, record in json.loads(file.read_text()).items():
        history = [
            StoredEvent(seq, kind, at_ms, body.encode())
            for seq, kind, at_ms, body in record["history"]
        ]
        execution_id = ID._replace(execution=record["execution"])
        execution = new_execution(getattr(programs, record["program"]), id=execution_id)
        try:
            execution.replay(history)
        except NondeterminismError as error:
            problems[name] = str(error)
        else:
            if list(execution.open) != record["open"]:
                problems[name] = f"waits for {list(execution.open)}, not {record['open']}"
            if execution.digest().hex() != record["digest"]:
                problems[name] = "another digest"
            if state_of(execution) != record["state"]:
                problems[name] = f"keeps {state_of(execution)}, not {record['state']}"
        execution.tear_down()
    return problems


def main(verb: str, file: Path) -> int:
    if verb == "record":
        write({scenario.name: scenario.run() for scenario in SCENARIOS}, file)
        for execution in executions:
            execution.tear_down()
        return 0
    problems = replay(file)
    for name, problem in problems.items():
        sys.stdout.write(f"{name}\n{problem}\n\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
