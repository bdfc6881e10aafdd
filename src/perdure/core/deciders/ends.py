"""Inputs that come by the inbox, and what a decider makes of the end of something it asked for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from perdure.authoring.deciders.decider import DeadEffect, EndedOrchestration
from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.codec import JSON
from perdure.core.deciders.answers import UNCHECKED
from perdure.core.deciders.notes import OpenCall
from perdure.errors import DefinitionError, NondeterminismError, PayloadError, UsageError
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    ChildCompleted,
    ChildFailed,
    ChildScheduled,
    EffectRetried,
    EffectScheduled,
    InputTaken,
)

OWN = ("timer:", "effect:", "retried:", "dead:", "ended:")
"""Causes of inputs that an instance has by itself: they may be meant for another one."""


class UnheededFailure(NamedTuple):
    """An effect that failed for good, and of which no input came: people have to hear of it."""

    activity: str
    attempts: int
    type_name: str
    """The class of the last exception. Its text may show values."""
    is_late: bool = False
    """Whether a time limit of its own has ended it, and not its job."""


class _ReturnedInput(msgspec.Struct, frozen=True):
    tag: str
    input: msgspec.Raw


_returned = msgspec.json.Decoder(_ReturnedInput)


def read_input(definition: DeciderDefinition, stored_id: str, taken: InputTaken) -> object:
    """Return an input as the code has it.

    Raises:
        NondeterminismError: This code cannot read it, and it must not be lost for that: other code
            may.
    """
    try:
        return definition.inputs.decode(taken.tag, bytes(taken.input))
    except PayloadError as error:
        raise NondeterminismError(
            f"instance {stored_id!r} was given an input that this code cannot read "
            f"(from {taken.cause or 'a client'}): {error}"
        ) from error


def why_unreadable(definition: DeciderDefinition, stored_id: str, taken: InputTaken) -> str | None:
    """Return why something is no input of an instance, if its sender could not look before.

    What other code has sent as an input of the decider is never refused here: newer code may have
    sent it, and may read it.
    """
    if taken.cause != UNCHECKED:
        return None
    try:
        target = definition.instance_of(definition.inputs.decode(taken.tag, bytes(taken.input)))
    except PayloadError as error:
        return str(error)
    except (UsageError, DefinitionError) as error:
        return f"has no instance: {error}"
    if target != stored_id:
        own, given = definition.own_id(target), definition.own_id(stored_id)
        return f"is for instance {own!r} of decider {definition.name!r}, not {given!r}"
    return None


def input_of_effect(
    definition: DeciderDefinition,
    stored_id: str,
    event: ActivityCompleted | ActivityFailed,
    call: OpenCall,
    *,
    cause: str = "effect",
) -> InputTaken | None:
    """Return what to decide because an effect has ended.

    Args:
        definition: The decider.
        stored_id: Of the instance.
        event: How it ended.
        call: What had been asked for.
        cause: What an input is said to come from that it returned.

    Raises:
        PayloadError: What it returned is no input.
        Exception: What `on_dead` raised.
    """
    effect, seq = call.event, event.schedule
    assert isinstance(effect, EffectScheduled)
    if isinstance(event, ActivityFailed):
        last = event.failures[-1]
        dead = DeadEffect(
            instance_id=definition.own_id(stored_id),
            activity=effect.name,
            arguments=JSON.decode(bytes(effect.input)) or {},
            type_name=last.type_name,
            message=last.message,
            attempts=event.attempts,
        )
        return _own_input(definition, definition.decider.on_dead(dead), f"dead:{seq}", call)
    if not effect.returns_input or bytes(event.result) == b"null":
        return None
    try:
        given = _returned.decode(bytes(event.result))
    except msgspec.MsgspecError as error:
        where = f"result of effect {effect.name!r}"
        raise PayloadError(where, f"is no input: {error}") from error
    return InputTaken(
        tag=given.tag, input=given.input, cause=f"{cause}:{seq}", correlation=call.correlation
    )


def answer_of(retried: EffectRetried) -> ActivityCompleted | ActivityFailed:
    """Return the end of an effect that was put back as if it had run for the first time."""
    seq, failures = retried.effect, retried.failures
    if retried.attempts:
        return ActivityFailed(schedule=seq, failures=failures, attempts=retried.attempts)
    return ActivityCompleted(schedule=seq, result=retried.result, failures=failures)


def input_of_retried(
    definition: DeciderDefinition, stored_id: str, retried: EffectRetried
) -> InputTaken | None:
    """Return what to decide because an effect has ended that had failed for good before.

    Nothing is remembered of such an effect: the event says all.

    Raises:
        PayloadError: What it returned is no input.
        Exception: What `on_dead` raised.
    """
    effect = EffectScheduled(
        name=retried.activity, input=retried.input, returns_input=retried.returns_input
    )
    call = OpenCall(effect, at_ms=0, correlation=retried.correlation)
    return input_of_effect(definition, stored_id, answer_of(retried), call, cause="retried")


def input_of_end(
    definition: DeciderDefinition,
    stored_id: str,
    event: ChildCompleted | ChildFailed,
    call: OpenCall,
) -> InputTaken | None:
    """Return what to decide because an orchestration has ended.

    Raises:
        Exception: What `on_ended` raised.
    """
    asked = call.event
    assert isinstance(asked, ChildScheduled)
    ended = EndedOrchestration(
        instance_id=definition.own_id(stored_id),
        orchestration_id=asked.instance_id,
        orchestration=asked.name,
        status=event.status if isinstance(event, ChildFailed) else "completed",
        result=JSON.decode(bytes(event.result)) if isinstance(event, ChildCompleted) else None,
        type_name=event.failure.type_name if isinstance(event, ChildFailed) else "",
        message=event.failure.message if isinstance(event, ChildFailed) else "",
    )
    value = definition.decider.on_ended(ended)
    return _own_input(definition, value, f"ended:{event.schedule}", call)


def _own_input(
    definition: DeciderDefinition, value: object, cause: str, call: OpenCall
) -> InputTaken | None:
    if value is None:
        return None
    tag, data = definition.inputs.encode(value)
    return InputTaken(tag=tag, input=msgspec.Raw(data), cause=cause, correlation=call.correlation)
