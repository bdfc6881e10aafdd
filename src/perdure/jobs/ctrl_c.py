"""Telling a Ctrl-C from an exception of the same class that some code has raised.

A signal's handler runs between two steps of whatever the main thread does, so what it raises comes
out of code that knows nothing of it. The traceback tells: either the handler itself is in it, or,
of Python's own handler, which is no Python code, the innermost step was not a `raise`.
"""

from __future__ import annotations

import signal
import threading
import traceback
from functools import partial
from opcode import opmap
from types import CodeType

_RAISES = frozenset({opmap["RAISE_VARARGS"], opmap["RERAISE"]})


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an exception is about the process, and not of the code that it came out of."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = _code_of(signal.getsignal(signal.SIGINT))
    steps = list(traceback.walk_tb(error.__traceback__))
    if any(frame.f_code is handler for frame, _ in steps):
        return True
    return not _was_raised_by_code(error)


def _was_raised_by_code(error: BaseException) -> bool:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_code[step.tb_lasti] in _RAISES


def _code_of(handler: object) -> CodeType | None:
    """Return the code of a signal's handler; None if it has none, as Python's own."""
    while isinstance(handler, partial):
        handler = handler.func
    code = getattr(handler, "__code__", None)  # a method has its function's
    return code if isinstance(code, CodeType) else None
