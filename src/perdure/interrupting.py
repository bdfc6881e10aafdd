"""Where another thread is, and raising an exception inside it.

Python has no other way to end code that never ends. The exception is raised at the thread's next
step of Python code: a thread that waits inside the operating system or an extension is not reached.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import traceback
from pathlib import Path

_PACKAGE = f"{Path(__file__).parent}{os.sep}"
_STORE = f"{_PACKAGE}store{os.sep}"


def place_of(thread_id: int) -> str:
    """Return the innermost line of user code that a thread is at."""
    frame = sys._current_frames().get(thread_id)
    if frame is None:
        return "an unknown place"
    stack = traceback.extract_stack(frame)
    theirs = [entry for entry in stack if not _is_ours(entry.filename)]
    entry = (theirs or stack)[-1]
    return f"{entry.filename.rsplit('/', 1)[-1]}:{entry.lineno} in {entry.name}"


def is_in_user_code(thread_id: int) -> bool:
    """Return whether a thread is in code that is not perdure's: that may be cut off anywhere."""
    frame = sys._current_frames().get(thread_id)
    return frame is not None and not _is_ours(frame.f_code.co_filename)


def is_in_store(thread_id: int, *, inside: str) -> bool:
    """Return whether code of a file, on this thread, waits for the store.

    Args:
        thread_id: Which thread.
        inside: The file whose calls are looked at, from the innermost out.
    """
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code.co_filename != inside:
        if frame.f_code.co_filename.startswith(_STORE):
            return True
        frame = frame.f_back
    return False


def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE)


def raise_in(thread_id: int, error: type[BaseException]) -> None:
    """Have an exception raised in a thread, as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))


def absorb(error: type[BaseException]) -> None:
    """Have an exception raised here that was sent to this thread, and may not have come yet.

    It cannot be taken back: Python 3.11 then keeps a flag set that no exception clears, and spins
    for ever in the next function that a profiler (the guard's, say) looks at.
    """
    try:
        raise_in(threading.get_ident(), error)
        while True:
            pass  # Asynchronous exceptions are raised at a jump backwards.
    except error:
        return
