"""Projections: order, filters, leases, poison events, and what an operator does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from perdure import Client
from perdure.authoring.deciders.decider_definition import AnyDecider
from perdure.authoring.registry import Registry
from perdure.client.deciders.projections import StuckAt
from perdure.clock import ManualClock
from perdure.errors import DefinitionError, NotRegisteredError, UsageError
from perdure.model.options import Retry
from perdure.projection import EventMeta, Projection
from tests.engine import shop
from tests.engine.fed import Order, Placed, Recorder, Reserved, Shipped, Stock
from tests.engine.stage import SELDOM, Gate, Stage, options, until

QUICK = Retry(max_attempts=3, first_delay=timedelta(milliseconds=1), jitter=0)

SHORT = options(
    lease_for=timedelta(milliseconds=300),
    poll_max=timedelta(milliseconds=50),
    session_idle=timedelta(seconds=1),
)
"""Leases that run out within a test."""

RESTING = options(poll_min=SELDOM, poll_max=SELDOM, lease_for=2 * SELDOM)
"""Nothing is found by looking within a test."""


class Seen(Projection[object]):
    """Remembers what it was given, and raises for what it is told to."""

    name = "seen"
    deciders: ClassVar[Sequence[type[AnyDecider]]] = (Order,)
    retry = QUICK

    def __init__(self) -> None:
        self.given: list[object] = []
        self.metas: list[EventMeta] = []
        self.bad: set[object] = set()
        self.resets = 0

    async def handle(self, event: object, meta: EventMeta, /) -> None:
        if event in self.bad:
            raise ArithmeticError("what it cannot handle")
        self.given.append(event)
        self.metas.append(meta)


class Rebuildable(Seen):
    async def reset(self) -> None:
        self.resets += 1
        self.given.clear()


class Gated(Seen):
    """Stands in a gate with each event."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    async def handle(self, event: object, meta: EventMeta, /) -> None:
        await self.gate.pass_through()
        await super().handle(event, meta)


def orders(count: int, start: int = 0) -> list[Placed]:
    return [Placed(f"o-{number}") for number in range(start, start + count)]


async def record(client: Client, *events: Placed | Shipped) -> None:
    """Record events, each of an instance of its own and in a commit of its own."""
    recorder = Recorder(client._core.store)
    for event in events:
        await recorder.record(event.order_id, event)


async def is_stuck(client: Client, name: str = "seen") -> bool:
    return any(one.name == name and one.stuck for one in await client.projections())


async def is_at(client: Client, position: int) -> bool:
    """Return whether the position is stored: what was handled is not handled again from here on."""
    return any(one.position == position for one in await client.projections())


# -------------------------------------------------------------- what it is given


async def test_events_come_in_the_order_of_their_commits_with_where_they_come_from(
    stage: Stage,
) -> None:
    seen = Seen()
    clock = ManualClock()
    engine = await stage.engine([seen], clock=clock)
    recorder = Recorder(engine._core.store)

    await recorder.record("o-1", Placed("o-1", "pen"), Shipped("o-1"))
    await recorder.record("o-2", Placed("o-2"))
    await recorder.record("o-1", Placed("o-1", "ink"))
    await until(lambda: len(seen.given) == 4)

    assert seen.given == [
        Placed("o-1", "pen"),
        Shipped("o-1"),
        Placed("o-2"),
        Placed("o-1", "ink"),
    ]
    assert [(meta.decider, meta.instance_id, meta.seq) for meta in seen.metas] == [
        ("order", "o-1", 3),
        ("order", "o-1", 4),
        ("order", "o-2", 3),
        ("order", "o-1", 6),
    ]
    positions = [meta.position for meta in seen.metas]
    assert positions == sorted(set(positions))
    assert seen.metas[0].time == datetime.fromtimestamp(clock() / 1000, UTC)


