"""Where a setting comes from: the flag, the environment, `pyproject.toml`, or its default.

In that order; the first that names it counts. `[tool.perdure]` is read from the `pyproject.toml`
of the current folder, or of the nearest folder above it that has one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import UsageError

FILE = "pyproject.toml"
TABLE = "tool.perdure"


class KnownSetting(NamedTuple):
    """A setting that exists."""

    flag: str
    variable: str
    default: str
    meaning: str


KNOWN: dict[str, KnownSetting] = {
    "store": KnownSetting("--store", "PERDURE_STORE", "sqlite:///perdure.db", "where the store is"),
    "target": KnownSetting(
        "--target", "PERDURE_TARGET", "", "module or file of definitions, for worker and replay"
    ),
    "output": KnownSetting("--output", "PERDURE_OUTPUT", "", "the form of answers"),
}


class Setting(NamedTuple):
    """A setting as it is, and who said so."""

    name: str
    value: str
    source: str


def read_setting(name: str, flag: str | None) -> Setting:
    """Return a setting.

    Args:
        name: Which one.
        flag: What the command line says; None: nothing.

    Raises:
        UsageError: `pyproject.toml` cannot be read, or says something that makes no sense.
    """
    known = KNOWN[name]
    if flag is not None:
        return Setting(name, flag, known.flag)
    found = os.environ.get(known.variable)
    if found:
        return Setting(name, found, f"${known.variable}")
    file = find_file(Path.cwd())
    if file is not None:
        value = read_file(file).get(name)
        if value is not None:
            return Setting(name, _from_folder(name, value, file.parent), f"{file} [{TABLE}]")
    return Setting(name, known.default, "default")


def find_file(folder: Path) -> Path | None:
    """Return the `pyproject.toml` that counts in a folder."""
    for one in (folder, *folder.parents):
        if (one / FILE).is_file():
            return one / FILE
    return None


def read_file(file: Path) -> Mapping[str, str]:
    """Return what `[tool.perdure]` says.

    Raises:
        UsageError: It cannot be read, or says something that makes no sense.
    """
    import tomllib  # late: needed only where there is such a file

    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    table: Any = whole.get("tool", {}).get("perdure", {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [{TABLE}] must be a table, got {table!r}")
    for name, value in table.items():
        if name not in KNOWN:
            raise UsageError(
                f"{file}: [{TABLE}] has no setting {name!r}; known: {', '.join(KNOWN)}"
            )
        if not isinstance(value, str) or not value:
            raise UsageError(
                f"{file}: {name} in [{TABLE}] must be a text that is not empty, got {value!r}"
            )
    return table


def _from_folder(name: str, value: str, folder: Path) -> str:
    """Return a value with relative paths counted from the file that says it."""
    place = value.removeprefix("sqlite:///")
    if name == "store" and place != value and place and not place.startswith("/"):
        return f"sqlite:///{folder / place}"
    if name == "target" and value.partition(":")[0].endswith(".py"):
        return str(folder / value)
    return value
