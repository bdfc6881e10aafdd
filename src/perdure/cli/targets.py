"""What `TARGET` on the command line stands for: a module or file of definitions, or a name in it.

A file is imported under the name it has as a module, with its folder (or that of its package) on
the path: so its neighbours can be imported as they are when Python runs it, and another process
finds its functions by name.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from perdure.authoring.registry import Registry
from perdure.errors import UsageError


def load_target(target: str) -> Registry:
    """Return the definitions behind `module`, `module:name`, `file.py` or `file.py:name`.

    Raises:
        UsageError: There is no such module, file or name, importing it fails, or there are no
            definitions in it.
    """
    place, _, name = target.partition(":")
    module = _import_file(Path(place)) if _is_path(place) else _import_module(place)
    found = _registry(module, name, target) if name else Registry([module])
    if not described(found):
        raise UsageError(
            f"{target} has no definitions: write functions with @activity or @orchestration, "
            "deciders, projections or subscriptions there, or name another target"
        )
    return found


def described(registry: Registry) -> str:
    """Return how many definitions of each kind there are, for people; nothing if none."""
    counts = {
        "orchestration": len(registry.names()),
        "decider": len(registry.deciders),
        "activity": len(registry.activities),
        "reader": len(registry.readers),
    }
    plural = {"activity": "activities"}
    return ", ".join(
        f"{count} {what if count == 1 else plural.get(what, what + 's')}"
        for what, count in counts.items()
        if count
    )


def _is_path(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(
            f"{name!r} is neither a module such as shop.orders nor a file such as shop/orders.py"
        )
    folder = str(Path.cwd())
    _put_on_path(folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"there is no module {error.name!r} in {folder} or where Python looks; "
                "name a module or a file such as shop/orders.py"
            ) from error
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    file = path.resolve()
    name, folder = file.stem, file.parent
    while (folder / "__init__.py").is_file():
        name, folder = f"{folder.name}.{name}", folder.parent
    _put_on_path(str(folder))
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise _broken(str(path), error) from error
    origin = getattr(module, "__file__", None)
    if origin is None or Path(origin).resolve() != file:
        raise UsageError(
            f"{path} cannot be imported: {name} is the name of {origin or 'a part of Python'}; "
            "give the file another one"
        )
    return module


def _put_on_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _registry(module: ModuleType, name: str, target: str) -> Registry:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            here = ", ".join(one for one in _definition_names(module)) or "none"
            raise UsageError(f"{target}: there is no {part!r} (definitions there: {here})")
        found = getattr(found, part)
    return Registry(found if isinstance(found, Registry | list | tuple | set) else [found])


def _definition_names(module: ModuleType) -> list[str]:
    """Return what a module has that could be named, in the order it was written."""
    everything = Registry([module])
    return [
        *everything.names(),
        *everything.deciders,
        *everything.activities,
        *everything.readers,
    ]


def _broken(what: str, error: Exception) -> UsageError:
    """Return what went wrong in a user's module, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<frozen ")]
    at = f" ({own[-1].filename}:{own[-1].lineno})" if len(own) > 1 else ""
    if isinstance(error, SyntaxError):
        at = f" ({error.filename}:{error.lineno})"
    problem = error.msg if isinstance(error, SyntaxError) else str(error)
    return UsageError(f"{what} cannot be imported: {type(error).__name__}: {problem}{at}")
