"""What does the guard cost, in a turn and outside?

Run with each Python: `python bench/guard_cost.py`. Best of several runs, in one thread.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import timeit
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from perdure.core.guard import Guard

REPEATS = 7
SHORT_RUNS = 100_000
TURN_RUNS = 2_000
LINES = 40
EMPTY = "with guard: pass"


def main() -> None:
    """Print one table. The first line must be measured before anything adds the hook."""
    unhooked_ns = best_ns(audit, SHORT_RUNS)
    plain, watching = Guard(watch_calls=False), Guard(watch_calls=True)
    with plain:  # timeit reads its clock in there; only the call monitor would mind.
        in_turn_ns = best_ns(audit, SHORT_RUNS)
    rows = [
        ("audited event outside turns, no hook", unhooked_ns),
        ("audited event outside turns, hook", best_ns(audit, SHORT_RUNS)),
        ("audited event in a turn, of no interest", in_turn_ns),
        ("enter + exit", best_ns(EMPTY, SHORT_RUNS, guard=plain)),
        ("enter + exit, watching calls", best_ns(EMPTY, TURN_RUNS, guard=watching)),
    ]
    turn_ns = best_ns(turn, TURN_RUNS)
    guarded_ns = best_ns(lambda: stretch(plain, turn), TURN_RUNS)
    watched_ns = best_ns(lambda: stretch(watching, turn), TURN_RUNS)
    rows += [
        (f"turn of {count_calls()} calls, no guard", turn_ns),
        ("the same, guarded", guarded_ns),
        (f"the same, watching calls ({watched_ns / turn_ns:.1f} times)", watched_ns),
    ]

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    print(f"Python {platform.python_version()}, {platform.machine()}, commit {commit or 'none'}")
    for label, cost_ns in rows:
        print(f"{label:<44} {cost_ns / 1000:>9.2f} us")


def audit() -> None:
    sys.audit("perdure.bench")


def stretch(guard: Guard, code: Callable[[], object]) -> None:
    with guard:
        code()


def turn() -> str:
    """Do what a turn of an order does: dates, some sums, JSON, calls of small functions."""
    lines = [price(number, f"item-{number}") for number in range(LINES)]
    lines.sort(key=by_total)
    due = datetime.fromisoformat("2030-01-05T12:00:00+00:00")
    return json.dumps({"due": due.isoformat(), "lines": lines, "total": add_up(lines)})


def price(number: int, name: str) -> dict[str, object]:
    words = name.upper().split("-")
    return {"name": "".join(words), "total": discount(number * 3), "count": len(words)}


def discount(total: int) -> int:
    return max(total - min(total, 5), 0)


def by_total(line: dict[str, object]) -> str:
    return str(line["total"])


def add_up(lines: list[dict[str, object]]) -> int:
    return sum(int(str(line["total"])) for line in lines)


def count_calls() -> int:
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    turn()
    sys.setprofile(None)
    return calls


def best_ns(code: Callable[[], object] | str, runs: int, guard: Guard | None = None) -> float:
    times_s = timeit.repeat(code, number=runs, repeat=REPEATS, globals={"guard": guard})
    return min(times_s) / runs * 1e9


if __name__ == "__main__":
    main()
