"""The reference of the command is true, and the commands of the guide do what it says."""

from __future__ import annotations

import asyncio
import re
import runpy
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.cli.main import COMMANDS
from tests.cli.commands import Command, perdure, typed
from tests.named import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "make_cli_page.py"))
GUIDE = (ROOT / "docs/look-and-act.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
[PROGRAM] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
[SETTINGS] = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
NEED_CODE = ("replay", "decider")
"""They import the program, which this process must not."""


def test_the_reference_is_as_the_tool_makes_it() -> None:
    assert TOOL["PAGE"].read_text() == TOOL["make"](), "run: python tools/make_cli_page.py"


def test_the_guide_shows_every_command_that_looks_or_acts() -> None:
    shown = set(re.findall(r"perdure (\w+)", GUIDE))

    elsewhere = {"demo", "new", "watch", "projection", "doctor", "roles", "completion", "ui"}
    assert COMMANDS.keys() - shown == elsewhere | {"version"}


async def test_the_commands_of_the_guide_do_what_it_says(
    folder: Path, begin: Callable[..., Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in ("PERDURE_STORE", "PERDURE_TARGET", "PERDURE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    (folder / "shop.py").write_text(PROGRAM)
    (folder / "pyproject.toml").write_text(SETTINGS)
    assert len(LINES) > 30

    for line in LINES:
        if line == "perdure worker":
            worker = begin("worker")
            await worker.says("2 orchestrations, 1 decider, 1 activity")
        elif "--watch" in line:
            watched = begin(*shlex.split(line)[1:])
            await watched.says("order-1")
            watched.send(signal.SIGINT)
            assert watched.end() == 130
        else:
            # The loop of this test is not the one that a command runs.
            await asyncio.to_thread(run, line)
    worker.send(signal.SIGTERM)
    assert worker.end() == 0, worker.said()


def run(line: str) -> None:
    """Do what a line of the guide says, and compare its exit code with what it says of that."""
    text, _, comment = line.partition("   # exits with ")
    stdin = None
    for command in text.split(" | "):
        program, *args = shlex.split(command)
        assert program == "perdure"
        if args[0] in NEED_CODE:
            done = perdure(*args, stdin=stdin)
            code, stdin, errors = done.returncode, done.stdout, done.stderr
        else:
            result = typed(*args, stdin=stdin)
            code, stdin, errors = result.exit_code, result.stdout, result.stderr
        assert code == int(comment or 0), f"{command}: {errors}"
