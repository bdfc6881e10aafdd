"""The list of mutants fits the code of today. Trying them takes minutes: `make mutants`."""

from __future__ import annotations

import ast
import re

import pytest

from tests.each import each
from tests.named import ROOT, known_tests
from tools.mutants import MUTANTS
from tools.mutants.mutant import Mutant
from tools.mutants.trying import WRONG_PACKAGE, Run, judge, run_tests

AT_LEAST = 30

NAMED_TESTS = sorted({test for mutant in MUTANTS for test in mutant.tests})


@each(MUTANTS, name=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_of_the_code(mutant: Mutant) -> None:
    """Where this fails, the code has moved: let the mutant break it where it is now."""
    file = mutant.file_in(ROOT / "src/perdure")
    text = file.read_text(encoding="utf-8")

    changed = mutant.applied_to(text)

    assert changed != text
    if file.suffix == ".py":
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@each(NAMED_TESTS)
def test_the_tests_of_a_mutant_exist(named: str) -> None:
    path, _, test = named.partition("::")

    name, _, _ = test.partition("[")
    assert any(one == name or one.startswith(f"{name}::") for one in known_tests(path))


def test_there_are_enough_mutants_and_each_has_its_own_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= AT_LEAST
    assert all(mutant.tests for mutant in MUTANTS)


def test_the_page_tells_of_these_mutants() -> None:
    """It is made by `make mutants`, which has tried them all."""
    page = (ROOT / "docs/mutants.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| `(\S+)` \| (.+) \| `tests/[^`]+` \|$", page, re.MULTILINE)
    assert rows == [(mutant.name, mutant.breaks) for mutant in MUTANTS]


def mutant(**fields: bool) -> Mutant:
    return Mutant("name", "what", "ids.py", "find", "replace", ("tests/test_a.py",), **fields)


def test_a_mutant_is_caught_by_the_first_test_that_fails() -> None:
    output = "1 failed\nFAILED tests/test_a.py::test_b[c] - assert 1 - 1\nFAILED tests/test_a.py::d"

    assert judge(mutant(), Run(1, output)) == ("tests/test_a.py::test_b[c]", "assert 1 - 1")


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (0, "1 passed"),
        (1, "ERROR tests/test_a.py::test_b - in a fixture"),
        (2, "ERROR tests/test_a.py - SyntaxError"),
        (WRONG_PACKAGE, ""),
    ],
)
def test_what_is_no_failed_test_catches_nothing(code: int, output: str) -> None:
    caught_by, reason = judge(mutant(), Run(code, output))

    assert caught_by == ""
    assert output in reason or code == 0


@pytest.mark.parametrize("may_hang", [False, True])
def test_a_test_that_does_not_end_counts_where_that_is_expected(may_hang: bool) -> None:
    output = "FAILED tests/test_a.py::test_b - Failed: Timeout (>20.0s) from pytest-timeout."

    caught_by, _ = judge(mutant(may_hang=may_hang), Run(1, output))

    assert bool(caught_by) == may_hang


def test_tests_run_against_a_copy_of_the_package() -> None:
    """As the command runs them: with the plugin of that copy, and with warnings as errors."""
    run = run_tests(["tests/test_backoff.py"], mutant=None, within_s=60)

    assert run.code == pytest.ExitCode.OK, run.output
