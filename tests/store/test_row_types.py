"""What rows are called in Python is what a statement of either database reads at their places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import store
from perdure.store.postgres.connection import PACKAGE as POSTGRES
from perdure.store.sql.commits.row_types import ROW_TYPES
from perdure.store.sql.statement_files import files_of, text_of
from perdure.store.sqlite.database import PACKAGE as SQLITE

STATEMENTS = [
    (package, name)
    for package in (SQLITE, POSTGRES)
    for name in sorted({*ROW_TYPES} & {*files_of(package)})
]
each_statement = pytest.mark.parametrize(("package", "name"), STATEMENTS)

NOT_READ = {SQLITE: {"is_stored"}, POSTGRES: set[str]()}
"""Only PostgreSQL needs to be told whether a live row is there."""
OTHER_COLUMNS = {
    ("put_reports", "version"): "turns",
    ("put_stream_heads", "next_index"): "items",
    ("insert_stream_rows", "last_index"): "before_next",
    ("insert_instances", "updated_ms"): "created_ms",
}
"""Columns that take a value of another name."""

VALUE = r"\(?(?:\w+\.)?value ->> (\d+)\)?(?:::\w+)?"
BODY = rf"substr\( ?:bodies(?:::bytea)?, {VALUE}, {VALUE} ?\)"
SET = rf"\b(\w+) = (?:ANY \(ARRAY\[)?(?:coalesce\( ?)?(?:CAST\()?(?:{BODY}|{VALUE})"
ALIAS = rf"{VALUE}(?: COLLATE \"C\")?(?: = '1')? AS ([a-z_]+)"
INSERT = r"INSERT (?:OR REPLACE )?INTO [\w.]+ \(([^)]*)\) SELECT (.*?) FROM"


def fields_of(name: str) -> tuple[str, ...]:
    fields: tuple[str, ...] = ROW_TYPES[name].__struct_fields__
    return fields


def code_of(package: str, name: str) -> str:
    """Return a statement in one line."""
    lines = text_of(package, name).splitlines()
    return " ".join(" ".join(line for line in lines if not line.startswith("--")).split())


def pieces_of(text: str) -> Iterator[str]:
    """Split a list at its commas, but for those within brackets."""
    depth, begin = 0, 0
    for place, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def read_by(package: str, name: str) -> Iterator[tuple[str, int]]:
    """Return which columns or names of a statement take which positions of its rows."""
    code = code_of(package, name)
    for column, begin, _, place in re.findall(SET, code):
        yield column, int(begin or place)
    for place, alias in re.findall(ALIAS, code):
        yield alias, int(place)
    for columns, values in re.findall(INSERT, code):
        for column, value in zip(columns.split(","), pieces_of(values), strict=True):
            for place in re.findall(VALUE, value)[:1]:
                yield column.strip(), int(place)


@each_statement
def test_the_header_of_a_statement_names_the_values_of_a_row(package: str, name: str) -> None:
    head = " ".join(
        line[3:] for line in text_of(package, name).splitlines() if line.startswith("-- ")
    )

    [told] = re.findall(r"\brows, JSON \[\[(.*?)\], \.\.\.\]", head)
    assert tuple(told.split(", ")) == fields_of(name)


@each_statement
def test_a_statement_reads_every_value_of_a_row(package: str, name: str) -> None:
    read = {int(place) for place in re.findall(VALUE, code_of(package, name))}

    fields = fields_of(name)
    assert {place for place, field in enumerate(fields) if place not in read} == {
        place for place, field in enumerate(fields) if field in NOT_READ[package]
    }
    assert max(read) < len(fields)


@each_statement
def test_a_statement_reads_each_value_at_its_place(package: str, name: str) -> None:
    fields = fields_of(name)
    found = [False] * len(fields)

    for column, place in read_by(package, name):
        wanted = OTHER_COLUMNS.get((name, column), column)
        assert fields[place] in (wanted, f"{wanted}_begin"), f"{column} is given {fields[place]}"
        found[place] = True

    for begin, length in re.findall(BODY, code_of(package, name)):
        assert fields[int(length)] == fields[int(begin)].replace("_begin", "_length")
        found[int(length)] = True
    assert [field for place, field in enumerate(fields) if not found[place]] == [
        field for field in fields if field in NOT_READ[package]
    ]


@pytest.mark.parametrize("package", [SQLITE, POSTGRES])
def test_no_statement_takes_rows_without_names(package: str) -> None:
    taking = {
        name for name in files_of(package) if re.search(r"(?<!:):rows\b", code_of(package, name))
    }

    assert taking - {"write", "write_known"} == {*ROW_TYPES} & {*files_of(package)}


# ------------------------------------------------------------- what the code gives


def built_rows() -> Iterator[tuple[str, ast.Call]]:
    """Return where the store makes a row, and how."""
    names = {each.__name__ for each in ROW_TYPES.values()}
    for file in Path(next(iter(store.__path__))).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in names:
                    yield f"{file.name}:{node.lineno}", node


def name_of(value: ast.expr) -> str | None:
    """Return what a value is called where a row is made of it, or None if that cannot be told."""
    match value:
        case ast.Attribute(value=inner, attr="value"):  # of an enum
            return name_of(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="place") | ast.Attribute(attr="place"), args=[body]):
            return f"{name_of(body)}_begin"
        case ast.Call(func=ast.Name(id="len"), args=[body]):
            return f"{name_of(body)}_length"
    return None


def test_a_row_is_made_of_values_in_the_order_of_their_names() -> None:
    fields = {each.__name__: each.__struct_fields__ for each in ROW_TYPES.values()}
    compared = 0

    for where, call in built_rows():
        assert isinstance(call.func, ast.Name)
        for field, value in zip(fields[call.func.id], call.args, strict=False):
            if isinstance(value, ast.Starred):
                break  # A key of several values, or a body that may be missing.
            name = name_of(value)
            assert name in (None, field), f"{where} gives {name} as {field}"
            compared += name is not None

    assert compared > 60
