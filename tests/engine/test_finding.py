"""Some events of a history: by kind, by what they are about, by failure; read in parts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from perdure import Handle, Retry, Signal, activity, activity_context, orchestration
from perdure.authoring.registry import Defined
from perdure.client.histories.event_texts import subject_of
from perdure.client.histories.finding import WantedEvents, look_through, matching, read_subjects
from perdure.client.reading.info import HistoryEvent
from perdure.errors import InstanceFailedError, UsageError
from tests.engine.stage import Stage

go = Signal("go", str)


@activity
async def pack(order: str) -> str:
    return order


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def ship(order: str) -> str:
    if activity_context().attempt == 1:
        raise TimeoutError("no van")
    return order


@activity(retry=Retry(max_attempts=1))
async def bill(order: str) -> str:
    raise ValueError("no address")


@orchestration
async def order(name: str) -> None:
    await pack(name)
    await go.receive()
    await pack(name)
    await ship(name)
    await bill(name)


ALL: list[Defined] = [order, pack, ship, bill]


async def failed_order(stage: Stage) -> Handle[None]:
    engine = await stage.engine(ALL)
    handle = await engine.start("o-1", order, "book")
    await handle.send(go, "on")
    with pytest.raises(InstanceFailedError):
        await handle.result()
    return handle


def said(events: Sequence[HistoryEvent]) -> list[str]:
    return [event.kind for event in events]


async def test_events_are_found_by_kind_by_name_and_by_failure(stage: Stage) -> None:
    handle = await failed_order(stage)

    assert said(await handle.history(kind="activity_scheduled")) == ["activity_scheduled"] * 4
    assert said(await handle.history(kind="signal")) == ["signal_awaited", "signal_received"]
    packs = await handle.history(name="pack")
    assert said(packs) == ["activity_scheduled", "activity_completed"] * 2
    assert said(await handle.history(name="go")) == ["signal_awaited", "signal_received"]
    failures = await handle.history(failures=True)
    assert said(failures) == ["activity_completed", "activity_failed", "failed"]
    assert said(await handle.history(failures=True, name="ship")) == ["activity_completed"]
    assert said(await handle.history(name="nothing")) == []
    assert await handle.history(name="pack", after=packs[1].seq, limit=1) == [packs[2]]


async def test_a_kind_that_there_is_not_is_refused_with_the_nearest(stage: Stage) -> None:
    handle = await failed_order(stage)

    with pytest.raises(UsageError, match="kind 'activty', and none begins so: did you mean 'act"):
        await handle.history(kind="activty")
    with pytest.raises(UsageError, match="no execution 2"):
        await handle.history(2, name="pack")


async def test_an_answer_has_the_name_of_a_call_that_lies_before_the_part(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await failed_order(stage)
    whole = await handle.history()
    monkeypatch.setattr("perdure.client.histories.finding.PAGE_MAX", 2)

    for name in ("pack", "ship", "go", "bill"):
        for after in range(len(whole)):
            found = await handle.history(name=name, after=after)

            wanted = matching(whole, WantedEvents(name=name))
            assert found == [event for event in wanted if event.seq > after], (name, after)


async def test_one_look_has_a_bound_and_says_where_to_go_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await failed_order(stage)
    store, which = handle._core.store, WantedEvents(name="bill")
    monkeypatch.setattr("perdure.client.histories.finding.PAGE_MAX", 3)
    found: list[HistoryEvent] = []
    after, has_more, most = 0, True, 0

    while has_more:
        part = await look_through(store, "o-1", which, after=after, looks=3)
        most = max(most, part.upto - after)
        found += part.events
        after, has_more = part.upto, part.has_more

    assert most == 3
    assert found == await handle.history(name="bill")


async def test_what_answers_are_about_is_read_of_calls_that_are_not_shown(stage: Stage) -> None:
    handle = await failed_order(stage)
    found = await handle.history(kind="activity_completed")

    async def read(after: int, limit: int) -> Any:
        return await handle.history(after=after, limit=limit)

    names = await read_subjects(found, read)

    assert [subject_of(event, names) for event in found] == ["pack", "pack", "ship"]
