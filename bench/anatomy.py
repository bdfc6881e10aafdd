"""What does one orchestration cost, one activity of a chain, one `execute`, phase by phase?

    python -m bench.anatomy [--store STORE] [--subject NAME] [--repeat N] [--trace] [--quick]

Each is done *alone*, one after the other, and *together*, as many at once as in the benchmarks.
Every run is a process with a database of its own. Calls are counted in runs that are not timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from bench.anatomy_run import Found, Spent
from bench.anatomy_subjects import SUBJECTS, Subject, WayName
from bench.databases import Databases
from bench.harness import StoreKind
from bench.machine import PROJECT, look_around
from bench.phases import REST, ThreadKind, phases_of
from bench.tracer import ELSEWHERE, Walk

K = TypeVar("K")

STORES: dict[str, tuple[StoreKind, str]] = {
    "sqlite": ("sqlite", "SQLite"),
    "postgres": ("postgresql", "PostgreSQL"),
}
REPEATS = 5
WORDS = 2
"""Columns of words; the others are numbers."""
LIMIT_S = 300
WAYS: tuple[WayName, ...] = ("alone", "together")
THREADS: tuple[ThreadKind, ...] = ("loop", "writer", "others")

NOTES = """\
calls         of Python functions, and steps of coroutines; counted, not timed
us            processor time of the thread; each phase without those that it calls, and without
              what it costs to read the clock; rest: the event loop, tasks, the benchmark itself
undisturbed   the whole of it in runs in which nothing is measured but that
transactions  with statements and rows, as the store counts them
bytes         SQLite: what the thread that writes hands to the file system, WAL and its copies into
              the file; PostgreSQL: WAL of the server
fsyncs        SQLite: derived, one for each commit that writes and three when the WAL begins anew;
              PostgreSQL: those that the server counts for its WAL
