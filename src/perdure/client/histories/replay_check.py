"""Does the code beside a client fit what is recorded of an instance? Replayed as a worker does it:
in slices, so that others go on meanwhile, and watched, so that code which never ends is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from perdure.client.histories.recorded import execution_of, read_recorded
from perdure.core.orchestrations.execution import Execution
from perdure.errors import NondeterminismError, NotRegisteredError, UsageError
from perdure.model.histories.events import UnreadableEventError
from perdure.turns.watchdog import TurnTooLongError

if TYPE_CHECKING:
    from perdure.client.client import Client
    from perdure.client.handle import Handle
    from perdure.client.histories.recorded import RecordedHistory
    from perdure.client.reading.info import Json
    from perdure.worker.serving import Serving

EVENTS_MAX = 10_000
"""How long a history may be that is read and replayed as a whole."""
SLICE_S = 0.005


class ReplayCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a replay."""

    fits: bool
    execution: int
    events: int
    """How many the history has."""
    event: int | None = None
    """Where the code differs."""
    recorded: str | None = None
    asked: str | None = None
    """What the code asks for there now."""
    place: str | None = None
    """The line that asks."""
    text: str = ""
    """Both sides, with their neighbours; nothing if it fits."""


async def check_replay(
    client: Client, instance_id: str, execution: int | None = None
) -> ReplayCheck:
    """Run the code of the worker beside a client against a history. Nothing is written, and no
    activity runs.

    Args:
        client: Has the code beside it: an engine.
        instance_id: Whose history.
        execution: Which one; the current one if not given.

    Raises:
        NotRegisteredError: The code is not in this process, or not in the version on record.
        UsageError: The history is too long for that.
    """
    await _check_size(client.handle(instance_id), execution)
    history = await read_recorded(client, instance_id, execution)
    beside = client._core.beside
    if beside is None:
        raise NotRegisteredError(
            history.kind,
            history.name,
            known=[],
            advice="a replay needs its code: serve an engine that has it, or use perdure replay "
            f"{instance_id} --target FILE",
        )
    try:
        await _replay(beside, history)
    except NondeterminismError as error:
        return ReplayCheck(
            fits=False,
            execution=history.execution,
            events=len(history.events),
            event=error.seq,
            recorded=error.recorded,
            asked=error.asked,
            place=error.place,
            text=str(error),
        )
    except (UnreadableEventError, TurnTooLongError) as error:
        return ReplayCheck(
            fits=False,
            execution=history.execution,
            events=len(history.events),
            text=str(error),
        )
    return ReplayCheck(fits=True, execution=history.execution, events=len(history.events))


async def _check_size(handle: Handle[Json], execution: int | None) -> None:
    if execution is None:
        events = (await handle.stats()).events
    else:
        sizes = {one.execution: one.events for one in await handle.executions()}
        events = sizes.get(execution, 0)
    if events > EVENTS_MAX:
        raise UsageError(
            f"the history of {handle.instance_id!r} has {events:,} events; here at most "
            f"{EVENTS_MAX:,} are replayed: use perdure replay {handle.instance_id} --target FILE"
        )


async def _replay(beside: Serving, history: RecordedHistory) -> None:
    if not history.events:
        return
    execution = execution_of(beside.registry, history)
    watchdog = beside.turns.watchdog
    try:
        if not isinstance(execution, Execution):
            with watchdog.watching(history.instance_id, history.name):
                execution.replay(history.events)
            return
        slices: Generator[None, None, None] = execution.replaying(history.events, _slice())
        with closing(slices):
            is_over = False
            while not is_over:
                with watchdog.watching(history.instance_id, history.name):
                    is_over = next(slices, slices) is slices
                await asyncio.sleep(0)
    finally:
        execution.tear_down()


def _slice() -> Callable[[], bool]:
    """Return what tells that it is enough for now, and begins anew then."""
    until_s = monotonic() + SLICE_S

    def is_enough() -> bool:
        nonlocal until_s
        if monotonic() < until_s:
            return False
        until_s = monotonic() + SLICE_S
        return True

    return is_enough
