"""Turn a URL into a store."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import parse_qsl, unquote

from perdure.clock import Clock, system_clock
from perdure.errors import UsageError
from perdure.store.base import Store
from perdure.store.sqlite.memory import MEMORY, is_in_memory
from perdure.store.urls import shown_url

_FORMS = (
    "sqlite:///relative.db, sqlite:////absolute.db, sqlite://:memory:, sqlite://:memory:NAME or "
    "postgresql://user@host/database"
)


def open_store(url: str, *, clock: Clock = system_clock) -> Store:
    """Return the store behind a URL. It is not open yet: await its `open`.

    Args:
        url: `sqlite:///relative.db` or `sqlite:////absolute.db`. `sqlite://:memory:` for one in
            memory of this store's own, `sqlite://:memory:NAME` for one that all stores of this
            process share who give the name, as long as one of them is open. Or
            `postgresql://user@host:port/database`, with `?schema=NAME`, with `?tables=NAME` for the
            schema of projections' tables and, behind a pooler in transaction mode, with
            `?pooler=transaction`; the rest, such as `sslmode`, is the driver's.
        clock: Rules leases and visibility.

    Raises:
        UsageError: The URL is not of these forms.
    """
    if not isinstance(url, str):
        raise UsageError(
            f"a store URL is a text, {_FORMS}; got a {type(url).__qualname__}: {url!r}"
        )
    if not callable(clock):
        raise UsageError(
            f"a clock is a function that returns milliseconds since 1970, got {clock!r}"
        )
    scheme, separator, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, clock)
    if scheme != "sqlite" or not separator:
        _, plus, driver = scheme.partition("+")
        hint = f": +{driver} is SQLAlchemy's, leave it out" if plus and separator else ""
        raise UsageError(f"a store URL looks like {_FORMS}; got {shown_url(url)!r}{hint}")
    location, _, query = rest.partition("?")
    _refuse_options(query)
    if not find_spec("fcntl"):
        raise UsageError(
            "a SQLite store needs the file locks of Linux and macOS, which this system does not "
            "have: use postgresql://user@host/database, or run it in a container or under WSL"
        )
    # Late: a program that only imports perdure loads no driver.
    from perdure.store.sqlite.store import SqliteStore

    return SqliteStore(_path(location, url), clock=clock)


def _open_postgres(url: str, clock: Clock) -> Store:
    if not find_spec("asyncpg"):
        raise UsageError("a PostgreSQL store needs asyncpg; run: pip install perdure[postgres]")
    from perdure.store.postgres.address import Address
    from perdure.store.postgres.store import PostgresStore

    return PostgresStore(Address.parse(url), clock=clock)


def _path(location: str, url: str) -> str:
    path = unquote(location.removeprefix("/"))
    if not path:
        return MEMORY
    if not is_in_memory(path) and not location.startswith("/"):
        raise UsageError(
            f"{url!r} has two slashes before the path; write three for a relative path and four "
            f"for an absolute one: {_FORMS}"
        )
    if "\0" in path:
        raise UsageError("the path of a store cannot hold a NUL character")
    return path


def _refuse_options(query: str) -> None:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if "driver" in options:
        raise UsageError(
            f"driver={options['driver']} in the store URL cannot be chosen: there is one driver, "
            "the standard library's sqlite3; leave it out. Where other programs write to the file "
            "too, use a Python that is linked to SQLite 3.51.3 or newer, or PostgreSQL"
        )
    if options:
        raise UsageError(
            f"unknown option {', '.join(sorted(options))} in the store URL: a SQLite store has none"
        )
