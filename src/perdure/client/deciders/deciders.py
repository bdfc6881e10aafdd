"""Methods of `Client` for deciders: give inputs, read states, see what was decided and why.

`execute` decides in this process, with or without a worker; effects and
timers are done by workers that have the decider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import (
    SEPARATOR,
    DeciderDefinition,
    definition_of,
    stored_id_of,
)
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.authoring.deciders.describing import Transition
from perdure.client.deciders.decisions import (
    DryRun,
    Observed,
    check_addressee,
    check_known,
    decider_name,
    dry_run_of,
    observed_of,
    refuse_unheard_of,
)
from perdure.client.histories.histories import key_of, named_in_errors, read_history
from perdure.client.reading.info import Json
from perdure.client.reading.lists import check_count, check_limit
from perdure.codec import JSON, check_id, check_text
from perdure.core.deciders import fold
from perdure.core.deciders.answers import UNCHECKED, DirectInput, outcome_json
from perdure.core.deciders.fold import DomainEvent, domain_history, state_at, state_name
from perdure.core.guard import Guard
from perdure.durations import Duration, as_duration
from perdure.errors import InstanceNotFoundError, NotRegisteredError, UsageError
from perdure.model.instances import InstanceRow
from perdure.store.base import ExecutionKey, Store
from perdure.turns.direct.inputs import check_decider

if TYPE_CHECKING:
    from perdure.client.client import Client
    from perdure.client.core import ClientCore

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
E = TypeVar("E")
X = TypeVar("X")


# --------------------------------------------------------------------- inputs


async def execute(
    self: Client,
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
    definition = definition_of(decider)
    tag, data = definition.inputs.encode(input)
    given = DirectInput(
        tag,
        data,
        _checked_input_id(input_id),
        check_text("correlation", correlation),
        None
        if expected_version is None
        else check_count("expected_version", expected_version, least=0),
    )
    return await self._inputs.execute(definition, definition.instance_of(input), given)


async def send(
    self: Client,
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
    definition = definition_of(decider)
    tag, data = definition.inputs.encode(input)
    belongs_to = check_text("correlation", correlation)
    given = DirectInput(tag, data, _checked_input_id(input_id), belongs_to)
    await self._inputs.send(definition.name, definition.instance_of(input), given)


async def execute_json(
    self: Client,
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
    timeout: Duration | None = None,  # noqa: ASYNC109 - its error says what is waited for
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
    definition, stored_id, given = _from_json(
        self._core, decider, tag, value, instance_id, input_id, correlation
    )
    if definition is not None:
        given = given._replace(expected_version=expected_version)
        return outcome_json(definition, await self._inputs.execute(definition, stored_id, given))
    if expected_version is not None:
        raise UsageError(
            f"expected_version needs the decider's code, and this client does not have "
            f"{decider!r}: use an Engine that has it"
        )
    within = None if timeout is None else as_duration("timeout", timeout)
    return await self._inputs.execute_elsewhere(
        decider, stored_id, given, within=within, allow_unknown=allow_unknown
    )


async def send_json(
    self: Client,
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
    definition, stored_id, given = _from_json(
        self._core, decider, tag, value, instance_id, input_id, correlation
    )
    if definition is None and not allow_unknown:
        await check_known(self._core.store, decider, stored_id)
    await self._inputs.send(decider, stored_id, given)


# --------------------------------------------------------------------- reading


async def state(
    self: Client,
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
    definition = definition_of(decider)
    if at is not None and (not isinstance(at, int) or isinstance(at, bool)):
        raise UsageError(f"at={at!r}: a version is a whole number, 0 before the first event")
    row = await _row_of(self._core.store, definition, instance_id)
    if at is None:
        execution = await self._core.turns().deciding.read(definition, key_of(row))
        state: S = definition.copy_state(execution.state)
        return state
    history = await read_history(self._core.store, row)
    with named_in_errors(row):
        past: S = state_at(definition, history, Guard(watch_calls=False), at=at)[0]
    return past


async def events(
    self: Client,
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
    check_count("after", after, least=0)
    definition = definition_of(decider)
    row = await _row_of(self._core.store, definition, instance_id)
    history = await read_history(self._core.store, row)
    with named_in_errors(row):
        return domain_history(definition, history, after=after)


async def transitions(
    self: Client,
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
    check_count("after", after, least=0)
    definition = definition_of(decider)
    if not callable(name_of):
        raise UsageError(f"name_of must be a function from a state to its name, got {name_of!r}")
    row = await _row_of(self._core.store, definition, instance_id)
    history = await read_history(self._core.store, row)
    with named_in_errors(row):
        return fold.transitions(
            definition, history, Guard(watch_calls=False), name_of=name_of, after=after
        )


async def dry_run(
    self: Client,
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
    definition = definition_of(decider)
    tag, data = definition.inputs.encode(input)
    given = DirectInput(tag, data, expected_version=expected_version)
    stored_id = definition.instance_of(input)
    [row] = await self._core.store.read_instances([stored_id])
    key = ExecutionKey(stored_id, 1, 1)
    if row is not None:
        check_decider(definition.name, stored_id, row.kind, row.name)
        if row.status.is_terminal:
            return DryRun(AlreadyCompleted())
        key = key_of(row)
    execution = await self._core.turns().deciding.read(definition, key)
    return dry_run_of(execution, given, now_ms=self._core.store.clock())


async def observations(
    self: Client,
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
    stored_id = stored_id_of(decider_name(decider), instance_id)
    found = await self._core.store.deciders.read_observations(
        stored_id, after=check_count("after", after, least=0), limit=check_limit(limit)
    )
    return [observed_of(one) for one in found]


async def key_holder(
    self: Client, decider: type[Decider[Any, Any, Any, Any]] | str, key: str, /
) -> str | None:
    """Return the id of the instance that has a business key; None if it is free.

    Args:
        decider: Its class or its name.
        key: The business key.

    Raises:
        NotRegisteredError: No live worker has a decider of that name, the store has never seen it,
            and knows others.
    """
    name = decider_name(decider)
    holder = await self._core.store.deciders.read_unique_key(name, check_id("unique key", key))
    if holder is None and isinstance(decider, str):
        await refuse_unheard_of(self._core.store, name)
    return None if holder is None else holder.removeprefix(f"{name}{SEPARATOR}")


# ---------------------------------------------------------------------- inside


def _from_json(
    core: ClientCore,
    name: str,
    tag: str,
    value: Json,
    instance_id: str | None,
    input_id: str | None,
    correlation: str,
) -> tuple[DeciderDefinition | None, str, DirectInput]:
    """Return the decider if it is here, the stored id, and the input."""
    check_id("tag", tag)
    definition = core.find_decider(name)
    if definition is not None:
        read = definition.inputs.decode_json(tag, value)
        stored_id = definition.instance_of(read)
        if instance_id is not None:
            check_addressee(definition, tag, read, instance_id)
        data = definition.inputs.encode(read).data
    elif instance_id is None:
        raise NotRegisteredError("decider", name, known=[])
    else:
        stored_id = stored_id_of(name, instance_id)
        data = JSON.encode(value, f"input {tag} of decider {name!r}")
    given = DirectInput(
        tag,
        data,
        _checked_input_id(input_id),
        check_text("correlation", correlation),
        cause="client" if definition is not None else UNCHECKED,
    )
    return definition, stored_id, given


async def _row_of(store: Store, definition: DeciderDefinition, instance_id: str) -> InstanceRow:
    stored_id = definition.stored_id(instance_id)
    [row] = await store.read_instances([stored_id])
    if row is None:
        raise InstanceNotFoundError(stored_id)
    check_decider(definition.name, stored_id, row.kind, row.name)
    return row


def _checked_input_id(input_id: str | None) -> str:
    return "" if input_id is None else check_id("input id", input_id)