async def test_a_projection_is_told_what_the_history_says_of_an_event(stage: Stage) -> None:
    """Its version, who gave the input, and what that belongs to."""

    class Watch(Seen):
        deciders: ClassVar[Sequence[type[AnyDecider]]] = (shop.Order,)

    seen = Watch()
    engine = await stage.engine([shop.Order, seen])
    await engine.execute(shop.Order, shop.Place("o-1"), correlation="cart-7")
    await engine.execute(shop.Order, shop.Ship("o-1"))
    await engine.send(shop.Order, shop.Pay("o-1"), correlation="bank-1")
    await until(lambda: len(seen.given) == 2)
    history = await engine.events(shop.Order, "o-1")

    told = [(meta.version, meta.cause, meta.correlation) for meta in seen.metas]
    assert told == [(1, "client", "cart-7"), (2, "client", "bank-1")]
    assert told == [(one.version, one.cause, one.correlation) for one in history]


async def test_a_projection_gets_only_the_events_it_names(stage: Stage) -> None:
    class OnlyShipped(Seen):
        events = (Shipped,)

    seen = OnlyShipped()
    engine = await stage.engine([seen])

    await record(engine, Placed("o-1"), Shipped("o-2"), Placed("o-3"), Shipped("o-4"))
    await until(lambda: len(seen.given) == 2)

    assert seen.given == [Shipped("o-2"), Shipped("o-4")]


async def test_a_projection_gets_only_events_of_the_deciders_it_names(stage: Stage) -> None:
    class OfBoth(Seen):
        name = "both"
        deciders = (Order, Stock)

    orders_only, both = Seen(), OfBoth()
    engine = await stage.engine([orders_only, both])
    recorder = Recorder(engine._core.store)

    await recorder.record("book", Reserved("book", "o-1"), decider=Stock)
    await recorder.record("o-1", Placed("o-1"))
    await until(lambda: len(both.given) == 2)
    await until(lambda: len(orders_only.given) == 1)

    assert both.given == [Reserved("book", "o-1"), Placed("o-1")]
    assert orders_only.given == [Placed("o-1")]


async def test_an_event_of_an_older_shape_comes_as_it_is_written_now(stage: Stage) -> None:
    """Its tag was another then, so looking for tags in the store would miss it."""

    class NewOrder(Order):
        event_versions: ClassVar[Mapping[type, int]] = {Placed: 2}

        def upcast(self, tag: str, version: int, data: Any, /) -> tuple[str, Any]:
            return "Placed", {"order_id": data["order_id"], "sku": "unknown"}

    class OnlyPlaced(Seen):
        deciders = (NewOrder,)
        events = (Placed,)

    seen = OnlyPlaced()
    engine = await stage.engine([seen])

    await record(engine, Shipped("o-2"), Placed("o-1", "pen"))
    await until(lambda: len(seen.given) == 1)

    assert seen.given == [Placed("o-1", "unknown")]


async def test_what_was_recorded_before_a_projection_existed_comes_too(stage: Stage) -> None:
    client = await stage.client()
    await record(client, *orders(450))
    seen = Seen()

    await stage.engine([seen])
    await until(lambda: len(seen.given) >= 450)

    assert seen.given == orders(450)


async def test_events_of_this_process_come_without_looking_for_them(stage: Stage) -> None:
    seen = Seen()
    engine = await stage.engine([seen], options=RESTING)
    await until(lambda: engine.projections())

    await record(engine, *orders(3))
    await until(lambda: len(seen.given) == 3)

    assert seen.given == orders(3)


async def test_events_of_others_are_noticed(stage: Stage) -> None:
    seen = Seen()
    await stage.engine([seen])
    other = await stage.client()

    await record(other, *orders(3))
    await until(lambda: len(seen.given) == 3)

    assert seen.given == orders(3)


