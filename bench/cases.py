"""All benchmarks by name: one file, one question."""

from __future__ import annotations

from collections.abc import Sequence

from bench import (
    across,
    at_rest,
    backlog,
    beside_pages,
    bloat,
    ceiling,
    chain,
    children,
    deciders,
    fan_out,
    for_each,
    guard_cost,
    idle,
    idle_fleet,
    latency,
    long_page,
    many_chains,
    metrics_cost,
    one_activity,
    postgres,
    projections,
    recovery,
    resets,
    schedules,
    server_cost,
    signals,
    streams,
    timers,
    trials,
    two_processes,
    updates,
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
        for_each,
        latency,
        waiting,
        idle,
        signals,
        updates,
        timers,
        schedules,
        children,
        recovery,
        resets,
        streams,
        at_rest,
        backlog,
        deciders,
        projections,
        ceiling,
        guard_cost,
        metrics_cost,
        trials,
        postgres,
        across,
        two_processes,
        idle_fleet,
        server_cost,
        bloat,
        beside_pages,
        long_page,
    )
    for case in file.CASES
}


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the cases of these names; the name of a file means all its cases.

    `postgres/` and the name of a case of SQLite is that case on PostgreSQL, whether or not it is
    among those that are run when nothing is asked for.

    Raises:
        KeyError: There is no such name.
    """
    if not names:
        return list(CASES.values())
    found: dict[str, Case] = {}
    for name in names:
        some = {key: case for key, case in CASES.items() if name in (key, key.split("/")[0])}
        elsewhere = CASES.get(name.removeprefix(postgres.PREFIX))
        if not some and elsewhere is not None and elsewhere.store == "sqlite":
            some = {name: postgres.on_postgres(elsewhere)}
        if not some:
            raise KeyError(name)
        found |= some
    return list(found.values())
