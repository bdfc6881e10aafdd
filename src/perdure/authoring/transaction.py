"""Transactions: activities that write to tables of the user's own, in the store's database.

The worker brings a connection with an open transaction. What the function writes through it and the
result that is recorded of it are one commit, so both are there or neither is, however often it was
begun.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from perdure.authoring.activity import Activity, activity_options, make_activity
from perdure.authoring.definition import check_function, function_name
from perdure.durations import Duration
from perdure.model.options import UNSET, Retry, Unset, check_exceptions

P = ParamSpec("P")
R = TypeVar("R")


class TransactionDecorator(Protocol):
    """What `@transaction(...)` returns."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> Activity[P, R]: ...


@overload
def transaction(fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
@overload
def transaction(fn: Callable[Concatenate[Any, P], R], /) -> Activity[P, R]: ...
@overload
def transaction(
    *,
    name: str | None = None,
    retry: Retry | Unset | None = UNSET,
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    start_within: Duration | None = None,
    tag: str | None = None,
    raises: Sequence[type[Exception]] = (),
) -> TransactionDecorator: ...
def transaction(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | Unset | None = UNSET,
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    start_within: Duration | None = None,
    tag: str | None = None,
    raises: Sequence[type[Exception]] = (),
) -> Any:
    """Make a function an activity whose writes and whose result are one commit.

    Its first parameter is a connection to the store's database, inside an open transaction that the
    worker ends; callers leave it out. On SQLite it is a `sqlite3.Connection` and the function
    is a plain `def`; the whole store waits until it returns. On PostgreSQL an `async def` gets an
    `asyncpg.Connection`, a plain `def` a `psycopg.Connection`.

    Args:
        fn: The function; async ones run on the worker's loop, others in a thread.
        name: What it is recorded under; the function's own name if not given.
        retry: When to try again, None for never. By default a call of an orchestration is not, and
            an effect of a decider is tried five times.
        timeout: How long one attempt may take; then it is rolled back.
        deadline: How long a call may take in all.
        start_within: How long a call may wait until a worker takes it for the first time.
        tag: Only workers that serve this tag run it.
        raises: Exceptions that come back to the caller as themselves.
    """
    options = activity_options(
        retry=retry, timeout=timeout, deadline=deadline, start_within=start_within, tag=tag
    )
    check_exceptions("raises", raises)

    def wrap(function: Callable[..., Any]) -> Activity[..., Any]:
        check_function("transaction", function)
        own_name = name if name is not None else function_name("transaction", function)
        return make_activity(
            function, own_name, options, takes_connection=True, raises=tuple(raises)
        )

    return wrap if fn is None else wrap(fn)
