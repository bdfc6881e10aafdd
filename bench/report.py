"""From the numbers of all runs to one table: medians and ranges, never the best of several."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.harness import Cost, Measured, StoreFacts
from bench.machine import Machine

HEAD = (
    "row", "n", "median", "range", "unit", "budget", "", "other", "per",
    "CPU us", "server us", "txns", "stmts", "rows",
)  # fmt: skip
LEFT = {0, 4, 6, 8}
"""Columns of words; the others are numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    case: str
    row: str
    unit: str
    values: list[float]
    """Of every run, in the order they were made."""
    median: float
    lowest: float
    highest: float
    budget: str
    verdict: str
    """met, missed, or nothing where there is no budget or it cannot be judged."""
    other: float | None
    cost: Cost | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything one call of `python -m bench` found out."""

    machine: Machine
    store: list[StoreFacts]
    """All that differ; one of each kind of store, if nothing is wrong."""
    quick: bool
    rows: list[Row]
    failed: dict[str, str]
    """Cases that gave no number, and why."""


def summarize(case: str, runs: Sequence[Sequence[Measured]], *, judge: bool) -> list[Row]:
    """Return the rows of a case from the measurements of its runs."""
    rows = []
    for same in zip(*runs, strict=True):
        first = same[0]
        values = [one.value for one in same]
        median = statistics.median(values)
        rows.append(
            Row(
                case=case,
                row=first.row,
                unit=first.unit,
                values=values,
                median=median,
                lowest=min(values),
                highest=max(values),
                budget=_budget(first),
                verdict=_verdict(first, median) if judge else "",
                other=_median(one.other for one in same),
                cost=_median_cost([one.cost for one in same if one.cost is not None]),
            )
        )
    return rows


def table(results: Results) -> str:
    """Return the results for people."""
    lines = [HEAD, *(_cells(row) for row in results.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [_line(line, widths) for line in lines]
    text.insert(1, "-" * len(text[0]))
    text += ["", *_footnotes(results)]
    return "\n".join(text)


def _footnotes(results: Results) -> list[str]:
    machine = results.machine
    notes = [f"FAILED {case}: {why}" for case, why in results.failed.items()]
    if results.quick:
        notes.append("quick: small numbers of everything, so budgets are not judged")
    if not machine.has_disk:
        notes.append(f"{machine.file_system} is no disk, so budgets are not judged: set BENCH_DIR")
    notes += [
        "other: share of the machine that other processes used during the run",
        f"machine     {machine.cpu}, {machine.cores} cores, {machine.memory_gb} GiB, "
        f"{machine.system}",
        f"load        {machine.load} at the start (1, 5, 15 minutes)",
        f"disk        {machine.file_system}",
        f"Python      {machine.python}",
    ]
    notes += [f"store       {facts.store}, {', '.join(facts.settings)}" for facts in results.store]
    return [*notes, f"commit      {machine.commit}"]


def _cells(row: Row) -> tuple[str, ...]:
    cost = row.cost
    spread = f"{_number(row.lowest)} - {_number(row.highest)}" if len(row.values) > 1 else ""
    costs: tuple[str, ...] = ("",) * 6
    if cost is not None:
        server = "" if cost.server_us is None else _number(cost.server_us)
        numbers = (cost.transactions, cost.statements, cost.rows)
        costs = (cost.per, _number(cost.cpu_us), server, *map(_number, numbers))
    other = "" if row.other is None else f"{row.other:.2f}"
    head = (row.row, str(len(row.values)), _number(row.median), spread, row.unit)
    return (*head, row.budget, row.verdict, other, *costs)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column in LEFT else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _number(value: float) -> str:
    """Three digits that mean something."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3f}"


def _budget(measured: Measured) -> str:
    if measured.at_least is not None:
        return f">= {measured.at_least:,g}"
    return "" if measured.at_most is None else f"<= {measured.at_most:,g}"


def _verdict(measured: Measured, median: float) -> str:
    if measured.at_least is not None:
        return "met" if median >= measured.at_least else "MISSED"
    if measured.at_most is not None:
        return "met" if median <= measured.at_most else "MISSED"
    return ""


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _median_cost(costs: Sequence[Cost]) -> Cost | None:
    if not costs:
        return None
    return Cost(
        per=costs[0].per,
        cpu_us=statistics.median(cost.cpu_us for cost in costs),
        server_us=_median(cost.server_us for cost in costs),
        transactions=statistics.median(cost.transactions for cost in costs),
        statements=statistics.median(cost.statements for cost in costs),
        rows=statistics.median(cost.rows for cost in costs),
    )
