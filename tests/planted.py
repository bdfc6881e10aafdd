"""What a stranger may put into a schema of the search path: operators and functions that fit our
statements as well as PostgreSQL's own, or better, and tell when they are called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import psycopg
from psycopg import sql

from perdure.store.postgres.connection import PACKAGE
from perdure.store.sql.statement_files import files_of
from tests.postgres import SUPERUSER

STRANGER = "mallory"

TYPES = (
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "double precision",
    "text",
    "name",
    "json",
    "jsonb",
    "bytea",
    "boolean",
    "oid",
    "xid",
    "xid8",
    "text[]",
)
OPERATORS = ("+", "-", "*", "/", "=", "<>", "<", ">", "<=", ">=", "||", "->", "->>", "#>>")
COMPARES = {"=", "<>", "<", ">", "<=", ">="}

AGGREGATES = ("json_agg(json)", "json_agg(anyelement)", "min(bigint)", "max(bigint)", "sum(bigint)")

TRAP = """
CREATE FUNCTION {schema}.{name}({arguments}) RETURNS {result} LANGUAGE plpgsql AS $trap$
BEGIN
    PERFORM pg_catalog.nextval('{schema}.called');
    RAISE EXCEPTION 'a stranger was called: {name}({arguments})';
END
$trap$
"""
"""A sequence keeps its value when the transaction of who has called is rolled back."""


def plant(url: str, schema: str) -> None:
    """Put traps into a schema, as somebody who may create there and nothing else."""
    with _stranger(url, schema) as connection:
        connection.execute(f"CREATE SEQUENCE {schema}.called".encode())
        connection.execute(f"GRANT ALL ON SEQUENCE {schema}.called TO PUBLIC".encode())
        known = _known_operators(connection)
        statements = [*_functions(connection, schema), *_aggregates(schema)]
        for place, (sign, left, right) in enumerate(_all_operators()):
            guess = "boolean" if sign in COMPARES else left
            result = known.get((sign, left, right), guess)
            statements += _operator(schema, f"operator_{place}", (sign, left, right), result)
        connection.execute(";".join(statements).encode())


def plant_misfits(url: str, schema: str) -> None:
    """Put operators into a schema that PostgreSQL has not, and with whose results no statement of
    ours can be understood."""
    with _stranger(url, schema) as connection:
        known = _known_operators(connection)
        missing = [one for one in _all_operators() if one not in known]
        statements = [
            text
            for place, one in enumerate(missing)
            for text in _operator(schema, f"operator_{place}", one, "point")
        ]
        connection.execute(";".join(statements).encode())


def calls(url: str, schema: str) -> int:
    """Return how often a trap was called."""
    with psycopg.connect(_as(url, SUPERUSER)) as connection:
        text = f"SELECT last_value, is_called FROM {schema}.called"  # noqa: S608 - a test's own
        found = connection.execute(text.encode()).fetchone()
    assert found is not None
    last, is_called = found
    return int(last) if is_called else 0


def _functions(connection: psycopg.Connection[Any], schema: str) -> Iterator[str]:
    """Those of PostgreSQL's own that our statements call, each with the same arguments."""
    found = connection.execute(
        """
        SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid)
        FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace
          AND prokind = 'f'
          AND proname::text = ANY (%s)
          AND (pg_get_function_arguments(oid) || ' ' || pg_get_function_result(oid))
              !~ '"any"|internal|cstring'
        """,
        [_called()],
    )
    for name, arguments, result in found.fetchall():
        yield TRAP.format(schema=schema, name=name, arguments=arguments, result=result)


def _called() -> list[str]:
    """Return what our statements may call: every word before a bracket."""
    others = [
        file
        for folder in ("examination", "migrations")
        for file in (resources.files(PACKAGE) / folder).iterdir()
    ]
    texts = [file.read_text(encoding="utf-8") for file in (*files_of(PACKAGE).values(), *others)]
    return sorted({name for text in texts for name in re.findall(r"\b([a-z_0-9]+)\(", text)})


def _all_operators() -> Iterator[tuple[str, str, str]]:
    for left in TYPES:
        for right in TYPES:
            for sign in OPERATORS:
                yield sign, left, right


def _known_operators(connection: psycopg.Connection[Any]) -> dict[tuple[str, str, str], str]:
    """Return the results of PostgreSQL's own."""
    found = connection.execute(
        """
        SELECT oprname, oprleft::regtype::text, oprright::regtype::text, oprresult::regtype::text
        FROM pg_operator
        WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprleft <> 0
        """
    )
    return {(sign, left, right): result for sign, left, right, result in found.fetchall()}


def _operator(schema: str, name: str, operator: tuple[str, str, str], result: str) -> Iterator[str]:
    sign, left, right = operator
    yield TRAP.format(schema=schema, name=name, arguments=f"{left}, {right}", result=result)
    yield (
        f"CREATE OPERATOR {schema}.{sign} "
        f"(LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {schema}.{name})"
    )


def _aggregates(schema: str) -> Iterator[str]:
    for kind in sorted({one.partition("(")[2][:-1] for one in AGGREGATES}):
        yield TRAP.format(schema=schema, name="aggregate", arguments=f"text, {kind}", result="text")
    for one in AGGREGATES:
        yield f"CREATE AGGREGATE {schema}.{one} (SFUNC = {schema}.aggregate, STYPE = text)"


@contextmanager
def _stranger(url: str, schema: str) -> Iterator[psycopg.Connection[Any]]:
    """Connect as somebody who may create in a schema."""
    who, where = sql.Identifier(STRANGER), sql.Identifier(schema)
    with psycopg.connect(_as(url, SUPERUSER), autocommit=True) as dba:
        if not dba.execute("SELECT FROM pg_roles WHERE rolname = %s", [STRANGER]).rowcount:
            dba.execute(sql.SQL("CREATE ROLE {} LOGIN").format(who))
        dba.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(where))
        dba.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO PUBLIC").format(where))
        dba.execute(sql.SQL("GRANT CREATE ON SCHEMA {} TO {}").format(where, who))
    with psycopg.connect(_as(url, STRANGER), autocommit=True) as connection:
        connection.execute("SET search_path = pg_catalog")
        yield connection


def _as(url: str, role: str) -> str:
    return re.sub("//[^@]*@", f"//{role}@", url)
