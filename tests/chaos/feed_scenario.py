"""What reads the events of deciders, for the sweep of its crash points: a projection in tables of
the store, one that writes elsewhere, a subscription, and an orchestration that waits for an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Never

from perdure import Accepted, Context, Decider, Decision, orchestration
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.authoring.registry import Defined
from perdure.projection import EventMeta, Projection, SqlProjection, Subscription, Tables

# ------------------------------------------------------------------------ a ticket, a tally


@dataclass(frozen=True)
class Work:
    ticket: str
    what: str


@dataclass(frozen=True)
class Close:
    ticket: str


@dataclass(frozen=True)
class Worked:
    what: str


@dataclass(frozen=True)
class Closed:
    after: int


class Ticket(Decider[int, Work | Close, Worked | Closed, Never]):
    name = "ticket"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Work | Close, /) -> str:
        return input.ticket

    def decide(
        self, state: int, input: Work | Close, now: datetime, /
    ) -> Decision[Work | Close, Worked | Closed, Never]:
        if isinstance(input, Work):
            return Decision.accept(Worked(input.what))
        return Decision.accept(Closed(state))

    def evolve(self, state: int, event: Worked | Closed, /) -> int:
        return state + 1 if isinstance(event, Worked) else -1

    def is_terminal(self, state: int, /) -> bool:
        return state < 0


@dataclass(frozen=True)
class Count:
    tally: str
    what: str


@dataclass(frozen=True)
class Counted:
    what: str
    total: int


class Tally(Decider[int, Count, Counted, Never]):
    """Fed by a subscription, and by the orchestration."""

    name = "tally"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Count, /) -> str:
        return input.tally

    def decide(self, state: int, input: Count, now: datetime, /) -> Decision[Count, Counted, Never]:
        return Decision.accept(Counted(input.what, state + 1)).reply(state + 1)

    def evolve(self, state: int, event: Counted, /) -> int:
        return event.total


@orchestration
async def watch(ctx: Context, ticket: str) -> list[str]:
    """Wait for two events of a decider, and have another one count them."""
    ref = ctx.ref(ticket, Ticket)
    worked, version = await ref.wait_event(Worked, after=1)
    first = await ctx.execute(Tally, Count("watched", worked.what))
    closed, version = await ref.wait_event(Closed, after=version)
    second = await ctx.execute(Tally, Count("watched", f"closed after {closed.after}"))
    assert isinstance(first, Accepted)
    assert isinstance(second, Accepted)
    return [worked.what, str(first.reply), str(version), str(second.reply)]


# ------------------------------------------------------------------------------ readers

Event = Worked | Closed | Counted


def line(event: Event, meta: EventMeta) -> str:
    """Say what happened where."""
    return f"{meta.decider} {meta.instance_id} {meta.version} {event}"


class Kept(SqlProjection[Event]):
    """Two rows for each event, without a key that would hide a second time."""

    name = "kept"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Ticket, Tally)
    batch = 3

    def setup(self, tables: Tables, /) -> None:
        tables.execute("CREATE TABLE IF NOT EXISTS kept (line TEXT, half INTEGER)")

    def handle(self, event: Event, meta: EventMeta, tables: Tables, /) -> None:
        for half in (1, 2):
            tables.execute("INSERT INTO kept VALUES (?, ?)", (line(event, meta), half))


class Heard(Projection[Event]):
    """Writes to a list that outlives the process and knows nothing of its transactions."""

    name = "heard"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Ticket, Tally)
    batch = 2

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    async def handle(self, event: Event, meta: EventMeta, /) -> None:
        self._lines.append(line(event, meta))


def count(event: Worked | Closed, meta: EventMeta) -> Count:
    """Return the input that a ticket's event is for a tally."""
    return Count("fed", f"{meta.instance_id} {meta.version}")


def definitions(heard: list[str]) -> list[Defined]:
    """Return what a process runs.

    Args:
        heard: Outlives the processes.
    """
    fed = Subscription("fed", Ticket, [Worked, Closed], send=(Tally, count))
    return [Ticket, Tally, watch, Kept, Heard(heard), fed]
