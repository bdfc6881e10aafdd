"""What does the guard cost, in a turn and outside?"""

from __future__ import annotations

import json
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from datetime import datetime

from bench.harness import Case, Measured, Setup
from perdure.core.guard import Guard, look_at

REPEATS = 7
SHORT_RUNS = 100_000
TURN_RUNS = 2_000
QUICK = 100
"""How many times fewer runs a quick look makes."""
LINES = 40
EMPTY = "with guard: pass"


async def guard_cost(setup: Setup) -> list[Measured]:
    """One thread. The first line must be measured before anything adds the hook."""
    short, long = SHORT_RUNS // setup.size(1, quick=QUICK), TURN_RUNS // setup.size(1, quick=QUICK)
    unhooked_us = median_us(audit, short)
    plain, watching = Guard(watch_calls=False), Guard(watch_calls=True)
    in_known_code = Guard(watch_calls=True, known_code_only=True)
    with plain:  # timeit reads its clock in there; only the call monitor would mind.
        in_turn_us = median_us(audit, short)
    turn_us = median_us(turn, long)
    lines = {
        "audited event outside turns, no hook": unhooked_us,
        "audited event outside turns, hook": median_us(audit, short),
        "audited event in a turn, of no interest": in_turn_us,
        "enter + exit": median_us(EMPTY, short, guard=plain),
        "enter + exit, watching closely": median_us(EMPTY, long, guard=watching),
        f"turn of {count_calls()} calls, no guard": turn_us,
        "the same turn, guarded": median_us(lambda: stretch(plain, turn), long),
        "the same turn, watching closely": median_us(lambda: stretch(watching, turn), long),
    }
    started_s = time.perf_counter()
    must_be_close = look_at(turn)
    lines["a look at the code of the turn, once"] = (time.perf_counter() - started_s) * 1e6
    assert not must_be_close, "the turn names nothing that is forbidden"
    lines["the same turn, in known code"] = median_us(lambda: stretch(in_known_code, turn), long)
    lines["its code outside turns, known"] = median_us(turn, long)
    return [
        Measured(row=f"guard: {line}", value=cost_us, unit="us") for line, cost_us in lines.items()
    ]


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


def median_us(code: Callable[[], object] | str, runs: int, guard: Guard | None = None) -> float:
    times_s = timeit.repeat(code, number=runs, repeat=REPEATS, globals={"guard": guard})
    return statistics.median(times_s) / runs * 1e6


CASES = (Case(name="guard_cost", run=guard_cost),)
