"""Asking queries: replay an instance in this process, and call a view that its code made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from perdure.client.histories.histories import key_of, named_in_errors, read_history
from perdure.client.reading.lists import check_count
from perdure.core.identity import ExecutionId
from perdure.errors import InstanceNotFoundError, UsageError
from perdure.model.histories.events import KINDS, MessageEvent, StoredEvent
from perdure.model.instances import DECIDER
from perdure.turns.lone_turns import lone_turns

if TYPE_CHECKING:
    from perdure.authoring.registry import Registry
    from perdure.client.core import ClientCore
    from perdure.turns.turns import TurnRunner


async def ask_view(
    core: ClientCore,
    instance_id: str,
    query: str,
    *,
    at: int | None,
    registry: Registry | None = None,
) -> bytes:
    """Return the answer to a query as JSON.

    Args:
        core: The client's.
        instance_id: The instance.
        query: The name of the query.
        at: As of which event; as of now if not given.
        registry: Where the code is; with the worker of this process if not given.
    """
    if at is not None:
        check_count("at", at, least=1)
    [row] = await core.store.read_instances([instance_id])
    if row is None:
        raise InstanceNotFoundError(instance_id)
    if row.kind == DECIDER:
        raise UsageError(
            f"instance {instance_id!r} is of a decider, which has no queries: use client.state"
        )
    code = (
        core.find_code(row.name, row.version)
        if registry is None
        else registry.orchestration(row.name, row.version)
    )
    if code is None:
        raise UsageError(
            f"query {query!r} is computed by the code of {row.name!r}, which is not here: ask with "
            "an Engine that has it, or let the orchestration set a Key, which can be read anywhere"
        )
    history = await read_history(core.store, row)
    async with _turns(core, registry) as turns:
        with named_in_errors(row):
            viewed = await turns.view(
                code,
                ExecutionId(*key_of(row)),
                row.version or code.version,
                _as_of(history, at, instance_id),
                query,
            )
    if viewed.answer is None:
        when = "yet" if at is None else f"by event {at}"
        others = f"; it answers {', '.join(viewed.names)}" if viewed.names else ""
        raise UsageError(
            f"instance {instance_id!r} ({row.name}) has not said {when} how to answer query "
            f"{query!r}: call answer_with(...) on it in the orchestration{others}"
        )
    core.metrics.client_queries.add((row.name, row.version))
    return viewed.answer


@asynccontextmanager
async def _turns(core: ClientCore, registry: Registry | None) -> AsyncIterator[TurnRunner]:
    """What replays: the client's own, or one for code that was brought along."""
    if registry is None:
        yield core.turns()
        return
    turns = lone_turns(core.raw_store, core.endings, core.metrics, registry=registry)
    try:
        yield turns
    finally:
        await turns.close()


def _as_of(
    history: Sequence[StoredEvent], at: int | None, instance_id: str
) -> Sequence[StoredEvent]:
    """Return what was recorded up to an event, with all that the same message caused: in between
    the code has run, and there is nothing to be seen."""
    if at is None:
        return history
    if at > len(history):
        raise UsageError(
            f"instance {instance_id!r} has no event {at}: its execution has {len(history)}"
        )
    end = at
    while end < len(history) and not issubclass(KINDS[history[end].kind], MessageEvent):
        end += 1
    return history[:end]
