"""What type checkers accept and refuse. `typing_tests` says both: an unused ignore is an error.

The examples are checked as strictly: they are what people copy into projects that have a checker.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

IS_DONE_BESIDE = bool(os.environ.get("PERDURE_TYPES_BESIDE"))
"""Whether `make check` runs mypy over these folders meanwhile, as strictly. Two would write to one
cache."""


@pytest.mark.parametrize(
    "command",
    [
        ["mypy", "--strict", "typing_tests", "examples"],
        ["basedpyright", "--pythonpath", sys.executable, "typing_tests", "examples"],
    ],
    ids=["mypy", "basedpyright"],
)
def test_valid_uses_are_accepted_and_misuses_refused(command: list[str]) -> None:
    if IS_DONE_BESIDE and command[0] == "mypy":
        pytest.skip("make check runs mypy over the same files beside the tests")
    checked = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )

    if checked.returncode != 0:
        pytest.fail(f"{checked.stdout}\n{checked.stderr}", pytrace=False)