async def test_no_event_is_skipped_while_eight_others_write(stage: Stage) -> None:
    """A commit that comes late never gets a position before one that was read."""
    seen = Seen()
    engine = await stage.engine([seen])
    clients = [engine, *[await stage.client() for _ in range(7)]]

    async def write(client: Client, number: int) -> None:
        recorder = Recorder(client._core.store)
        for count in range(30):
            await recorder.record(f"w-{number}", Placed(f"w-{number}", str(count)))

    await asyncio.gather(*(write(client, number) for number, client in enumerate(clients)))
    await until(lambda: len(seen.given) >= 240)

    positions = [meta.position for meta in seen.metas]
    assert positions == sorted(set(positions))
    assert len(seen.given) == 240
    for number in range(8):
        placed = [one for one in seen.given if isinstance(one, Placed)]
        own = [one.sku for one in placed if one.order_id == f"w-{number}"]
        assert own == [str(count) for count in range(30)]


async def test_a_projection_keeps_its_position_over_a_restart(stage: Stage) -> None:
    first, second = Seen(), Seen()
    engine = await stage.engine([first])
    await record(engine, *orders(3))
    await until(lambda: len(first.given) == 3)
    await engine.close()

    again = await stage.engine([second])
    await record(again, *orders(2, start=3))
    await until(lambda: len(second.given) == 2)

    assert second.given == orders(2, start=3)


# ----------------------------------------------------------------------- leases


async def test_another_worker_goes_on_when_the_reader_stops(stage: Stage) -> None:
    first, second = Seen(), Seen()
    engine = await stage.engine([first], options=SHORT)
    await record(engine, *orders(2))
    await until(lambda: len(first.given) == 2)
    other = await stage.engine([second], options=SHORT)

    await engine.close()
    await record(other, *orders(2, start=2))
    await until(lambda: len(second.given) == 2)

    assert second.given == orders(2, start=2)


async def test_what_was_handled_is_not_handled_again_after_a_stop_amid_a_batch(
    stage: Stage,
) -> None:
    client = await stage.client()
    await record(client, *orders(3))
    first, second = Gated(), Seen()
    engine = await stage.engine([first], options=SHORT)
    await first.gate.reached()
    first.gate.opened.set()
    first.gate.entered.clear()
    first.gate.opened.clear()
    await first.gate.reached()

    await engine.close()
    await stage.engine([second], options=SHORT)
    await until(lambda: len(first.given) + len(second.given) >= 3)

    assert [*first.given, *second.given] == orders(3)


async def test_two_workers_never_handle_at_the_same_time(stage: Stage) -> None:
    at_work: set[str] = set()
    overlaps: list[set[str]] = []
    handled: list[object] = []

    class Careful(Seen):
        batch = 5

        def __init__(self, worker: str) -> None:
            super().__init__()
            self.worker = worker

        async def handle(self, event: object, meta: EventMeta, /) -> None:
            at_work.add(self.worker)
            if len(at_work) > 1:
                overlaps.append(set(at_work))
            try:
                await asyncio.sleep(0)
                handled.append(event)
            finally:
                at_work.discard(self.worker)

    client = await stage.client()
    engines = [await stage.engine([Careful(name)], options=SHORT) for name in ("a", "b", "c")]
    await record(client, *orders(60))
    await until(lambda: len(handled) > 10)
    await engines[0].close()
    await until(lambda: len(handled) > 30)
    await engines[1].close()
    await until(lambda: len(handled) >= 60)

    assert overlaps == []
    assert handled == orders(60)


async def test_a_reader_whose_lease_is_lost_handles_nothing_more(stage: Stage) -> None:
    clock = ManualClock()
    slow, quick = Gated(), Seen()
    first = await stage.engine([slow], clock=clock)
    await record(first, *orders(3))
    await slow.gate.reached()

    clock.advance(timedelta(seconds=31))
    await stage.engine([quick], clock=clock)
    await until(lambda: len(quick.given) == 3)
    slow.gate.opened.set()
    await until(lambda: len(slow.given) == 1)
    await first.close()

    assert slow.given == orders(1)
    assert quick.given == orders(3)


# ----------------------------------------------------------------- poison events


