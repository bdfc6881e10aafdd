"""A replay in slices comes to the same as one without a pause."""

from __future__ import annotations

import asyncio
import logging

import pytest

from perdure import Context, orchestration
from perdure.core.orchestrations.execution import Execution
from perdure.errors import NondeterminismError
from perdure.model.histories.events import StoredEvent
from tests.core.harness import Script, new_execution
from tests.core.programs import charge, say


@orchestration
async def long(ctx: Context) -> str:
    for number in range(10):
        ctx.log.warning("step %s", number)
        await say(str(number))
        ctx.report(number)
    await asyncio.sleep(60)
    return await charge("end")


def scripted() -> Script:
    script = Script(long)
    for _ in range(10):
        script.complete(max(script.open), "said")
    script.fire()
    return script


def replayed(history: list[StoredEvent], *, slices: bool) -> tuple[Execution, int]:
    execution = new_execution(long)
    pauses = sum(1 for _ in execution.replaying(history, lambda: slices))
    return execution, pauses


def test_slices_come_to_the_same() -> None:
    script = scripted()

    at_once, no_pauses = replayed(script.history, slices=False)
    in_slices, pauses = replayed(script.history, slices=True)

    assert (no_pauses, pauses) == (0, 11)
    assert in_slices.digest() == at_once.digest() == script.execution.digest()
    assert in_slices.last_seq == at_once.last_seq
    assert {seq: ask.event for seq, ask in in_slices.open.items()} == {
        seq: ask.event for seq, ask in at_once.open.items()
    }
    assert in_slices.scope.report == at_once.scope.report
    assert not in_slices.scope.is_replaying


def test_between_slices_other_code_runs_outside_of_the_durable_loop() -> None:
    script = scripted()
    execution = new_execution(long)

    for _ in execution.replaying(script.history, lambda: True):
        assert execution.scope.is_replaying
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()


def test_a_replay_in_slices_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    script = scripted()
    caplog.clear()

    with caplog.at_level(logging.DEBUG):
        replayed(script.history, slices=True)

    assert caplog.records == []


def test_a_mismatch_is_found_in_the_slice_where_it_is() -> None:
    script = scripted()
    broken = [*script.history[:9], *script.history[10:]]
    slices = new_execution(long).replaying(broken, lambda: True)

    next(slices)
    with pytest.raises(NondeterminismError):
        for _ in slices:
            pass


def test_one_that_is_given_up_between_slices_leaves_no_trace() -> None:
    script = scripted()
    execution = new_execution(long)
    slices = execution.replaying(script.history, lambda: True)
    next(slices)

    slices.close()

    assert execution.tear_down() == []
