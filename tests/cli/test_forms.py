"""The forms of an answer, by themselves."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest

from perdure.cli.forms import Cell, Column, Listing
from tests.cli.commands import typed


def in_csv(cell: Cell, heading: str = "cell") -> list[list[str]]:
    text = Listing[Cell](columns=[Column(heading, lambda one: one)]).render("csv", [cell])
    assert text is not None
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+cmd", "'+1+cmd"),
        ("-1+cmd", "'-1+cmd"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "\\t=1"),
        ("\r=1", "\\r=1"),
        ("order-1", "order-1"),
        ("a=b", "a=b"),
        ("-12.5", "-12.5"),
        (-7, "-7"),
        (timedelta(seconds=-2), "-2.000"),
        (datetime(2026, 11, 16, tzinfo=UTC), "2026-11-16T00:00:00.000Z"),
        ("", ""),
    ],
)
def test_no_cell_of_a_csv_is_a_formula(cell: Cell, shown: str) -> None:
    """SEC-19: what begins like one is quoted; control characters are escapes."""
    assert in_csv(cell) == [["cell"], [shown]]
    if isinstance(cell, str) and cell:
        assert in_csv(1, cell)[0] == [shown]


def test_what_a_statement_finds_is_no_formula_either(shop: str) -> None:
    """SEC-19."""
    found = typed("sql", "select '=1+1' as \"=head\", -3 as n", "-o", "csv", store=shop)

    assert found.stdout == "'=head,n\n'=1+1,-3\n"
