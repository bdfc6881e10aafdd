"""The crash demo, as a newcomer runs it."""

from __future__ import annotations

import re
import subprocess
import sys


def perdure(*args: str) -> subprocess.CompletedProcess[str]:
    program = "from perdure.cli.main import cli; cli()"
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


def test_the_demo_kills_its_worker_and_repeats_no_completed_activity() -> None:
    done = perdure("demo", "--seconds", "0.2")

    assert done.returncode == 0, done.stderr
    assert re.search(r"process \d+ killed with SIGKILL", done.stdout)
    assert "0 completed activities repeated" in done.stdout


def test_a_senseless_option_of_the_demo_is_refused_with_its_value() -> None:
    done = perdure("demo", "--seconds", "0")

    assert done.returncode == 2
    assert "must be at least 0.05, got 0" in done.stderr


def test_help_lists_the_commands() -> None:
    done = perdure("--help")

    assert done.returncode == 0
    assert "demo" in done.stdout


def test_help_loads_neither_the_engine_nor_rich() -> None:
    program = (
        "import sys; sys.argv = ['perdure', '--help']\n"
        "from perdure.cli.main import cli\n"
        "try: cli()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('rich', 'sqlite3') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "[]"
