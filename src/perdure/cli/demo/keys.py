"""Single keys of a terminal, while a command runs on an event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def keys_heard(press: Callable[[str], None]) -> Iterator[bool]:
    """Call a function with each key that is pressed while the block is open; it is told whether
    keys can be heard at all."""
    try:
        import termios  # late: not on every system
        import tty
    except ImportError:
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    file_no = sys.stdin.fileno()
    before = termios.tcgetattr(file_no)
    tty.setcbreak(file_no)
    loop = asyncio.get_running_loop()

    def hear() -> None:
        for key in os.read(file_no, 64).decode("utf-8", "ignore"):
            press(key)

    loop.add_reader(file_no, hear)
    try:
        yield True
    finally:
        loop.remove_reader(file_no)
        termios.tcsetattr(file_no, termios.TCSADRAIN, before)
