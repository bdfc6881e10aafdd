"""What `perdure check` finds in source text, and what it lets pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure.core.forbidden import ADVICE_OF_MODULE, rules
from perdure.core.forbidden_names import KIND_OF_ADVICE, rule_of_name
from perdure.lint.checker import check_files
from perdure.lint.findings import KINDS, LintFinding
from tests.lint.corpus import HEAD, RIGHT, WRONG

ROOT = Path(__file__).parent.parent.parent


def found_in(program: str, folder: Path) -> list[LintFinding]:
    file = folder / "program.py"
    file.write_text(program)
    return check_files([file], roots=[]).findings


def test_each_wrong_program_is_found(tmp_path: Path) -> None:
    missed = []
    for kind, program in WRONG:
        found = {one.kind for one in found_in(program, tmp_path)}
        if found != {kind}:
            missed.append((kind, found, program.removeprefix(HEAD)))

    assert missed == []
    assert len(WRONG) >= 40


def test_no_program_that_is_right_gives_a_finding(tmp_path: Path) -> None:
    alarms = [(found, program) for program in RIGHT if (found := found_in(program, tmp_path))]

    assert alarms == []


def test_the_corpus_has_each_kind() -> None:
    assert {kind for kind, _ in WRONG} == set(KINDS)


def test_the_examples_give_no_finding() -> None:
    checked = check_files(sorted((ROOT / "examples").glob("*.py")), roots=[ROOT])

    assert checked.findings == []
    assert checked.definitions >= 15


MEANT = {
    "tests/chaos/roaming.py": {"roam"},  # as `wander`
    "tests/core/test_asyncio_in_orchestrations.py": {"forgets"},
    "tests/core/test_deciders.py": {"Odd"},
    "tests/core/wandering.py": {"wander"},  # tells the test which way it went
    "tests/engine/test_activities.py": {"asking"},
    "tests/mistakes/differing.py": {"flow"},
    "tests/engine/test_bad_input.py": {"forgetful", "threading", "connecting"},
    "tests/engine/test_deciders.py": {"Careless"},
    "tests/engine/test_held_deciders.py": {"Impure"},
    "tests/engine/test_lifetimes.py": {"reads_the_clock"},
    "tests/engine/test_nondeterminism.py": {
        *("reads_the_clock", "rolls_dice", "makes_an_id", "opens_a_file", "sneaky", "late"),
        *("reads_the_clock_late", "rolls_dice_late", "rolls_dice_late_in_a_helper"),
    },
    "tests/engine/test_room_for_jobs.py": {"wrong"},
    "tests/engine/test_snapshots.py": {"Sum"},  # counts its folds in a list, for the test
    "tests/test_given.py": {"Sloppy"},
    "tests/testing/planted.py": {
        *("reads_the_clock", "goes_on_from_a_counter"),
        *("loses_an_await", "loses_an_await_and_waits"),
    },
}
"""The definitions of the tests that are wrong on purpose."""


def test_the_definitions_of_the_tests_give_no_finding_that_is_not_meant() -> None:
    checked = check_files(sorted((ROOT / "tests").rglob("*.py")), roots=[ROOT])

    found: dict[str, set[str]] = {}
    for one in checked.findings:
        file = Path(one.path).relative_to(ROOT).as_posix()
        found.setdefault(file, set()).add(one.definition.partition(" ")[2])
    assert {file: names - MEANT.get(file, set()) for file, names in found.items()} == {
        file: set() for file in found
    }
    assert checked.definitions > 500


# ---------------------------------------------------------------- following calls


def test_calls_are_followed_into_other_modules_of_the_project(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("from shop.prices import price\n")
    (package / "prices.py").write_text(
        "from .rates import rate as current\n\ndef price(name):\n    return current(name)\n"
    )
    (package / "rates.py").write_text(
        "import random\n\ndef rate(name):\n    return random.random()\n"
    )
    (package / "orders.py").write_text(
        "import shop\nfrom perdure import orchestration\n\n"
        "@orchestration\nasync def buy(name: str) -> float:\n    return shop.price(name)\n"
    )

    [found] = check_files([package / "orders.py"], roots=[tmp_path]).findings

    assert Path(found.path).name == "rates.py"
    assert found.text.endswith(
        ":4:12: random: random.random() cannot be replayed: use context().random "
        "[orchestration buy (through price -> rate)]"
    )


def test_a_decider_is_told_what_deciders_do(tmp_path: Path) -> None:
    [found] = found_in(WRONG[-4][1], tmp_path)

    assert found.message.endswith("use the `now` that decide is given")


def test_recursion_and_what_is_not_there_end(tmp_path: Path) -> None:
    program = (
        HEAD
        + "\nimport nowhere\nfrom . import beside\n\ndef again(n):\n    return again(n - 1)\n\n"
        "@orchestration\nasync def odd():\n    nowhere.call(beside.call, again(3))\n"
    )

    assert found_in(program, tmp_path) == []


# ------------------------------------------------------------------ one table of rules


def test_what_the_guard_refuses_is_refused_by_name() -> None:
    for rule in rules():
        if rule.call.partition(".")[2].startswith("_"):
            continue  # what is behind `uuid1`
        by_name = rule_of_name(rule.call)
        assert by_name is not None, rule.call
        assert by_name.advice == rule.advice or rule.call.startswith("_thread"), rule.call
    for module in ADVICE_OF_MODULE:
        assert rule_of_name(f"{module}.anything") is not None, module


def test_each_advice_has_a_kind_that_is_explained() -> None:
    assert set(KIND_OF_ADVICE.values()) <= set(KINDS)


@pytest.mark.parametrize("kind", ["clock", "random"])
def test_only_what_is_named_is_ignored(kind: str, tmp_path: Path) -> None:
    program = HEAD + (
        "\n@orchestration\nasync def bad():\n"
        f"    return time.time()  # perdure: ignore[uuid, {kind}]\n"
    )

    assert bool(found_in(program, tmp_path)) == (kind != "clock")


def test_a_finding_is_one_line() -> None:
    finding = LintFinding(
        path="a.py", line=3, column=5, kind="clock", message="x", definition="orchestration b"
    )

    assert re.fullmatch(r"a\.py:3:5: clock: x \[orchestration b\]", finding.text)
