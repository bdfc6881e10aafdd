"""What the code beside the server says of definitions: how they are called, what they are for, and
where they are written. Where there is no such code, nothing is said."""

from __future__ import annotations

import inspect
import os
import typing
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.deciders.projection import AnyProjection
from perdure.authoring.definition import Definition
from perdure.authoring.registry import Registry
from perdure.client.reading.info import Json

MAX_SIGNATURE = 500
MAX_DOCS = 4_000
"""How much of a docstring is told."""
MAX_REMEMBERED = 1_000
"""How many definitions are read once and not for each request."""


class DescribedCode(NamedTuple):
    """What the code of one definition says."""

    signature: str = ""
    docs: str = ""
    place: str = ""
    schema: Json = None
    """JSON Schema of an orchestration's arguments."""

    @property
    def about(self) -> str:
        """How the docstring begins."""
        return self.docs.partition("\n")[0]


def described(registry: Registry, kind: str, name: str, version: str) -> DescribedCode:
    """Return what the code of a definition says, if it is in a registry."""
    match kind:
        case "orchestration":
            orchestration = registry.orchestrations.get((name, version))
            if orchestration is not None and not orchestration.is_elsewhere:
                definition = orchestration.definition
                return _of_function(definition)._replace(schema=_schema(definition))
        case "activity":
            activity = registry.activities.get(name)
            if activity is not None and not activity.is_elsewhere:
                return _of_function(activity.definition)
        case "decider":
            decider = registry.deciders.get(name)
            if decider is not None:
                return _of_class(decider.cls)._replace(signature=_in_and_out(decider))
        case "projection":
            reader = registry.readers.get(name)
            # Of a subscription there is nothing but its options.
            if isinstance(reader, AnyProjection):
                return _of_class(type(reader))
    return DescribedCode()


def arguments_schema(definition: Definition) -> Json:
    """Return JSON Schema of what a caller gives to a function; None if it has types that JSON
    Schema cannot say."""
    try:
        hints = typing.get_type_hints(definition.fn)
        taken = {one.name: one for one in _parameters(definition)}
        properties = {}
        components: dict[str, Any] = {}
        for name in taken:
            [schema], more = msgspec.json.schema_components(
                [hints.get(name, Any)], ref_template="#/$defs/{name}"
            )
            properties[name] = schema
            components |= more
    except Exception:  # Annotations are code of the user's, and so are types.
        return None
    required = [name for name, one in taken.items() if one.default is inspect.Parameter.empty]
    found = {"type": "object", "properties": properties, "required": required}
    return found | ({"$defs": components} if components else {})


@lru_cache(MAX_REMEMBERED)
def _of_function(definition: Definition) -> DescribedCode:
    code = getattr(inspect.unwrap(definition.fn), "__code__", None)
    place = "" if code is None else _place(code.co_filename, code.co_firstlineno)
    return DescribedCode(_signature(definition), _docs(definition.fn), place)


@lru_cache(MAX_REMEMBERED)
def _schema(definition: Definition) -> Json:
    return arguments_schema(definition)


# Remembered: Python reads the whole file to find the line of a class.
@lru_cache(MAX_REMEMBERED)
def _of_class(cls: type) -> DescribedCode:
    try:
        place = _place(inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1])
    except (OSError, TypeError):  # Typed into a shell, or made at run time.
        place = ""
    return DescribedCode("", _docs(cls), place)


def _docs(of: Any) -> str:
    """Return a docstring of the definition's own, not of a class that it is made of."""
    return inspect.cleandoc(getattr(of, "__doc__", None) or "")[:MAX_DOCS]


def _place(file: str, line: int) -> str:
    """Return where something is written, as seen from where the server was started; of what lies
    elsewhere the name of the file alone: the folders of a machine are not told."""
    try:
        inside = os.path.relpath(file) if os.path.isabs(file) else file
    except (OSError, ValueError):  # The folder is gone, or is on another drive.
        inside = os.pardir
    return f"{os.path.basename(file) if inside.startswith(os.pardir) else inside}:{line}"


class _AsWritten:
    """What is written as this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _parameters(definition: Definition) -> list[inspect.Parameter]:
    """Return what a caller gives to a function: all but its context or connection."""
    is_first_ours = definition.takes_context or definition.takes_connection
    return [*inspect.signature(definition.fn).parameters.values()][is_first_ours:]


def _signature(definition: Definition) -> str:
    try:
        whole = inspect.signature(definition.fn)
        own = [
            one.replace(annotation=_written(one.annotation), default=_shown_default(one.default))
            for one in _parameters(definition)
        ]
        text = str(
            whole.replace(parameters=own, return_annotation=_written(whole.return_annotation))
        )
    except (TypeError, ValueError):
        return ""
    return text if len(text) <= MAX_SIGNATURE else f"{text[: MAX_SIGNATURE - 1]}…"


def _shown_default(value: Any) -> Any:
    """Return a default as it is told: one that may hold a secret only as being there."""
    is_plain = value is None or type(value) in (bool, int, float)
    return value if is_plain or value is inspect.Parameter.empty else _AsWritten("…")


def _written(annotation: Any) -> Any:
    if isinstance(annotation, str):
        return _AsWritten(annotation)
    if isinstance(annotation, type) and annotation is not inspect.Parameter.empty:
        # With arguments, as list[str], it says itself without its module.
        return annotation if typing.get_args(annotation) else _AsWritten(annotation.__qualname__)
    return annotation


def _in_and_out(decider: DeciderDefinition) -> str:
    """Return what a decider takes, what it records, and what it refuses with."""
    inputs, events, refusals = (
        " | ".join(one.tags) for one in (decider.inputs, decider.events, decider.rejections)
    )
    text = f"{inputs} -> {events}" + (f", or {refusals}" if refusals else "")
    return text if len(text) <= MAX_SIGNATURE else f"{text[: MAX_SIGNATURE - 1]}…"
