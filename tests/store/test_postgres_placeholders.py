"""On PostgreSQL a projection may write `?` and `:name`, as on SQLite."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import UsageError
from perdure.store.postgres.placeholders import numbered


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("VALUES (?, ?)", ("a", 1), "VALUES ($1, $2)"),
        ("VALUES (?2, ?1, ?2)", ("a", 1), "VALUES ($2, $1, $2)"),
        ("VALUES ($2, $1)", ("a", 1), "VALUES ($2, $1)"),
        ("SELECT d ? $1", ("a",), "SELECT d ? $1"),
        ("SELECT d ?? ?", ("a",), "SELECT d ? $1"),
        ("SELECT d ??| ?", (["a"],), "SELECT d ?| $1"),
        ("SELECT d ? 'a'", (), "SELECT d ? 'a'"),
        ("SELECT '?', ?", (1,), "SELECT '?', $1"),
        ("SELECT 'it''s ?', ?", (1,), "SELECT 'it''s ?', $1"),
        (r"SELECT E'\'?', ?", (1,), r"SELECT E'\'?', $1"),
        ('SELECT "?""?", ?', (1,), 'SELECT "?""?", $1'),
        ("SELECT $a$ ? $b$ ? $a$, ?", (1,), "SELECT $a$ ? $b$ ? $a$, $1"),
        ("SELECT ? -- why?\n, ?", (1, 2), "SELECT $1 -- why?\n, $2"),
        ("SELECT /* ? /* ? */ ? */ ?", (1,), "SELECT /* ? /* ? */ ? */ $1"),
        ("SELECT 1 /* $1 */ WHERE ?", (1,), "SELECT 1 /* $1 */ WHERE $1"),
        ("SELECT ?::int", (1,), "SELECT $1::int"),
    ],
)
def test_question_marks_become_numbers_where_they_stand_for_values(
    text: str, values: tuple[Any, ...], expected: str
) -> None:
    assert numbered(text, values) == (expected, values)


@pytest.mark.parametrize(
    ("text", "expected", "values"),
    [
        ("VALUES (:id, :what, :id)", "VALUES ($1, $2, $1)", (7, "x")),
        ("SELECT :id::text, ':what'", "SELECT $1::text, ':what'", (7,)),
        ("SELECT items[1:2], :what", "SELECT items[1:2], $1", ("x",)),
    ],
)
def test_names_become_numbers(text: str, expected: str, values: tuple[Any, ...]) -> None:
    assert numbered(text, {"id": 7, "what": "x"}) == (expected, values)


def test_a_name_without_a_value_is_said() -> None:
    with pytest.raises(UsageError, match="no value is given for :what"):
        numbered("VALUES (:what)", {"id": 7})
