"""A class name means one thing: who searches for it finds that."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from perdure import store

ROOM = Path(next(iter(store.__path__)))


def test_a_class_name_is_used_once_in_the_store() -> None:
    files: dict[str, list[str]] = defaultdict(list)
    for file in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(str(file.relative_to(ROOM)))

    assert {name: found for name, found in files.items() if len(found) > 1} == {}
