"""What a worker says of its definitions before it runs them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from perdure.authoring.registry import Registry
from perdure.lint.checker import check_files
from perdure.lint.findings import LintFinding
from perdure.lint.foreseeing import KINDS, foresee
from tests.lint.corpus import HEAD, RIGHT, WRONG

ROOT = Path(__file__).parent.parent.parent


def loaded(path: Path) -> ModuleType:
    name = f"foreseen_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def foreseen(*parts: Any) -> list[LintFinding]:
    registry = Registry(parts)
    return foresee(
        [
            *(one.fn for one in registry.orchestrations.values()),
            *(one.cls for one in registry.deciders.values()),
        ]
    )


def test_it_says_what_perdure_check_does(tmp_path: Path) -> None:
    missed, seen = [], 0
    for number, (kind, program) in enumerate(WRONG):
        if kind not in KINDS:
            continue
        file = tmp_path / f"program_{number}.py"
        file.write_text(program)
        seen += 1
        if foreseen(loaded(file)) != check_files([file], roots=[]).findings:
            missed.append(program.removeprefix(HEAD))

    assert missed == []
    assert seen >= 8


def test_it_says_nothing_of_programs_that_are_right(tmp_path: Path) -> None:
    alarms = []
    for number, program in enumerate(RIGHT):
        file = tmp_path / f"right_{number}.py"
        file.write_text(program)
        alarms += foreseen(loaded(file))

    assert alarms == []
