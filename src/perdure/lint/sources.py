"""Modules of a project as source text: which names stand for what, and where functions are."""

from __future__ import annotations

import ast
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from perdure.core.forbidden import is_ours

MAX_HOPS = 10
"""How many modules a name may be imported through."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_IGNORE = re.compile(r"#\s*perdure:\s*ignore(?:\[([\w\-, ]*)\])?")

_MUTABLE = frozenset(
    {"dict", "list", "set", "bytearray", "iter", "itertools.count"}
    | {f"collections.{name}" for name in ("defaultdict", "deque", "Counter", "OrderedDict")}
)
"""What makes values that can be changed in place."""


@dataclass(slots=True)
class SourceModule:
    """One module."""

    path: Path
    name: str
    tree: ast.Module
    lines: list[str]
    names: dict[str, str] = field(default_factory=dict)
    """What a name of the module stands for, by its full name."""
    functions: dict[str, Function] = field(default_factory=dict)
    """By name, methods as `Class.method`."""
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    async_functions: list[ast.AsyncFunctionDef] = field(default_factory=list)
    """Also those inside others."""
    all_classes: list[ast.ClassDef] = field(default_factory=list)
    """The same of classes."""
    mutable: set[str] = field(default_factory=set)
    """Names of module-level values that can be changed in place."""

    def resolve(self, node: ast.expr, local: dict[str, str | None] | None = None) -> str | None:
        """Return the full name of what an expression names, as far as that can be read."""
        match node:
            case ast.Name(id=name):
                if local is not None and name in local:
                    return local[name]
                return self.names.get(name, f"builtins.{name}")
            case ast.Attribute(value=value, attr=attribute):
                owner = self.resolve(value, local)
                return None if owner is None else f"{owner}.{attribute}"
            case ast.Subscript(value=value):
                return self.resolve(value, local)
            case ast.Call(func=ast.Name() | ast.Attribute() as called):
                # `Path(...).read_text` is a method of what the class makes.
                found = self.resolve(called, local)
                is_class = found is not None and found.rpartition(".")[2][:1].isupper()
                return found if is_class else None
        return None

    def is_ignored(self, line: int, kind: str) -> bool:
        """Return whether the line says that a kind of findings does not matter there."""
        found = _IGNORE.search(self.lines[line - 1]) if line <= len(self.lines) else None
        if found is None:
            return False
        kinds = found.group(1)
        return kinds is None or kind in [one.strip() for one in kinds.split(",")]


class Project:
    """Modules, each read once: those that are checked and those that they import from beside."""

    def __init__(self, roots: list[Path]) -> None:
        """Prepare.

        Args:
            roots: The folders in which modules are found by name.
        """
        self._roots = [root.resolve() for root in roots]
        self._by_path: dict[Path, SourceModule | None] = {}
        self._by_name: dict[str, SourceModule | None] = {}

    def module_at(self, path: Path) -> SourceModule:
        """Return the module in a file.

        Raises:
            SyntaxError: It is not Python.
            OSError, ValueError: It cannot be read.
        """
        place = path.resolve()
        found = self._by_path.get(place)
        if found is None:
            found = self._by_path[place] = _read(path, self._name_of(place))
        return found

    def module_named(self, name: str) -> SourceModule | None:
        """Return a module of the project; None if it is another's, or cannot be read."""
        if name not in self._by_name:
            self._by_name[name] = None if is_ours(name) else self._look_for(name)
        return self._by_name[name]

    def _look_for(self, name: str) -> SourceModule | None:
        if not all(part.isidentifier() for part in name.split(".")):
            return None
        relative = Path(*name.split("."))
        for root in self._roots:
            for path in (root / relative.with_suffix(".py"), root / relative / "__init__.py"):
                if path.is_file():
                    try:
                        return self.module_at(path)
                    except (SyntaxError, OSError, ValueError):
                        return None
        return None

    def find(self, name: str | None, hops: int = MAX_HOPS) -> tuple[SourceModule, str] | None:
        """Return the module of the project that a full name leads to, and the rest of the name."""
        parts = (name or "").split(".")
        for length in range(len(parts) - 1, 0, -1):
            module = self.module_named(".".join(parts[:length]))
            if module is None:
                continue
            rest = ".".join(parts[length:])
            if rest in module.functions or rest in module.classes:
                return module, rest
            again = module.names.get(parts[length])
            if again is None or again == f"{module.name}.{parts[length]}" or not hops:
                return None
            # Imported there from elsewhere: a package's door.
            return self.find(".".join([again, *parts[length + 1 :]]), hops - 1)
        return None

    def _name_of(self, place: Path) -> str:
        for root in self._roots:
            if root in place.parents:
                parts = list(place.relative_to(root).with_suffix("").parts)
                return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return place.stem


def read_text(path: Path) -> str:
    """Return the text of a file as Python reads it: in the encoding that it names.

    Raises:
        SyntaxError: It names an encoding that there is not.
        OSError, UnicodeError: It cannot be read.
    """
    with tokenize.open(path) as file:
        return file.read()


def _read(path: Path, name: str) -> SourceModule:
    text = read_text(path)
    module = SourceModule(path, name, ast.parse(text, str(path)), text.splitlines())
    is_package = path.name == "__init__.py"
    for node in ast.walk(module.tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                module.names.update(imported(node, name, is_package=is_package))
            case ast.AsyncFunctionDef():
                module.async_functions.append(node)
            case ast.ClassDef():
                module.all_classes.append(node)
    for statement in _statements(module.tree.body):
        _note(module, statement)
    return module


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a module, also those under `if` and `try`."""
    found: list[ast.stmt] = []
    for one in body:
        found.append(one)
        if isinstance(one, ast.If | ast.Try):
            found += _statements([*one.body, *one.orelse])
    return found


def _note(module: SourceModule, node: ast.stmt) -> None:
    own = module.name
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            module.functions[name] = node
            module.names[name] = f"{own}.{name}"
        case ast.ClassDef(name=name):
            module.classes[name] = node
            module.names[name] = f"{own}.{name}"
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    module.functions[f"{name}.{inner.name}"] = inner
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            _note_value(module, name, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            _note_value(module, name, value)


def _note_value(module: SourceModule, name: str, value: ast.expr) -> None:
    module.names[name] = f"{module.name}.{name}"
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        module.mutable.add(name)
    elif isinstance(value, ast.Call):
        made = (module.resolve(value.func) or "").removeprefix("builtins.")
        if made in _MUTABLE:
            module.mutable.add(name)
    elif isinstance(value, ast.Name | ast.Attribute):
        # `now = time.time` is another name for it.
        module.names[name] = module.resolve(value) or module.names[name]


def imported(node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool) -> dict[str, str]:
    """Return which names an import binds, and to what."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: alias.name
            if alias.asname
            else alias.name.partition(".")[0]
            for alias in node.names
        }
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        up = node.level - 1 if is_package else node.level
        above = parts[: len(parts) - up] if up else parts
        base = ".".join([*above, *([base] if base else [])])
    return {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
