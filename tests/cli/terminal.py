"""A pseudo-terminal, in which a command runs as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.commands import ENDS_WITHIN_S, PROGRAM

COLUMNS, ROWS = 120, 40
_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A command in a terminal of 120 columns."""

    def __init__(
        self, *args: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        usual = {name: os.environ[name] for name in os.environ.keys() - {"NO_COLOR", "COLUMNS"}}
        self.process = subprocess.Popen(
            [*PROGRAM, *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**usual, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
            # So that Ctrl-C is a signal for it, as for a command of a shell.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """What is on the screen, without colours."""
        return _SEQUENCES.sub("", self.raw).replace("\r\n", "\n")

    def says(self, text: str) -> None:
        """Wait until it has said something."""
        until_s = time.monotonic() + ENDS_WITHIN_S
        while text not in self.text:
            assert time.monotonic() < until_s, f"it never said {text!r}:\n{self.text}"
            assert self._read() or text in self.text, f"it never said {text!r}:\n{self.text}"

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read all that it says to its end, and return its exit code."""
        while self._read():
            pass
        return self.process.wait(ENDS_WITHIN_S)

    def _read(self) -> bool:
        """Take what was said since, once there is something; False: it has ended."""
        ready, _, _ = select.select([self._master], [], [], ENDS_WITHIN_S)
        assert ready, f"nothing was said for {ENDS_WITHIN_S} s:\n{self.text}"
        try:
            found = os.read(self._master, 65_536)
        except OSError:
            return False  # Linux's word for a terminal that nobody has any more.
        self.raw += found.decode("utf-8", "replace")
        return bool(found)
