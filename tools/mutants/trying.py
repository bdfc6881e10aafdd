"""Try a mutant: run its tests against a copy of the package that has the change.

The copy is in a temporary folder and takes the place of the installed package; the working tree is
not touched. Only a test that fails has noticed a mutant: not one that cannot be collected, nor a
fixture that fails, nor, unless that is expected, a test that does not end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

from tools.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
TEST_WITHIN_S = 60
"""How long one test may take."""
HANGING_TEST_WITHIN_S = 20
"""The same where a test that does not end is what is expected."""
WAIT_WITHIN_S = 20
"""How long a test waits for what does not come about."""
RUN_WITHIN_S = 600
"""How long all tests of one mutant may take, in case that nothing else ends them."""

WRONG_PACKAGE = 99
LAUNCH = f"""
import sys
from importlib.util import find_spec
import pytest
folder, *arguments = sys.argv[1:]
if not find_spec("perdure").origin.startswith(folder):  # not imported: its plugin comes first
    sys.exit({WRONG_PACKAGE})
sys.exit(pytest.main(arguments))
"""
"""Runs pytest, if the package that it will test is the copy."""


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
            env={
                **os.environ,
                "PYTHONPATH": str(source),
                "COLUMNS": "1000",
                "PERDURE_TESTS_WAIT_S": str(WAIT_WITHIN_S),
            },
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
