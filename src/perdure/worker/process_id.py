"""Which process this is, and whether another one is gone for certain.

A pid alone says little: it is another process's in the next container, after the next boot, and
some time after its process has ended. So a process is told by its place, its pid and when it
started. The place is the host, its boot, and the namespaces that pids and times are counted in;
what is no more in one's own place is no more anywhere.

Never a guess: what cannot be found out counts as alive, and then leases run out as ever. Only Linux
tells enough; elsewhere no process has a place.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from perdure.model.turns import ProcessId

PROC = Path("/proc")

DEAD_STATES = "ZX"
"""A zombie runs nothing: only the number and the exit code are left, for the parent to ask for."""


class ProcessStat(NamedTuple):
    """What the kernel tells of a process."""

    state: str
    threads: int
    born: int
    """In ticks since the boot."""

    @property
    def is_dead(self) -> bool:
        """Whether nothing of it runs. The first thread may be a zombie while others live on."""
        return self.state in DEAD_STATES and self.threads <= 1


def own_process(proc: Path = PROC) -> ProcessId:
    """Return which process this is; with an empty place if that cannot be told for certain.

    Args:
        proc: Where the kernel tells of processes.
    """
    pid = os.getpid()
    unknown = ProcessId("", pid, 0)
    if sys.platform != "linux":
        return unknown
    try:
        if os.readlink(proc / "self") != str(pid):
            return unknown  # It shows the processes of another namespace.
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        namespaces = [*_namespaces(proc)]
        found = read_stat(pid, proc)
    except OSError:
        return unknown
    if found is None or not boot:
        return unknown
    place = " ".join((socket.gethostname(), boot, *namespaces))
    return ProcessId(place, pid, found.born)


def is_gone(pid: int, born: int, proc: Path = PROC) -> bool:
    """Return whether a process of this one's place is dead for certain.

    One that is stopped is alive, and so is one of which nothing can be seen.

    Args:
        pid: Its number.
        born: When it started.
        proc: Where the kernel tells of processes.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # It is there, and not ours to signal.
    try:
        found = read_stat(pid, proc)
    except OSError:
        return False  # It ended just now, which the next look tells, or it is hidden from us.
    return found is not None and (found.born != born or found.is_dead)


def read_stat(pid: int, proc: Path = PROC) -> ProcessStat | None:
    """Return what the kernel tells of a process; None if that cannot be understood.

    Raises:
        OSError: There is no such process, or it is hidden.
    """
    return parse_stat((proc / str(pid) / "stat").read_bytes())


def parse_stat(text: bytes) -> ProcessStat | None:
    """Read one line of `/proc/PID/stat`; None if it is none.

    The second field is the name in parentheses, which may have spaces and parentheses itself.
    """
    state, *numbers = text.rpartition(b")")[2].decode("ascii", "replace").split() or [""]
    try:
        return ProcessStat(state, threads=int(numbers[16]), born=int(numbers[18]))
    except (IndexError, ValueError):
        return None


def _namespaces(proc: Path) -> Iterator[str]:
    """Return those that pids and times are counted in. The number of one is given to another only
    when no process of it is left."""
    kinds = ("pid", "time") if (proc / "self/ns/time").exists() else ("pid",)
    for kind in kinds:
        found = (proc / "self/ns" / kind).stat()
        yield f"{kind}:{found.st_dev}:{found.st_ino}"
