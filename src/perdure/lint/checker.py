"""Check files: find their orchestrations and deciders, and read whatever these reach."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from perdure.lint.definitions import deciders_in, orchestrations_in
from perdure.lint.findings import LintFinding
from perdure.lint.reading import FunctionReader, Reached
from perdure.lint.sources import Function, Project, SourceModule, read_text

MAX_FUNCTIONS = 2_000
"""How many functions one definition may reach; further ones are not read."""


class Checked(NamedTuple):
    """What came of a check."""

    findings: list[LintFinding]
    definitions: int
    """How many orchestrations and deciders were read."""
    files: int


class _Root(NamedTuple):
    """An orchestration, or a method of a decider."""

    module: SourceModule
    node: Function
    definition: str
    owner: str | None
    is_decider: bool


def check_files(paths: Iterable[Path], *, roots: list[Path], only: str = "") -> Checked:
    """Check the orchestrations and deciders of files.

    Args:
        paths: The files.
        roots: The folders in which imported modules are found, beside those of the files.
        only: The name of one orchestration or decider; empty: all.
    """
    files = list(dict.fromkeys(paths))
    project = Project([*roots, *_folders(files)])
    found: dict[tuple[str, int, int, str], LintFinding] = {}
    definitions: set[tuple[Path, str]] = set()
    for path in files:
        for root in _roots_in(project, path, found):
            name = root.definition.partition(" ")[2]
            if only and only != name:
                continue
            definitions.add((root.module.path, root.definition))
            for one in _read_all(project, root):
                found.setdefault((one.path, one.line, one.column, one.kind), one)
    return Checked(sorted(found.values()), len(definitions), len(files))


def check_definition(path: Path, lines: Collection[int]) -> list[LintFinding]:
    """Check what begins on some lines of a file: an orchestration, or the methods of a decider.

    Args:
        path: The file. What it imports is found in the folder above its package.
        lines: Where each of the functions begins, its decorators included.
    """
    project = Project(_folders([path]))
    try:
        module = project.module_at(path)
    except (SyntaxError, OSError, ValueError):
        return []  # It has changed since it was imported.
    found: dict[tuple[str, int, int, str], LintFinding] = {}
    written = (
        *_orchestrations(module, module.async_functions),
        *_methods(module, module.all_classes),
    )
    for root in written:
        if _first_line(root.node) in lines:
            for one in _read_all(project, root):
                found.setdefault((one.path, one.line, one.column, one.kind), one)
    return sorted(found.values())


def _first_line(node: Function) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _folders(files: list[Path]) -> list[Path]:
    """Return the folders from which the files are imported: above their packages."""
    found = []
    for file in files:
        folder = file.resolve().parent
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        found.append(folder)
    return list(dict.fromkeys(found))


def _roots_in(
    project: Project, path: Path, found: dict[tuple[str, int, int, str], LintFinding]
) -> Iterator[_Root]:
    try:
        if not _may_define(read_text(path)):
            return
        module = project.module_at(path)
    except (SyntaxError, OSError, ValueError) as error:  # NUL is a ValueError before 3.12
        line = getattr(error, "lineno", None) or 1
        finding = LintFinding(
            path=str(path),
            line=line,
            column=1,
            kind="unreadable",
            message=str(error),
            definition="-",
        )
        found[finding.path, line, 1, finding.kind] = finding
        return
    yield from _orchestrations(module, orchestrations_in(module))
    yield from _methods(module, deciders_in(project, module))


def _orchestrations(module: SourceModule, nodes: Iterable[Function]) -> Iterator[_Root]:
    for node in nodes:
        yield _Root(module, node, f"orchestration {node.name}", None, is_decider=False)


def _methods(module: SourceModule, deciders: Iterable[ast.ClassDef]) -> Iterator[_Root]:
    for cls in deciders:
        for method in cls.body:
            if isinstance(method, ast.FunctionDef):
                owner = f"{module.name}.{cls.name}"
                yield _Root(module, method, f"decider {cls.name}", owner, is_decider=True)


def _may_define(text: str) -> bool:
    """Return whether there may be a definition in a file: most of a project has none."""
    return "orchestration" in text or "Decider" in text


def _read_all(project: Project, root: _Root) -> Iterator[LintFinding]:
    """Read a definition and what it reaches, the nearest first."""
    found: list[LintFinding] = []
    seen: set[int] = {id(root.node)}
    waiting: deque[tuple[SourceModule, Function, str | None, tuple[str, ...]]] = deque()
    waiting.append((root.module, root.node, root.owner, ()))
    for _ in range(MAX_FUNCTIONS):
        if not waiting:
            break
        module, node, owner, through = waiting.popleft()

        def report(
            where: ast.AST,
            kind: str,
            message: str,
            module: SourceModule = module,
            through: tuple[str, ...] = through,
        ) -> None:
            line, column = getattr(where, "lineno", 1), getattr(where, "col_offset", 0) + 1
            if not module.is_ignored(line, kind):
                found.append(
                    LintFinding(
                        path=str(module.path),
                        line=line,
                        column=column,
                        kind=kind,
                        message=message,
                        definition=root.definition,
                        through=through,
                    )
                )

        reader = FunctionReader(
            project, module, node, report, owner=owner, is_decider=root.is_decider
        )
        for one in reader.read():
            target = one.module.functions[one.name]
            if id(target) not in seen:
                seen.add(id(target))
                waiting.append((one.module, target, _class_of(one), (*through, one.name)))
    yield from found


def _class_of(reached: Reached) -> str | None:
    name, separator, _ = reached.name.rpartition(".")
    return f"{reached.module.name}.{name}" if separator else None
