"""Running the `perdure` command: as a process of its own, as people do, or in this process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from click.testing import CliRunner, Result

from perdure.cli.main import cli
from tests.engine.stage import until

ENDS_WITHIN_S = 60
PROGRAM = [sys.executable, "-c", "from perdure.cli.main import cli; cli()"]


def perdure(
    *args: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*PROGRAM, *args],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
    )


def typed(*args: str, store: str | None = None, stdin: str | None = None) -> Result:
    """Run a command to its end in this process, in a pipe: all that most tests need."""
    where = [] if store is None else ["--store", store]
    return CliRunner().invoke(cli, [*args, *where], input=stdin, catch_exceptions=False)


def lines(*args: str, store: str | None = None, stdin: str | None = None) -> list[list[str]]:
    """Run a command that succeeds, and return what it prints: lines and their cells."""
    done = typed(*args, store=store, stdin=stdin)
    assert done.exit_code == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


class Command:
    """A command that runs until it is told to stop."""

    def __init__(self, folder: Path, *args: str) -> None:
        self._file = folder / f"said-{uuid4().hex}"
        with self._file.open("wb") as file:
            self.process = subprocess.Popen(
                [*PROGRAM, *args], cwd=folder, stdout=file, stderr=file, start_new_session=True
            )

    def said(self) -> str:
        """Return what it has said so far."""
        return self._file.read_text()

    async def says(self, pattern: str) -> re.Match[str]:
        """Wait until it has said something."""
        await until(lambda: re.search(pattern, self.said()) or self.process.poll() is not None)
        found = re.search(pattern, self.said())
        assert found, f"it never said {pattern!r}:\n{self.said()}"
        return found

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        return self.process.wait(ENDS_WITHIN_S)

    def kill(self) -> None:
        """End it, whatever it does; its processes end when it is gone."""
        self.process.kill()
        self.process.wait()
