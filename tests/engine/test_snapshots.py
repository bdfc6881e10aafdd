"""Snapshots: states that are kept so that a load need not fold all events. Never wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Never

from perdure import Accepted, Client, Decider, Decision, activity
from perdure.model.feeds import StoredSnapshot
from perdure.store.base import ExecutionKey
from tests.engine.shop import Order, Pay, Place
from tests.engine.stage import Gate, Stage, until


@dataclass(frozen=True)
class Add:
    id: str
    by: int = 1


@dataclass(frozen=True)
class Added:
    by: int


folded: list[int] = []
"""What `evolve` was given, to see how much a load folds."""


class Sum(Decider[int, Add, Added, Never]):
    """Adds up, with a snapshot every ten events."""

    name = "sum"
    snapshot_every = 10

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Add, /) -> str:
        return input.id

    def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
        return Decision.accept(Added(input.by))

    def evolve(self, state: int, event: Added, /) -> int:
        folded.append(event.by)
        return state + event.by


async def snapshot_of(client: Client, instance_id: str) -> StoredSnapshot | None:
    live = await client._core.store.read_live(instance_id)
    assert live is not None
    key = ExecutionKey(instance_id, live.stamp.incarnation, live.stamp.execution)
    [found] = await client._core.store.deciders.read_snapshots([key])
    return found


async def add(client: Client, decider: Any, count: int) -> None:
    for number in range(1, count + 1):
        await client.execute(decider, Add("a", number))


async def test_a_snapshot_is_kept_every_so_many_events(stage: Stage) -> None:
    client = await stage.client()
    await add(client, Sum, 9)
    before = await snapshot_of(client, "sum:a")
    await add(client, Sum, 16)

    found = await snapshot_of(client, "sum:a")

    assert before is None
    assert found is not None
    assert (found.version, found.schema) == (20, 1)


async def test_a_load_folds_only_what_came_after_the_snapshot(stage: Stage) -> None:
    client = await stage.client()
    await add(client, Sum, 25)
    cold = await stage.client()
    folded.clear()

    answer = await cold.execute(Sum, Add("a", 100))

    assert isinstance(answer, Accepted)
    assert (answer.state, answer.version) == (425, 26)
    assert folded == [21, 22, 23, 24, 25, 100]


async def test_a_state_is_read_from_the_snapshot_and_an_old_one_from_the_events(
    stage: Stage,
) -> None:
    client = await stage.client()
    await add(client, Sum, 25)
    folded.clear()

    assert await client.state(Sum, "a") == 325
    assert len(folded) == 5
    assert [await client.state(Sum, "a", at=at) for at in (0, 1, 15, 25)] == [0, 1, 120, 325]


async def test_a_worker_takes_over_from_the_snapshot(stage: Stage) -> None:
    client = await stage.client()
    await add(client, Sum, 25)
    await client.send(Sum, Add("a", 1_000))
    folded.clear()

    await stage.engine([Sum])
    await until(lambda: 1_000 in folded)

    assert folded == [21, 22, 23, 24, 25, 1_000]


async def test_a_snapshot_of_another_schema_is_ignored(stage: Stage) -> None:
    client = await stage.client()
    await add(client, Sum, 25)

    class Negative(Sum):
        """The same with another shape of its state."""

        schema = 2

        def evolve(self, state: int, event: Added, /) -> int:
            return super().evolve(state, event) - 2 * event.by

    cold = await stage.client()
    folded.clear()

    assert await cold.state(Negative, "a") == -325
    assert len(folded) == 25
    answer = await cold.execute(Negative, Add("a", 5))
    assert isinstance(answer, Accepted)
    assert answer.state == -330


async def test_a_damaged_snapshot_is_ignored(stage: Stage) -> None:
    client = await stage.client()
    await add(client, Sum, 25)
    store: Any = client._core.store
    read = store.deciders.read_snapshots

    async def damaged(keys: Any) -> Any:
        return [found and found._replace(body=b"{") for found in await read(keys)]

    store.deciders.read_snapshots = damaged
    folded.clear()

    assert await client.state(Sum, "a") == 325
    assert len(folded) == 25


async def test_a_decider_may_say_itself_when_to_keep_a_snapshot(stage: Stage) -> None:
    class OnHundreds(Sum):
        name = "hundreds"
        snapshot_every = 0

        def should_snapshot(self, state: int, version: int, /) -> bool:
            return state % 100 == 0

    client = await stage.client()
    for by in (60, 40, 30):
        await client.execute(OnHundreds, Add("a", by))

    found = await snapshot_of(client, "hundreds:a")

    assert found is not None
    assert found.version == 2


async def test_open_effects_and_timers_are_in_the_snapshot(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def wait(id: str) -> Add:
        await gate.pass_through()
        return Add(id, 1_000)

    class Waiting(Sum):
        name = "waiting"
        snapshot_every = 1

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Added, Never]:
            accepted = Decision.accept(Added(input.by))
            return accepted.effect(wait, input.id) if input.by == 1 else accepted

    first = await stage.engine([Waiting, wait])
    await first.execute(Waiting, Add("a", 1))
    await gate.reached()
    await first.execute(Waiting, Add("a", 2))
    second = await stage.client()
    answer = await second.execute(Waiting, Add("a", 3))
    gate.opened.set()

    async def has_come() -> bool:
        return await first.state(Waiting, "a") == 1_006

    await until(has_come)
    assert isinstance(answer, Accepted)
    assert answer.state == 6


async def test_a_timer_that_was_armed_before_the_snapshot_can_be_cancelled_after_it(
    stage: Stage,
) -> None:
    class Snapped(Order):
        name = "snapped"
        snapshot_every = 1

    engine = await stage.engine([Snapped])
    await engine.execute(Snapped, Place("o-1"))
    await engine.close()

    later = await stage.engine([Snapped])
    await later.execute(Snapped, Pay("o-1"))

    assert await later.inbox("snapped:o-1") == []


# ------------------------------------------------------------------ events that change


async def test_events_of_an_older_shape_are_read_as_they_would_be_written_now(
    stage: Stage,
) -> None:
    client = await stage.client()
    await client.execute(Sum, Add("a", 3))

    @dataclass(frozen=True)
    class Raised:
        by: int
        unit: str

    class Renamed(Decider[int, Add, Raised, Never]):
        name = "sum"
        schema = 2
        event_versions: ClassVar[Mapping[type, int]] = {Raised: 2}

        def initial(self) -> int:
            return 0

        def instance_id(self, input: Add, /) -> str:
            return input.id

        def decide(self, state: int, input: Add, now: datetime, /) -> Decision[Add, Raised, Never]:
            return Decision.accept(Raised(input.by, "EUR"))

        def evolve(self, state: int, event: Raised, /) -> int:
            return state + event.by

        def upcast(self, tag: str, version: int, data: Any, /) -> tuple[str, Any]:
            if tag == "Added":
                return "Raised", {**data, "unit": "EUR"}
            return tag, data

    later = await stage.client()
    answer = await later.execute(Renamed, Add("a", 4))

    assert answer == Accepted((Raised(4, "EUR"),), 7, 2)
    assert [one.event for one in await later.events(Renamed, "a")] == [
        Raised(3, "EUR"),
        Raised(4, "EUR"),
    ]
    kept = [
        one.data["tag"] for one in await later.handle("a", Renamed).history() if "tag" in one.data
    ]
    assert kept == ["Add", "Added", "Add", "Raised"]
