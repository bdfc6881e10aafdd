"""Ending an instance from outside, without its code and without any worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure.client.reading.summaries import Summaries
from perdure.clock import not_before
from perdure.core.identity import ExecutionId
from perdure.core.summary import Stop
from perdure.errors import InstanceNotFoundError, StoreUnavailableError
from perdure.ids import fresh_id
from perdure.model.histories.events import Started, Terminated, read_event, write_event
from perdure.model.instances import InstanceRow, LiveRow
from perdure.model.messages import Delivery
from perdure.model.turns import InstanceEnd, Turn, TurnStatus
from perdure.store.base import ExecutionKey, Store

if TYPE_CHECKING:
    from perdure.client.core import ClientCore

ASK_AFTER_TRIES = 4
"""After so many lost races against a worker that keeps committing, that one is asked to do it."""

MAX_TERMINATE_TRIES = 500
TERMINATE_PAUSE_S = 0.01
"""How often a termination is tried in all, and the pause between tries once a worker was asked."""


async def terminate(
    core: ClientCore, instance_id: str, reason: str, *, incarnation: int | None = None
) -> bool:
    """Stop an instance now; one that has ended stays as it is.

    Args:
        core: The client's.
        instance_id: Which.
        reason: Why.
        incarnation: Only this one; None: the one that has the id.

    Returns:
        Whether it had not ended before.

    Raises:
        InstanceNotFoundError: There is no such instance.
        StoreUnavailableError: A worker was faster every time.
    """
    for tries in range(MAX_TERMINATE_TRIES):
        [row] = await core.store.read_instances([instance_id])
        if row is None:
            raise InstanceNotFoundError(instance_id)
        if incarnation not in (None, row.incarnation) or row.status.is_terminal:
            return False
        live = await core.store.read_live(instance_id)
        if live is None:
            return False
        if await _stop_here(core, row, live, reason):
            return True
        if tries == ASK_AFTER_TRIES:
            await _ask_to_terminate(core, instance_id, reason)
        elif tries > ASK_AFTER_TRIES:
            await asyncio.sleep(TERMINATE_PAUSE_S)
    raise StoreUnavailableError(
        f"{instance_id} could not be terminated: it kept moving during {MAX_TERMINATE_TRIES} "
        "tries; try again"
    )


async def stop(store: Store, live: LiveRow, reason: str) -> InstanceEnd | None:
    """Commit the end of an instance; None if it moved on meanwhile, and nothing was written."""
    instance_id = live.instance_id
    incarnation, execution = live.stamp.key
    execution_id = ExecutionId(instance_id, incarnation, execution)
    # Folded from its beginning: what is written goes by nothing that an earlier look has kept.
    summary = await Summaries().read(store, ExecutionKey(*execution_id))
    inbox = await store.read_inbox(instance_id)
    starts = [
        read_event(message.kind, message.body) for message in inbox if message.kind == "started"
    ]
    unstarted = starts[0] if starts and isinstance(starts[0], Started) else None
    now_ms = not_before(summary.last_ms, store.clock())
    end = Stop(execution_id, summary, unstarted, reason, now_ms)
    turn = Turn(
        instance_id=instance_id,
        stamp=live.stamp._replace(next_seq=summary.last_seq + 1),
        commit_id=fresh_id(),
        now_ms=now_ms,
        worker_id="",
        seize=True,
        events=end.events,
        deliveries=end.deliveries,
        outcome=end.outcome,
    )
    [receipt] = await store.commit([turn])
    if receipt.error is not None:
        raise receipt.error
    return end.outcome if receipt.status is TurnStatus.ACCEPTED else None


async def _stop_here(core: ClientCore, row: InstanceRow, live: LiveRow, reason: str) -> bool:
    outcome = await stop(core.store, live, reason)
    if outcome is None:
        return False
    took_s = max(core.store.clock() - row.created_ms, 0) / 1000
    core.metrics.instance_ended(row.name, row.version, outcome.status.value, took_s)
    incarnation = live.stamp.incarnation
    core.noticed_end(row.instance_id, incarnation, outcome)
    core.stop_jobs(row.instance_id, incarnation)
    return True


async def _ask_to_terminate(core: ClientCore, instance_id: str, reason: str) -> None:
    """Let the worker that keeps committing end it: its next claimed turn takes the message."""
    kind, body = write_event(Terminated(reason=reason))
    delivery = Delivery(instance_id=instance_id, kind=kind, body=body, if_absent="refuse")
    await core.deliver([delivery])
