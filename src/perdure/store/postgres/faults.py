"""What errors of the server and the driver mean for us.

Most trouble passes: a server that restarts, a lock that another session has, a network that comes
back. That is `StoreUnavailableError`, and the batch is run again. `ConflictError` is the part of it
that two writers cause each other and that is over at once. A value that the database refuses is
`RowError`. What only a person can mend says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from perdure.errors import (
    RowError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from perdure.store.base import NotPermittedError

DRIVER_TROUBLE = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""What the driver raises by itself. The second one: the server has said something that was not
asked for, mostly goodbye."""
TROUBLE = (asyncpg.PostgresError, *DRIVER_TROUBLE)
"""All that a call of the driver raises when it does not get what it asked for."""

_LATER = {
    "0A000": "cannot do that now: it is a standby, or its tables have just changed",
    "25006": "only reads: it is a standby; give the address of the primary",
    "25P03": "ended a transaction of ours that had paused too long",
    "28000": "refuses this user; check user, password and pg_hba.conf",
    "28P01": "refuses the password",
    "3D000": "has no such database; create it",
    "53100": "has no disk space left; free some and it goes on by itself",
    "53200": "has no memory left",
    "53300": "has no connection left; raise max_connections or use a pooler",
    "53400": "has reached a limit of its configuration",
    "55006": "is busy with that object",
    "57014": "took too long for a statement",
    "57P01": "is shutting down",
    "57P02": "has crashed and recovers",
    "57P03": "is starting up",
    "57P04": "lost the database that we were connected to",
    "58030": "could not read or write its disk",
}
_CONFLICTS = {
    "23505": "another process wrote the same row at the same moment",
    "40001": "the transaction did not fit with another one",
    "40P01": "two transactions waited for each other",
}
_OURS = {
    "25P02": "has given up this transaction after a statement that failed; roll it back",
    "3F000": "has no such schema; run: perdure migrate --store URL",
    "42501": "does not let this user do that; see: perdure roles",
    "42P01": "has no such table; run: perdure migrate --store URL",
    "42883": "has no such function; run: perdure migrate --store URL",
}
_OF_STATEMENT = ("08", "53400", "58P")
"""How codes begin of what says nothing about our server and our connection, if these still stand:
the server of a foreign table is away, a limit for temporary files, a file that is missing."""
_CANCELLED = "57014"
_DISK_FULL = "53100"
_NOT_PERMITTED = "42501"
_SYNTAX = "42601"
DIALECT = (
    "this store is PostgreSQL: values are written ?, :name or $1, and what only SQLite knows has "
    "another form, such as INSERT ... ON CONFLICT (id) DO UPDATE SET ... for INSERT OR REPLACE"
)
"""What may be wrong with a text that was written for the other database."""
_CORRUPT = {"XX001", "XX002"}
_STATEMENT_LOST = {"26000", "42P05"}
"""A prepared statement is missing, or is there twice: others share the session with us."""


class ConflictError(StoreUnavailableError):
    """Two writers were in each other's way. Run again at once.

    Args:
        text: What happened.
        may_be_ours: Whether it stays, if it happens again and again, and a value is wrong.
    """

    def __init__(self, text: str, *, may_be_ours: bool = False) -> None:
        super().__init__(text)
        self.may_be_ours = may_be_ours


class RowLockedError(StoreUnavailableError):
    """Another transaction has locked a row, or is about to insert it, and does not end."""


class PoolerError(StoreUnavailableError):
    """A pooler in transaction mode is in between, and the URL does not say so."""


class AmbiguousCommitError(StoreUnavailableError):
    """The connection was lost while the transaction was being committed.

    Args:
        text: What happened.
        unsure: The operations that may have been written.
    """

    def __init__(self, text: str, unsure: Sequence[object] = ()) -> None:
        super().__init__(text)
        self.unsure = tuple(unsure)


def ours(where: str, error: BaseException) -> StoreError:
    """Return the error of ours that an error of the driver stands for."""
    if isinstance(error, asyncpg.PostgresError) and not _is_connection(error):
        return from_server(where, error.sqlstate or "", _text(error))
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(f"{where} did not answer in time; is the network up?")
    # Before values: a certificate that is refused is a ValueError too.
    if isinstance(error, TROUBLE):
        return StoreUnavailableError(f"{where} cannot be reached ({_text(error)})")
    if isinstance(error, TypeError | ValueError | OverflowError):
        return RowError(f"a value cannot be stored: {error}")
    return StoreError(f"{where}: {_text(error)}")


def of_user(where: str, error: BaseException) -> StoreError:
    """Return the error of ours for one of a user's own statement, which is not about our tables."""
    if isinstance(error, asyncpg.PostgresError):
        if error.sqlstate in _CONFLICTS and error.sqlstate[:2] == "23":
            # No other writer will make room: the handler itself has to do something else.
            return RowError(f"the database refused a value: {_text(error)}")
        if error.sqlstate == _SYNTAX:
            return StoreError(f"{where} refused a statement ({_text(error)}); {DIALECT}")
        if error.sqlstate in _OURS or error.sqlstate == _CANCELLED or _is_unknown(error):
            return StoreError(f"{where} refused a statement ({_text(error)})")
    return ours(where, error)


def from_server(where: str, code: str, text: str) -> StoreError:
    """Return the error of ours that one of the server stands for, whichever driver tells it.

    Args:
        where: The store.
        code: What PostgreSQL calls SQLSTATE.
        text: What it says.
    """
    if code in _CONFLICTS:
        told = f"{where}: {_CONFLICTS[code]} ({text})"
        return ConflictError(told, may_be_ours=code[:2] == "23")
    if code == "55P03":
        told = "keeps a row locked for long; end the transaction that holds it"
        return RowLockedError(f"{where} {told} ({text})")
    if code in _LATER or code[:2] in ("53", "57", "58"):
        later = StoreFullError if code == _DISK_FULL else StoreUnavailableError
        return later(f"{where} {_LATER.get(code, 'is in trouble')} ({text})")
    if code in _CORRUPT:
        return StoreCorruptError(f"{where} is damaged; restore it from a backup ({text})")
    if code in _STATEMENT_LOST:
        return PoolerError(
            f"{where} has lost a prepared statement: a pooler in transaction mode is in between; "
            "add pooler=transaction to the store URL"
        )
    if code[:2] in ("22", "23", "54"):
        return RowError(f"the database refused a value: {text}")
    kind = NotPermittedError if code == _NOT_PERMITTED else StoreError
    return kind(f"{where} {_OURS.get(code, 'refused a statement')} ({text})")


def is_broken(error: BaseException) -> bool:
    """Return whether the connection is of no use after this error."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        return _is_connection(error) or (code[:2] in ("57", "58") and code != _CANCELLED)
    return isinstance(error, DRIVER_TROUBLE)


def is_of_statement(error: BaseException) -> bool:
    """Return whether an error is about a user's statement alone, as long as the connection stands.

    Waiting would not help, and all that share the transaction would wait. The driver's own: a wrong
    number of parameters.
    """
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_OF_STATEMENT)
    return isinstance(error, asyncpg.InterfaceError)


def _is_unknown(error: asyncpg.PostgresError) -> bool:
    """Return whether the server cannot do such a thing at all. It says the same when a statement
    was prepared for tables that have changed, and would do it now."""
    is_old = isinstance(error, asyncpg.exceptions.InvalidCachedStatementError)
    return isinstance(error, asyncpg.FeatureNotSupportedError) and not is_old


def _is_connection(error: asyncpg.PostgresError) -> bool:
    return (error.sqlstate or "")[:2] == "08"


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
