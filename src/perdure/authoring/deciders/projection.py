"""Projections: read models that are fed with the events of deciders, in the order of their commits.

What is described here is run by a worker, one at a time among all workers. A `Projection` may write
wherever it likes: an event is handled at least once, so what it writes must bear a repetition. A
`SqlProjection` writes to tables of its own in the store's database, in the transaction that moves
its position: exactly once.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.feed import EventFilter, EventMeta
from perdure.codec import check_id
from perdure.durations import Duration, as_positive
from perdure.errors import DefinitionError, OptionError
from perdure.limits import PAGE_MAX
from perdure.model.options import Retry
from perdure.model.tables import Tables

E = TypeVar("E", contravariant=True)

READER_RETRY = Retry(
    max_attempts=5, first_delay=timedelta(milliseconds=200), max_delay=timedelta(seconds=10)
)
"""How often an event that cannot be handled is tried, unless told otherwise."""

BATCH = 200
"""How many events are read and checkpointed together, unless told otherwise."""


HANDLE_WITHIN = timedelta(minutes=5)
"""How long a projection may take for one event, unless told otherwise."""

WRITE_WITHIN = timedelta(seconds=10)
"""How long one that writes in the store's transaction may take, unless told otherwise: shorter than
leases are, which cannot be renewed meanwhile."""


class AnyProjection(ABC, Generic[E]):
    """What both sorts of projections have in common."""

    name: ClassVar[str]
    """What its position is kept under. Another name begins from the first event."""

    deciders: ClassVar[Sequence[type[Decider[Any, Any, Any, Any]]] | Literal["all"]]
    """Whose events it reads; "all": those of every decider there is or will be, as `RecordedJson`,
    for tools such as an audit log."""

    events: ClassVar[Sequence[Any]] = ()
    """Which of their events; none named: all."""

    batch: ClassVar[int] = BATCH
    """How many events are handled before the position is written down. Fewer: less is repeated
    after a crash. More: fewer writes."""

    retry: ClassVar[Retry] = READER_RETRY
    """How often an event that it cannot handle is tried, and with which pauses. Then the projection
    is stuck there until a person resumes it."""

    timeout: ClassVar[Duration]
    """How long it may take for one event."""

    @cached_property
    def filter(self) -> EventFilter:
        """Which events it gets, and how they are read."""
        return EventFilter(f"projection {self.name!r}", self.deciders, self.events)

    @property
    def can_rebuild(self) -> bool:
        """Return whether it knows how to begin again."""
        return self._overrides("reset")

    def check(self) -> None:
        """Refuse a projection that cannot work.

        Raises:
            DefinitionError: Something is missing or does not fit; the text says what to change.
        """
        shown = type(self).__qualname__
        name = getattr(self, "name", None)
        if not isinstance(name, str):
            raise DefinitionError(
                f'projection {shown} has no name: write name = "orders" in the class; its position '
                "is kept under it"
            )
        check_id("projection name", name)
        if not getattr(self, "deciders", ()):
            raise DefinitionError(
                f"projection {shown} reads of no decider: write deciders = [Order] in the class"
            )
        if isinstance(self.deciders, str) and self.deciders != "all":
            raise DefinitionError(
                f"projection {shown} has deciders = {self.deciders!r}: write [Order], a list of "
                'classes, or "all"'
            )
        if not 1 <= self.batch <= PAGE_MAX:
            raise DefinitionError(
                f"projection {shown} has batch = {self.batch!r}: it must be from 1 to {PAGE_MAX}"
            )
        try:
            _ = time_of(self)
        except OptionError as error:
            raise DefinitionError(f"projection {shown} cannot work: {error}") from None
        self._check_methods(shown)
        _ = self.filter

    @abstractmethod
    def _check_methods(self, shown: str) -> None:
        """Refuse methods of the wrong sort."""

    def _overrides(self, method: str) -> bool:
        base = Projection if isinstance(self, Projection) else SqlProjection
        return getattr(type(self), method) is not getattr(base, method)


def time_of(projection: AnyProjection[Any]) -> timedelta:
    """Return how long a projection may take for one event.

    Raises:
        OptionError: What its class says is no such time.
    """
    return as_positive("timeout", projection.timeout)


class Projection(AnyProjection[E]):
    """A read model that is kept anywhere: another database, a search index, memory.

    Handed to a worker as the class, or as an object if it needs arguments.
    """

    timeout: ClassVar[Duration] = HANDLE_WITHIN
    """How long it may take for one event. Then it is cancelled, and that counts as a failure: what
    never returns ends as stuck, where everybody can see it."""

    @abstractmethod
    async def handle(self, event: E, meta: EventMeta, /) -> None:
        """Take note of an event. Called in order, one at a time, at least once per event.

        What it raises is tried again; see `retry`.
        """

    async def reset(self) -> None:
        """Remove everything, so that all events can be handled once more: `rebuild_projection`
        needs it. May be called again before the first of them is handled."""

    def _check_methods(self, shown: str) -> None:
        for method in ("handle", "reset"):
            if not inspect.iscoroutinefunction(getattr(self, method)):
                raise DefinitionError(
                    f"{method} of projection {shown} is not async: write async def {method}, or "
                    "make it a SqlProjection, whose methods are plain functions"
                )


class SqlProjection(AnyProjection[E]):
    """A read model in tables of its own beside those of perdure, in the store's database.

    On SQLite they are in the store's file. On PostgreSQL names without a schema stand for the
    schema `public`, or for `shop_tables` if the store is in `?schema=shop`, or for the one that the
    store URL names with `tables=NAME`; what is elsewhere, also a function of an extension, has to
    be named with its schema.

    Its methods are plain functions. They run on the one thread that writes to the store, inside the
    transaction that moves the position, so they must be quick, wait for nothing, and keep nothing
    but what they write: a transaction that fails is run again. Table names must not be those of
    perdure nor begin with `perdure_`. Other programs may read the tables at any time.
    """

    timeout: ClassVar[Duration] = WRITE_WITHIN
    """How long it may take for one event, to set itself up or to begin anew; nothing else is
    written to the store meanwhile. Then its statements and its Python code are interrupted, and
    that counts as a failure. What waits in the operating system or an extension cannot be
    interrupted: the log and `health` then say which projection holds the store and how long."""

    @abstractmethod
    def setup(self, tables: Tables, /) -> None:
        """Make the tables if they are missing. Called whenever a worker takes the projection."""

    @abstractmethod
    def handle(self, event: E, meta: EventMeta, tables: Tables, /) -> None:
        """Write down an event. What it writes is kept once for each event.

        If it raises, nothing of it is kept and it is tried again; see `retry`.
        """

    def reset(self, tables: Tables, /) -> None:
        """Empty or remove the tables, so that all events can be handled once more:
        `rebuild_projection` needs it."""

    def _check_methods(self, shown: str) -> None:
        for method in ("setup", "handle", "reset"):
            if inspect.iscoroutinefunction(getattr(self, method)):
                raise DefinitionError(
                    f"{method} of SqlProjection {shown} is async: it runs inside a transaction and "
                    "cannot wait; write a plain def"
                )


def made(found: AnyProjection[Any] | type[AnyProjection[Any]]) -> AnyProjection[Any]:
    """Return a projection that was handed over, as an object and checked.

    Raises:
        DefinitionError: It cannot work as written.
    """
    if isinstance(found, AnyProjection):
        projection = found
    elif inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise DefinitionError(f"projection {found.__qualname__} lacks {missing}")
    else:
        try:
            projection = found()
        except TypeError as error:
            raise DefinitionError(
                f"projection {found.__qualname__} needs arguments: hand over an object, "
                f"{found.__qualname__}(...), in place of the class ({error})"
            ) from error
    projection.check()
    return projection