walk          calls of our own functions by the loop and the writer, how many different functions
              and files, and how often the next call of a thread is in another file"""


@dataclass(slots=True)
class Anatomy:
    """What all runs on one kind of store have found, as medians."""

    spent: dict[tuple[str, WayName], Spent] = field(default_factory=dict)
    """By subject and way."""
    walks: dict[str, Walk] = field(default_factory=dict)
    """By subject."""


def main() -> None:
    """Take everything apart and print it."""
    options = _read_arguments()
    beside = Path(os.environ.get("BENCH_DIR") or PROJECT.parent)
    with (
        tempfile.TemporaryDirectory(prefix="perdure-anatomy-", dir=beside) as folder,
        Databases(beside, quick=options.quick) as databases,
    ):
        machine = look_around(Path(folder))
        for name in options.store or STORES:
            store, title = STORES[name]
            runs = Runs(store, databases, Path(folder), is_quick=options.quick)
            anatomy = Anatomy()
            for subject_name in options.subject or SUBJECTS:
                subject = SUBJECTS[subject_name]
                _take_apart(
                    subject, runs, anatomy, repeat=options.repeat, is_timed=not options.trace
                )
            print("\n".join(_report(anatomy, store, title)), flush=True)
    print(NOTES)
    print(f"machine       {machine.cpu}, {machine.cores} cores, load {machine.load} at the start")
    print(f"Python        {machine.python}, commit {machine.commit}")


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.anatomy", description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append", help="by default all")
    parser.add_argument("--subject", choices=SUBJECTS, action="append", help="by default all")
    parser.add_argument("--repeat", type=int, default=REPEATS, help="runs that are timed")
    parser.add_argument("--trace", action="store_true", help="count calls only")
    parser.add_argument("--quick", action="store_true", help="only see whether it works")
    return parser.parse_args()


class Runs:
    """Makes runs on new databases of a kind."""

    def __init__(
        self, store: StoreKind, databases: Databases, folder: Path, *, is_quick: bool
    ) -> None:
        self._store = store
        self._databases = databases
        self._folder = folder
        self._is_quick = is_quick

    def make(self, kind: str, subject: Subject, size: str = "full") -> Found:
        """Return what one run has found."""
        print(f"{self._store}: {kind} {subject.name}", file=sys.stderr)
        size = "quick" if self._is_quick else size
        with (
            tempfile.TemporaryDirectory(dir=self._folder) as own,
            self._databases.new(self._store, Path(own)) as url,
        ):
            command = [sys.executable, "-m", "bench.anatomy_run", kind, subject.name, size, url]
            done = subprocess.run(
                command, cwd=PROJECT, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True
            )
        return msgspec.json.decode(done.stdout, type=Found)


def _take_apart(
    subject: Subject, runs: Runs, anatomy: Anatomy, *, repeat: int, is_timed: bool
) -> None:
    if subject.prepare is not None:
        walks = runs.make("walk", subject).walks
        columns = zip(*walks, strict=True)
        anatomy.walks[subject.name] = Walk(*(round(statistics.median(one)) for one in columns))
    counted = runs.make("traced", subject, "traced")
    plain, timed = [], []
    for _ in range(repeat if is_timed else 0):
        plain.append(runs.make("plain", subject))
        timed.append(runs.make("timed", subject))
    for way in WAYS:
        anatomy.spent[subject.name, way] = _medians(
            counted.spent[way],
            plain=[found.spent[way] for found in plain],
            timed=[found.spent[way] for found in timed],
        )


def _medians(counted: Spent, *, plain: Sequence[Spent], timed: Sequence[Spent]) -> Spent:
    """Return what was counted once, with what was measured several times."""
    if not plain:
        return counted
    return Spent(
        us=_median(one.us for one in plain),
        totals=_median(one.totals for one in plain),
        phases_us={
            thread: _median(one.phases_us[thread] for one in timed) for thread in timed[0].phases_us
        },
        calls=counted.calls,
        rooms=counted.rooms,
    )


def _median(found: Iterable[Mapping[K, float]]) -> dict[K, float]:
    all_found = list(found)
    return {key: statistics.median(one[key] for one in all_found) for key in all_found[0]}


# ------------------------------------------------------------------------------- the report


def _report(anatomy: Anatomy, store: StoreKind, title: str) -> list[str]:
    lines: list[str] = []
    for name in dict.fromkeys(name for name, _ in anatomy.spent):
        ways = [anatomy.spent[name, way] for way in WAYS]
        rows = [("", "", *(word for way in WAYS for word in ("", way)))]
        rows.append(("thread", "phase", *("calls", "us") * len(ways)))
        for thread in THREADS:
            rows += _thread_rows(thread, store, ways)
        if ways[0].us:
            rows.append(_row("all", "undisturbed", [(None, sum(one.us.values())) for one in ways]))
        for used in ways[0].totals:
            rows.append(_row("", used, [(None, one.totals[used]) for one in ways]))
        lines += [f"{title}: {SUBJECTS[name].title}", *_table(rows), ""]
    lines += [f"{title}: calls by room", *_table(_room_rows(anatomy)), ""]
    for name, walk in anatomy.walks.items():
        lines.append(
            f"{title}: walk of {SUBJECTS[name].walk_title}: {walk.calls} calls, "
            f"{walk.functions} functions, {walk.files} files, {walk.changes} changes of file"
        )
    return [*lines, ""]


def _thread_rows(
    thread: ThreadKind, store: StoreKind, ways: Sequence[Spent]
) -> list[tuple[str, ...]]:
    """Return the phases of a thread that have happened, and their sum."""
    names = [phase.name for phase in phases_of(store) if phase.thread == thread]
    rows: list[tuple[str, ...]] = []
    for name in (*names, REST) if names else ():
        cells = [
            (one.calls[thread].get(name, 0.0), one.phases_us.get(thread, {}).get(name))
            for one in ways
        ]
        if any(calls for calls, _ in cells):
            rows.append(_row("" if rows else thread, name, cells))
    total = [
        (
            sum(one.calls.get(thread, {}).values()),
            sum(one.phases_us[thread].values()) if thread in one.phases_us else one.us.get(thread),
        )
        for one in ways
    ]
    return [*rows, _row("" if rows else thread, "all", total)]


def _room_rows(anatomy: Anatomy) -> list[tuple[str, ...]]:
    """Return the calls of each subject, alone and together, by the folder of what was called."""
    spent = anatomy.spent.values()
    rooms = sorted({room for one in spent for room in one.rooms} - {ELSEWHERE})
    rows = [("", "room", *(name for name, _ in anatomy.spent))]
    rows.append(("", "", *(way for _, way in anatomy.spent)))
    for room in (*rooms, ELSEWHERE):
        rows.append(("", room, *(_number(one.rooms.get(room, 0.0)) for one in spent)))
    return rows


def _row(
    thread: str, name: str, cells: Iterable[tuple[float | None, float | None]]
) -> tuple[str, ...]:
    return (thread, name, *(_number(value) for cell in cells for value in cell))


def _number(value: float | None) -> str:
    if value is None:
        return ""
    digits = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines: two columns of words, the others of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < WORDS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


if __name__ == "__main__":
    main()
