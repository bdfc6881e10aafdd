"""Calls are watched no more when the program ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys

from perdure.core.guard import Guard


def count(things, how=len):
    return how(things)


class Late:
    '''Goes with its module, when those that were imported later are empty already.'''

    def __del__(self, count=count):
        count("")


with Guard(watch_calls=True):
    assert count("three") == 5

sys.held = [*sys.modules.values()]  # As programs hold some: these are emptied, not freed.
late = Late()
"""


def test_code_of_turns_that_runs_at_the_very_end_meets_nothing_of_ours(tmp_path: Path) -> None:
    program = tmp_path / "counting.py"
    program.write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
