"""Projections and subscriptions among what is handed to a worker."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeAlias

from perdure.authoring.deciders.projection import AnyProjection, made
from perdure.authoring.deciders.subscription import Subscription
from perdure.errors import DefinitionError
from perdure.model.builtins import RESERVED_PREFIX

AnyReader: TypeAlias = AnyProjection[Any] | Subscription[Any]
"""What reads the feed under a name."""


def is_reader(found: object) -> bool:
    """Return whether something is a projection, its class, or a subscription."""
    is_class = isinstance(found, type) and issubclass(found, AnyProjection)
    return is_class or isinstance(found, AnyProjection | Subscription)


def readers_in(part: object) -> Iterator[AnyReader]:
    """Return what is or lies in something handed over, made ready.

    In a module, a class that one of its objects is of, and a class without a name, are left alone:
    the one is there already, the other is a base of others.

    Raises:
        DefinitionError: One cannot work as written.
    """
    if not isinstance(part, ModuleType):
        if is_reader(part):
            yield _made(part)
        return
    found = [value for value in vars(part).values() if is_reader(value)]
    there = {type(value) for value in found}
    for value in found:
        if not isinstance(value, type) or (value not in there and _is_complete(value)):
            yield _made(value)


def add_reader(readers: dict[str, AnyReader], found: AnyReader) -> None:
    """Put a reader among others.

    Raises:
        DefinitionError: Another one has its name, or the name is reserved.
    """
    known = readers.setdefault(found.name, found)
    if known is not found and not _is_same(known, found):
        raise DefinitionError(
            f"two projections or subscriptions are named {found.name!r}: {_shown(known)} and "
            f"{_shown(found)}; their positions are kept by name, so give one another"
        )
    if found.name.startswith(RESERVED_PREFIX):
        raise DefinitionError(
            f"names that begin with {RESERVED_PREFIX!r} are reserved: give {_shown(found)} another "
            f"one than {found.name!r}"
        )


def check_names(readers: dict[str, AnyReader], deciders: set[str]) -> None:
    """Refuse subscriptions whose orchestrations would have ids of a decider's instances."""
    for name, reader in readers.items():
        if isinstance(reader, Subscription) and name in deciders | set(reader.filter.deciders):
            raise DefinitionError(
                f"subscription {name!r} has the name of a decider, whose instances have the ids "
                f"{name}:...; give it another name"
            )


def _made(found: Any) -> AnyReader:
    if isinstance(found, Subscription):
        found.check()
        return found
    return made(found)


def _is_complete(cls: type) -> bool:
    return not inspect.isabstract(cls) and isinstance(getattr(cls, "name", None), str)


def _is_same(known: AnyReader, found: AnyReader) -> bool:
    """Return whether two objects of one class without arguments were made for the same class."""
    return (
        type(known) is type(found)
        and not isinstance(known, Subscription)
        and not _state_of(known)
        and not _state_of(found)
    )


def _state_of(reader: AnyReader) -> dict[str, Any]:
    return {name: value for name, value in vars(reader).items() if name != "filter"}


def _shown(found: AnyReader) -> str:
    return repr(found) if isinstance(found, Subscription) else type(found).__qualname__
