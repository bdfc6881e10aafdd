"""What a worker can tell of its definitions before it runs them: what no guard sees at a call.

The environment is read, and a set gone through, without a call that could be refused. Both are
found in the source text, by the rules of `perdure check`. To read text takes milliseconds, so the
compiled code is asked first, in microseconds, whether there is anything to look for.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from opcode import opmap
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.core.forbidden import is_ours
from perdure.core.forbidden_names import names_of

if TYPE_CHECKING:
    from perdure.lint.findings import LintFinding

KINDS = frozenset({"environment", "set-order"})
"""What is foreseen. All else is refused or warned of when it happens."""

MAX_FUNCTIONS = 200
"""How many functions that one definition names are asked."""

_NAMES = names_of("environment") | {"set", "frozenset"}
_BUILD_SET = bytes([opmap["BUILD_SET"]])


class _Place(NamedTuple):
    """Where a definition is written, in a file as it is now."""

    path: str
    lines: frozenset[int]
    changed_ns: int


def foresee(written: Iterable[Callable[..., Any]]) -> list[LintFinding]:
    """Return what in definitions will be another thing in another process.

    Args:
        written: The functions of orchestrations, and the classes of deciders.
    """
    found: dict[LintFinding, None] = {}
    for one in written:
        functions = list(_functions_behind(one))
        if any(map(_is_suspect, _reached_by(functions))):
            place = _place_of(functions)
            found.update(dict.fromkeys(_read(place) if place is not None else ()))
    return list(found)


def _functions_behind(one: Callable[..., Any]) -> Iterator[FunctionType]:
    members = list(vars(one).values()) if isinstance(one, type) else [inspect.unwrap(one)]
    for member in members:
        function = getattr(member, "__func__", member)
        if type(function) is FunctionType:
            yield function


def _place_of(functions: list[FunctionType]) -> _Place | None:
    path = functions[0].__code__.co_filename
    lines = frozenset(one.__code__.co_firstlineno for one in functions)
    try:
        return _Place(path, lines, os.stat(path).st_mtime_ns)
    except OSError:  # In a notebook, or typed in.
        return None


@lru_cache(maxsize=256)
def _read(place: _Place) -> tuple[LintFinding, ...]:
    """Read the text of a definition, once as long as it stays as it is."""
    # Heavy, and few definitions need it.
    from perdure.lint.checker import check_definition

    found = check_definition(Path(place.path), place.lines)
    return tuple(one for one in found if one.kind in KINDS)


# --- Asking compiled code


def _reached_by(functions: list[FunctionType]) -> Iterator[FunctionType]:
    """Return functions, and those of the user's that they name, the nearest first."""
    waiting = deque(functions)
    seen: set[int] = set()
    while waiting and len(seen) < MAX_FUNCTIONS:
        function = waiting.popleft()
        if id(function.__code__) in seen or not _is_of_user(function):
            continue
        seen.add(id(function.__code__))
        yield function
        waiting.extend(_named_by(function))


def _named_by(function: FunctionType) -> Iterator[FunctionType]:
    wrapped = vars(function).get("__wrapped__")
    if type(wrapped) is FunctionType:
        yield wrapped
    for code in _codes_in(function.__code__):
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, ModuleType):
                members = vars(value)
                yield from _functions_of(members.get(inner) for inner in code.co_names)
            else:
                yield from _functions_of([value])


def _functions_of(values: Iterable[Any]) -> Iterator[FunctionType]:
    for value in values:
        if type(value) is FunctionType:
            yield value
        elif issubclass(type(value), type):
            for name in ("__init__", "__post_init__", "__new__"):
                made = vars(value).get(name)
                if type(made) is FunctionType:
                    yield made


def _is_suspect(function: FunctionType) -> bool:
    for code in _codes_in(function.__code__):
        if not _NAMES.isdisjoint(code.co_names) or _BUILD_SET in code.co_code[::2]:
            return True
        if any(type(one) is frozenset for one in code.co_consts):
            return True
        if any(function.__globals__.get(name) is os.environ for name in code.co_names):
            return True
    try:
        annotations = function.__annotations__.values()
    except NameError:  # From Python 3.14 on they are worked out here, and may lack an import.
        return True
    return any("set" in str(one).lower() for one in annotations)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if type(inner) is CodeType:
            yield from _codes_in(inner)


def _is_of_user(function: FunctionType) -> bool:
    module = function.__module__ or ""
    path = function.__code__.co_filename
    is_installed = "site-packages" in path or "dist-packages" in path
    is_library = module.partition(".")[0] in sys.stdlib_module_names
    return not (is_installed or is_library or is_ours(module))
