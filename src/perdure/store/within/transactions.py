"""Functions of the user's own that write to the store's database, and whose end is written with
what they wrote: what a worker hands to a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from perdure.model.jobs import JobEnd

if TYPE_CHECKING:
    from perdure.store.base import JobLease


alone_in: ContextVar[str] = ContextVar("perdure_alone_in", default="")
"""The transaction that runs here, if no other connection can write until it ends."""


class Undone(NamedTuple):
    """The function has come to nothing: roll back."""

    error: BaseException | None = None
    """What it raised."""


Done: TypeAlias = JobEnd | Undone
"""How the function ended: with the end of its job, or with nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWork:
    """A function that runs with a connection, inside a transaction."""

    activity: str
    """Its name, for messages."""
    lease: JobLease
    """Of the job that it ends."""
    is_async: bool
    run: Callable[[Any], Any]
    """Calls it with a connection. Returns how it ended, `Done`; if it is async, an awaitable of
    that. Raises nothing that is the function's."""
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    """Runs what blocks, in a thread of the worker."""
    stop_by: Callable[[Callable[[], None]], None]
    """Hears how a plain function can be given up: by a call from any thread, that may block."""
    is_stopped: Callable[[], bool]
    """Tells whether it is not waited for any more."""
    be_alone: Callable[[], object]
    """Hears, before the function is called, that no other connection can write until it returns."""


class TransactionStore(Protocol):
    """Stores in a database where users have tables of their own."""

    def check_transaction(self, activity: str, *, is_async: bool) -> None:
        """Refuse a function that could not be run here.

        Raises:
            UsageError: It is async and the database has no async driver, or the driver is missing.
        """
        ...

    async def transact(self, work: OwnWork) -> bool | None:
        """Run a function inside a transaction, and end its job in the same one.

        True: what it wrote and the end of its job are committed. False: the lease was lost or the
        job cancelled, and nothing was written. None: the function came to nothing, and neither was
        anything written.

        Raises:
            UsageError: The function has ended the transaction itself, or closed the connection.
            RowError: The database refused what it wrote when it was committed.
            StoreUnavailableError: A resource is missing. Nothing was written, or, if it says that
                it is ambiguous, perhaps everything: then the job is gone.
            StoreError: Nothing was written.
        """
        ...
