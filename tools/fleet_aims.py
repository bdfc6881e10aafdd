"""What a fleet is to reach, held against what the benchmarks measured.

`tools/make_curves.py` writes it into `docs/explanation/fleet.md`. A number is a median of a row, or
one median by another; what was not measured is left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

APART = "client and worker apart"
SHARED = "execute, 20 callers each, 1,000 shared instances"
HOT = "execute, 20 callers each, one shared instance, 2 processes"
OPEN = "\N{EN DASH}"


class Aim(NamedTuple):
    """What one row is to reach, or one row by another."""

    what: str
    row: str
    unit: str
    sqlite: float | None
    """None: there is no aim on this store."""
    postgres: float | None
    is_most: bool = True
    """Whether less is better."""
    by: str | None = None
    """The row that it is divided by."""


def _latencies() -> Iterator[Aim]:
    for gap in ("back to back", "every 0.2 s", "every 1.5 s"):
        row = f"{APART}, start to result {gap}"
        yield Aim(f"start to result {gap}, p50", f"{row}, p50", "ms", 5, 6)
        yield Aim(f"start to result {gap}, p99", f"{row}, p99", "ms", 25, 25)


AIMS = (
    *_latencies(),
    Aim("20 in flight", f"{APART}, 20 in flight", "per s", 2_000, 2_000, is_most=False),
    Aim("100 in flight", f"{APART}, 100 in flight", "per s", 4_000, 3_000, is_most=False),
    *(
        Aim(
            f"two worker processes by one, {limit} in flight",
            f"{APART} with 2 worker processes, {limit} in flight",
            "times",
            None,
            1.6,
            is_most=False,
            by=f"{APART}, {limit} in flight",
        )
        for limit in ("100", "1,000")
    ),
    Aim(
        "signal to one of 20,000 that sleep, to its result, p95",
        "signal to one of 20,000 that sleep, to its result, p95",
        "ms",
        25,
        25,
    ),
    Aim(
        "`execute` on 1,000 shared deciders, two processes by one",
        f"{SHARED}, 2 processes",
        "times",
        1.3,
        1.3,
        is_most=False,
        by=f"{SHARED}, 1 processes",
    ),
    Aim(
        "`execute` on one hot decider, two processes: the lesser's part of half",
        f"{HOT}, least of a fair share",
        "%",
        80,
        80,
        is_most=False,
    ),
    Aim("the same, p99", f"{HOT}, p99", "ms", 50, 50),
    Aim(
        "work of a killed process goes on",
        "SIGKILL to the next commit, activity leased to it",
        "s",
        2,
        2,
    ),
    Aim("others beside the replay of 40,000 events", "the same, longest delay", "ms", 50, 50),
    Aim(
        "10,000 timers of one second, late p99",
        "10,000 timers due within one second, lateness, p99",
        "ms",
        250,
        250,
    ),
    Aim(
        "a checkup of a million instances",
        "200,000 ended: checkup, a million would take",
        "s",
        60,
        60,
    ),
)


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return the lines of a table: each aim, and what was measured of it on each store."""
    medians = {str(row["row"]): float(row["median"]) for row in rows}
    yield "| | aim | SQLite | PostgreSQL |"
    yield "|---|--:|--:|--:|"
    for aim in AIMS:
        cells = [_cell(aim, medians, "", aim.sqlite)]
        cells.append(_cell(aim, medians, "PostgreSQL: ", aim.postgres))
        yield f"| {aim.what} | {_told(aim)} | {' | '.join(cells)} |"


def _told(aim: Aim) -> str:
    bounds = dict.fromkeys(bound for bound in (aim.sqlite, aim.postgres) if bound is not None)
    word = "at most" if aim.is_most else "at least"
    return f"{word} {' / '.join(f'{bound:,g}' for bound in bounds)} {aim.unit}"


def _cell(aim: Aim, medians: Mapping[str, float], store: str, bound: float | None) -> str:
    value = medians.get(f"{store}{aim.row}")
    if value is not None and aim.by is not None:
        one = medians.get(f"{store}{aim.by}")
        value = value / one if one else None
    if value is None:
        return OPEN
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    if bound is None:
        return shown
    is_held = value <= bound if aim.is_most else value >= bound
    return shown if is_held else f"**{shown}**"
