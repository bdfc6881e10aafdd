"""How an execution ends: by its code, from outside, or by going on as the next execution."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.authoring.failures import describe
from perdure.authoring.registry import BEHAVIOUR, orchestration_key
from perdure.authoring.scope import ContinueRequest
from perdure.core.orchestrations.pending import Ask
from perdure.errors import TooManyFailuresError
from perdure.model.histories.events import (
    NULL,
    Cancelled,
    Completed,
    ContinuedAsNew,
    Failed,
    Started,
    write_event,
)
from perdure.model.promises import promise_name
from perdure.model.turns import CarriedMessage, Continuation

if TYPE_CHECKING:
    from perdure.core.orchestrations.execution import Execution


class ContinueAsNewError(BaseException):
    """Raised into user code by `continue_as_new`. Never leaves the core."""

    def __init__(self, request: ContinueRequest) -> None:
        super().__init__(f"{request.label} continues as new")
        self.request = request


class Continuing(Ask):
    """The end of an execution that goes on as the next one."""

    __slots__ = ("request",)

    def __init__(self, event: ContinuedAsNew, request: ContinueRequest) -> None:
        super().__init__(event, request.place)
        self.request = request


def ending(
    root: asyncio.Task[Any],
    cancel_reason: str | None,
    now_ms: int,
    prefer: Callable[[str], str],
) -> Ask:
    """Return what is recorded of the end of the root task: what it did last decides.

    Args:
        root: The task that is done.
        cancel_reason: Why a client or parent asked it to stop, if one did.
        now_ms: When it ended.
        prefer: Tells to which version of a name an execution goes on that does not say it.
    """
    try:
        return Ask(Completed(result=msgspec.Raw(root.result())))
    except asyncio.CancelledError as error:
        if cancel_reason is not None:
            return Ask(Cancelled(reason=cancel_reason))
        return Ask(Failed(failure=describe(error, at_ms=now_ms)))
    except BaseException as error:
        request = _request_in(error)
        if request is None:
            failure = describe(error, at_ms=now_ms, raises=(TooManyFailuresError,))
            return Ask(Failed(failure=failure))
        version = prefer(request.label) if request.version is None else request.version
        event = ContinuedAsNew(version=version, input=msgspec.Raw(request.input))
        return Continuing(event, request)


def _request_in(error: BaseException) -> ContinueRequest | None:
    """Return why an exception was raised, if to continue as new and for nothing else.

    A task group wraps what its body raises, so that it may lie within groups.
    """
    layers, leaf = [error], error
    while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
        leaf = leaf.exceptions[0]
        layers.append(leaf)
    if not isinstance(leaf, ContinueAsNewError):
        return None
    # Their frames lead back to the execution, which would not be freed before a collection.
    for layer in layers:
        layer.__traceback__ = layer.__context__ = None
    return leaf.request


def continuation(execution: Execution, last: ContinuedAsNew) -> Continuation:
    """Return the next execution of an instance, with all that it takes over."""
    scope = execution.scope
    started = Started(
        name=execution.name,
        version=last.version,
        behaviour=BEHAVIOUR,
        input=last.input,
        parent=execution.parent,
        lineage=execution.lineage,
        kv=() if scope.values is None else scope.values.all(),
        report=NULL if scope.report is None else msgspec.Raw(scope.report),
        previous=execution.digest().hex(),
        since_ms=execution.since_ms,
        slot=scope.slot,
    )
    return Continuation(
        definition=orchestration_key(execution.name, last.version),
        start=write_event(started),
        input=bytes(last.input),
        unread=tuple(
            CarriedMessage(at_ms, *write_event(signal))
            for at_ms, signal in execution.calls.unread()
            # Promises are over with the execution that made them.
            if promise_name(signal.name) is None
        ),
    )
