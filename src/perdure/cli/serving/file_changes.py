"""Notices that Python files below a folder have changed, by looking at them again and again.

Looking costs some ten milliseconds for a thousand files, and works on every file system, also on
those that are mounted into a container, where no event would come.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from perdure.cli.output import say

LOOK_EVERY_S = 0.3
SETTLE_S = 0.05
"""How long nothing may change before a change counts as whole: editors write in steps."""
MAX_FILES = 5_000
NOT_CODE = {"__pycache__", "node_modules", "site-packages"}

FileStates = dict[str, tuple[int, int, int]]
"""Inode, time and size of each file."""


class FileChanges:
    """The Python files below a folder, as they were when they were last looked at."""

    def __init__(self, folder: Path) -> None:
        """Look for the first time."""
        self._folder = folder
        self._seen = self._look()
        if len(self._seen) == MAX_FILES:
            say(f"more than {MAX_FILES:,} files in {folder}: changes of the others are not seen")

    async def next(self) -> list[Path]:
        """Wait until files were changed, made or removed, and return which."""
        while True:
            found = await asyncio.to_thread(self._look)
            if found == self._seen:
                await asyncio.sleep(LOOK_EVERY_S)
                continue
            while True:
                await asyncio.sleep(SETTLE_S)
                again = await asyncio.to_thread(self._look)
                if again == found:
                    break
                found = again
            before, self._seen = self._seen, found
            names = before.keys() | found.keys()
            changed = [name for name in names if before.get(name) != found.get(name)]
            if changed:
                return [Path(name) for name in sorted(changed)]

    def _look(self) -> FileStates:
        found: FileStates = {}
        folders = [str(self._folder)]
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            if _may_hold_code(entry):
                                folders.append(entry.path)
                        elif entry.name.endswith(".py") and entry.is_file():
                            state = entry.stat()
                            found[entry.path] = (state.st_ino, state.st_mtime_ns, state.st_size)
                        if len(found) == MAX_FILES:
                            return found
            except OSError:
                continue  # Removed while it was looked at.
        return found


def _may_hold_code(folder: os.DirEntry[str]) -> bool:
    """Return whether a folder may be part of the program: not hidden, not an environment."""
    is_named_so = folder.name.startswith(".") or folder.name in NOT_CODE
    return not is_named_so and not os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))
