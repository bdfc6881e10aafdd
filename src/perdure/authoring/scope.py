"""What a durable call needs from the execution it is made in.

User code never sees this. A call describes itself as a request and hands it to the scope of what
runs it: the loop of an orchestration has one, the place of a decider refuses. Either says so in
`running_in` while its code runs, and that is the only link from what users write to what runs it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from threading import get_ident
from types import CodeType
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias
from uuid import UUID

import msgspec

from perdure.errors import UsageError
from perdure.forks import after_fork
from perdure.model.histories.events import ActivityFailed, AskedEvent, ChildFailed, KvEntry, Parent
from perdure.model.histories.origins import Seed
from perdure.model.histories.slot import StartedSlot
from perdure.model.options import ParentClose
from perdure.model.promises import PromiseId
from perdure.model.streams import ForwardedItems


class Place(NamedTuple):
    """A line of user code, kept cheaply: the number is worked out only when it is shown."""

    code: CodeType
    instruction: int

    def __str__(self) -> str:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.instruction < end and number is not None:
                line = number
                break
        file = self.code.co_filename.rsplit("/", 1)[-1]
        return f"{file}:{line} in {self.code.co_name}"


class ActivityRequest(msgspec.Struct, frozen=True):
    """Run an activity."""

    label: str
    place: Place
    input: bytes
    tag: str | None
    session: str | None
    deadline_ms: int | None
    policy: bytes
    decode: Callable[[bytes], Any]
    same_input: Callable[[bytes, bytes], bool]
    revive: Callable[[ActivityFailed], BaseException]
    """Turns a recorded failure into the exception that the code sees."""
    start_within_ms: int | None = None


class InlineRequest(msgspec.Struct, frozen=True):
    """Run a callable of the orchestration's own, here, and record what it returns."""

    label: str
    place: Place
    input: bytes
    run: Callable[[], Any]
    encode: Callable[[object], bytes]
    decode: Callable[[bytes], Any]
    same_input: Callable[[bytes, bytes], bool]
    policy: bytes
    revive: Callable[[ActivityFailed], BaseException]


class ChildRequest(msgspec.Struct, frozen=True):
    """Start a child and wait for it."""

    label: str
    place: Place
    version: str
    instance_id: str | None
    input: bytes
    on_parent_close: ParentClose
    decode: Callable[[bytes], Any]
    same_input: Callable[[bytes, bytes], bool]
    delay_ms: int = 0
    revive: Callable[[str, ChildFailed], BaseException] | None = None
    """Turns a recorded failure into the exception that the code sees; None: a `ChildError`."""


class DetachedRequest(msgspec.Struct, frozen=True):
    """Start an instance and wait only until it is known that it was started."""

    label: str
    place: Place
    version: str
    instance_id: str | None
    input: bytes
    delay_ms: int
    refer: Callable[[str], Any]
    """Makes what the code gets, from the id of the new instance."""
    same_input: Callable[[bytes, bytes], bool]


class ContinueRequest(msgspec.Struct, frozen=True):
    """End this execution and begin the next one."""

    label: str
    place: Place
    version: str | None
    """The version that was asked for; None: the one that the worker prefers."""
    input: bytes
    same_input: Callable[[bytes, bytes], bool]


class SignalRequest(msgspec.Struct, frozen=True):
    """Wait for a signal, or for a promise, which is one."""

    label: str
    place: Place
    decode: Callable[[bytes], Any]
    reject: Callable[[str], BaseException] | None = None
    """Turns the reason for which a promise was rejected into the exception that the code sees."""


AnyRequest = ActivityRequest | InlineRequest | ChildRequest | SignalRequest | DetachedRequest


View: TypeAlias = Callable[[], bytes]
"""Computes the answer to a query, as JSON."""


class Pending(Protocol):
    """A request that was made. It is open until its future is done."""

    future: asyncio.Future[bytes]

    def result(self) -> Any:
        """Return the recorded value, decoded, or raise the recorded error."""
        ...


class Scope(Protocol):
    """The execution that the running loop belongs to."""

    instance_id: str
    execution: int
    name: str
    version: str
    is_replaying: bool
    parent: Parent | None
    slot: StartedSlot | None
    """Which time of which schedule it is for."""
    origin: Seed | None
    """The execution that it went on from, behind the point where it did."""
    numbers: int
    """The last creation number; tasks, futures and calls are ordered by it."""
    context: Any
    """The `Context` that user code gets; made by the core, opaque here."""
    lost: tuple[str, ...]
    """Which calls were made and never awaited, in words."""
    views: dict[str, View]
    """What answers queries, by their names."""

    @property
    def kv(self) -> Mapping[str, KvEntry]:
        """What the instance keeps by key, as it is now."""
        ...

    @property
    def report(self) -> bytes | None:
        """What the instance reports, as JSON; None: nothing."""
        ...

    def note(self, event: AskedEvent) -> None:
        """Put something on record that needs no answer, and let it take effect at once."""
        ...

    def send_item(self, stream: str, item: bytes) -> None:
        """Send an item to a stream, with the turn's commit; nothing of what is replayed."""
        ...

    def forward(self, items: ForwardedItems) -> None:
        """Send items to a stream of another instance, with the turn's commit; nothing of what is
        replayed."""
        ...

    def patched(self, change: str) -> bool:
        """Return whether this execution takes the new side of a change of its code."""
        ...

    def continue_as_new(self, request: ContinueRequest) -> NoReturn:
        """End this execution by an exception and begin the next one."""
        ...

    def ask(self, request: AnyRequest) -> Pending:
        """Make a request; it becomes durable when the turn is committed."""
        ...

    def give_up(self, pending: Pending) -> None:
        """Cancel a request whose task was cancelled."""
        ...

    def settled(self) -> asyncio.Future[None]:
        """Return a future that is done when nothing else can run on without a message."""
        ...

    def now(self) -> datetime:
        """Return the latest recorded time."""
        ...

    def make_uuid(self) -> UUID:
        """Return the next id of this execution's own series."""
        ...

    def make_random(self) -> random.Random:
        """Return this execution's random numbers."""
        ...

    def make_promise(self, name: str) -> tuple[PromiseId, str]:
        """Return the next promise of this execution, and its token."""
        ...


class RunsCode(Protocol):
    """What runs code of an orchestration or a decider."""

    @property
    def perdure_scope(self) -> Scope:
        """Return what takes durable calls, or refuse them."""
        ...


running_in: dict[int, RunsCode] = {}
"""What runs user code in a turn, by thread. Asking asyncio for the running loop would do, but that
is a system call before Python 3.12, and this is asked at every call."""
# The child of a fork has none of our turns, and may give a new thread an old identity.
after_fork(running_in.clear)


def current_scope() -> Scope | None:
    """Return what takes durable calls here: None outside an orchestration."""
    place = running_in.get(get_ident())
    return None if place is None else place.perdure_scope


def refuse_elsewhere(scope: Scope, what: str) -> None:
    """Refuse to use a part of a context anywhere but in the orchestration that it belongs to.

    Raises:
        UsageError: Another orchestration runs here, or none.
    """
    if current_scope() is not scope:
        raise UsageError(
            f"{what} of instance {scope.instance_id!r} works only inside its own orchestration, "
            "while it runs: hand values to activities and inline calls as arguments, and use "
            "client.handle(...) elsewhere"
        )
