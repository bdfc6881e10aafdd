"""The page of mistakes is the table of mistakes, and what it leaves to other tests is there."""

from __future__ import annotations

from pathlib import Path

from tests.each import each
from tests.mistakes.elsewhere import ELSEWHERE
from tests.mistakes.table import ShownElsewhere
from tools.make_mistakes_page import PAGE, make

TESTS = Path(__file__).parent


def test_the_page_is_made_from_the_table() -> None:
    assert PAGE.read_text() == make(), "run: python -m tools.make_mistakes_page"


@each(ELSEWHERE, name=lambda one: one.title)
def test_what_is_shown_elsewhere_is_there(one: ShownElsewhere) -> None:
    file, _, name = one.test.partition("::")
    text = (TESTS / file).read_text()

    assert not name or f"def {name}(" in text
