"""Every finding has a test that exists and a commit, or a reason why it is none."""

from __future__ import annotations

import re

from tests.each import each
from tests.named import ROOT, functions, known_tests

PAGE = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| finding")
]
NAMED = sorted(set(re.findall(r"`(tests/[^`]*)`", PAGE)))


@each(ROWS, name=lambda row: row[0])
def test_a_finding_is_mended_or_judged(row: list[str]) -> None:
    _, shown, commit = row

    assert re.search(r"`tests/|judged|left for", shown)
    assert re.fullmatch(r"[0-9a-f]{7}(, [0-9a-f]{7})*|none", commit)


@each(NAMED)
def test_a_named_test_exists(named: str) -> None:
    path, _, name = named.partition("::")

    known = known_tests(path) if name else functions(ROOT / path)
    is_class = any(one.startswith(f"{name}::") for one in known)
    assert known
    assert not name or name in known or is_class
