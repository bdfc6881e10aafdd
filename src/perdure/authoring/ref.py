"""Refs: other instances as an orchestration sees them. Whatever is asked of one is durable.

Each method is a call of a built-in activity, which every worker serves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from perdure.authoring.call import Call
from perdure.authoring.failures import instance_failure, revive_activity_error
from perdure.authoring.kv import decode_value
from perdure.authoring.scope import ActivityRequest, Place, Scope, current_scope
from perdure.authoring.signal import Signal
from perdure.authoring.update import AskedUpdate, Update, answer_of
from perdure.codec import check_id, check_text
from perdure.errors import (
    ActivityError,
    InstanceCancelledError,
    InstanceEndedError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    UsageError,
)
from perdure.model.builtins import (
    CANCEL,
    READ_KV,
    RESULT,
    SEND,
    UPDATE,
    CancelInput,
    ReadKvInput,
    ReadKvOutput,
    ResultInput,
    ResultOutput,
    SendInput,
    UpdateInput,
)
from perdure.model.histories.events import ActivityFailed, Failure
from perdure.model.instances import Status
from perdure.model.jobs import JobPolicy
from perdure.model.updates import UpdateOutcome

T = TypeVar("T")
A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)

POLICY = msgspec.json.encode(
    JobPolicy(
        max_attempts=None,
        first_delay_ms=100,
        max_delay_ms=10_000,
        jitter=0.2,
        no_retry=("InstanceNotFoundError", "InstanceEndedError", "EventsRemovedError"),
    )
)
"""Trouble with the store is waited out; that there is no such instance, or that what is waited for
may be among removed events, is an answer."""


class InstanceRef(Generic[R_co]):
    """Another instance, seen from inside an orchestration."""

    __slots__ = ("_decode", "instance_id")

    instance_id: str
    """Its id, as it is stored."""

    def __init__(self, instance_id: str, decode: Callable[[bytes], R_co]) -> None:
        self.instance_id = check_id("instance id", instance_id)
        self._decode = decode

    def __repr__(self) -> str:
        return f"InstanceRef({self.instance_id!r})"

    def result(self) -> Coroutine[object, None, R_co]:
        """Wait until the instance has ended, and return its result.

        Raises (at the `await`):
            InstanceFailedError, InstanceCancelledError, InstanceTerminatedError: It ended so.
            InstanceNotFoundError: There is no such instance.

        Raises:
            UsageError: It is the instance that asks.
        """
        scope = current_scope()
        if scope is not None and scope.instance_id == self.instance_id:
            raise UsageError(
                f"instance {self.instance_id!r} asks for its own result, and would wait for ever"
            )
        asked = ResultInput(self.instance_id)
        return self._call(RESULT, asked, partial(_outcome, self.instance_id, self._decode))

    def send(self, signal: Signal[T], value: T, /) -> Coroutine[object, None, None]:
        """Send a signal; it arrives once, and is kept if the instance is not started yet.

        Raises (at the `await`):
            InstanceEndedError: It has ended and takes no more signals.
        """
        if not isinstance(signal, Signal):
            raise UsageError(f"{signal!r} is not a signal: make one with Signal(name, type)")
        data = signal.codec.encode(value, f"signal {signal.name!r}")
        asked = SendInput(self.instance_id, signal.name, msgspec.Raw(data))
        return self._call(SEND, asked, _nothing)

    def update(self, update: AskedUpdate[T, A], value: T, /) -> Coroutine[object, None, A]:
        """Ask the instance, and wait for its answer. It is asked once, whatever happens here: the
        id is that of this very call.

        Raises (at the `await`):
            UpdateRefusedError: Its code refused.
            UpdateUnansweredError: What took it has ended, or the instance ended before.
            InstanceEndedError: It has ended; nothing was sent.
            InstanceNotFoundError: There is no such instance.
        """
        if not isinstance(update, Update):
            raise UsageError(f"{update!r} is not an update: make one with Update(name, ...)")
        data = update.asks_codec.encode(value, f"update {update.name!r}")
        asked = UpdateInput(self.instance_id, update.name, msgspec.Raw(data))
        return self._call(UPDATE, asked, partial(_answer, self.instance_id, update))

    def cancel(self, reason: str = "") -> Coroutine[object, None, None]:
        """Ask the instance to stop; one that has ended stays as it is.

        Raises (at the `await`):
            InstanceNotFoundError: There is no such instance.
        """
        asked = CancelInput(self.instance_id, check_text("reason", reason))
        return self._call(CANCEL, asked, _nothing)

    def _call(
        self, name: str, asked: msgspec.Struct, decode: Callable[[bytes], Any]
    ) -> Coroutine[object, None, Any]:
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"a ref to {self.instance_id!r} works only inside an orchestration; "
                f"use client.handle({self.instance_id!r}) elsewhere"
            )
        return _builtin_call(scope, name, self.instance_id, asked, decode)


def read_kv(scope: Scope, instance_id: str, key: str, type: Any) -> Coroutine[object, None, Any]:
    """Return a call that reads what another instance keeps under a key."""
    asked = ReadKvInput(check_id("instance id", instance_id), check_id("kv key", key))
    where = f"kv[{key!r}] of {instance_id!r}"

    def decode(data: bytes) -> Any:
        found = bytes(msgspec.json.decode(data, type=ReadKvOutput).value)
        return None if found == b"null" else decode_value(found, type, where)

    return _builtin_call(scope, READ_KV, instance_id, asked, decode)


def _builtin_call(
    scope: Scope,
    name: str,
    instance_id: str,
    asked: msgspec.Struct,
    decode: Callable[[bytes], Any],
) -> Coroutine[object, None, Any]:
    # Two calls of our own lie between this one and the user's line.
    frame = sys._getframe(3)
    return Call(
        scope,
        ActivityRequest(
            label=name,
            place=Place(frame.f_code, frame.f_lasti),
            input=msgspec.json.encode(asked),
            tag=None,
            session=None,
            deadline_ms=None,
            policy=POLICY,
            decode=decode,
            same_input=bytes.__eq__,
            revive=partial(revive_builtin, name, instance_id),
        ),
    )


def _outcome(instance_id: str, decode: Callable[[bytes], R_co], data: bytes) -> R_co:
    """Return a result, or raise how else the instance has ended."""
    ended = msgspec.json.decode(data, type=ResultOutput)
    output = bytes(ended.output)
    match ended.status:
        case Status.COMPLETED:
            return decode(output)
        case Status.CANCELLED:
            raise InstanceCancelledError(instance_id, ended.reason)
        case Status.TERMINATED:
            raise InstanceTerminatedError(instance_id, ended.reason)
    failure = msgspec.json.decode(ended.output, type=Failure)
    raise instance_failure(instance_id, failure)


def _answer(instance_id: str, update: AskedUpdate[Any, A], data: bytes) -> A:
    """Return the answer to an update, or raise what else it came to."""
    outcome = msgspec.json.decode(data, type=UpdateOutcome)
    return update.answers_codec.decode(answer_of(outcome, instance_id, update.name, ""))


def _nothing(_: bytes) -> None:
    return None


def revive_builtin(name: str, instance_id: str, failed: ActivityFailed) -> BaseException:
    """Return what the code sees of a failed built-in activity."""
    last = failed.failures[-1]
    original: Exception
    match last.type_name:
        case "InstanceNotFoundError":
            original = InstanceNotFoundError(instance_id)
        case "InstanceEndedError":
            # The text of that very class has the status in brackets, at its end.
            status = last.message.rpartition("(")[2].partition(")")[0]
            original = InstanceEndedError(instance_id, status)
        case _:
            return revive_activity_error(name, failed, raises=())
    original.__cause__ = ActivityError(
        name, type_name=last.type_name, message=last.message, attempts=failed.attempts
    )
    return original
