"""How do the same workloads do on PostgreSQL?

The cases are those of the other files, on a database of a real server that commits durably.
"""

from __future__ import annotations

from dataclasses import replace

from bench import (
    across,
    chain,
    deciders,
    fan_out,
    idle,
    latency,
    many_chains,
    one_activity,
    recovery,
)
from bench.harness import Case, Measured, Setup

PREFIX = "postgres/"

BUDGETS: dict[str, float | None] = {"latency": 5.0, "deciders/execute": None, "deciders/hot": None}
"""Where the budget of a case is another one than on SQLite; None: there is none."""


def on_postgres(case: Case) -> Case:
    """Return a case of SQLite as one of PostgreSQL."""

    async def run(setup: Setup) -> list[Measured]:
        return [_renamed(case.name, measured) for measured in await case.run(setup)]

    return replace(case, name=PREFIX + case.name, run=run, store="postgresql")


def _renamed(case: str, measured: Measured) -> Measured:
    at_least, at_most = measured.at_least, measured.at_most
    if case in BUDGETS:
        at_least = at_least and BUDGETS[case]
        at_most = at_most and BUDGETS[case]
    row = f"PostgreSQL: {measured.row}"
    return replace(measured, row=row, at_least=at_least, at_most=at_most)


_ALL = {
    case.name: case
    for file in (
        *(one_activity, latency, chain, many_chains, fan_out),
        *(deciders, idle, recovery, across),
    )
    for case in file.CASES
}

CASES = tuple(
    on_postgres(_ALL[name])
    for name in (
        "one_activity",
        "latency",
        "chain",
        "many_chains",
        "fan_out",
        "deciders/execute",
        "idle",
        "recovery/others",
        "recovery/killed",
        "across",
        "across/many",
        "across/signals",
        "across/deaf",
    )
)
