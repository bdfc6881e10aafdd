"""Which definitions an orchestration needs, found by what its code calls.

The functions that an orchestration reaches by name are read, not run: activities, children and
deciders that they name are found wherever they are written. What is called by a name that is put
together at run time is looked for beside them: in the modules that hold what was found, and in
those that they import.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, TypeAlias

from perdure.authoring.activity import Activity
from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import is_concrete
from perdure.authoring.orchestration import Orchestration
from perdure.core.code_reading import Piece, reach

ReachedDefinition: TypeAlias = (
    Activity[..., Any] | Orchestration[..., Any] | type[Decider[Any, Any, Any, Any]]
)

MAX_PIECES = 5_000
"""How many functions are read on the way from one definition."""


def reachable(orchestration: Orchestration[..., Any]) -> list[ReachedDefinition]:
    """Return an orchestration and all that it needs, each once."""
    found: dict[object, ReachedDefinition] = {}
    waiting: list[ReachedDefinition] = [orchestration]
    while waiting:
        one = waiting.pop(0)
        if _key(one) in found or _is_elsewhere(one):
            continue
        found[_key(one)] = one
        waiting.extend(_named_by(one))
    known = {_label(one) for one in found.values()}
    beside: dict[tuple[str, ...], dict[object, ReachedDefinition]] = {}
    for one in _definitions_in(_modules_around(found.values())):
        if _label(one) not in known and not _is_elsewhere(one):
            beside.setdefault(_label(one), {})[_key(one)] = one
    # Two of one name that nothing reaches by name: neither is known to be meant.
    unique = [one for same in beside.values() if len(same) == 1 for one in same.values()]
    return [*found.values(), *unique]


def _named_by(definition: ReachedDefinition) -> Iterator[ReachedDefinition]:
    """Return the definitions that the code of one names, the nearest first."""
    for _, reading in reach([_code_of(definition)], limit=MAX_PIECES, follow=_is_users):
        for value in reading.named:
            yield from _definitions_of(value)


def _definitions_of(value: object) -> Iterator[ReachedDefinition]:
    """Return the definition that a value is, or those that a table holds."""
    kind = type(value)  # A proxy would tell `isinstance` whatever it stands for, by running code.
    if kind is dict:
        value = list(value.values())  # type: ignore[attr-defined]  # it is one
        kind = list
    if kind in (list, tuple, set, frozenset):
        for item in list(value):  # type: ignore[call-overload]  # it is one of these
            if _is_definition(item):
                yield item
    elif _is_definition(value):
        yield value  # type: ignore[misc]  # it is one


def _is_definition(value: object) -> bool:
    kind = type(value)
    return issubclass(kind, Activity | Orchestration) or (
        issubclass(kind, type) and is_concrete(value)
    )


def _is_users(piece: Piece) -> bool:
    package = piece.module.partition(".")[0]
    return package != "perdure" and package not in sys.stdlib_module_names


def _modules_around(definitions: Iterable[ReachedDefinition]) -> Iterator[ModuleType]:
    """Return the modules of definitions, and those that they import."""
    homes = {_code_of(one).__module__: None for one in definitions}
    modules = {name: sys.modules[name] for name in homes if name in sys.modules}
    for home in list(modules.values()):
        for value in list(vars(home).values()):
            if type(value) is ModuleType:
                modules.setdefault(value.__name__, value)
    return iter(modules.values())


def _definitions_in(modules: Iterable[ModuleType]) -> Iterator[ReachedDefinition]:
    for module in modules:
        for value in list(vars(module).values()):
            if _is_definition(value):
                yield value


def _code_of(definition: ReachedDefinition) -> Any:
    return definition if isinstance(definition, type) else definition.fn


def _key(definition: ReachedDefinition) -> object:
    """Return what all variants of a definition have in common."""
    if isinstance(definition, type):
        return definition
    if isinstance(definition, Activity):
        return (id(definition.definition), definition.options.tag)
    return (id(definition.definition), definition.version)


def _label(definition: ReachedDefinition) -> tuple[str, ...]:
    if isinstance(definition, type):
        return ("decider", definition.name)
    if isinstance(definition, Activity):
        return ("activity", definition.name)
    return ("orchestration", definition.name, definition.version)


def _is_elsewhere(definition: ReachedDefinition) -> bool:
    return not isinstance(definition, type) and definition.is_elsewhere
