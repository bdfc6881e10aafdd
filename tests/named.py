"""Finding out whether a test exists that somebody names, without importing it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def functions(file: Path) -> frozenset[str]:
    """Return the functions of a file, those of its classes as `Class::function`."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(found)


@cache
def known_tests(path: str) -> frozenset[str]:
    return functions(ROOT / path)
