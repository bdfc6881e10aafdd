"""What the URL of a PostgreSQL store says."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from perdure.errors import UsageError
from perdure.store.urls import shown_url

DEFAULT_SCHEMA = "perdure"
DEFAULT_TABLES = "public"
"""Where projections of a store in the default schema have their tables: where everybody finds them
who names no schema. Stores in other schemas share the database with others; see `Address.parse`."""
MAX_SCHEMA_BYTES = 63
"""Longer names are cut by PostgreSQL, without a word."""


_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""Options that name a file. The driver does not say which one it misses."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is, and how to talk to it."""

    dsn: str = field(repr=False)
    """For the driver: the URL without what is ours."""
    schema: str = DEFAULT_SCHEMA
    tables: str = DEFAULT_TABLES
    """The schema of the tables that projections make: beside ours, and for this store alone."""
    pooler: str = "none"
    """What is in between: none, session or transaction."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL `postgresql://user@host:port/database?schema=perdure&pooler=transaction`.

        With `tables=NAME` the tables of projections are in that schema; if not given, in `public`
        for a store in the schema `perdure`, and in `NAME_tables` for one in the schema `NAME`.

        Everything else behind the question mark is the driver's, such as `sslmode`.

        Raises:
            UsageError: It cannot be read, or one of our options has a value that means nothing.
        """
        parts = _split(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema = options.pop("schema", DEFAULT_SCHEMA)
        pooler = options.pop("pooler", "none")
        check_schema(schema, f"schema={schema!r} in the store URL")
        tables = options.pop("tables", None)
        if tables is None:
            tables = DEFAULT_TABLES if schema == DEFAULT_SCHEMA else f"{schema}_tables"
        else:
            check_schema(tables, f"tables={tables!r} in the store URL")
        if tables == schema:
            raise UsageError(
                f"tables={tables!r} in the store URL is the schema of the store itself: tables of "
                "projections are kept apart from perdure's; name another one"
            )
        if pooler not in ("none", "session", "transaction"):
            raise UsageError(f"pooler={pooler!r} is not known; known: none, session, transaction")
        for name in _FILES:
            if name in options and options[name] != "system" and not Path(options[name]).is_file():
                raise UsageError(
                    f"{name}={options[name]!r} in the store URL: there is no such file"
                )
        dsn = urlunsplit(("postgresql", *parts[1:3], urlencode(options), ""))
        return cls(dsn, schema, tables, pooler)

    @property
    def is_pooled(self) -> bool:
        """Return whether every transaction may have another session: no prepared statements, no
        LISTEN."""
        return self.pooler == "transaction"

    @property
    def shown(self) -> str:
        """Return the URL for messages and logs: without password and options."""
        parts = urlsplit(self.dsn)
        place = re.sub(r"^([^:@]*):.*@", r"\1@", parts.netloc)
        return urlunsplit(("postgresql", place, parts.path, "", ""))

    @property
    def quoted_schema(self) -> str:
        """Return the schema as it stands in a statement."""
        return quoted(self.schema)


def quoted(name: str) -> str:
    """Return a name as it stands in a statement."""
    return '"' + name.replace('"', '""') + '"'


def check_schema(schema: str, named: str, *, most_bytes: int = MAX_SCHEMA_BYTES) -> None:
    """Refuse what cannot be the name of a schema of ours.

    It stands in the text of statements: quoted, and within $...$ in those that make tables and
    functions. A dollar sign could end such a text, and no other sign can.

    Args:
        schema: The name.
        named: What its giver calls it, with the name.
        most_bytes: How long it may be.

    Raises:
        UsageError: It cannot.
    """
    if not 1 <= len(schema.encode(errors="replace")) <= most_bytes:
        raise UsageError(f"{named} must have 1 to {most_bytes} bytes")
    if "$" in schema or not schema.isprintable():
        raise UsageError(
            f"{named}: a name with a dollar sign, a line break or another sign that cannot be "
            "printed could end the statement it stands in; take another one"
        )
    if schema.startswith("pg_"):
        raise UsageError(f"{named}: names that begin with pg_ are PostgreSQL's own")


def _split(url: str) -> SplitResult:
    """Return the parts of a URL, if it means what it seems to mean. Errors of others may show a
    password, or what they take for something else."""
    parts = None
    with suppress(ValueError):
        parts = urlsplit(url)
    if parts is None or not _is_clear(parts):
        raise UsageError(
            f"the store URL {shown_url(url)} cannot be read: write a port as a number, and in user "
            "and password / as %2F, ? as %3F, # as %23, @ as %40"
        )
    return parts


def _is_clear(parts: SplitResult) -> bool:
    """Return whether hosts and ports are such, and nothing of a password is taken for something
    else."""
    access, _, hosts = parts.netloc.rpartition("@")
    ports = [one.rpartition("]")[2].rpartition(":") for one in hosts.split(",")]
    has_ports = all(port.isdecimal() and int(port) < 65_536 for _, sign, port in ports if sign)
    return has_ports and not parts.fragment and (bool(access) or "@" not in parts.path)
