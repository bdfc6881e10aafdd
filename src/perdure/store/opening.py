"""Turn a URL into a store.

The driver is the standard library's, also when apsw is installed. apsw is a little faster and
brings a newer SQLite, but then there are two copies of SQLite in the process, and they do not see
each other's locks: user code that opens the same file with `sqlite3` and closes it again would drop
the locks of the store, and other processes could damage the file. So apsw is for those who ask.
"""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import parse_qsl, unquote

from perdure.clock import Clock, system_clock
from perdure.errors import UsageError
from perdure.store.base import Store
from perdure.store.urls import shown_url

DRIVERS = ("sqlite3", "apsw")
_FORMS = (
    "sqlite:///relative.db, sqlite:////absolute.db, sqlite://:memory: or "
    "postgresql://user@host/database"
)


def open_store(url: str, *, clock: Clock = system_clock) -> Store:
    """Return the store behind a URL. It is not open yet: await its `open`.

    Args:
        url: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://:memory:`; with
            `?driver=sqlite3` or `?driver=apsw` to choose the driver. Or
            `postgresql://user@host:port/database`, with `?schema=NAME`, with `?tables=NAME` for the
            schema of projections' tables and, behind a pooler in transaction mode, with
            `?pooler=transaction`; the rest, such as `sslmode`, is the driver's.
        clock: Rules leases and visibility.

    Raises:
        UsageError: The URL is not of these forms.
    """
    scheme, separator, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, clock)
    if scheme != "sqlite" or not separator:
        raise UsageError(f"a store URL looks like {_FORMS}; got {shown_url(url)!r}")
    location, _, query = rest.partition("?")
    driver = _driver(query)
    # Late: whoever only imports perdure loads no driver.
    from perdure.store.sqlite.store import SqliteStore

    return SqliteStore(_path(location, url), driver=driver, clock=clock)


def _open_postgres(url: str, clock: Clock) -> Store:
    if not find_spec("asyncpg"):
        raise UsageError("a PostgreSQL store needs asyncpg; run: pip install perdure[postgres]")
    from perdure.store.postgres.address import Address
    from perdure.store.postgres.store import PostgresStore

    return PostgresStore(Address.parse(url), clock=clock)


def _path(location: str, url: str) -> str:
    if location in ("", "/", ":memory:", "/:memory:"):
        return ":memory:"
    if not location.startswith("/"):
        raise UsageError(
            f"{url!r} has two slashes before the path; write three for a relative path and four "
            f"for an absolute one: {_FORMS}"
        )
    path = unquote(location[1:])
    if "\0" in path:
        raise UsageError("the path of a store cannot hold a NUL character")
    return path


def _driver(query: str) -> str:
    options = dict(parse_qsl(query, keep_blank_values=True))
    driver = options.pop("driver", None)
    if options:
        raise UsageError(
            f"unknown option {', '.join(sorted(options))} in the store URL; known: driver"
        )
    if driver is None:
        return "sqlite3"
    if driver not in DRIVERS:
        raise UsageError(f"driver={driver!r} is not known; known: {', '.join(DRIVERS)}")
    if driver == "apsw" and not find_spec("apsw"):
        raise UsageError("driver=apsw needs apsw; run: pip install perdure[apsw]")
    return driver
