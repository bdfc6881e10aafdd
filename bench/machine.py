"""Where the numbers come from: machine, file system, Python, commit; and what is busy there."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

PROJECT = Path(__file__).parent.parent
NOT_A_DISK = ("tmpfs", "ramfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a reader must know before comparing numbers."""

    cpu: str
    cores: int
    load: str
    """Load averages over 1, 5 and 15 minutes, at the start."""
    memory_gb: float
    system: str
    file_system: str
    python: str
    commit: str
    """With a + where src or bench differ from it."""

    @property
    def has_disk(self) -> bool:
        """Whether a flush there can mean anything."""
        return self.file_system not in NOT_A_DISK


def look_around(folder: Path) -> Machine:
    """Describe this machine, and the file system of a folder."""
    return Machine(
        cpu=_cpu(),
        cores=count_cores(),
        load=" ".join(f"{load:.2f}" for load in os.getloadavg()),
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        file_system=file_system_of(folder),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        commit=_commit(),
    )


def count_cores() -> int:
    """Return how many cores there are."""
    return int(psutil.cpu_count() or 1)


def busy_s() -> float:
    """Return for how long the cores have worked so far, for all processes together."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def cpu_s_of(pid: int) -> float:
    """Return how long a process and its children have computed, those that are gone included."""
    process = psutil.Process(pid)
    own = process.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in process.children():
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return float(total)


def parent_of(pid: int) -> int:
    """Return the process that a process was started by."""
    return int(psutil.Process(pid).ppid())


def rss_mb() -> float:
    """Return how much memory this process occupies."""
    return float(psutil.Process().memory_info().rss) / 2**20


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def file_system_of(folder: Path) -> str:
    """Return the kind of file system that a folder is on."""
    path = folder.resolve()
    mounts = [
        part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)
    ]
    return str(max(mounts, key=lambda part: len(part.mountpoint)).fstype) if mounts else "unknown"


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD")
    return commit + ("+" if _git("status", "--porcelain", "--", "src", "bench") else "") or "none"


def _git(*arguments: str) -> str:
    # Without optional locks: asking must not write into the repository.
    done = subprocess.run(
        ["git", "--no-optional-locks", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
