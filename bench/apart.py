"""Compare two checkouts by turns where client and workers are processes of their own:
`python -m bench.apart OLD --pairs N --workers 1 2 --store sqlite postgresql`.

What is measured is in `apart_program`, which uses public names alone and so runs with the code of
both. Each run has a new database. What counts is the ratio within a pair: see `by_turns`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.by_turns import table_line
from bench.databases import Databases
from bench.harness import StoreKind
from bench.machine import PROJECT

PROGRAM = Path(__file__).with_name("apart_program.py")
PAIRS = 3


def main() -> int:
    """Run all by turns, and print a line for each row after every pair."""
    options = _read_arguments()
    beside = Path(os.environ.get("BENCH_DIR") or PROJECT.parent)
    pairs: dict[str, list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="perdure-apart-", dir=beside) as folder,
        Databases(beside, quick=False) as databases,
    ):
        for number in range(options.pairs):
            for store in options.store:
                for workers in options.workers:
                    order = [options.old, PROJECT] if number % 2 == 0 else [PROJECT, options.old]
                    found = {}
                    for checkout in order:
                        with (
                            tempfile.TemporaryDirectory(dir=folder) as own,
                            databases.new(store, Path(own)) as url,
                        ):
                            found[checkout] = _measure(checkout, url, workers)
                    for row, old in found[options.old].items():
                        name = f"{store}, {workers} worker processes: {row}"
                        pairs.setdefault(name, []).append((old, found[PROJECT][row]))
            print(f"\nafter {number + 1} pairs")
            for name, values in pairs.items():
                print(table_line(name, values), flush=True)
    return 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.apart", description=__doc__)
    parser.add_argument("old", type=Path, metavar="OLD", help="a checkout of the code before")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="runs with each")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="processes")
    stores: tuple[StoreKind, ...] = ("sqlite", "postgresql")
    parser.add_argument("--store", nargs="+", choices=stores, default=stores)
    return parser.parse_args()


def _measure(checkout: Path, url: str, workers: int) -> dict[str, float]:
    """Return what a client finds beside so many workers, all with the code of a checkout."""
    with ExitStack() as running:
        for _ in range(workers):
            running.enter_context(_worker(checkout, url))
        done = subprocess.run(
            [sys.executable, str(PROGRAM), "client", url],
            env=_environment(checkout),
            stdout=subprocess.PIPE,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


@contextmanager
def _worker(checkout: Path, url: str) -> Iterator[None]:
    command = [sys.executable, str(PROGRAM), "worker", url]
    with subprocess.Popen(
        command,
        env=_environment(checkout),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        yield
        worker.communicate()


def _environment(checkout: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(checkout / "src")}


if __name__ == "__main__":
    sys.exit(main())
