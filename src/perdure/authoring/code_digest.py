"""A short digest of the code that a definition can reach.

It tells workers with other code apart: what one has tried in vain, another may take. Nothing is
looked up twice: a program may start many engines, and loads thousands of modules.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Self


def code_beside(fn: Any) -> str:
    """Return a short digest of the code that an orchestration can reach.

    It covers the source of every loaded module of the same package (or folder, for a script), since
    a helper may be what changed, but not the program that imports it. Nothing where there is no
    file, as in a notebook. The Python version is part of it: asyncio itself differs a little
    between them.
    """
    module = sys.modules.get(fn.__module__)
    if module is None:
        return ""
    try:
        versions = _versions_beside(module)
    except FileNotFoundError:  # Something has been moved since: look for everything anew.
        _real_file.cache_clear()
        versions = _versions_beside(module)
    return _digest_of(versions) if versions else ""


def code_of_function(fn: Any) -> str:
    """Return a short digest of a function alone, for code that is in no file."""
    return _digest([_source_of(fn).encode()])


def _digest(parts: Iterable[bytes]) -> str:
    digest = blake2b(digest_size=4)
    for part in parts:
        digest.update(part)
    return f"{digest.hexdigest()}-py{sys.version_info.major}.{sys.version_info.minor}"


class _RealFile(NamedTuple):
    """Where a file really is."""

    path: str
    folder: str


@lru_cache(maxsize=16_384)
def _real_file(file: str) -> _RealFile:
    """Return where the file of a module really is.

    Once: a process has loaded thousands of modules, and a program that starts many engines would
    ask for each of their folders every time.
    """
    path = os.path.realpath(file)
    return _RealFile(path, os.path.dirname(path))


def _versions_beside(module: ModuleType) -> tuple[_Version, ...]:
    return tuple(map(_Version.of, sorted(_files_beside(module))))


def _files_beside(module: ModuleType) -> set[str]:
    origin = getattr(module, "__file__", None)
    if origin is None or not os.path.isfile(origin):
        return set()
    package = module.__name__.partition(".")[0]
    inside = f"{package}."
    folder = _real_file(origin).folder
    found: set[str] = set()
    for name, other in list(sys.modules.items()):
        file = getattr(other, "__file__", None)
        if file is None or not file.endswith(".py"):
            continue
        if name == "__main__" and module.__name__ != "__main__":
            continue  # The program that imports it: each has another one, and none is called by it.
        # By where it is: the same file may be named in other ways, and imported under two names.
        real = _real_file(file)
        if real.folder == folder or name == package or name.startswith(inside):
            found.add(real.path)
    return found


class _Version(NamedTuple):
    """A file as it is now."""

    path: str
    changed_ns: int
    size: int

    @classmethod
    def of(cls, path: str) -> Self:
        found = os.stat(path)
        return cls(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _digest_of(files: tuple[_Version, ...]) -> str:
    """Read files and return their digest.

    Once, as long as they stay as they are: an engine has a registry of its own, definitions come
    from many modules, and a package may be large.
    """
    return _digest(Path(file.path).read_bytes() for file in files)


def _source_of(fn: Any) -> str:
    try:
        return inspect.getsource(fn)
    except (OSError, TypeError):
        if isinstance(fn, type):
            return "".join(
                _source_of(each) for each in vars(fn).values() if inspect.isfunction(each)
            )
        return str(fn.__code__.co_code) + str(fn.__code__.co_names)
