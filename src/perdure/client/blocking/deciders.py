"""Methods of `BlockingClient`, which wait where those of `deciders` are awaited.

Made from `client/deciders/deciders.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.authoring.deciders.describing import Transition
from perdure.client.deciders.decisions import DryRun, Observed
from perdure.client.reading.info import Json
from perdure.core.deciders.fold import DomainEvent, state_name
from perdure.durations import Duration

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingClient
E = TypeVar("E")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
S = TypeVar("S")
X = TypeVar("X")


def execute(
    self: BlockingClient,
    decider: type[Decider[S, I, E, X]],
    input: I,
    /,
    *,
    input_id: str | None = None,
    expected_version: int | None = None,
    correlation: str = "",
) -> Accepted[E, S] | Rejected[X] | AlreadyCompleted:
    """Have an input decided: what it came to is committed when this returns.

    Waits for no lease. Inputs of one instance are decided one after another, also those
    of other processes; what this client has sent before comes first.

    Args:
        decider: Its class.
        input: Says by itself which instance it is for, which is begun if it is not there.
        input_id: Given again with the same id, it is not decided again: the first outcome is
            returned.
        expected_version: How many events the instance must have.
        correlation: What it belongs to, in your own words; kept in the history.

    Raises:
        UniqueKeyError: Another instance has the business key; the error names it.
        VersionConflictError: The instance has another number of events than expected.
        InstanceHeldError: The instance is parked or blocked.
        DecisionTooLongError: The decider's code computes too long over the input.
        InputIdReusedError: The id was given before, with another input.
        PayloadError: The input is none of the decider, or cannot be stored.
        StoreUnavailableError: The store has not answered in time.
    """
    return self._thread.run(
        self._client.execute(
            decider,
            input,
            input_id=input_id,
            expected_version=expected_version,
            correlation=correlation,
        )
    )


def send(
    self: BlockingClient,
    decider: type[Decider[Any, I, Any, Any]],
    input: I,
    /,
    *,
    input_id: str | None = None,
    correlation: str = "",
) -> None:
    """Queue an input: durable when this returns, decided soon by a worker that has the decider.

    Args:
        decider: Its class.
        input: Says by itself which instance it is for, which is begun if it is not there.
        input_id: Sent again with the same id, it is decided once.
        correlation: What it belongs to, in your own words; kept in the history.

    Raises:
        InstanceEndedError: The instance has completed. If only its last effects still run and
            it is not in the memory of this process, the input is queued, and its rejection
            (`perdure.completed`) put on record.
        InputIdReusedError: The id was given before, with another input.
        PayloadError: The input is none of the decider, or cannot be stored.
    """
    self._thread.run(self._client.send(decider, input, input_id=input_id, correlation=correlation))


def execute_json(
    self: BlockingClient,
    decider: str,
    tag: str,
    value: Json,
    /,
    *,
    instance_id: str | None = None,
    input_id: str | None = None,
    expected_version: int | None = None,
    correlation: str = "",
    allow_unknown: bool = False,
    timeout: Duration | None = None,
) -> dict[str, Json]:
    """Have an input decided that is given as JSON, by a decider that is given by name.

    A client whose process does not have the decider queues the input, and waits until a worker
    has decided it.

    Args:
        decider: Its name.
        tag: Which of its inputs: the class's name, or its tag.
        value: The input as JSON.
        instance_id: Which instance; needed only where the decider is not at hand.
        input_id: Given again with the same id, the first outcome is returned.
        expected_version: How many events the instance must have.
        correlation: What it belongs to; kept in the history.
        allow_unknown: Queue it also for a decider that no worker has, and that the store has
            never seen: its workers come later.
        timeout: How long to wait for a worker; for ever if not given.

    Returns:
        `outcome` (accepted, rejected or completed); if accepted `events`, `state` (None where
        the decider is not at hand), `version` and `reply`; if rejected `tag` and `reason`.

    Raises:
        NotRegisteredError: The decider is not here, and no instance id was given, or no worker
            has ever heard of it.
        PayloadError: It is no input of the decider, or one for another instance.
        InstanceHeldError: The instance is parked or blocked. If that came about while it was
            waited for a worker, the input stays queued.
        InputIdReusedError: The id was given before, with another input.
        InputDroppedError: It was dropped from the inbox before a worker decided it.
        ResultTimeoutError: No worker has decided it in time.
    """
    return self._thread.run(
        self._client.execute_json(
            decider,
            tag,
            value,
            instance_id=instance_id,
            input_id=input_id,
            expected_version=expected_version,
            correlation=correlation,
            allow_unknown=allow_unknown,
            timeout=timeout,
        )
    )


def send_json(
    self: BlockingClient,
    decider: str,
    tag: str,
    value: Json,
    /,
    *,
    instance_id: str | None = None,
    input_id: str | None = None,
    correlation: str = "",
    allow_unknown: bool = False,
) -> None:
    """Queue an input that is given as JSON, for a decider that is given by name.

    A client whose process does not have the decider cannot tell whether it is an input of it:
    if it is none, the worker that takes it puts its rejection on record.

    Args:
        decider: Its name.
        tag: Which of its inputs: the class's name, or its tag.
        value: The input as JSON.
        instance_id: Which instance; needed only where the decider is not at hand.
        input_id: Sent again with the same id, it is decided once.
        correlation: What it belongs to; kept in the history.
        allow_unknown: Queue it also for a decider that no worker has, and that the store has
            never seen: its workers come later.

    Raises:
        NotRegisteredError: The decider is not here, and no instance id was given, or no worker
            has ever heard of it.
        PayloadError: The decider is here, and it is no input of it.
        InstanceEndedError: The instance has completed; see `send`.
        InputIdReusedError: The id was given before, with another input.
    """
    self._thread.run(
        self._client.send_json(
            decider,
            tag,
            value,
            instance_id=instance_id,
            input_id=input_id,
            correlation=correlation,
            allow_unknown=allow_unknown,
        )
    )


def state(
    self: BlockingClient,
    decider: type[Decider[S, Any, Any, Any]],
    instance_id: str,
    /,
    *,
    at: int | None = None,
) -> S:
    """Return the state of an instance, live or ended.

    Args:
        decider: Its class.
        instance_id: As the decider gives it.
        at: After so many events; after all of them if not given.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: It has not had so many events.
        EventsRemovedError: Events that it takes were removed; see `keep_events`.
    """
    return self._thread.run(self._client.state(decider, instance_id, at=at))


def events(
    self: BlockingClient,
    decider: type[Decider[Any, Any, Any, Any]],
    instance_id: str,
    /,
    *,
    after: int = 0,
) -> list[DomainEvent]:
    """Return the events of an instance in order, each with the input that caused it, when, who
    gave that and what it belongs to, and what the same decision asked for.

    Args:
        decider: Its class.
        instance_id: As the decider gives it.
        after: Only those with a higher version.

    Raises:
        InstanceNotFoundError: There is no such instance.
        EventsRemovedError: Some of these were removed; its `kept_after` is an `after` that works.
    """
    return self._thread.run(self._client.events(decider, instance_id, after=after))


def transitions(
    self: BlockingClient,
    decider: type[Decider[S, Any, Any, Any]],
    instance_id: str,
    /,
    *,
    name_of: Callable[[S], str] = state_name,
    after: int = 0,
) -> list[Transition]:
    """Return which inputs led an instance from which state to which, for `describe`.

    Args:
        decider: Its class.
        instance_id: As the decider gives it.
        name_of: Names a state; by default its `status`, else its class.
        after: Only those that led to a higher version.

    Raises:
        InstanceNotFoundError: There is no such instance.
        UsageError: `name_of` cannot be called.
        EventsRemovedError: Some of these were removed; its `kept_after` is an `after` that works.
    """
    return self._thread.run(
        self._client.transitions(decider, instance_id, name_of=name_of, after=after)
    )


def dry_run(
    self: BlockingClient,
    decider: type[Decider[S, I, E, X]],
    input: I,
    /,
    *,
    expected_version: int | None = None,
) -> DryRun[E, S, X]:
    """Return what an input would come to now. Nothing is written.

    Raises:
        VersionConflictError: The instance has another number of events than expected.
    """
    return self._thread.run(self._client.dry_run(decider, input, expected_version=expected_version))


def observations(
    self: BlockingClient,
    decider: type[Decider[Any, Any, Any, Any]] | str,
    instance_id: str,
    /,
    *,
    after: int = 0,
    limit: int = 100,
) -> list[Observed]:
    """Return the inputs that an instance was given, in order, with what each came to.

    Only deciders with `observe_inputs = True` keep them.

    Args:
        decider: Its class or its name.
        instance_id: As the decider gives it.
        after: Only those with a higher number.
        limit: How many at most, up to 500.
    """
    return self._thread.run(
        self._client.observations(decider, instance_id, after=after, limit=limit)
    )


def key_holder(
    self: BlockingClient, decider: type[Decider[Any, Any, Any, Any]] | str, key: str, /
) -> str | None:
    """Return the id of the instance that has a business key; None if it is free.

    Args:
        decider: Its class or its name.
        key: The business key.

    Raises:
        NotRegisteredError: No live worker has a decider of that name, the store has never seen it,
            and knows others.
    """
    return self._thread.run(self._client.key_holder(decider, key))