async def test_an_event_that_cannot_be_handled_stops_the_projection_visibly(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")
    seen = Seen()
    seen.bad = {Placed("o-1")}
    engine = await stage.engine([seen])

    await record(engine, *orders(3))
    await until(lambda: is_stuck(engine))
    info = await engine.projection("seen")

    assert seen.given == orders(1)
    assert info.status == "stuck"
    assert (info.position, info.behind, info.has_worker) == (1, 2, False)
    assert info.stuck == StuckAt(
        position=2,
        instance_id="order:o-1",
        event="Placed",
        error="ArithmeticError",
        message="what it cannot handle",
        attempts=3,
    )
    assert engine.health.restarts == 0


async def test_a_stuck_projection_goes_on_when_it_is_resumed(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")
    seen = Seen()
    seen.bad = {Placed("o-1")}
    engine = await stage.engine([seen], options=RESTING)
    await record(engine, *orders(3))
    await until(lambda: is_stuck(engine))

    seen.bad.clear()
    await engine.resume_projection("seen")
    await until(lambda: len(seen.given) == 3)

    assert seen.given == orders(3)
    assert (await engine.projection("seen")).stuck is None


async def test_a_poison_event_can_be_skipped_for_good(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")
    seen = Seen()
    seen.bad = {Placed("o-1")}
    engine = await stage.engine([seen])
    await record(engine, *orders(3))
    await until(lambda: is_stuck(engine))

    await engine.resume_projection("seen", skip=True)
    await until(lambda: len(seen.given) == 2)

    assert seen.given == [Placed("o-0"), Placed("o-2")]


async def test_an_event_that_fails_once_is_tried_again(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")

    class BadOnce(Seen):
        async def handle(self, event: object, meta: EventMeta, /) -> None:
            try:
                await super().handle(event, meta)
            except ArithmeticError:
                self.bad.clear()
                raise

    seen = BadOnce()
    seen.bad = {Placed("o-1")}
    engine = await stage.engine([seen])

    await record(engine, *orders(3))
    await until(lambda: len(seen.given) == 3)

    assert seen.given == orders(3)


async def test_an_error_that_is_not_to_be_retried_stops_at_once(stage: Stage) -> None:
    stage.expect_log("projection .* is stuck at event")

    class Final(Seen):
        retry = Retry(no_retry=[ArithmeticError])

    seen = Final()
    seen.bad = {Placed("o-0")}
    engine = await stage.engine([seen])

    await record(engine, *orders(1))
    await until(lambda: is_stuck(engine))
    stuck = (await engine.projection("seen")).stuck

    assert stuck is not None
    assert stuck.attempts == 1


async def test_a_handler_that_never_returns_is_cancelled_and_stops_the_projection_visibly(
    stage: Stage,
) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")

    class Hanging(Seen):
        timeout = timedelta(milliseconds=20)

        async def handle(self, event: object, meta: EventMeta, /) -> None:
            if event in self.bad:
                await asyncio.Event().wait()
            await super().handle(event, meta)

    seen = Hanging()
    seen.bad = {Placed("o-1")}
    engine = await stage.engine([seen])

    await record(engine, *orders(3))
    await until(lambda: is_stuck(engine))
    stuck = (await engine.projection("seen")).stuck
    assert stuck is not None
    assert (stuck.error, stuck.attempts) == ("TimeoutError", 3)
    assert stuck.message == "handle has taken more than 0.02 s"
    assert seen.given == orders(1)

    seen.bad.clear()
    await engine.resume_projection("seen")
    await until(lambda: len(seen.given) == 3)


async def test_an_event_that_cannot_be_read_is_poison_too(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")

    class OldOrder(Order):
        event_versions: ClassVar[Mapping[type, int]] = {Placed: 2}

    client = await stage.client()
    await Recorder(client._core.store).record("o-0", Placed("o-0"), decider=OldOrder)
    seen = Seen()

    engine = await stage.engine([seen])
    await until(lambda: is_stuck(engine))

    assert seen.given == []


async def test_a_loop_that_fails_is_started_again_and_health_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.expect_log("a loop of the worker failed and is started again")
    seen = Seen()
    engine = await stage.engine([seen])
    await record(engine, *orders(1))
    await until(lambda: len(seen.given) == 1)
    ask, failures = engine._core.store.feed.read_feed, [KeyError("broken")]

    async def fail_once(**asked: Any) -> Any:
        if failures:
            raise failures.pop()
        return await ask(**asked)

    monkeypatch.setattr(engine._core.store.feed, "read_feed", fail_once)
    await record(engine, Placed("o-9"))
    # A read that was under way may still bring the event; the next one fails and is made again.
    await until(lambda: engine.health.restarts == 1 and not engine.health.failing)
    await until(lambda: len(seen.given) == 2)

    assert "KeyError: 'broken'" in engine.health.last_error
    assert engine.health.restarts == 1


async def test_one_stuck_projection_does_not_stop_another(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")

    class Other(Seen):
        name = "other"

    bad, good = Seen(), Other()
    bad.bad = {Placed("o-0")}
    engine = await stage.engine([bad, good])

    await record(engine, *orders(3))
    await until(lambda: is_stuck(engine))
    await until(lambda: len(good.given) == 3)

    assert good.given == orders(3)


# ------------------------------------------------------------------ an operator


async def test_a_paused_projection_handles_nothing_until_it_is_resumed(stage: Stage) -> None:
    seen = Seen()
    engine = await stage.engine([seen])
    await record(engine, *orders(1))
    await until(lambda: is_at(engine, 1))

    await engine.pause_projection("seen", reason="the index is moved")
    await record(engine, *orders(2, start=1))
    paused = await engine.projection("seen")
    handled_meanwhile = list(seen.given)
    await engine.resume_projection("seen")
    await until(lambda: len(seen.given) == 3)

    assert (paused.status, paused.reason, paused.behind) == ("paused", "the index is moved", 2)
    assert handled_meanwhile == orders(1)
    assert seen.given == orders(3)


async def test_a_client_elsewhere_pauses_and_resumes_too(stage: Stage) -> None:
    seen = Seen()
    engine = await stage.engine([seen], options=SHORT)
    client = await stage.client()
    await record(engine, *orders(1))
    await until(lambda: is_at(engine, 1))

    await client.pause_projection("seen")
    await record(client, *orders(2, start=1))
    await client.resume_projection("seen")
    await until(lambda: len(seen.given) >= 3)

    assert seen.given == orders(3)


async def test_a_projection_that_is_no_more_can_be_forgotten(stage: Stage) -> None:
    """Whatever state it is in: handed to a worker again it begins with the first event."""
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")
    client = await stage.client()
    seen = Seen()
    seen.bad = {Placed("o-1")}
    engine = await stage.engine([seen])
    await record(client, *orders(2))
    await until(lambda: is_stuck(client))
    await engine.close()

    await client.forget_projection("seen")

    assert await client.projections() == []
    with pytest.raises(NotRegisteredError, match="no projection named 'seen'"):
        await client.projection("seen")
    again = Seen()
    await stage.engine([again])
    await until(lambda: len(again.given) == 2)


async def test_a_projection_that_was_never_run_cannot_be_forgotten(stage: Stage) -> None:
    await stage.engine([Seen()])
    client = await stage.client()
    await until(client.projections)

    with pytest.raises(NotRegisteredError, match=r"no projection named 'sean'.*known: seen"):
        await client.forget_projection("sean")


@pytest.mark.parametrize("state", ["running", "paused", "stuck"])
async def test_a_projection_that_a_living_worker_has_cannot_be_forgotten(
    stage: Stage, state: str
) -> None:
    """Also one that nobody reads for now: the worker would begin anew with the first event."""
    seen = Seen()
    engine = await stage.engine([seen], options=options(name="w-1"))
    client = await stage.client()
    if state == "stuck":
        stage.expect_log("projection .* could not handle event .* and tries again")
        stage.expect_log("projection .* is stuck at event")
        seen.bad = {Placed("o-0")}
        await record(engine, *orders(1))
        await until(lambda: is_stuck(client))
    else:
        await record(engine, *orders(1))
        await until(lambda: is_at(client, 1))
    if state == "paused":
        await client.pause_projection("seen")
    before = await client.projection("seen")

    with pytest.raises(UsageError, match=r"'seen' cannot be forgotten.*worker w-1 has it"):
        await client.forget_projection("seen")

    assert (await client.projection("seen")).position == before.position
    assert before.status == state


async def test_a_projection_of_a_worker_that_was_lost_is_forgotten_when_its_lease_has_run_out(
    stage: Stage,
) -> None:
    clock = ManualClock()
    client = await stage.client(clock=clock)
    await client._core.store.feed.claim_feed("lost", lease=7, lease_ms=90_000)

    with pytest.raises(UsageError, match="gives no sign of life"):
        await client.forget_projection("lost")
    clock.advance(timedelta(seconds=90))
    await client.forget_projection("lost")

    assert await client.projections() == []


async def test_a_reader_that_was_forgotten_lets_go(stage: Stage) -> None:
    """By hand, say. It asks for the name again and finds nothing handled."""
    seen = Rebuildable()
    engine = await stage.engine([seen])
    await record(engine, *orders(2))
    await until(lambda: is_at(engine, 2))

    lease = await engine._core.store.feed.set_reader("seen")
    await engine._core.store.feed.forget_reader("seen")
    await record(engine, Placed("o-2"))
    await until(lambda: is_at(engine, 3))

    assert lease
    assert seen.given == [*orders(2), *orders(3)]


async def test_a_worker_names_its_projections_in_its_sign_of_life(stage: Stage) -> None:
    engine = await stage.engine([Seen()])
    [worker] = await engine.workers()

    assert [key.name for key in worker.definitions if key.kind == "projection"] == ["seen"]


async def test_a_rebuilt_projection_is_emptied_and_gets_all_events_again(stage: Stage) -> None:
    seen = Rebuildable()
    engine = await stage.engine([seen])
    await record(engine, *orders(3))
    await until(lambda: len(seen.given) == 3)

    await engine.rebuild_projection("seen")
    await until(lambda: seen.resets == 1)
    await until(lambda: len(seen.given) == 3)
    await record(engine, *orders(1, start=3))
    await until(lambda: len(seen.given) == 4)

    assert seen.given == orders(4)
    assert seen.resets == 1


async def test_a_rebuild_that_was_paused_still_begins_with_a_reset(stage: Stage) -> None:
    client = await stage.client()
    first, second = Rebuildable(), Rebuildable()
    engine = await stage.engine([first])
    await record(client, *orders(3))
    await until(lambda: len(first.given) == 3)
    await engine.close()

    await client.rebuild_projection("seen")
    await client.pause_projection("seen")
    await client.resume_projection("seen")
    await stage.engine([second])
    await until(lambda: len(second.given) == 3)

    assert second.resets == 1


async def test_a_projection_without_reset_cannot_be_rebuilt(stage: Stage) -> None:
    stage.expect_log("projection .* could not get through reset and tries again")
    stage.expect_log("projection .* is stuck in reset")
    seen = Seen()
    engine = await stage.engine([seen])
    await record(engine, *orders(3))
    await until(lambda: len(seen.given) == 3)

    await engine.rebuild_projection("seen")
    await until(lambda: is_stuck(engine))
    stuck = (await engine.projection("seen")).stuck

    assert stuck is not None
    assert "has no reset()" in stuck.message
    assert seen.given == orders(3)


async def test_lag_is_how_long_the_oldest_event_waits(stage: Stage) -> None:
    clock = ManualClock()
    seen = Seen()
    engine = await stage.engine([seen], clock=clock)
    await until(lambda: engine.projections())
    await engine.pause_projection("seen")
    await record(engine, *orders(2))

    clock.advance(timedelta(seconds=5))
    await record(engine, *orders(1, start=2))
    [behind] = await engine.projections()
    await engine.resume_projection("seen")

    async def is_through() -> bool:
        return (await engine.projection("seen")).behind == 0

    await until(is_through)
    [through] = await engine.projections()

    assert (behind.behind, behind.lag) == (3, timedelta(seconds=5))
    assert (through.position, through.lag) == (3, timedelta(0))
    assert through.has_worker


async def test_events_of_others_do_not_count_as_lag_for_long(stage: Stage) -> None:
    seen = Seen()
    engine = await stage.engine([seen])
    recorder = Recorder(engine._core.store)

    await recorder.record("book", Reserved("book", "o-1"), decider=Stock)

    async def is_through() -> bool:
        return any(one.position == 1 for one in await engine.projections())

    await until(is_through)

    assert seen.given == []


async def test_what_projections_do_is_counted(stage: Stage) -> None:
    stage.expect_log("projection .* could not handle event .* and tries again")
    stage.expect_log("projection .* is stuck at event")
    seen = Seen()
    seen.bad = {Placed("o-2")}
    engine = await stage.engine([seen], options=options(metrics_every=timedelta(milliseconds=10)))
    engine.telemetry.snapshot()
    await record(engine, *orders(4))
    await until(lambda: is_stuck(engine))

    def is_refreshed() -> bool:
        now = engine.telemetry.snapshot()
        return now.value("perdure_projection_behind", projection="seen", status="stuck") == 2

    await until(is_refreshed)
    now = engine.telemetry.snapshot()

    assert now.value("perdure_projection_events_total", projection="seen") == 2
    assert now.value("perdure_projection_failures_total", error_type="ArithmeticError") == 3


async def test_what_is_not_there_is_named(stage: Stage) -> None:
    engine = await stage.engine([Seen()])
    await until(lambda: engine.projections())

    with pytest.raises(NotRegisteredError, match=r"no projection named 'sen' .*known: seen"):
        await engine.pause_projection("sen")
    with pytest.raises(UsageError, match="'seen' is not stuck at an event"):
        await engine.resume_projection("seen", skip=True)


# -------------------------------------------------------------------- definitions


class Nameless(Projection[object]):
    deciders = (Order,)

    async def handle(self, event: object, meta: EventMeta, /) -> None: ...


class Aimless(Seen):
    deciders = ()


class Plain(Seen):
    def handle(self, event: object, meta: EventMeta, /) -> None:  # type: ignore[override]
        ...


class Foreign(Seen):
    events = (Placed, Reserved)


class Needy(Seen):
    def __init__(self, path: str) -> None:
        super().__init__()


class Huge(Seen):
    batch = 10_000


class Reserving(Seen):
    name = "perdure.seen"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Nameless, 'projection Nameless has no name: write name = "orders"'),
        (Aimless, "projection Aimless reads of no decider"),
        (Plain, "handle of projection Plain is not async"),
        (Foreign, r"projection 'seen': Reserved is no event of order \(those have: Placed, Shipp"),
        (Needy, r"projection Needy needs arguments: hand over an object, Needy\(...\)"),
        (Huge, "projection Huge has batch = 10000: it must be from 1 to 500"),
        (Reserving, "names that begin with 'perdure.' are reserved"),
        (Projection, "projection Projection lacks"),
    ],
)
def test_a_projection_that_cannot_work_is_refused(wrong: Any, text: str) -> None:
    with pytest.raises(DefinitionError, match=text):
        Registry([wrong])


def test_two_projections_of_one_name_are_refused() -> None:
    with pytest.raises(DefinitionError, match="two projections or subscriptions are named 'seen'"):
        Registry([Seen(), Rebuildable()])


def test_a_class_stands_for_an_object_of_it() -> None:
    registry = Registry([Seen])

    assert isinstance(registry.readers["seen"], Seen)
    assert list(Registry([registry, registry]).readers) == ["seen"]
