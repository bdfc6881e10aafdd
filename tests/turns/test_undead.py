"""Coroutines that catch everything never run again, not even when the process ends."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from perdure.turns.hot import keep_for_ever

class Pause:
    def __await__(self):
        yield

async def lives():
    while True:
        try:
            await Pause()
        except BaseException:
            print("again", flush=True)
            while True:
                pass

coroutine = lives()
coroutine.send(None)
keep_for_ever(coroutine)
print("over", flush=True)
"""


def test_a_coroutine_that_would_loop_for_ever_lets_the_process_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )

    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr
