"""The page of mistakes is the table of mistakes, and what it leaves to other tests is there."""

from __future__ import annotations

from pathlib import Path

from tests.each import each
from tests.mistakes.elsewhere import ELSEWHERE
from tests.mistakes.first_tried import FIRST_TRIED
from tests.mistakes.table import MISTAKES, ShownElsewhere
from tools.make_mistakes_page import PAGE, make

TESTS = Path(__file__).parent


def test_the_page_is_made_from_the_table() -> None:
    assert PAGE.read_text() == make(), "run: python -m tools.make_mistakes_page"


def test_each_mistake_that_was_tried_first_has_a_row_and_many_came_later() -> None:
    rows = {one.title for one in MISTAKES} | {one.title for one in ELSEWHERE}
    first = {title for titles in FIRST_TRIED.values() for title in titles}

    assert list(FIRST_TRIED) == list(range(1, 67))
    assert first - rows == set()
    assert len(rows - first) >= 20


@each(ELSEWHERE, name=lambda one: one.title)
def test_what_is_shown_elsewhere_is_there(one: ShownElsewhere) -> None:
    file, _, name = one.test.partition("::")
    text = (TESTS / file).read_text()

    assert not name or f"def {name}(" in text
