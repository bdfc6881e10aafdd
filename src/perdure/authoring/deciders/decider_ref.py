"""Deciders as an orchestration sees them: giving them inputs, waiting for their events.

Everything here is a call of a built-in activity. Those that need the decider's code carry its name
as their tag, so they go to workers that have it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from perdure.authoring.call import Call
from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import DeciderDefinition, definition_of
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.authoring.failures import revive_activity_error
from perdure.authoring.ref import POLICY, revive_builtin
from perdure.authoring.scope import ActivityRequest, Place, Scope, current_scope
from perdure.codec import JSON, union_members
from perdure.errors import UniqueKeyError, UsageError
from perdure.model.builtins import (
    EXECUTE,
    SEND_INPUT,
    WAIT_EVENT,
    ExecuteOutput,
    GiveInput,
    WaitEventInput,
    WaitEventOutput,
    WrittenEvent,
)
from perdure.model.histories.events import ActivityFailed, EventRecorded
from perdure.model.jobs import JobPolicy

if TYPE_CHECKING:
    from typing_extensions import TypeForm

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
E = TypeVar("E")
X = TypeVar("X")
T = TypeVar("T")

ONCE = msgspec.json.encode(JobPolicy(max_attempts=None, no_retry=("Exception",)))
"""What a decider's code raises, it would raise again. Trouble with the store, and an instance that
is held, are waited out by the activity itself."""


class SeenEvent(NamedTuple, Generic[T]):
    """An event of a decider's instance, and how many events it had with that one."""

    event: T
    version: int


class DeciderRef(Generic[S, I, E, X]):
    """One instance of a decider, seen from inside an orchestration."""

    __slots__ = ("_definition", "instance_id")

    instance_id: str
    """As the decider gives it."""

    def __init__(self, instance_id: str, decider: type[Decider[S, I, E, X]]) -> None:
        self._definition = definition_of(decider)
        stored_id = self._definition.stored_id(instance_id)
        self.instance_id = self._definition.own_id(stored_id)

    def __repr__(self) -> str:
        return f"DeciderRef({self.instance_id!r}, {self._definition.cls.__name__})"

    def wait_event(
        self, event: TypeForm[T], /, *, after: int = 0
    ) -> Coroutine[object, None, SeenEvent[T]]:
        """Wait until the instance has recorded an event of a type, such as `Paid | Expired`.

        An instance that does not exist yet is waited for.

        Args:
            event: One or several of the decider's events.
            after: Events up to this version do not count: those that are known already.

        Returns (at the `await`):
            `(event, version)`: the event, and its number among those of the instance, which is the
            `after` of the next wait.

        Raises (at the `await`):
            InstanceEndedError: The instance has completed without one.
        """
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"a ref to {self.instance_id!r} works only inside an orchestration; use a "
                "subscription or client.decider(...) elsewhere"
            )
        definition = self._definition
        stored_id = definition.stored_id(self.instance_id)
        asked = WaitEventInput(stored_id, definition.name, _tags_of(definition, event), after)
        return _call(
            scope,
            WAIT_EVENT,
            msgspec.json.encode(asked),
            tag=definition.name,
            decode=partial(_seen, definition),
            revive=partial(revive_builtin, WAIT_EVENT, stored_id),
        )


def execute(
    scope: Scope, decider: type[Decider[S, I, E, X]], input: I
) -> Coroutine[object, None, Accepted[E, S] | Rejected[X] | AlreadyCompleted]:
    """Return a call that has an input decided, once, and gives what it came to."""
    definition = definition_of(decider)
    return _call(
        scope,
        EXECUTE,
        _given(definition, input),
        tag=definition.name,
        decode=partial(_outcome, definition),
        revive=partial(revive_activity_error, EXECUTE, raises=(UniqueKeyError,)),
        policy=ONCE,
        same_input=partial(_same_input, definition),
    )


def send(
    scope: Scope, decider: type[Decider[Any, I, Any, Any]], input: I
) -> Coroutine[object, None, None]:
    """Return a call that puts an input into an instance's inbox, once."""
    definition = definition_of(decider)
    return _call(
        scope,
        SEND_INPUT,
        _given(definition, input),
        tag=None,
        decode=_nothing,
        revive=partial(revive_builtin, SEND_INPUT, definition.instance_of(input)),
        same_input=partial(_same_input, definition),
    )


def _call(
    scope: Scope,
    name: str,
    asked: bytes,
    *,
    tag: str | None,
    decode: Callable[[bytes], Any],
    revive: Callable[[ActivityFailed], BaseException],
    policy: bytes = POLICY,
    same_input: Callable[[bytes, bytes], bool] = bytes.__eq__,
) -> Coroutine[object, None, Any]:
    # One or two calls of our own lie between this one and the user's line.
    frame = sys._getframe(2 if name == WAIT_EVENT else 3)
    return Call(
        scope,
        ActivityRequest(
            label=name,
            place=Place(frame.f_code, frame.f_lasti),
            input=asked,
            tag=tag,
            session=None,
            deadline_ms=None,
            policy=policy,
            decode=decode,
            same_input=same_input,
            revive=revive,
        ),
    )


# ------------------------------------------------------------------------- what is asked


def _given(definition: DeciderDefinition, input: object) -> bytes:
    tag, data = definition.inputs.encode(input)
    stored_id = definition.instance_of(input)
    return msgspec.json.encode(GiveInput(stored_id, definition.name, tag, msgspec.Raw(data)))


def _same_input(definition: DeciderDefinition, recorded: bytes, asked: bytes) -> bool:
    """Return whether two calls are one and the same for today's types."""
    if recorded == asked:
        return True
    before, now = (msgspec.json.decode(each, type=GiveInput) for each in (recorded, asked))
    member = definition.inputs.by_tag.get(now.tag)
    return (
        member is not None
        and (before.instance_id, before.decider, before.tag)
        == (now.instance_id, now.decider, now.tag)
        and member.codec.same(bytes(before.input), bytes(now.input))
    )


def _tags_of(definition: DeciderDefinition, event: Any) -> tuple[str, ...]:
    """Return the tags of the events that a caller waits for.

    Raises:
        UsageError: One is no event of the decider.
    """
    tags = []
    for kind in union_members(event, where=f"event of decider {definition.name!r}"):
        member = definition.events.member_of(kind)
        if member is None:
            raise UsageError(
                f"{kind!r} is no event of decider {definition.name!r}; it has "
                f"{', '.join(definition.events.tags)}"
            )
        tags.append(member.tag)
    return tuple(tags)


# --------------------------------------------------------------------- what is answered


def _outcome(
    definition: DeciderDefinition, data: bytes
) -> Accepted[Any, Any] | Rejected[Any] | AlreadyCompleted:
    found = msgspec.json.decode(data, type=ExecuteOutput)
    match found.outcome:
        case "accepted":
            return Accepted(
                tuple(_event(definition, event) for event in found.events),
                definition.state.decode(bytes(found.state)),
                found.version,
                JSON.decode(bytes(found.reply)),
            )
        case "rejected":
            return Rejected(definition.rejections.decode(found.tag, bytes(found.reason)))
    return AlreadyCompleted()


def _seen(definition: DeciderDefinition, data: bytes) -> SeenEvent[Any]:
    found = msgspec.json.decode(data, type=WaitEventOutput)
    return SeenEvent(_event(definition, found.event), found.version)


def _event(definition: DeciderDefinition, written: WrittenEvent) -> Any:
    tag, data, shape = written.tag, written.event, written.shape
    return definition.read_event(EventRecorded(tag=tag, event=data, event_version=shape))


def _nothing(_: bytes) -> None:
    return None
