"""System calls that return at once, made without giving up the interpreter lock.

Python gives the lock up around every system call. While the event loop computes, a thread gets it
back only after the switch interval, so a call of a microsecond takes the writing thread up to a
millisecond, several times per transaction. The calls here wait for nothing, and keep the lock.
Where that cannot be had, they are Python's own.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from functools import cache
from typing import Any

_AT_CWD = -100
_STATX_INO = 0x100
_STATX_BYTES = 256
_IDENTITY = struct.Struct("=32xQ96xII")
"""Where statx puts the number of a file, and the two of its device; the same on every machine."""


def flock_at_once(file: int, operation: int) -> None:
    """Do as `fcntl.flock`, for an operation that does not wait: without blocking, or to unlock.

    Raises:
        OSError: As `fcntl.flock`; a `BlockingIOError` if another has the lock.
    """
    system = _system()
    if system is None:
        fcntl.flock(file, operation)
    else:
        _check(system.flock(file, operation))


def read_at(file: int, count: int, offset: int) -> bytes:
    """Do as `os.pread`, for a file that is in memory."""
    system = _system()
    if system is None:
        return os.pread(file, count, offset)
    buffer = _room(count)()
    length = _check(system.pread(file, buffer, count, offset))
    return buffer.raw[:length]


def write_at(file: int, data: bytes, offset: int) -> int:
    """Do as `os.pwrite`, for a file that is in memory."""
    system = _system()
    if system is None:
        return os.pwrite(file, data, offset)
    return _check(system.pwrite(file, data, len(data), offset))


def identity_of(path: bytes) -> tuple[int, ...]:
    """Return what tells the file behind a path from every other file that is there now.

    Raises:
        OSError: As `os.stat`.
    """
    system = _system()
    if system is None or not _has_statx():
        found = os.stat(path)
        return found.st_ino, found.st_dev
    return _statx(system, path)


def _statx(system: Any, path: bytes) -> tuple[int, ...]:
    buffer = _StatxRoom()
    _check(system.statx(_AT_CWD, path, 0, _STATX_INO, buffer))
    return _IDENTITY.unpack_from(buffer)


@cache
def _room(count: int) -> type[ctypes.Array[ctypes.c_char]]:
    """Return what makes a buffer: unlike `create_string_buffer` it tells no hook of audits."""
    return ctypes.c_char * count


_StatxRoom = _room(_STATX_BYTES)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@cache
def _system() -> Any:
    """Return the library of the system, whose functions keep the lock, if it has what is needed.

    Not where a `long` has 32 bits: there `off_t` may have as many, and is passed otherwise.
    """
    if ctypes.sizeof(ctypes.c_long) != ctypes.sizeof(ctypes.c_int64):
        return None
    try:
        library = ctypes.PyDLL(None, use_errno=True)
        library.flock.argtypes = [ctypes.c_int, ctypes.c_int]
        for function, data in ((library.pread, ctypes.c_void_p), (library.pwrite, ctypes.c_char_p)):
            function.argtypes = [ctypes.c_int, data, ctypes.c_size_t, ctypes.c_int64]
            function.restype = ctypes.c_ssize_t
    except (OSError, AttributeError):
        return None
    return library


@cache
def _has_statx() -> bool:
    """Return whether the kernel has a call whose answer looks the same on every machine."""
    try:
        return bool(_statx(_system(), os.sep.encode()))
    except (OSError, AttributeError):
        return False
