"""What belongs to the process that opened it, and is of no use in a forked child.

A fork copies the memory and shares the open files, but threads stay behind. A child that used a
store of its parent would wait for threads that are not there. One that closed it, or only let go of
it, would speak on the parent's connections and take its sockets out of the selectors that both
share. So the child is told so at once, and what it inherited stays untouched until it ends.
"""

from __future__ import annotations

import ctypes
import os
from weakref import WeakSet

from perdure.errors import UsageError
from perdure.forks import after_fork

_process = [os.getpid()]
"""This process. Kept: asking for it is a system call, and every call of a store would."""

_opened: WeakSet[object] = WeakSet()
"""What was opened in this process, and may be open."""


def _begin_as_child() -> None:
    _process[0] = os.getpid()
    for thing in list(_opened):
        keep_for_ever(thing)
    _opened.clear()


def keep_for_ever(thing: object) -> None:
    """Let something never be freed, not even when the process ends: drivers and event loops close
    what is freed."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


after_fork(_begin_as_child)


class ProcessMark:
    """In which process something was opened.

    Args:
        what: What users call it, for messages.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._opened_in: int | None = None

    def set(self, opened: object) -> None:
        """Something is opened here."""
        self._opened_in = _process[0]
        _opened.add(opened)

    @property
    def is_elsewhere(self) -> bool:
        """Return whether it was opened by the process that this one was forked from."""
        return self._opened_in is not None and self._opened_in != _process[0]

    def refuse_elsewhere(self) -> None:
        """Refuse to use it anywhere but in the process that opened it.

        Raises:
            UsageError: This is a forked child of that.
        """
        if self._opened_in != _process[0] and self._opened_in is not None:
            raise UsageError(
                f"this {self._what} was opened by process {self._opened_in}, from which this one "
                f"(process {_process[0]}) was forked, and cannot be used here: make another one, "
                "and open it after the fork"
            )
