"""Compare two checkouts by turns: `python -m bench.by_turns OLD NAME... --pairs N`.

The speed of a machine changes by a third within minutes, so a number of yesterday says nothing
about the code of today. Here every run of this checkout stands beside one of the other in the same
minute, each pair the other way round than the one before. What counts is the ratio within a pair.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.machine import PROJECT
from bench.report import Results, Row

PAIRS = 5


class Pair(NamedTuple):
    """One row, measured with both checkouts within the same minutes."""

    old: Row
    new: Row


def main() -> int:
    """Run what was asked for by turns, and print a line for each row after every pair."""
    options = _read_arguments()
    pairs: dict[str, list[Pair]] = {}
    for number in range(options.pairs):
        for name in options.names:
            order = [options.old, PROJECT] if number % 2 == 0 else [PROJECT, options.old]
            rows = {checkout: _run(checkout, name) for checkout in order}
            for key, old in rows[options.old].items():
                if (new := rows[PROJECT].get(key)) is not None:
                    pairs.setdefault(key, []).append(Pair(old, new))
        print(f"\nafter {number + 1} pairs\n{_table(pairs)}", flush=True)
    return 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.by_turns", description=__doc__)
    parser.add_argument("old", type=Path, metavar="OLD", help="a checkout of the code before")
    parser.add_argument("names", nargs="+", metavar="NAME", help="cases that both have")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="runs of each case with each")
    return parser.parse_args()


def _run(checkout: Path, name: str) -> dict[str, Row]:
    """Run a case once, with the code of a checkout and the packages of this process."""
    with tempfile.TemporaryDirectory(prefix="perdure-turns-") as folder:
        path = Path(folder, "results.json")
        subprocess.run(
            [sys.executable, "-m", "bench", name, "--repeat", "1", "--json", str(path)],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout / "src")},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        results = msgspec.json.decode(path.read_bytes(), type=Results)
    return {f"{row.case}: {row.row}": row for row in results.rows}


def _table(pairs: dict[str, list[Pair]]) -> str:
    lines = [f"{'n':>3} {'old':>10} {'new':>10} {'ratio':>7} {'lowest - highest':>18}  row"]
    for key, of_row in pairs.items():
        lines.append(table_line(f"{key}, {of_row[0].new.unit}", [_values(pair) for pair in of_row]))
        costs = [
            (pair.old.cost.cpu_us, pair.new.cost.cpu_us)
            for pair in of_row
            if pair.old.cost is not None and pair.new.cost is not None
        ]
        if costs:
            lines.append(table_line(f"{key}, CPU us", costs))
    return "\n".join(lines)


def _values(pair: Pair) -> tuple[float, float]:
    return pair.old.median, pair.new.median


def table_line(name: str, values: Sequence[tuple[float, float]]) -> str:
    old, new = (statistics.median(column) for column in zip(*values, strict=True))
    ratios = [after / before for before, after in values if before]
    if not ratios:
        return f"{len(values):>3} {old:>10,.2f} {new:>10,.2f} {'':>7} {'':>18}  {name}"
    spread = f"{min(ratios):.2f} - {max(ratios):.2f}"
    middle = statistics.median(ratios)
    return f"{len(values):>3} {old:>10,.2f} {new:>10,.2f} {middle:>7.3f} {spread:>18}  {name}"


if __name__ == "__main__":
    sys.exit(main())
