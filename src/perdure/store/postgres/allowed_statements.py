"""Which statements a projection may run on PostgreSQL.

This guards against mistakes: a projection that ends the transaction it shares with others, changes
the session, or touches perdure's own tables, also through a view. It does not guard against malice:
a function or trigger of the user's may do what it likes, and a projection has the rights of the
worker. Code that is not trusted belongs into a process of its own, with a role of its own.

PostgreSQL has nothing that says what any statement would do. So the first word of a statement says
of which sort it is; its text must not name perdure's schema, and names without a schema do not lead
there; and what reads or changes rows is explained, and every table in its plan looked at. A text
that was found good is not asked about again.

Names without a schema lead to one schema alone, whatever the role or the connection is set to: see
`Address.tables`. What else is in the transaction is run with its own path, before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from perdure.errors import RowError, StoreError, StoreUnavailableError, UsageError
from perdure.model.tables import Parameters
from perdure.store.postgres.address import MAX_SCHEMA_BYTES, Address, quoted
from perdure.store.postgres.faults import DIALECT
from perdure.store.postgres.pieces import Sort, pieces_of
from perdure.store.postgres.placeholders import numbered
from perdure.store.sql.connection import Connection

MAX_TEXTS = 1_000
"""How many statements are remembered as good; then they are asked about once more."""

_CHANGES = {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "MERGE"}
_DEFINES = {"CREATE", "ALTER", "DROP", "TRUNCATE", "COMMENT"}
_OBJECTS = {
    "COLUMN",
    "DOMAIN",
    "FUNCTION",
    "INDEX",
    "SCHEMA",
    "SEQUENCE",
    "TABLE",
    "TRIGGER",
    "TYPE",
    "VIEW",
}
"""What may be defined; not roles, databases, extensions, and not temporary tables, which would stay
with the connection."""
_AHEAD = {"OR", "REPLACE", "UNIQUE", "UNLOGGED", "MATERIALIZED", "RECURSIVE", "CONSTRAINT", "ON"}
"""What may stand before the sort of an object."""


class PostgresApproval:
    """Statements that were found good, kept between transactions. See `Approval`.

    Args:
        address: Of the store; names the schema of perdure's own tables, and that of the user's.
    """

    def __init__(self, address: Address) -> None:
        self._schema = address.schema
        self._tables = address.tables
        self._texts: set[tuple[str, bool]] = set()
        self.goes_on_after_errors = False

    def begin(self, connection: Connection, name: str, *, from_pos: int, defining: bool) -> str:
        """Have tables without a schema found, and made, in the schema that they belong to."""
        if defining:
            self._make_schema(connection, name, from_pos)
        # Last, or it would come first.
        [(former, _)] = connection.run("set_path", path=f"{quoted(self._tables)}, pg_temp")
        return str(former)

    def end(self, connection: Connection, begun: str) -> None:
        """Have names found as before."""
        connection.run("set_path", path=begun)

    def translate(self, text: str, parameters: Parameters) -> tuple[str, Parameters]:
        """Return a statement with the signs that PostgreSQL has for values."""
        return numbered(text, parameters)

    def _make_schema(self, connection: Connection, name: str, from_pos: int) -> None:
        if len(self._tables.encode()) > MAX_SCHEMA_BYTES:
            raise RowError(
                f"the schema {self._schema} has too long a name for one of its projections' tables "
                "beside it; name one with tables=NAME in the store URL"
            )
        [(is_there,)] = connection.run("has_schema", schema=self._tables)
        if is_there:
            return
        schema = quoted(self._tables)
        if from_pos:
            raise RowError(
                f"projection {name!r} has handled events up to {from_pos}, and the schema "
                f"{self._tables}, where its tables should be, is not there: if they are elsewhere, "
                "name their schema with tables=NAME in the store URL, or make this one and move "
                f"them with ALTER TABLE ... SET SCHEMA {schema}; if they are lost, rebuild it"
            )
        try:
            connection.run_own(f"CREATE SCHEMA {schema}", ())
        except StoreUnavailableError:
            raise
        except StoreError as error:
            raise RowError(
                f"the schema {self._tables} for the tables of projections is not there and cannot "
                f"be made ({error}): have somebody run CREATE SCHEMA {schema}; GRANT USAGE, CREATE "
                f"ON SCHEMA {schema} TO the role of the workers"
            ) from error

    def forget(self) -> None:
        """Ask again: tables or views have changed."""
        self._texts.clear()

    def check(
        self, connection: Connection, text: str, parameters: Parameters, *, defining: bool
    ) -> None:
        """Refuse a statement that a projection may not run."""
        if (text, defining) in self._texts:
            return
        pieces = _without_end(list(_pieces(text)))
        if ";" in pieces:
            raise UsageError(f"run one statement at a time, not several: {text.strip()}")
        problem = _problem(pieces, defining=defining) or self._naming(pieces)
        if not problem and _sort(pieces) in _CHANGES:
            # Planned, not run. Views are gone from a plan: it has the tables behind them.
            explained = connection.run_own(f"EXPLAIN (FORMAT JSON, VERBOSE) {text}", parameters)
            problem = self._touching(explained)
        if problem:
            raise UsageError(f"a projection may not run this statement ({problem}): {text.strip()}")
        if len(self._texts) >= MAX_TEXTS:
            self._texts.clear()
        self._texts.add((text, defining))

    def _naming(self, pieces: list[str]) -> str:
        """Return what is wrong if a text names our schema.

        A table of it would be found in the plan too, if the plan has it. A definition has none, and
        may name a schema alone.
        """
        for index, piece in enumerate(pieces):
            is_before_dot = pieces[index + 1 : index + 2] == ["."]
            if _name(piece) == self._schema and (is_before_dot or _sort(pieces) in _DEFINES):
                return f"schema {self._schema} is perdure's own"
        return ""

    def _touching(self, explained: list[tuple[Any, ...]]) -> str:
        """Return what is wrong if a plan touches a table of ours."""
        [(text,)] = explained
        for node in _nodes(msgspec.json.decode(text)):
            if node.get("Schema") == self._schema:
                table = node.get("Relation Name") or node.get("Function Name")
                return f"{self._schema}.{table} is perdure's own"
        return ""


def _problem(pieces: list[str], *, defining: bool) -> str:
    """Return what is wrong with the sort of a statement."""
    sort = _sort(pieces)
    if sort == "REPLACE" or [piece.upper() for piece in pieces[:2]] == ["INSERT", "OR"]:
        return DIALECT
    makes_table = any(
        piece.upper() == "INTO" and before.upper() not in ("INSERT", "MERGE")
        for before, piece in pairwise(pieces)
    )
    if sort in _CHANGES and (defining or not makes_table):
        return ""
    if not defining:
        return "handle may only read and change tables"
    if sort == "TRUNCATE" or (sort in _DEFINES and _object(pieces) in _OBJECTS):
        return ""
    return "setup and reset may only define, read and change tables"


def _sort(pieces: list[str]) -> str:
    """Return the first word."""
    return next((piece.upper() for piece in pieces if piece != "("), "")


def _object(pieces: list[str]) -> str:
    """Return the sort of object that is defined."""
    words = (piece.upper() for piece in pieces[1:])
    return next((word for word in words if word not in _AHEAD), "")


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    """Return every step of a plan, whatever it is part of."""
    if isinstance(plan, dict):
        yield plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for part in plan:
            yield from _nodes(part)


# ----------------------------------------------------------------- reading a text


def _pieces(text: str) -> Iterator[str]:
    """Return words, quoted names and signs; a string as '', and no comments."""
    for sort, piece in pieces_of(text):
        if sort is not Sort.SPACE:
            yield "''" if sort is Sort.STRING else piece


def _without_end(pieces: list[str]) -> list[str]:
    while pieces and pieces[-1] == ";":
        pieces.pop()
    return pieces


def _name(piece: str) -> str:
    """Return the name that a word stands for: unless quoted, in lower case."""
    if piece.startswith('"'):
        return piece[1:-1].replace('""', '"')
    return piece.lower()
