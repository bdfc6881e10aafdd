"""Who has nothing to be told of is not woken by what others commit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure import WorkerOptions, activity, orchestration
from perdure.model.hints import Hint
from perdure.store.base import Store
from perdure.store.hearing import Hearing
from tests.engine.stage import Gate, Stage, until

OPEN: list[Hearing] = []


class CountedHearing(Hearing):
    """One that is seen to be open."""

    def __init__(self, store: Store, kind: Hint) -> None:
        super().__init__(store, kind)
        OPEN.append(self)

    def close(self) -> None:
        OPEN.remove(self)
        super().close()


async def test_a_worker_listens_for_cancellations_only_while_an_activity_runs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.jobs.cancels.Hearing", CountedHearing)
    options = WorkerOptions(poll_min=timedelta(milliseconds=1), poll_max=timedelta(milliseconds=5))
    gate = Gate()

    @activity
    async def stand() -> str:
        await gate.pass_through()
        return "through"

    @orchestration
    async def stands() -> str:
        return await stand()

    engine = await stage.engine([stands, stand], options=options)
    assert not OPEN
    for _ in range(2):
        gate = Gate()
        handle = await engine.start(stands)
        await gate.reached()
        await until(lambda: len(OPEN) == 1)

        gate.opened.set()

        assert await handle.result() == "through"
        await until(lambda: not OPEN)
