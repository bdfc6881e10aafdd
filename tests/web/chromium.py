"""Where the browser of the tests comes from: what is installed, or else Debian's package.

Tests that need it are skipped, and say why, only where there is none and it cannot be installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
CHOICE = "PERDURE_CHROMIUM"
"""Names another program."""
PACKAGE = "chromium"
INSTALL_WITHIN_S = 500.0


class NoBrowserError(Exception):
    """There is no Chromium, and none can be had; the text says why."""


def find_chromium() -> str:
    """Return the path of a Chromium; it is installed where there is none.

    Raises:
        NoBrowserError: There is none to be had.
        FileNotFoundError: The one that was named is not there.
    """
    chosen = os.environ.get(CHOICE)
    if chosen is not None:
        if shutil.which(chosen) is None:
            raise FileNotFoundError(
                f"{CHOICE}={chosen} is no program; leave it out to have one found"
            )
        return chosen
    # Several processes of the tests may come here at once: one installs, the others find.
    with (Path(tempfile.gettempdir()) / "perdure-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _found() or _installed()


def _found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _installed() -> str:
    apt = shutil.which("apt-get")
    if apt is None:
        raise NoBrowserError(f"no {' or '.join(NAMES)} is installed, and there is no apt-get")
    if os.geteuid() != 0:
        raise NoBrowserError(f"no Chromium is installed: as root, apt-get install {PACKAGE}")
    install = [apt, "install", "-y", "-q", "--no-install-recommends", PACKAGE]
    said = _run(install)
    if said:  # The lists of packages may be missing or old.
        said = _run([apt, "update", "-q"]) or _run(install)
    path = _found()
    if said or path is None:
        raise NoBrowserError(f"apt-get install {PACKAGE} did not succeed: {said[-500:]}")
    return path


def _run(command: list[str]) -> str:
    """Run a command, and return what it said if it failed."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=INSTALL_WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        return f"{' '.join(command)} took longer than {INSTALL_WITHIN_S:g} s"
    return "" if done.returncode == 0 else done.stdout + done.stderr or "it failed silently"
