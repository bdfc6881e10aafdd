"""Write the pages of `docs/reference` that are made of the code: docstrings, dataclasses, tables.

Objects and their methods, options with their defaults, limits, errors with cause and cure, events,
log lines and metrics. Run it after a change of one of these:

    python -m tools.make_reference
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

import perdure
from perdure import errors, limits
from perdure.authoring.activity import ActivityOptions
from perdure.authoring.deciders.projection import Projection, SqlProjection
from perdure.authoring.orchestration import OrchestrationOptions
from perdure.durations import shown_duration
from perdure.model.histories.events import KINDS, AskedEvent, MessageEvent
from perdure.telemetry import Metrics
from perdure.web import WebLimits
from tools.make_public_names import OBJECTS, TWINS, members, said_of_member
from tools.reference_texts import CAUSES_OF_LOGS, CURES, HEADS, LOG_FIELDS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "perdure"
FOLDER = ROOT / "docs" / "reference"

MADE_OF = (
    "Made by `tools/make_reference.py` from the code; `tests/test_reference.py` compares the two."
)

OPTIONS: dict[type, str] = {
    perdure.WorkerOptions: (
        "How a worker behaves: `Worker(url, definitions, options=WorkerOptions(...))`, and the "
        "same for `Engine`. `perdure worker` has a flag for each."
    ),
    perdure.Retention: (
        "What a worker removes by itself: `WorkerOptions(retention=Retention(...))`. None: never."
    ),
    perdure.Retry: "When a failed activity is tried again: `@activity(retry=Retry(...))`.",
    ActivityOptions: (
        "`@activity(...)`, and `charge.with_options(...)` for one call. The decorator also takes "
        "`name`, `process` and `raises`; the session is an option of a call alone."
    ),
    OrchestrationOptions: (
        "`checkout.with_options(...)`, before a start, a call or `continue_as_new`. `version` "
        "is an option here as well, and names one of several versions. The decorator takes `name` "
        "and `version`."
    ),
    perdure.Decider: "Attributes of the class.",
    Projection: "Attributes of the class.",
    SqlProjection: "Attributes of the class: those of `Projection`, with another time limit.",
    WebLimits: "`perdure.web.app(client, limits=WebLimits(...))`.",
}
"""Classes of options, and where they are given."""

INSIDE = {"pins_version"}
"""Fields that follow from an option and are none."""

OPENED = (perdure.Client, perdure.Engine, perdure.Worker, perdure.BlockingClient)
"""Classes whose objects callers make themselves."""


def pages() -> dict[str, str]:
    """Return the text of each page, by its name."""
    made: dict[str, Callable[[], Iterator[str]]] = {
        "objects": _objects,
        "options": _options,
        "limits": _limits,
        "errors": _errors,
        "events": _events,
        "telemetry": _telemetry,
    }
    return {
        name: "\n".join([HEADS[name].replace("MADE_OF", MADE_OF), *lines()]).rstrip() + "\n"
        for name, lines in made.items()
    }


# ------------------------------------------------------------------------- objects


def _objects() -> Iterator[str]:
    for kind, called in OBJECTS.items():
        yield f"## `{kind.__name__}`\n"
        yield f"{_paragraphs(inspect.getdoc(kind) or '')}\n"
        if kind in OPENED:
            yield f"```py\n{_signature(kind.__name__, kind.__init__, returns=False)}\n```\n"
            if said := kind.__init__.__doc__:
                yield from _docstring(said)
        if kind in TWINS:
            yield f"It has what {_link(TWINS[kind])} has; nothing is awaited.\n"
            continue
        base = kind.__mro__[1]
        names = [one for one in members(kind) if base not in OBJECTS or one not in members(base)]
        if base in OBJECTS:
            yield f"It has what {_link(base)} has, and:\n"
        for name in names:
            yield from _member(kind, called, name)


def _link(kind: type) -> str:
    return f"[`{kind.__name__}`](#{kind.__name__.lower()})"


def _member(kind: type, called: str, name: str) -> Iterator[str]:
    found: Any = getattr(kind, name, None)
    yield f"### `{called}.{name}`\n"
    if callable(found) and not isinstance(found, property):
        yield "```py"
        yield from (_signature(f"{called}.{name}", one) for one in _forms(found))
        yield "```\n"
    yield from _docstring(said_of_member(kind, name))


def _forms(function: Any) -> list[Any]:
    return list(typing.get_overloads(function)) or [function]


def _signature(name: str, function: Any, *, returns: bool = True) -> str:
    """Return how a method is called, as its source says it."""
    shown: list[str] = []
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    before = None
    for parameter in parameters:
        if before is inspect.Parameter.POSITIONAL_ONLY and parameter.kind is not before:
            shown.append("/")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and before not in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            shown.append("*")
        before = parameter.kind
        shown.append(_parameter(parameter))
    if before is inspect.Parameter.POSITIONAL_ONLY:
        shown.append("/")
    result = _annotation(inspect.signature(function).return_annotation) if returns else ""
    is_async = "await " if inspect.iscoroutinefunction(function) else ""
    line = f"{is_async}{name}({', '.join(shown)})" + (f" -> {result}" if result else "")
    if len(line) <= 90:
        return line
    inside = "".join(f"    {one},\n" for one in shown)
    return f"{is_async}{name}(\n{inside})" + (f" -> {result}" if result else "")


def _parameter(parameter: inspect.Parameter) -> str:
    is_many, is_named = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    stars = "*" * (parameter.kind is is_many) + "**" * (parameter.kind is is_named)
    text = stars + parameter.name
    if annotation := _annotation(parameter.annotation):
        text += f": {annotation}"
    if parameter.default is not inspect.Parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    return str(getattr(annotation, "__name__", annotation))


def _docstring(text: str) -> Iterator[str]:
    """Take a docstring in Google's style apart: the text, and a list for each section."""
    body, *sections = re.split(
        r"^((?:Args|Returns|Raises)(?: \([^)]*\))?):\n", inspect.cleandoc(text), flags=re.MULTILINE
    )
    yield f"{_paragraphs(body)}\n"
    titles = {"Args": "Takes", "Returns": "Returns", "Raises": "Raises"}
    for title, inside in zip(sections[::2], sections[1::2], strict=True):
        word, _, where = title.partition(" ")
        yield f"{titles[word]}{' ' + where if where else ''}:\n"
        for entry in _entries(inspect.cleandoc(inside)):
            name, colon, said = entry.partition(": ")
            is_named = colon and re.fullmatch(r"[\w*, ]+", name)
            yield f"- {_named(name)}: {said}" if is_named else f"- {entry}"
        yield ""


