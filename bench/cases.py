"""All benchmarks by name: one file, one question."""

from __future__ import annotations

from collections.abc import Sequence

from bench import (
    ceiling,
    chain,
    children,
    deciders,
    fan_out,
    guard_cost,
    idle,
    latency,
    many_chains,
    metrics_cost,
    one_activity,
    projections,
    recovery,
    signals,
    timers,
    waiting,
)
from bench.harness import Case

CASES: dict[str, Case] = {
    case.name: case
    for file in (
        one_activity,
        chain,
        many_chains,
        fan_out,
        latency,
        waiting,
        idle,
        signals,
        timers,
        children,
        recovery,
        deciders,
        projections,
        ceiling,
        guard_cost,
        metrics_cost,
    )
    for case in file.CASES
}

NOT_YET = ("the PostgreSQL budgets: there is no PostgreSQL store yet",)
"""Rows of the design's budgets that nothing measures so far."""


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the cases of these names; the name of a file means all its cases.

    Raises:
        KeyError: There is no such name.
    """
    if not names:
        return list(CASES.values())
    found: dict[str, Case] = {}
    for name in names:
        some = {key: case for key, case in CASES.items() if name in (key, key.split("/")[0])}
        if not some:
            raise KeyError(name)
        found |= some
    return list(found.values())
