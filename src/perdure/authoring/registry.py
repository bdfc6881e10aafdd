"""Which definitions a worker has: handed over as a list, checked when it is made.

There is no global registry. A module stands for all definitions found in it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from perdure.authoring.activity import Activity
from perdure.authoring.orchestration import Orchestration
from perdure.errors import DefinitionError, NotRegisteredError
from perdure.model.instances import DefinitionKey

AnyDefinition: TypeAlias = ModuleType | Activity[..., Any] | Orchestration[..., Any]

BEHAVIOUR = 1
"""Number of the core's manner of replaying. Raised when the same code would get another history."""


class Registry:
    """The definitions of one worker, by name; orchestrations also by version."""

    def __init__(self, definitions: Iterable[AnyDefinition]) -> None:
        self.activities: dict[str, Activity[..., Any]] = {}
        self.orchestrations: dict[tuple[str, str], Orchestration[..., Any]] = {}
        self._code: dict[tuple[str, str], str] = {}
        self._tags: dict[str, set[str | None]] = {}
        for definition in definitions:
            for found in _expand(definition):
                self._add(found)

    def activity(self, name: str) -> Activity[..., Any]:
        """Return an activity by name."""
        found = self.activities.get(name)
        if found is None:
            raise NotRegisteredError("activity", name, known=list(self.activities))
        return found

    def orchestration(self, name: str, version: str) -> Orchestration[..., Any]:
        """Return an orchestration by name and exact version."""
        found = self.orchestrations.get((name, version))
        if found is None:
            known = [f"{name}@{version}" for name, version in self.orchestrations]
            raise NotRegisteredError("orchestration", f"{name}@{version}", known=known)
        return found

    def code_of(self, name: str, version: str) -> str:
        """Return the digest of the code behind an orchestration."""
        key = (name, version)
        if key not in self._code:
            self._code[key] = code_digest(self.orchestrations[key].fn)
        return self._code[key]

    def queues(self) -> Iterator[DefinitionKey]:
        """Return the queues of jobs that a worker with these definitions can run."""
        for name, version in self.orchestrations:
            yield inline_key(name, version)
        for name, tags in self._tags.items():
            for tag in sorted(tags, key=lambda tag: tag or ""):
                yield activity_key(name, tag)

    def claimable(self) -> list[DefinitionKey]:
        """Return all that a worker with these definitions can claim."""
        own = [orchestration_key(name, version) for name, version in self.orchestrations]
        return [*own, *self.queues()]

    def _add(self, found: Activity[..., Any] | Orchestration[..., Any]) -> None:
        known: Activity[..., Any] | Orchestration[..., Any] | None
        if isinstance(found, Activity):
            known = self.activities.setdefault(found.name, found)
            self._tags.setdefault(found.name, set()).add(found.options.tag)
        else:
            known = self.orchestrations.setdefault((found.name, found.version), found)
        if known.definition is not found.definition:
            what = found.definition.what
            raise DefinitionError(
                f"two {what} definitions are named {found.name!r}: "
                f"{known.definition.place} and {found.definition.place}; give one another name"
            )


def orchestration_key(name: str, version: str) -> DefinitionKey:
    """Return what instances of an orchestration are claimed by."""
    return DefinitionKey("orchestration", name, version, BEHAVIOUR)


def inline_key(name: str, version: str) -> DefinitionKey:
    """Return the queue of an orchestration's inline calls: only who has its code can run them."""
    return DefinitionKey("inline", name, version, BEHAVIOUR)


def activity_key(name: str, tag: str | None) -> DefinitionKey:
    """Return the queue of an activity."""
    return DefinitionKey("activity", name, tag or "")


def code_digest(fn: Any) -> str:
    """Return a short digest of the code that an orchestration can reach.

    It covers the source of every loaded module of the same package (or folder, for a script), since
    a helper may be what changed. Where there is no file, as in a notebook, it covers the function.
    The Python version is part of it: asyncio itself differs a little between them.
    """
    module = sys.modules.get(fn.__module__)
    digest = blake2b(digest_size=4)
    files = sorted(_files_beside(module)) if module is not None else []
    for file in files:
        digest.update(file.read_bytes())
    if not files:
        digest.update(_source_of(fn).encode())
    return f"{digest.hexdigest()}-py{sys.version_info.major}.{sys.version_info.minor}"


def _files_beside(module: ModuleType) -> Iterator[Path]:
    origin = getattr(module, "__file__", None)
    if origin is None or not Path(origin).is_file():
        return
    package = module.__name__.partition(".")[0]
    folder = Path(origin).parent
    for name, other in list(sys.modules.items()):
        file = getattr(other, "__file__", None)
        if file is None or not file.endswith(".py"):
            continue
        if name.partition(".")[0] == package or Path(file).parent == folder:
            yield Path(file)


def _source_of(fn: Any) -> str:
    try:
        return inspect.getsource(fn)
    except (OSError, TypeError):
        return str(fn.__code__.co_code) + str(fn.__code__.co_names)


def _expand(definition: AnyDefinition) -> Iterator[Activity[..., Any] | Orchestration[..., Any]]:
    match definition:
        case Activity() | Orchestration():
            if definition.is_elsewhere:
                raise DefinitionError(
                    f"{definition.name!r} is known here by name only: hand it to the worker that "
                    "has its code"
                )
            yield definition
        case ModuleType():
            for value in vars(definition).values():
                if isinstance(value, Activity | Orchestration) and not value.is_elsewhere:
                    yield value
        case _:
            raise DefinitionError(
                f"{definition!r} is not a definition: hand over modules, and functions made with "
                "@activity or @orchestration"
            )