def _named(names: str) -> str:
    """Return parameters or exceptions as they stand in a list: those of ours lead to their cure."""
    return ", ".join(
        f"[`{one}`](errors.md#{one.lower()})" if hasattr(errors, one) else f"`{one}`"
        for one in names.split(", ")
    )


def _entries(text: str) -> Iterator[str]:
    """Return the entries of a section: each begins at the margin."""
    for entry in re.split(r"\n(?=\S)", text):
        yield " ".join(entry.split())


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(one.split()) for one in text.strip().split("\n\n"))


# ------------------------------------------------------------------------- options


def _options() -> Iterator[str]:
    for kind, where in OPTIONS.items():
        yield f"## `{kind.__name__}`\n\n{where}\n"
        yield "| option | default | meaning |\n|---|---|---|"
        for name, default in _fields(kind):
            said = " ".join(said_of_member(kind, name).split()).replace("|", "\\|")
            yield f"| `{name}` | {default} | {said} |"
        yield ""


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """Return the options of a class, with their defaults."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.name in INSIDE:
                continue
            factory = field.default_factory
            value = factory() if factory is not dataclasses.MISSING else field.default
            yield field.name, f"`{_default(value)}`"
        return
    for one in (kind, *kind.__mro__[1:]):
        for name, annotation in vars(one).get("__annotations__", {}).items():
            if "ClassVar" in str(annotation) and not (one is not kind and name in vars(kind)):
                yield (
                    name,
                    f"`{_default(getattr(kind, name))}`" if hasattr(kind, name) else "needed",
                )


def _default(value: object) -> str:
    """Return a default for people."""
    if isinstance(value, timedelta):
        return shown_duration(value)
    if isinstance(value, Enum):
        return "not given" if value.name == "UNSET" else repr(str(value.value))
    if inspect.isfunction(value):
        return value.__name__
    if isinstance(value, float | bool | str) or value is None:
        return repr(value)
    if isinstance(value, int):
        return f"{value:,}"
    if dataclasses.is_dataclass(value):
        return _changed(value)
    return repr(dict(value)) if isinstance(value, Mapping) else repr(value)


def _changed(value: Any) -> str:
    """Return a value of a class of options by what differs from the defaults of that."""
    changed = [
        f"{field.name}={_default(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({', '.join(changed)})"


# -------------------------------------------------------------------------- limits


def _limits() -> Iterator[str]:
    yield "| limit | value | of what |\n|---|--:|---|"
    body = ast.parse(inspect.getsource(limits)).body
    for node, following in pairwise(body):
        match node, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield f"| `{name}` | {getattr(limits, name):,} | {' '.join(said.split())} |"
            case _:
                pass


# -------------------------------------------------------------------------- errors


def _errors() -> Iterator[str]:
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    yield f"```text\n{tree.strip()}\n```\n"
    known = {kind.__name__: kind for kind in _error_classes()}
    assert known.keys() == CURES.keys(), f"causes and cures: {sorted(known.keys() ^ CURES.keys())}"
    for name, kind in sorted(known.items()):
        cause, cure = CURES[name]
        base = kind.__mro__[1].__name__
        yield f"## `{name}`\n"
        yield f"{_paragraphs(inspect.getdoc(kind) or '')} A kind of `{base}`.\n"
        yield f"- Cause: {cause}\n- Cure: {cure}"
        if attributes := _attributes(kind):
            yield f"- Has: {', '.join(f'`{one}`' for one in attributes)}"
        yield ""


def _error_classes() -> list[type[BaseException]]:
    return [
        one
        for one in vars(errors).values()
        if inspect.isclass(one) and issubclass(one, errors.PerdureError)
    ]


def _attributes(kind: type) -> list[str]:
    """Return what an error knows beside its text: what its classes set in `__init__`."""
    found: list[str] = []
    for one in reversed(kind.__mro__):
        if one.__module__ == errors.__name__:
            # Of the function: the class may be in another file than its module says.
            init = vars(one).get("__init__")
            source = "" if init is None else inspect.getsource(init)
            found += re.findall(r"^        self\.([a-z]\w*)(?:: [^=]+)? = ", source, re.MULTILINE)
            found += vars(one).get("__annotations__", ())
    return list(dict.fromkeys(found))


# -------------------------------------------------------------------------- events


def _events() -> Iterator[str]:
    titles = {MessageEvent: "Message events", AskedEvent: "Asked events"}
    for sort, title in titles.items():
        yield f"## {title}\n\n{_paragraphs(inspect.getdoc(sort) or '')}\n"
        yield "| kind | what happened | fields |\n|---|---|---|"
        for kind, event in KINDS.items():
            if issubclass(event, sort):
                fields = msgspec.structs.fields(event)
                shown = ", ".join(f"`{one.name}`" + ("*" if one.required else "") for one in fields)
                said = " ".join((inspect.getdoc(event) or "").partition("\n\n")[0].split())
                yield f"| `{kind}` | {said} | {shown} |"
        yield ""


# ----------------------------------------------------------------------- telemetry


def _telemetry() -> Iterator[str]:
    yield "## Metrics\n\n| name | kind | labels | counts |\n|---|---|---|---|"
    for family in Metrics().snapshot().families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"
    yield f"\n## Log fields\n\n{LOG_FIELDS}\n"
    yield f"## Log lines\n\n{CAUSES_OF_LOGS}\n\n| level | logger | message |\n|---|---|---|"
    for level, logger, message in sorted(set(_log_lines())):
        yield f"| {level} | `{logger}` | {message} |"


def _log_lines() -> Iterator[tuple[str, str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="logger"), attr=level),
                    args=[ast.Constant(value=str(message)), *_],
                ) if level in ("info", "warning", "error", "exception"):
                    level = "error" if level == "exception" else level
                    shown = re.sub(r"%[.\d]*[a-zA-Z]", "…", message)
                    yield level, module.removesuffix(".__init__"), shown.replace("|", "\\|")
                case _:
                    pass


if __name__ == "__main__":
    for made, content in pages().items():
        (FOLDER / f"{made}.md").write_text(content, encoding="utf-8")
        sys.stdout.write(f"wrote {made}.md\n")
