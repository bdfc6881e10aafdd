"""The page that says which files a change takes names files that are there, and few of them."""

from __future__ import annotations

import re

from tests.each import each
from tests.named import ROOT

PAGE = ROOT / "docs/where-a-change-goes.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {
    cells[1]: (cells[2], cells[3])
    for line in TEXT.splitlines()
    if line.startswith("| ") and (cells := [cell.strip() for cell in line.split("|")])
    if cells[1] != "request"
}
REQUESTS = 12
MOST_FILES = 6


def paths_in(cell: str) -> list[str]:
    return re.findall(r"`((?:src|tests|docs|tools)/[^`]+)`", cell)


def test_the_page_has_twelve_requests() -> None:
    assert len(ROWS) == REQUESTS


@each(sorted(ROWS))
def test_a_request_takes_few_files_with_code_among_them(request: str) -> None:
    files = paths_in(ROWS[request][1])

    assert len(files) <= MOST_FILES
    assert len(set(files)) == len(files)
    assert any(file.startswith("src/") for file in files), files


@each(sorted(ROWS))
def test_the_files_and_tools_of_a_request_are_there(request: str) -> None:
    tools, files = (paths_in(cell) for cell in ROWS[request])

    assert [path for path in (*tools, *files) if not (ROOT / path).is_file()] == []
    assert files
