"""A system without fork, file locks and clocks of its own: what works there, and what says so.

It is played by taking these away before anything of perdure is imported.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys, time
for module, name in ((os, "register_at_fork"), (os, "fork"), (time, "clock_gettime_ns"),
                     (time, "CLOCK_BOOTTIME"), (time, "CLOCK_MONOTONIC")):
    delattr(module, name)
sys.modules["fcntl"] = None
import importlib.util
import perdure
for name in perdure.__all__:
    getattr(perdure, name)

@perdure.activity
async def charge(order: str) -> int:
    return 1

@perdure.orchestration
async def checkout(order: str) -> int:
    return await charge(order)

perdure.Worker("postgresql://me@host/shop", [checkout, charge])
find_spec = importlib.util.find_spec
import perdure.store.opening as opening
opening.find_spec = lambda name: None if name == "fcntl" else find_spec(name)
try:
    perdure.Client("sqlite:///shop.db")
except perdure.PerdureError as error:
    print(error)
"""


def test_without_fork_and_file_locks_all_is_there_but_a_sqlite_store() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
    assert done.stdout.startswith("a SQLite store needs the file locks of Linux and macOS")


def test_the_command_is_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("perdure")
