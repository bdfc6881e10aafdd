"""Calls with one argument, made of its stored value alone: for those that hand values on unread."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from perdure.codec.codec import UNBOUND, ArgumentsCodec
from perdure.codec.unbound import UnboundArgumentsCodec
from perdure.errors import UsageError

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def around_argument(name: str, codec: ArgumentsCodec | UnboundArgumentsCodec) -> tuple[str, str]:
    """Return what stands before and behind the value in the stored arguments of a call with one.

    Args:
        name: What is called, for messages.
        codec: How its arguments are stored.

    Raises:
        UsageError: It cannot be called with one argument.
    """
    if isinstance(codec, UnboundArgumentsCodec):
        return f'{{"{UNBOUND}":[', "]}"
    first = _first(name, codec)
    key = msgspec.json.encode(first.name).decode()
    is_many = first.kind is first.VAR_POSITIONAL
    return (f"{{{key}:[", "]}") if is_many else (f"{{{key}:", "}")


def argument_type(name: str, codec: ArgumentsCodec | UnboundArgumentsCodec) -> Any:
    """Return the annotation of the argument of a call with one; any, if it is not known.

    Raises:
        UsageError: It cannot be called with one argument.
    """
    if isinstance(codec, UnboundArgumentsCodec):
        return Any
    return codec.annotation_of(_first(name, codec).name)


def _first(name: str, codec: ArgumentsCodec) -> inspect.Parameter:
    first = next(iter(codec.parameters), None)
    others = [
        one.name
        for one in codec.parameters[1:]
        if one.default is one.empty and one.kind not in _VARIABLE
    ]
    if first is None or first.kind not in _POSITIONAL:
        raise UsageError(f"{name} takes no argument: it is to be called with one")
    if others:
        raise UsageError(
            f"{name} needs {', '.join(others)} beside {first.name}: it is to be called with one "
            "argument; put both into one value"
        )
    return first
