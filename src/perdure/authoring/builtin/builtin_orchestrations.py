"""Orchestrations of perdure's own, which every worker serves whatever it was handed.

They are replayed as any other, so each version stays here for ever (decision 64). What they take
and return is a struct each; the JSON of users' values in it is handed on as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any

import msgspec

from perdure.authoring.builtin.paging import for_each_1_0_0, page_1_0_0
from perdure.authoring.definition import Definition
from perdure.authoring.orchestration import Orchestration, OrchestrationOptions
from perdure.codec import ArgumentsCodec, ValueCodec
from perdure.model.histories.paging import FOR_EACH, PAGE, ForEachInput, ForEachOutput, PageInput


class StructCodec(ValueCodec[Any]):
    """Writes and reads one struct."""

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        self._struct = struct

    def encode(self, value: object, path: str) -> bytes:
        """Return a struct as JSON."""
        assert isinstance(value, self._struct), path
        return msgspec.json.encode(value)

    def decode(self, data: bytes) -> Any:
        """Return the struct that was stored."""
        return msgspec.json.decode(data, type=self._struct)

    def same(self, recorded: bytes, asked: bytes) -> bool:
        """Return whether two stored structs are one and the same."""
        return recorded == asked

    def check(self) -> None:
        """Nothing is left to be worked out."""


class BuiltinArgumentsCodec(ArgumentsCodec):
    """Writes and reads the one argument of a built-in orchestration."""

    def __init__(self, takes: type[msgspec.Struct], gives: type[msgspec.Struct]) -> None:
        self._takes = StructCodec(takes)
        self.returns = StructCodec(gives)

    def check(self) -> None:
        """Nothing is left to be worked out."""

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the argument as JSON."""
        [value] = args
        return self._takes.encode(value, "argument")

    def decode(self, data: bytes) -> tuple[list[Any], dict[str, Any]]:
        """Return the argument that was stored."""
        return [self._takes.decode(data)], {}

    def same(self, recorded: bytes, asked: bytes) -> bool:
        """Return whether two calls are one and the same."""
        return self._takes.same(recorded, asked)


class BuiltinDefinition(Definition):
    """An orchestration of our own: under a name that users cannot have."""

    def __init__(
        self,
        fn: Callable[..., Coroutine[Any, Any, Any]],
        name: str,
        takes: type[msgspec.Struct],
        gives: type[msgspec.Struct],
    ) -> None:
        self.fn = fn
        self.is_elsewhere = False
        self.name = name
        self.what = "orchestration"
        self.takes_connection = False
        self.takes_context = False
        self._types = takes, gives

    @cached_property
    def codec(self) -> ArgumentsCodec:
        """How its argument and its result are stored."""
        return BuiltinArgumentsCodec(*self._types)


def _builtin(definition: BuiltinDefinition, version: str) -> Orchestration[..., Any]:
    return Orchestration(definition=definition, version=version, options=OrchestrationOptions())


BUILTIN_ORCHESTRATIONS: dict[tuple[str, str], Orchestration[..., Any]] = {
    (one.name, one.version): one
    for one in (
        _builtin(BuiltinDefinition(for_each_1_0_0, FOR_EACH, ForEachInput, ForEachOutput), "1.0.0"),
        _builtin(BuiltinDefinition(page_1_0_0, PAGE, PageInput, ForEachOutput), "1.0.0"),
    )
}
"""All that were ever released, by name and version."""

BUILTIN_CODE = f"builtin-py{sys.version_info.major}.{sys.version_info.minor}"
"""Their digest: they are frozen, so it is the same in all releases. The Python version is part of
it, as it is of users' code."""
