"""Break what keeps promises, one line at a time, and see that the tests notice.

    python -m tools.mutants                all of them; docs/mutants.md tells what came of it
    python -m tools.mutants --only NAME    one, with the reason why its test failed
    python -m tools.mutants --jobs 4       so many at a time

Each is made in a copy of `src` in a temporary folder, and its tests are run with that copy in the
place of the installed package; the working tree is not touched. First the same tests are run
without any change: one that fails anyway would catch everything.

Exits with 1 if a mutant survives: then a test is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

from tools.mutants import GROUPS, MUTANTS
from tools.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/mutants.md"
JOBS = 2
TEST_WITHIN_S = 60
"""How long one test may take."""
HANGING_TEST_WITHIN_S = 20
"""The same where a test that does not end is what is expected."""
RUN_WITHIN_S = 600
"""How long all tests of one mutant may take, in case that nothing else ends them."""

WRONG_PACKAGE = 99
LAUNCH = f"""
import sys
import perdure, pytest
folder, *arguments = sys.argv[1:]
if not perdure.__file__.startswith(folder):
    sys.exit({WRONG_PACKAGE})
sys.exit(pytest.main(arguments))
"""
"""Runs pytest, if the package that it will test is the copy."""

HEAD = """# Mutants

Made by `make mutants`; do not edit. Each row is a line of the code that was broken on purpose, in a
copy, and the first test that failed because of it. The list is in `tools/mutants`. One that no test
notices makes the command fail.
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests had to say of a mutant."""

    mutant: Mutant
    caught_by: str
    """The test that failed; empty: none did, or none that counts."""
    reason: str
    took_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of pytest has ended."""

    code: int
    output: str

    @property
    def failure(self) -> tuple[str, str] | None:
        """The first test that failed, and why."""
        for line in self.output.splitlines():
            if line.startswith("FAILED "):
                test, _, reason = line.removeprefix("FAILED ").partition(" - ")
                return test, reason
        return None


def try_mutant(mutant: Mutant) -> Verdict:
    """Run the tests of a mutant against it."""
    begun_s = monotonic()
    within_s = HANGING_TEST_WITHIN_S if mutant.may_hang else TEST_WITHIN_S
    run = run_tests(mutant.tests, mutant=mutant, within_s=within_s)
    caught_by, reason = judge(mutant, run)
    return Verdict(mutant, caught_by, reason, monotonic() - begun_s)


def judge(mutant: Mutant, run: Run) -> tuple[str, str]:
    """Return which test has caught a mutant, if one has, and why or why not."""
    if run.code == pytest.ExitCode.OK:
        return "", "all its tests pass"
    failure = run.failure
    if run.code != pytest.ExitCode.TESTS_FAILED or failure is None:
        return "", f"its tests could not be run: exit code {run.code}\n{run.output}"
    test, reason = failure
    if "Timeout (>" in reason and not mutant.may_hang:
        return "", f"{test} did not end, which is not how it should be noticed"
    return test, reason


def run_tests(tests: Iterable[str], *, mutant: Mutant | None, within_s: float) -> Run:
    """Run tests against a copy of the package, mutated or not, until the first failure."""
    with tempfile.TemporaryDirectory(prefix="perdure-mutant-") as folder:
        source = Path(folder) / "src"
        # With what was compiled: the times of the files are kept, so it stays valid.
        shutil.copytree(ROOT / "src", source)
        if mutant is not None:
            write_mutant(mutant, source / "perdure")
        options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", f"--timeout={within_s}"]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(source), *options, *tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(source), "COLUMNS": "1000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=RUN_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return Run(process.returncode, output)


def write_mutant(mutant: Mutant, package: Path) -> None:
    """Change the file of a mutant, in a copy of the package."""
    file = mutant.file_in(package)
    file.write_text(mutant.applied_to(file.read_text(encoding="utf-8")), encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def check_tests(mutants: Sequence[Mutant]) -> str:
    """Run the tests of mutants on the code as it is; return what they say if one fails."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    run = run_tests(tests, mutant=None, within_s=TEST_WITHIN_S)
    return "" if run.code == pytest.ExitCode.OK else run.output


def page(verdicts: Sequence[Verdict]) -> str:
    """Return the page that tells what has caught each mutant."""
    caught_by = {verdict.mutant.name: verdict.caught_by for verdict in verdicts}
    parts = [HEAD]
    for title, mutants in GROUPS.items():
        rows = [f"| `{one.name}` | {one.breaks} | `{caught_by[one.name]}` |" for one in mutants]
        parts.append(f"\n## {title}\n\n| name | what is broken | caught by |\n|---|---|---|\n")
        parts.append("\n".join(rows) + "\n")
    return "".join(parts)


def tell(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Try mutants; return 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--only", metavar="NAME", action="append", choices=names)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS)
    arguments = parser.parse_args()
    mutants = [one for one in MUTANTS if arguments.only is None or one.name in arguments.only]
    trouble = check_tests(mutants)
    if trouble:
        tell(f"{trouble}\nThese tests fail without any mutant: mend them first.")
        return 1
    verdicts = []
    with ThreadPoolExecutor(arguments.jobs) as threads:
        for verdict in threads.map(try_mutant, mutants):
            verdicts.append(verdict)
            caught_by = verdict.caught_by or f"SURVIVES: {verdict.reason}"
            tell(f"{verdict.mutant.name:<36} {verdict.took_s:5.1f} s  {caught_by}")
            if arguments.only and verdict.caught_by:
                tell(f"    {verdict.reason}")
    survivors = [verdict for verdict in verdicts if not verdict.caught_by]
    tell(f"{len(verdicts) - len(survivors)} of {len(verdicts)} were caught")
    if arguments.only is None and not survivors:
        PAGE.write_text(page(verdicts), encoding="utf-8")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
