"""Read compiled functions without running them: what do they name, what can they reach?

A function's instructions say which values it names: globals, attributes of modules, classes and
global objects, what it imports, what it closes over. From there other functions are reached. It is
a look, not a proof: what comes in as an argument, or lies in an attribute of an object that is made
later, is not seen.

Nothing of the user's is run: attributes are looked up in the dictionaries of classes and modules.
"""

from __future__ import annotations

import dis
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from types import ClassMethodDescriptorType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, get_args

NESTED_CODE = 100
"""How many functions, lambdas and comprehensions inside one function are read."""

UNKNOWN: Any = object()

LRU_CACHE = type(lru_cache(lambda: None))

_BEHIND: dict[type, tuple[str, ...]] = {
    MethodType: ("__func__",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    partial: ("func",),
    cached_property: ("func",),
    LRU_CACHE: ("__wrapped__",),
    property: ("fget", "fset", "fdel"),
}
"""Where values that call a function keep it."""

_NAMES = re.compile(r"[^\W\d][\w.]*")
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_NO_VALUE = frozenset({"PUSH_NULL", "LOAD_CONST", "KW_NAMES", "NOP", "CACHE", "EXTENDED_ARG"})
"""Instructions between a callee and its call that are written down at the place of the call."""


class Piece(NamedTuple):
    """Code and where its names lead: a function's, or that of one inside it."""

    code: CodeType
    globals: dict[str, Any]
    cells: Mapping[str, object]

    @property
    def module(self) -> str:
        """The name of the module it stands in."""
        return str(self.globals.get("__name__"))


class Reading(NamedTuple):
    """What the instructions of a piece say."""

    named: list[object]
    """The values that it names."""
    callees: dict[int, object]
    """Where it calls something that it names by globals, modules and classes alone, by the offset
    of the instruction: the same function every time, unless code puts another in its place."""
    methods: dict[int, str]
    """Where it calls an attribute of an object, by the offset of the instruction: its name."""


def reach(
    roots: Iterable[object],
    *,
    limit: int,
    follow: Callable[[Piece], bool],
    is_read: Callable[[CodeType], bool] = lambda _: False,
) -> Iterator[tuple[Piece, Reading]]:
    """Read what functions and classes can reach by name, the nearest first.

    Args:
        roots: Where to begin: functions, classes, pieces. There is nothing to read in other values.
        limit: How many pieces are read at most.
        follow: Tells whether to read a piece, and what it reaches.
        is_read: Tells whether code was read before. Then only what a piece closes over is followed.
    """
    waiting = deque(roots)
    seen: dict[int, object] = {}  # With the values themselves, or an id could come twice.
    while waiting:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        for piece in _pieces_of(value):
            if not follow(piece):
                continue
            # What one decorator has made of many functions is the same code for all of them.
            waiting.extend(piece.cells.values())
            if id(piece.code) in seen or is_read(piece.code):
                continue
            if limit == 0:
                return
            limit -= 1
            seen[id(piece.code)] = piece.code
            reading = read(piece)
            yield piece, reading
            waiting.extend(reading.named)
        waiting.extend(_annotated_by(value))


def _annotated_by(value: Any) -> Iterator[object]:
    """Return the classes that the parameters of a function or the fields of a class name."""
    if type(value) is FunctionType:
        try:
            yield from _annotated(value.__annotations__, value.__globals__)
        except NameError:  # From Python 3.14 on they are worked out here, and may lack an import.
            return
    elif issubclass(type(value), type):
        module = sys.modules.get(str(vars(value).get("__module__")))
        yield from _annotated(vars(value).get("__annotations__"), vars(module) if module else {})


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """Return the Python functions that run when a value is called or, of a class, used."""
    kind = type(value)  # A proxy would tell `isinstance` whatever it stands for, by running code.
    if kind is FunctionType:
        yield value
    elif issubclass(kind, type):
        for base in value.__mro__:
            for member in list(vars(base).values()):
                if not issubclass(type(member), type):
                    yield from _functions_of(member)
    else:
        for name in _BEHIND.get(kind, ()):
            yield from _functions_of(getattr(value, name))


def _pieces_of(value: object) -> Iterator[Piece]:
    """Return the code behind a value and of the functions that stand inside it."""
    if type(value) is Piece:
        yield from _nested(value)
    for function in _functions_of(value):
        names = function.__code__.co_freevars
        cells = zip(names, map(content_of, function.__closure__ or ()), strict=True)
        yield from _nested(Piece(function.__code__, function.__globals__, dict(cells)))


def _nested(piece: Piece) -> Iterator[Piece]:
    waiting = [piece.code]
    for _ in range(NESTED_CODE):
        if not waiting:
            return
        code = waiting.pop()
        yield piece._replace(code=code)
        waiting.extend(inner for inner in code.co_consts if type(inner) is CodeType)


def content_of(cell: Any) -> object:
    """Return what a cell of a closure holds, or UNKNOWN."""
    try:
        return cell.cell_contents
    except ValueError:  # It is empty: the name has no value yet.
        return UNKNOWN


def _annotated(annotations: object, names: Mapping[str, Any]) -> Iterator[object]:
    """Return the classes that annotations name, be they values or text."""
    for annotation in list(annotations.values()) if isinstance(annotations, dict) else ():
        if not isinstance(annotation, str):
            yield annotation
            yield from get_args(annotation)
            continue
        for name in _NAMES.findall(annotation):
            first, *rest = name.split(".")
            value = names.get(first, UNKNOWN)
            for part in rest:
                value = attribute_of(value, part)
            yield value


def attribute_of(owner: Any, name: str) -> Any:
    """Return what an attribute of a module, class or object is by the dictionaries, or UNKNOWN."""
    kind = type(owner)
    if issubclass(kind, ModuleType):
        return vars(owner).get(name, UNKNOWN)
    cls = owner if issubclass(kind, type) else kind
    for base in cls.__mro__:
        found = vars(base).get(name, UNKNOWN)
        if found is UNKNOWN:
            continue
        if type(found) is ClassMethodDescriptorType:
            return found.__get__(None, cls)
        return found.__func__ if type(found) in (staticmethod, classmethod) else found
    return UNKNOWN


def read(piece: Piece) -> Reading:
    """Read the instructions of a piece."""
    reader = _Reader(piece)
    for instruction in dis.get_instructions(piece.code):
        reader.step(instruction)
    return Reading(reader.named, reader.callees, reader.methods)


class _Last(NamedTuple):
    """What the last instruction of an expression has given so far, if that is all known."""

    lasting: object
    attribute: str | None


class _Reader:
    """Goes over instructions, with the value that the last of them put on the stack if known."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._value: object = UNKNOWN
        self._is_lasting = False
        self._imported: object = UNKNOWN
        self._locals: dict[str, object] = {}
        self._begun: dict[tuple[int, int], _Last] = {}
        self.named: list[object] = []
        self.callees: dict[int, object] = {}
        self.methods: dict[int, str] = {}

    def step(self, instruction: dis.Instruction) -> None:
        name = instruction.opname
        at = _start_of(instruction)
        if name in _CALLS:
            last = self._begun.pop(at, None) if at is not None else None
            if last is not None and last.lasting is not UNKNOWN:
                self.callees[instruction.offset] = last.lasting
            elif last is not None and last.attribute is not None:
                self.methods[instruction.offset] = last.attribute
            self._value = UNKNOWN
        elif name not in _NO_VALUE:
            self._follow(name, instruction.argval)
            if at is not None:
                lasting = self._value if self._is_lasting else UNKNOWN
                attribute = instruction.argval if name == "LOAD_ATTR" else None
                self._begun[at] = _Last(lasting, attribute)

    def _follow(self, name: str, what: Any) -> None:
        value, self._value = self._value, UNKNOWN
        is_lasting, self._is_lasting = self._is_lasting, False
        match name:
            case "LOAD_GLOBAL" | "LOAD_NAME":
                self._name(_global(self._piece.globals, what), is_lasting=name == "LOAD_GLOBAL")
            case "LOAD_ATTR" | "LOAD_METHOD" if value is not UNKNOWN:
                is_lasting = is_lasting and issubclass(type(value), ModuleType | type)
                self._name(attribute_of(value, what), is_lasting=is_lasting)
            case "LOAD_DEREF" | "LOAD_FROM_DICT_OR_DEREF":
                self._name(self._piece.cells.get(what, UNKNOWN))
            case "LOAD_FAST" | "LOAD_FAST_BORROW" | "LOAD_FAST_CHECK":
                self._name(self._locals.get(what, UNKNOWN))
            case "STORE_FAST":
                self._locals[what] = value
            case "IMPORT_NAME":
                # `import a.b` gives `a`, `from a.b import c` looks into `a.b`.
                self._value = sys.modules.get(what.partition(".")[0], UNKNOWN)
                self._imported = sys.modules.get(what, UNKNOWN)
            case "IMPORT_FROM":
                self._name(attribute_of(self._imported, what))

    def _name(self, value: object, *, is_lasting: bool = False) -> None:
        self._value, self._is_lasting = value, is_lasting
        if value is not UNKNOWN:
            self.named.append(value)


def _start_of(instruction: dis.Instruction) -> tuple[int, int] | None:
    """Return where in the source an instruction begins: a call and its callee begin together."""
    where = instruction.positions
    if where is None or where.lineno is None or where.col_offset is None:
        return None
    return where.lineno, where.col_offset


def _global(names: dict[str, Any], name: str) -> Any:
    found = names.get(name, UNKNOWN)
    if found is not UNKNOWN:
        return found
    builtins = names.get("__builtins__", {})
    return (vars(builtins) if isinstance(builtins, ModuleType) else builtins).get(name, UNKNOWN)
