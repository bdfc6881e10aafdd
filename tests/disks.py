"""Disks without room."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def fill(ballast: Path) -> None:
    """Write until there is no room left."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
