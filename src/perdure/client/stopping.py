"""Ending an instance from outside, without its code and without any worker."""

from __future__ import annotations

from perdure.clock import not_before
from perdure.core.identity import ExecutionId
from perdure.core.summary import Stop
from perdure.ids import fresh_id
from perdure.model.events import Started, read_event
from perdure.model.instances import LiveRow
from perdure.model.turns import Outcome, Turn, TurnStatus
from perdure.store.base import ExecutionKey, Store


async def stop(store: Store, live: LiveRow, reason: str) -> Outcome | None:
    """Commit the end of an instance; None if it moved on meanwhile, and nothing was written."""
    instance_id = live.instance_id
    incarnation, execution = live.stamp.key
    execution_id = ExecutionId(instance_id, incarnation, execution)
    [history] = await store.read_histories([ExecutionKey(*execution_id)])
    inbox = await store.read_inbox(instance_id)
    starts = [
        read_event(message.kind, message.body) for message in inbox if message.kind == "started"
    ]
    unstarted = starts[0] if starts and isinstance(starts[0], Started) else None
    now_ms = not_before(history[-1].at_ms if history else 0, store.clock())
    end = Stop(execution_id, history, unstarted, reason, now_ms)
    turn = Turn(
        instance_id=instance_id,
        stamp=live.stamp._replace(next_seq=len(history) + 1),
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
