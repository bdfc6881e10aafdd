"""Statements are files that say what they do and search by index."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from perdure.store.sqlite.connection import MEMORY, connect, split_script, statement
from perdure.store.sqlite.database import PACKAGE

FOLDER = resources.files(PACKAGE) / "sql"
NAMES = sorted(file.name.removesuffix(".sql") for file in FOLDER.iterdir())
SCHEMA = (resources.files(PACKAGE) / "schema.sql").read_text(encoding="utf-8")
SMALL = {"sqlite_schema", "migrations", "workers", "definitions", "sessions", "checkpoints"}
"""Tables that may be read whole."""
WHOLE = {
    "read_ids",
    "read_executions",
    "read_all_kv",
    "read_all_reports",
    "read_all_dead_jobs",
    "read_all_feed",
    "read_all_observations",
    "read_all_receipts",
    "read_all_snapshots",
    "read_all_unique_keys",
    "totals",
    "list_running",
    "find_old_receipts",
    "find_old_unborn",
    "find_old_dead_jobs",
}
"""Statements that read everything: for the checker, for people, and to find what is too old."""
CODE = "\n".join(
    file.read_text(encoding="utf-8")
    for package in (PACKAGE, "perdure.store.sql")
    for file in resources.files(package).iterdir()
    if file.name.endswith(".py")
)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_is_alone_in_its_file_with_a_header(name: str) -> None:
    text = statement(name)

    assert text.startswith("-- ")
    assert "-- Params: " in text
    assert "Returns: " in text
    assert len(list(split_script(text))) == 1
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_is_used(name: str) -> None:
    assert f'"{name}"' in CODE


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WHOLE])
def test_a_statement_searches_and_never_scans(name: str, driver: str) -> None:
    text = _without_comments(statement(name))
    if not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)", text):
        return
    connection = connect(driver, MEMORY, busy_ms=0)
    for part in split_script(SCHEMA):
        connection.run_text(part)
    tables = {name for (name,) in connection.run_text("SELECT name FROM sqlite_schema")}
    params = dict.fromkeys(re.findall(r"(?<!:):([a-z_]+)", text), "NULL")
    for param, value in params.items():
        text = re.sub(rf":{param}\b", value, text)

    plan = [row[-1] for row in connection.run_text(f"EXPLAIN QUERY PLAN {text}")]
    connection.close()

    for step in plan:
        scanned = re.match(r"SCAN (\w+)", step)
        if scanned and scanned[1] not in SMALL:
            assert scanned[1] not in tables, step
        if re.match(r"SEARCH (live|jobs|inbox|history|instances|observations)\b", step):
            assert not step.endswith("(part=?)"), step


def test_every_index_names_the_statement_that_needs_it() -> None:
    for name, above in re.findall(r"((?:-- .*\n)+)CREATE (?:UNIQUE )?INDEX (\w+)", SCHEMA):
        named = re.findall(r"\w+", name)
        assert set(named) & set(NAMES), above


def test_no_statement_is_built_in_python() -> None:
    assert not re.findall(r'f?"(?:SELECT|INSERT INTO|UPDATE|DELETE FROM) ', CODE)
