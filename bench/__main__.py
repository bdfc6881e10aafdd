"""Run the benchmarks: `python -m bench [NAME...] --repeat N --quick --json PATH`.

Every run is a new process with a new database, in a temporary folder beside the project or in
$BENCH_DIR. `postgres` and `postgres/NAME` are on PostgreSQL: a server of our own, started for all
runs together. All cases are run once, then all once more: a noisy minute of the machine then hurts
one run of each row and not all runs of one row. The table gives medians.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from bench.cases import CASES, chosen
from bench.child import REPORT, Report, run
from bench.databases import Databases
from bench.harness import Case, StoreFacts
from bench.machine import PROJECT, look_around
from bench.report import Results, summarize, table

LATEST = PROJECT / "bench" / "results" / "latest.json"
REPEATS = 5
LIMIT_S = {"full": 300, "quick": 90}
"""How long one run of a case may take."""
LOOK_EVERY_S = 0.005


class RunFailedError(Exception):
    """A run gave no numbers."""


def main() -> int:
    """Run what was asked for, print the table, write the JSON."""
    options = _read_arguments()
    try:
        cases = chosen(options.names)
    except KeyError as error:
        print(f"there is no benchmark {error}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    beside = Path(os.environ.get("BENCH_DIR") or PROJECT.parent)
    with (
        tempfile.TemporaryDirectory(prefix="perdure-bench-", dir=beside) as folder,
        Databases(beside, quick=options.quick) as databases,
    ):
        results = _run_all(
            cases, databases, Path(folder), repeat=options.repeat, quick=options.quick
        )
    print(table(results))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    return 1 if results.failed else 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--repeat", type=int, default=REPEATS, help="runs of each case")
    parser.add_argument("--quick", action="store_true", help="only see whether it works")
    parser.add_argument("--json", type=Path, default=LATEST, help="where the JSON goes")
    return parser.parse_args()


def _run_all(
    cases: Sequence[Case], databases: Databases, folder: Path, *, repeat: int, quick: bool
) -> Results:
    machine = look_around(folder)
    size = "quick" if quick else "full"
    reports: dict[str, list[Report]] = {case.name: [] for case in cases}
    failed: dict[str, str] = {}
    for number in range(1, repeat + 1):
        for case in cases:
            if case.name in failed or number > case.most_repeats:
                continue
            print(f"{case.name} {number}/{min(repeat, case.most_repeats)}", file=sys.stderr)
            try:
                reports[case.name].append(_run_once(case, databases, folder, size))
            except RunFailedError as error:
                failed[case.name] = str(error)
                print(f"{case.name} failed: {error}", file=sys.stderr)
    rows = [
        row
        for case in cases
        if case.name not in failed
        for row in summarize(
            case.name,
            [report.measured for report in reports[case.name]],
            judge=databases.has_disk(case.store) and not quick,
        )
    ]
    facts: dict[StoreFacts, None] = {
        fact: None for some in reports.values() for report in some for fact in report.facts
    }
    return Results(
        machine=machine,
        store=list(facts),
        quick=quick,
        rows=rows,
        failed=failed,
    )


def _run_once(case: Case, databases: Databases, folder: Path, size: str) -> Report:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        try:
            with databases.new(case.store, Path(own)) as url:
                _run_child(case, own, size, url)
        except LookupError as error:
            raise RunFailedError(str(error)) from error
        return msgspec.json.decode((Path(own) / REPORT).read_bytes(), type=Report)


def _run_child(case: Case, own: str, size: str, url: str) -> None:
    begin = _fork_child if size == "quick" else _start_child
    code = begin(case.name, own, size, url)
    if code is None:
        raise RunFailedError(f"not done within {LIMIT_S[size]} s")
    if code != 0:
        raise RunFailedError(f"exit code {code}; the error is on stderr")


def _start_child(name: str, own: str, size: str, url: str) -> int | None:
    """Run a case as a program and return its exit code, or None if it takes too long."""
    command = [sys.executable, "-m", "bench.child", name, own, size, url]
    # Whatever a child prints goes to stderr: stdout is for the table. Its stdin tells it that we
    # are there.
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=sys.stderr) as child:
        try:
            return child.wait(LIMIT_S[size])
        except subprocess.TimeoutExpired:
            return None
        finally:
            child.kill()


def _fork_child(name: str, own: str, size: str, url: str) -> int | None:
    """Do the same with a copy of this process, for whoever does not look at the numbers: to import
    everything takes longer than to run a quick case."""
    theirs, ours = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _be_child(theirs, ours, name, own, size, url)
    os.close(theirs)
    deadline = time.monotonic() + LIMIT_S[size]
    try:
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(LOOK_EVERY_S)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    finally:
        os.close(ours)


def _be_child(theirs: int, ours: int, *arguments: str) -> NoReturn:
    code = 1
    try:
        os.close(ours)
        os.dup2(theirs, sys.stdin.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        run(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
