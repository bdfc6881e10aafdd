"""The numbers that code, tests and pages name are explained on one page of this repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.each import each
from tests.named import ROOT, functions

PAGE = ROOT / "docs/reference/invariants.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {
    cells[1]: cells[2:4]
    for line in TEXT.splitlines()
    if line.startswith("| ") and (cells := [cell.strip() for cell in line.split("|")])
    if cells[1] != "number"
}
HOLDERS = sorted(set(re.findall(r"`((?:tests|src)/[^`]*)`", TEXT)))

FOLDERS = ("src", "tests", "docs", "tools", "bench", "examples", "typing_tests")
SUFFIXES = (".py", ".sql", ".md")

NUMBER = re.compile(r"\b(?:SEC-|[SFLR])[1-9]\d?\b")
FOUND_BY_DOCTOR = re.compile(r'Violation\(\s*"(\w+)"')
DOCUMENT = re.compile(r"[\w-]+\.md\b")
SECTION = re.compile(r"\b[A-Z]{4,} \d+\.\d+")
"""Of a document that is called by its name in capitals."""


def files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        yield from (file for file in (ROOT / folder).rglob("*") if file.suffix in SUFFIXES)


FILES = sorted(files())
DOCUMENTS = {file.name for file in FILES}


def numbers_in(file: Path) -> set[str]:
    text = file.read_text(encoding="utf-8")
    return {*NUMBER.findall(text), *FOUND_BY_DOCTOR.findall(text)}


NAMED = set[str]().union(*(numbers_in(file) for file in FILES if file != PAGE))


@each(FILES)
def test_every_number_that_a_file_names_is_on_the_page(file: Path) -> None:
    assert numbers_in(file) - ROWS.keys() == set()


@each(sorted(ROWS))
def test_a_number_on_the_page_is_named_and_says_what_holds_it(number: str) -> None:
    meaning, held_by = ROWS[number]

    assert number in NAMED
    assert meaning.endswith(".")
    assert re.search(r"`(?:tests|src)/", held_by)


@each(HOLDERS)
def test_what_holds_an_invariant_exists(holder: str) -> None:
    path, _, name = holder.partition("::")

    known = functions(ROOT / path)
    is_class = any(one.startswith(f"{name}::") for one in known)
    assert known
    assert not name or name in known or is_class


@each(FILES)
def test_a_file_names_no_document_that_is_not_here(file: Path) -> None:
    text = file.read_text(encoding="utf-8")

    assert set(DOCUMENT.findall(text)) - DOCUMENTS == set()
    assert SECTION.findall(text) == []
