"""What a durable call needs from the execution it is made in.

User code never sees this. A call describes itself as a request and hands it to the scope of the
running event loop; the core's loop has one, every other loop has none. That attribute of the
running loop is the only link from what users write to what runs it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from types import CodeType
from typing import Any, NamedTuple, NoReturn, Protocol
from uuid import UUID

from perdure.errors import UsageError
from perdure.model.events import ActivityFailed, AskedEvent, KvEntry, Parent
from perdure.model.options import ParentClose


class Place(NamedTuple):
    """A line of user code, kept cheaply: the number is worked out only when somebody asks."""

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


class Request(Protocol):
    """One thing an orchestration can await."""

    label: str
    """What to call it in messages: the name of the activity, child or signal."""
    place: Place


class ActivityRequest(NamedTuple):
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


class InlineRequest(NamedTuple):
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


class ChildRequest(NamedTuple):
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


class DetachedRequest(NamedTuple):
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


class ContinueRequest(NamedTuple):
    """End this execution and begin the next one."""

    label: str
    place: Place
    version: str | None
    """The version that was asked for; None: the one that the worker prefers."""
    input: bytes
    same_input: Callable[[bytes, bytes], bool]


class SignalRequest(NamedTuple):
    """Wait for a signal."""

    label: str
    place: Place
    decode: Callable[[bytes], Any]


AnyRequest = ActivityRequest | InlineRequest | ChildRequest | SignalRequest | DetachedRequest


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
    context: Any
    """The `Context` that user code gets; made by the core, opaque here."""

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

    def patched(self, change: str) -> bool:
        """Tell whether this execution takes the new side of a change of its code."""
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

    def next_number(self) -> int:
        """Return the next creation number; tasks, futures and calls are ordered by it."""
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


def current_scope() -> Scope | None:
    """Return the scope of the running loop: None outside an orchestration."""
    # Not get_running_loop(): that raises when there is none, and this runs at every call.
    loop = asyncio._get_running_loop()
    return getattr(loop, "perdure_scope", None)


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
