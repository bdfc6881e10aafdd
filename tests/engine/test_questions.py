from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from perdure import orchestration
from perdure.client.reading.questions import RowQuestions
from perdure.errors import InstanceNotFoundError, StoreUnavailableError
from perdure.model.instances import InstanceRow
from perdure.store.base import Store
from tests.engine.stage import Stage


@orchestration
async def echo(x: int) -> int:
    return x


class Asked:
    """Counts the questions that reach a store."""

    def __init__(self, store: Store, error: Exception | None = None) -> None:
        self.questions: list[list[str]] = []
        self._read = store.read_instances
        self._error = error

    async def read_instances(self, instance_ids: Sequence[str]) -> list[InstanceRow | None]:
        self.questions.append(list(instance_ids))
        if self._error is not None:
            raise self._error
        return await self._read(instance_ids)


async def test_results_asked_for_together_are_one_question(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine([echo])
    handles = [await engine.start(f"e-{number}", echo, number) for number in range(50)]
    for handle in handles:
        await handle.result()
    client = await stage.client()
    asked = Asked(client._core.store)
    monkeypatch.setattr(client._core.store, "read_instances", asked.read_instances)

    found = await asyncio.gather(*(client.handle(h.instance_id, echo).result() for h in handles))

    assert found == list(range(50))
    assert asked.questions == [[handle.instance_id for handle in handles]]


async def test_an_unknown_id_does_not_disturb_those_asked_with_it(stage: Stage) -> None:
    engine = await stage.engine([echo])
    await (await engine.start("known", echo, 7)).result()
    client = await stage.client()

    answers = await asyncio.gather(
        client.handle("known", echo).result(),
        client.handle("unknown", echo).result(),
        return_exceptions=True,
    )

    assert answers[0] == 7
    assert isinstance(answers[1], InstanceNotFoundError)


async def test_trouble_with_the_store_reaches_everybody_who_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    asked = Asked(client._core.store, StoreUnavailableError("out of reach"))
    monkeypatch.setattr(client._core.store, "read_instances", asked.read_instances)
    questions = RowQuestions(client._core.store)

    answers = await asyncio.gather(
        questions.row("a"), questions.row("a"), questions.row("b"), return_exceptions=True
    )

    assert [type(answer) for answer in answers] == [StoreUnavailableError] * 3
    assert asked.questions == [["a", "b"]]


async def test_whoever_stops_waiting_takes_nothing_from_the_others(stage: Stage) -> None:
    engine = await stage.engine([echo])
    await (await engine.start("known", echo, 7)).result()
    questions = RowQuestions(engine._core.store)
    impatient = asyncio.create_task(questions.row("known"))
    patient = asyncio.create_task(questions.row("known"))
    await asyncio.sleep(0)

    impatient.cancel()

    row = await patient
    assert row is not None
    assert row.instance_id == "known"
    assert impatient.cancelled()
