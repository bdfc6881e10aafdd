"""Statements are files that say what they do and search by index."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import StoreError
from perdure.model.tables import Parameters
from perdure.store.postgres.functions import WRITES
from perdure.store.sql.commits.writes import Writes
from perdure.store.sql.statement_files import files_of
from perdure.store.sqlite.connection import (
    SqliteConnection,
    connect,
    split_script,
    statement,
)
from perdure.store.sqlite.database import PACKAGE
from perdure.store.sqlite.memory import MEMORY
from perdure.store.sqlite.one_statement import NEVER, OneStatement
from tests.each import each

NAMES = sorted(files_of(PACKAGE))
SCHEMA = (resources.files(PACKAGE) / "schema.sql").read_text(encoding="utf-8")
SMALL = {"sqlite_schema", "migrations", "workers", "definitions", "sessions", "checkpoints"} | {
    "perdure_settings"
}
"""Tables that may be read whole."""
WHOLE = {
    "find_torn_sessions",
    "read_all_feed",
    "totals",
    "count_running",
    "find_old_receipts",
    "find_old_stream_rows",
    "find_old_unborn",
    "find_old_dead_jobs",
    "find_stranded_jobs",
    "find_stranded_turns",
}
"""Statements that read everything: for the checker, for people, and to find what is too old or was
written by a wrong clock."""
AT_ONCE = sorted(({*WRITES} & {*NAMES} | {"insert_live"}) - NEVER)
"""Statements that a commit may write."""
SEARCHES = r"Open(Read|Write)|Seek\w+|Rewind|Last|VFilter|Idx[GL][ET]|(Not)?Found|No\w+"
"""Operations of SQLite's machine that say what is searched, and how."""
VALUE = 1
"""Which column of `json_each` is the value, made anew each time it is asked for (record 83)."""
CODE = "\n".join(
    file.read_text(encoding="utf-8")
    for package in (PACKAGE, "perdure.store.sql", "perdure.store.within")
    for file in Path(str(resources.files(package))).rglob("*.py")
)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


@each(NAMES)
def test_a_statement_is_alone_in_its_file_with_a_header(name: str) -> None:
    text = statement(name)

    assert text.startswith("-- ")
    assert "-- Params: " in text
    assert "Returns: " in text
    assert len(list(split_script(text))) == 1
    assert max(map(len, text.splitlines())) <= 100


@each(NAMES)
def test_a_statement_is_used(name: str) -> None:
    assert f'"{name}"' in CODE


@each(name for name in NAMES if name not in WHOLE)
def test_a_statement_searches_and_never_scans(name: str, empty: SqliteConnection) -> None:
    text = _without_comments(statement(name))
    if not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)", text):
        return
    tables = {name for (name,) in empty.run_text("SELECT name FROM sqlite_schema")}
    params = dict.fromkeys(re.findall(r"(?<!:):([a-z_]+)", text), "NULL")
    for param, value in params.items():
        text = re.sub(rf":{param}\b", value, text)

    plan = [row[-1] for row in empty.run_text(f"EXPLAIN QUERY PLAN {text}")]

    # What is made on the way may have the name of the table that it is made of.
    for made in re.findall(r"(?<=CO-ROUTINE )\w+", "\n".join(plan)):
        plan.remove(f"SCAN {made}")
    for step in plan:
        scanned = re.match(r"SCAN (\w+)", step)
        if scanned and scanned[1] not in SMALL:
            assert scanned[1] not in tables, step
        if re.match(r"SEARCH (live|jobs|inbox|history|instances|observations)\b", step):
            assert not step.endswith("(part=?)"), step


@pytest.fixture
def empty() -> Iterator[SqliteConnection]:
    connection = connect(MEMORY, busy_ms=0)
    for part in split_script(SCHEMA):
        connection.run_text(part)
    yield connection
    connection.close()


@pytest.fixture
def one_statement(empty: SqliteConnection) -> OneStatement:
    return OneStatement(empty)


def _alone_and_within(one_statement: OneStatement, name: str) -> list[tuple[str, Parameters]]:
    """Return a statement as it is, and as the body of a trigger, with values for it."""
    text = _without_comments(statement(name))
    params = dict.fromkeys(re.findall(r":([a-z_]+)", text))
    writes = Writes(locks=False)
    writes.write(name, **params)
    made = one_statement._make(writes)
    return [(text, params), (made.insert, [None] * (len(params) + 1))]


@each(AT_ONCE)
def test_a_statement_of_a_commit_does_the_same_in_a_trigger(
    name: str, empty: SqliteConnection, one_statement: OneStatement
) -> None:
    def searches(text: str, values: Parameters) -> Counter[tuple[Any, ...]]:
        """Count operations, and for those that open one, which table or index."""
        program = empty.run_own(f"EXPLAIN {text}", values)
        return Counter(
            (operation, first[1] if operation.startswith("Open") else None)
            for _, operation, *first in program
            if re.fullmatch(SEARCHES, operation)
        )

    alone, within = [searches(*one) for one in _alone_and_within(one_statement, name)]

    # Reading the version, and going through the one row that is inserted.
    assert within - alone == Counter([("VFilter", None), ("Rewind", None)])
    assert not alone - within


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 cannot set that up")
@each(AT_ONCE)
def test_a_statement_of_a_commit_has_the_same_plan_in_a_trigger(
    name: str, empty: SqliteConnection, one_statement: OneStatement
) -> None:
    if sys.version_info >= (3, 12):  # for mypy
        empty.bare.setconfig(sqlite3.SQLITE_DBCONFIG_TRIGGER_EQP)
    alone, within = [
        [
            row[-1]
            for row in empty.run_own(f"EXPLAIN QUERY PLAN {text}", values)
            if re.match(r"(SCAN|SEARCH) (?!pragma_data_version)", row[-1])
        ]
        for text, values in _alone_and_within(one_statement, name)
    ]

    assert within == alone != []


@each(NAMES)
def test_a_row_that_is_given_is_made_a_text_at_most_twice(
    name: str, empty: SqliteConnection
) -> None:
    text = statement(name)
    values = dict.fromkeys(re.findall(r":([a-z_]+)", _without_comments(text)))

    made = Counter(
        cursor
        for _, operation, cursor, column, *_ in empty.run_own(f"EXPLAIN {text}", values)
        if operation == "VColumn" and column == VALUE
    )

    assert max(made.values(), default=0) <= 2


@each(sorted(NEVER))
def test_other_statements_cannot_be_in_a_trigger(name: str, one_statement: OneStatement) -> None:
    with pytest.raises(StoreError, match="INDEXED BY"):
        _alone_and_within(one_statement, name)
    writes = Writes(locks=False)
    writes.write(name)
    assert not one_statement.run(writes, 1)


def test_every_index_names_the_statement_that_needs_it() -> None:
    for name, above in re.findall(r"((?:-- .*\n)+)CREATE (?:UNIQUE )?INDEX (\w+)", SCHEMA):
        named = re.findall(r"\w+", name)
        assert set(named) & set(NAMES), above


def test_no_statement_is_built_in_python() -> None:
    assert not re.findall(r'f?"(?:SELECT|INSERT INTO|UPDATE|DELETE FROM) ', CODE)
