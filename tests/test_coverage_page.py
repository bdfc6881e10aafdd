"""The page of what is covered is whole, and every test it names exists."""

from __future__ import annotations

import re

from tests.each import each
from tests.named import ROOT, functions, known_tests

PAGE = (ROOT / "docs/coverage.md").read_text(encoding="utf-8")

ROWS = {
    "Registration and versions": 10,
    "Orchestration context": 23,
    "Activities": 7,
    "Sessions": 9,
    "Tags": 4,
    "Client": 14,
    "Runtime options": 18,
    "Runtime behaviour": 16,
    "Errors": 4,
    "Observability": 19,
    "Limits": 7,
    "Typed API and test support": 6,
    "Traps that were fixed there": 34,
    "Defects that are still there": 20,
    "Deciders: what is written": 11,
    "Deciders: timers": 8,
    "Deciders: effects": 9,
    "Deciders: asking": 8,
    "Deciders: running": 10,
    "Deciders: options": 12,
    "Deciders: projections": 6,
    "Deciders: introspection": 2,
    "Deciders: pitfalls that are still there": 15,
}
"""How many rows each section has: as many as the list of what is to be covered."""

CASES = [ROOT / "tests/core/scenarios.py", ROOT / "tests/golden/worlds.py"]
"""Where the names of cases come from that are not in the file of their test."""


def sections() -> dict[str, list[list[str]]]:
    """Return the cells of each row, by section."""
    found: dict[str, list[list[str]]] = {}
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("|")]
        found[title] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return found


ALL_ROWS = [(title, row) for title, rows in sections().items() for row in rows]
NAMED = sorted(set(re.findall(r"`(tests/[^`]*::[^`]*)`", PAGE)))


def test_every_section_has_all_its_rows() -> None:
    assert {title: len(rows) for title, rows in sections().items()} == ROWS


def test_the_rows_of_traps_and_defects_are_numbered_without_gap() -> None:
    found = sections()

    traps = [row[0] for row in found["Traps that were fixed there"]]
    defects = [row[0] for row in found["Defects that are still there"]]
    pitfalls = [row[0] for row in found["Deciders: pitfalls that are still there"]]
    assert traps == [str(number) for number in range(1, 35)]
    assert pitfalls == [str(number) for number in range(1, 16)]
    assert defects == [*"abcdefghijklmnopq", "q2", "q3", "r"]


@each(ALL_ROWS, name=lambda titled: f"{titled[0]}, {titled[1][0]}")
def test_every_row_says_what_it_is_here_and_names_a_test(titled: tuple[str, list[str]]) -> None:
    title, row = titled
    columns = 3 if title.endswith("there") else 4
    assert len(row) == columns, f"a row of {title!r} has {len(row)} cells"
    assert row[0]
    assert row[1]
    assert re.fullmatch(r"`tests/\S+::\S+`(, `tests/\S+::\S+`)*", row[2]), row[2]


def test_nothing_is_left_open() -> None:
    assert "?" not in PAGE


@each(NAMED)
def test_a_named_test_exists(named: str) -> None:
    path, _, test = named.partition("::")
    name, _, case = test.removesuffix("]").partition("[")

    assert name in known_tests(path)
    if case:
        makers = functions(ROOT / path).union(*(functions(each) for each in CASES))
        assert set(case.split("-")) <= makers
