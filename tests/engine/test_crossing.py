"""Orchestrations call deciders, deciders start orchestrations: each exactly once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure import (
    Accepted,
    AlreadyCompleted,
    Context,
    Decider,
    Decision,
    EndedOrchestration,
    Engine,
    Rejected,
    Signal,
    Status,
    Worker,
    activity,
    context,
    orchestration,
)
from perdure.authoring.orchestration import Orchestration
from perdure.client.reading.info import InstanceTree
from perdure.core.deciders.answers import DirectInput
from perdure.errors import (
    ActivityError,
    InstanceEndedError,
    LimitExceededError,
    StoreUnavailableError,
    UniqueKeyError,
    UsageError,
)
from perdure.jobs.slots import SlotKind
from tests.engine.stage import OPTIONS, Stage, kinds, until, waits_for

# --------------------------------------------------------------------- a decider to call


@dataclass(frozen=True)
class Open:
    ticket: str
    number: str = ""


@dataclass(frozen=True)
class Add:
    ticket: str
    text: str


@dataclass(frozen=True)
class Close:
    ticket: str


@dataclass(frozen=True)
class Handed:
    ticket: str
    how: str


@dataclass(frozen=True)
class Opened:
    number: str = ""


@dataclass(frozen=True)
class Added:
    text: str


@dataclass(frozen=True)
class Closed: ...


@dataclass(frozen=True)
class State:
    is_open: bool = False
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotOpen:
    ticket: str


Input = Open | Add | Close | Handed
Event = Opened | Added | Closed

go = Signal("go", str)


@orchestration
async def hand_over(text: str) -> str:
    return f"{text} {await go.receive()}"


class Ticket(Decider[State, Input, Event, NotOpen]):
    name = "ticket"

    def initial(self) -> State:
        return State()

    def instance_id(self, input: Input, /) -> str:
        return input.ticket

    def unique_key(self, input: Input, /) -> str | None:
        return (input.number or None) if isinstance(input, Open) else None

    def decide(
        self, state: State, input: Input, now: datetime, /
    ) -> Decision[Input, Event, NotOpen]:
        match input:
            case Open(_, number):
                return Decision.accept(Opened(number)).reply({"number": number})
            case Add(_, "raise"):
                raise ArithmeticError("what it cannot decide")
            case Add(ticket, _) | Close(ticket) if not state.is_open:
                return Decision.reject(NotOpen(ticket))
            case Add(ticket, "hand over"):
                return Decision.accept(Added("hand over")).start(
                    f"{ticket}-handed", hand_over, ticket
                )
            case Add(_, text):
                return Decision.accept(Added(text))
            case Close():
                return Decision.accept(Closed())
            case Handed(_, how):
                return Decision.accept(Added(how))

    def evolve(self, state: State, event: Event, /) -> State:
        match event:
            case Opened():
                return replace(state, is_open=True)
            case Added(text):
                return replace(state, texts=(*state.texts, text))
            case Closed():
                return replace(state, is_open=False)

    def is_terminal(self, state: State, /) -> bool:
        return not state.is_open and bool(state.texts)

    def on_ended(self, ended: EndedOrchestration, /) -> Input | None:
        how = ended.result if ended.status == "completed" else ended.status
        return Handed(ended.instance_id, f"{ended.orchestration_id}: {how}")


async def result_of(engine: Engine, code: Orchestration[..., Any], *args: Any) -> Any:
    return await (await engine.start(code, *args)).result()


async def texts_of(engine: Engine, ticket: str = "t") -> tuple[str, ...]:
    return (await engine.state(Ticket, ticket)).texts


# ---------------------------------------------------------------------- deciding now


async def test_an_orchestration_gets_what_a_decider_decided(stage: Stage) -> None:
    seen: list[object] = []

    @orchestration
    async def calling(ctx: Context) -> str:
        for given in (Add("t", "early"), Open("t", "7"), Add("t", "text"), Close("t"), Close("t")):
            outcome = await ctx.execute(Ticket, given)
            if not ctx.is_replaying:
                seen.append(outcome)
        return "done"

    engine = await stage.engine([calling, Ticket])
    handle = await engine.start("caller", calling)
    assert await handle.result() == "done"

    opened, with_text = State(True), State(True, ("text",))
    assert seen == [
        Rejected(NotOpen("t")),
        Accepted((Opened("7"),), opened, 1, {"number": "7"}),
        Accepted((Added("text"),), with_text, 2),
        Accepted((Closed(),), replace(with_text, is_open=False), 3),
        AlreadyCompleted(),
    ]
    assert [event.cause for event in await engine.events(Ticket, "t")] == [
        "orchestration:caller"
    ] * 3
    assert kinds(await handle.history()) == [
        "started",
        *["activity_scheduled", "activity_completed"] * 5,
        "completed",
    ]


async def test_an_input_is_decided_once_though_its_answer_is_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.jobs.builtins.STORE_PAUSE_S", 0.001)

    @orchestration
    async def calling(ctx: Context) -> list[str]:
        await ctx.execute(Ticket, Open("t"))
        outcome = await ctx.execute(Ticket, Add("t", "once"))
        assert isinstance(outcome, Accepted)
        return list(outcome.state.texts)

    engine = await stage.engine([calling, Ticket])
    execute = engine._inputs.execute
    tries: list[str] = []

    async def unsure(decider: Any, instance_id: str, given: DirectInput) -> object:
        answer = await execute(decider, instance_id, given)
        tries.append(given.tag)
        if tries in (["Open"], ["Open", "Open", "Add"]):
            raise StoreUnavailableError("the answer was lost")
        return answer

    monkeypatch.setattr(engine._inputs, "execute", unsure)
    stage.expect_log("activity .* waits for the store")

    assert await result_of(engine, calling) == ["once"]
    assert tries == ["Open", "Open", "Add", "Add"]
    assert len(await engine.events(Ticket, "t")) == 2


async def test_a_taken_business_key_is_raised_as_itself(stage: Stage) -> None:
    @orchestration
    async def calling(ctx: Context) -> str:
        await ctx.execute(Ticket, Open("first", "7"))
        try:
            await ctx.execute(Ticket, Open("second", "7"))
        except UniqueKeyError as error:
            return f"{error.decider} {error.key}: {error.holder}"
        return "no error"

    engine = await stage.engine([calling, Ticket])

    assert await result_of(engine, calling) == "ticket 7: first"


async def test_what_the_code_of_a_decider_raises_reaches_the_caller(stage: Stage) -> None:
    @orchestration
    async def calling(ctx: Context) -> str:
        try:
            await ctx.execute(Ticket, Add("t", "raise"))
        except ActivityError as error:
            return f"{error.attempts} x {error.type_name}: {error.message}"
        return "no error"

    engine = await stage.engine([calling, Ticket])

    assert await result_of(engine, calling) == "1 x ArithmeticError: what it cannot decide"


async def test_an_input_is_decided_where_the_decider_is(stage: Stage) -> None:
    """The worker of the orchestration does not have the decider, and never takes the call."""

    @orchestration
    async def calling(ctx: Context) -> str:
        outcome = await ctx.execute(Ticket, Open("t"))
        return type(outcome).__name__

    engine = await stage.engine([calling])
    stage.expect_log("no live worker serves decider 'ticket'")
    handle = await engine.start(calling)
    await waits_for(handle, "decider 'ticket'")
    await until(lambda: stage.logged("no live worker serves decider 'ticket'"))

    await stage.engine([Ticket])

    assert await handle.result() == "Accepted"


async def test_a_call_waits_for_a_decider_that_is_held(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.jobs.builtins.STORE_PAUSE_S", 0.01)

    @orchestration
    async def calling(ctx: Context) -> str:
        return type(await ctx.execute(Ticket, Open("t"))).__name__

    engine = await stage.engine([calling, Ticket])
    stage.expect_log("a turn of instance .* failed")
    stage.expect_log("is parked")
    await engine.send(Ticket, Add("t", "raise"))

    async def is_parked() -> bool:
        return (await engine.handle("t", Ticket).info()).status is Status.PARKED

    await until(is_parked)
    handle = await engine.start(calling)
    stage.expect_log("activity .* waits for an instance")
    await until(lambda: stage.logged("activity .* waits for an instance"))

    [message] = [one for one in await engine.inbox("ticket:t") if one.kind == "input_taken"]
    await engine.drop_message("ticket:t", message.no)
    await engine.handle("t", Ticket).unpark()

    assert await handle.result() == "Accepted"


async def test_a_plain_worker_decides_for_orchestrations_too(stage: Stage) -> None:
    @orchestration
    async def calling(ctx: Context) -> int:
        await ctx.send(Ticket, Open("t"))
        outcome = await ctx.execute(Ticket, Add("t", "a"))
        assert isinstance(outcome, Accepted)
        _, version = await ctx.ref("t", Ticket).wait_event(Added)
        return version

    client = await stage.client()
    async with Worker(stage.url, [calling, Ticket], options=OPTIONS):
        assert await (await client.start(calling)).result() == 2


@pytest.mark.parametrize("wrong", ["no input", "no decider", "elsewhere"])
async def test_a_wrong_call_is_refused_at_the_call(stage: Stage, wrong: str) -> None:
    kept: list[Context] = []

    @orchestration
    async def calling(ctx: Context) -> str:
        kept.append(ctx)
        call: Any = ctx.execute
        try:
            call(Ticket, "text") if wrong == "no input" else call(State, Open("t"))
        except UsageError as error:
            return str(error)
        return "no error"

    engine = await stage.engine([calling, Ticket])
    said = await result_of(engine, calling)

    match wrong:
        case "no input":
            assert "got str, which is none of its inputs" in said
        case "no decider":
            assert "is no decider" in said
        case "elsewhere":
            with pytest.raises(UsageError, match="works only inside its own orchestration"):
                await kept[0].execute(Ticket, Open("t"))


# ------------------------------------------------------------------------- sending


async def test_an_input_can_be_sent_and_is_decided_soon(stage: Stage) -> None:
    @orchestration
    async def sending(ctx: Context) -> str:
        await ctx.send(Ticket, Open("t"))
        for text in "abc":
            await ctx.send(Ticket, Add("t", text))
        return "sent"

    engine = await stage.engine([sending, Ticket])
    assert await result_of(engine, sending) == "sent"

    async def has_all() -> bool:
        return await texts_of(engine) == ("a", "b", "c")

    await until(has_all)


async def test_a_later_call_does_not_overtake_what_was_sent(stage: Stage) -> None:
    @orchestration
    async def both(ctx: Context) -> list[str]:
        await ctx.send(Ticket, Open("t"))
        await ctx.send(Ticket, Add("t", "sent"))
        outcome = await ctx.execute(Ticket, Add("t", "executed"))
        assert isinstance(outcome, Accepted)
        return list(outcome.state.texts)

    engine = await stage.engine([both, Ticket])

    assert await result_of(engine, both) == ["sent", "executed"]


async def test_an_input_for_a_completed_instance_is_refused(stage: Stage) -> None:
    @orchestration
    async def sending(ctx: Context) -> str:
        for given in (Open("t"), Add("t", "a"), Close("t")):
            await ctx.execute(Ticket, given)
        try:
            await ctx.send(Ticket, Add("t", "late"))
        except InstanceEndedError as error:
            return f"{error.instance_id}: {error.status}"
        return "sent"

    engine = await stage.engine([sending, Ticket])

    assert await result_of(engine, sending) == "ticket:t: completed"


# ----------------------------------------------------------------- waiting for events


@orchestration
async def next_text(ctx: Context, ticket: str, after: int) -> str:
    """Say which text comes next, or that it was closed before."""
    ref = ctx.ref(ticket, Ticket)
    try:
        event, version = await ref.wait_event(Added | Closed, after=after)
    except InstanceEndedError as error:
        return f"{error.instance_id} has ended"
    return f"{version}: {event.text if isinstance(event, Added) else 'closed'}"


def waits_here(engine: Engine) -> int:
    return engine._serving.jobs._slots[SlotKind.WAITING].running


async def test_an_event_that_is_recorded_already_is_found_behind_a_version(stage: Stage) -> None:
    engine = await stage.engine([next_text, Ticket])
    for given in (Open("t"), Add("t", "a"), Add("t", "b")):
        await engine.execute(Ticket, given)

    assert await result_of(engine, next_text, "t", 0) == "2: a"
    assert await result_of(engine, next_text, "t", 2) == "3: b"


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("when", ["it exists", "it does not exist yet"])
async def test_an_event_is_waited_for(stage: Stage, where: str, when: str) -> None:
    engine = await stage.engine([next_text, Ticket])
    other = engine if where == "here" else await stage.engine([Ticket])
    if when == "it exists":
        await other.execute(Ticket, Open("t"))
    waiting = await engine.start(next_text, "t", 0)
    await until(lambda: waits_here(engine) == 1)
    if when != "it exists":
        await other.execute(Ticket, Open("t"))

    await other.execute(Ticket, Add("t", "at last"))

    assert await waiting.result() == "2: at last"


async def test_an_instance_that_completes_without_the_event_is_not_waited_for(
    stage: Stage,
) -> None:
    engine = await stage.engine([next_text, Ticket])
    for given in (Open("t"), Add("t", "a")):
        await engine.execute(Ticket, given)
    waiting = await engine.start(next_text, "t", 3)
    await until(lambda: waits_here(engine) == 1)

    await engine.execute(Ticket, Close("t"))

    assert await waiting.result() == "ticket:t has ended"
    assert await result_of(engine, next_text, "t", 3) == "ticket:t has ended"


async def test_many_waits_are_one_look_at_the_feed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await stage.engine([next_text, Ticket])
    await engine.execute(Ticket, Open("t"))
    waiting = [await engine.start(next_text, "t", 0) for _ in range(40)]
    await until(lambda: waits_here(engine) == 40)
    looks: list[int] = []
    read_feed = engine._core.store.feed.read_feed

    async def counted(**asked: Any) -> object:
        looks.append(asked["after"])
        return await read_feed(**asked)

    monkeypatch.setattr(engine._core.store.feed, "read_feed", counted)
    await engine.execute(Ticket, Add("t", "all"))

    assert {await each.result() for each in waiting} == {"2: all"}
    assert len(looks) < 10


async def test_a_wait_with_a_timeout_gives_up(stage: Stage) -> None:
    @orchestration
    async def patient(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.05):
                await ctx.ref("t", Ticket).wait_event(Closed)
        except TimeoutError:
            return "gave up"
        return "closed"

    engine = await stage.engine([patient, Ticket])

    assert await result_of(engine, patient) == "gave up"
    await until(lambda: waits_here(engine) == 0)


async def test_only_events_of_the_decider_can_be_waited_for(stage: Stage) -> None:
    @orchestration
    async def confused() -> str:
        wait: Any = context().ref("t", Ticket).wait_event
        try:
            wait(State)
        except UsageError as error:
            return str(error)
        return "no error"

    engine = await stage.engine([confused, Ticket])

    assert "no event of decider 'ticket'; it has Opened, Added, Closed" in await result_of(
        engine, confused
    )


# -------------------------------------------------------- deciders start orchestrations


async def test_a_decider_starts_an_orchestration_and_hears_how_it_ended(stage: Stage) -> None:
    engine = await stage.engine([hand_over, Ticket])
    await engine.execute(Ticket, Open("t"))
    await engine.execute(Ticket, Add("t", "hand over"))
    await engine.handle("t-handed").send(go, "done")
    await engine.handle("t-handed").result()

    async def has_heard() -> bool:
        return len(await texts_of(engine)) == 2

    await until(has_heard)
    assert await texts_of(engine) == ("hand over", "t-handed: t done")
    causes = [event.cause for event in await engine.events(Ticket, "t")]
    assert causes[:2] == ["client", "client"]
    assert causes[2].startswith("ended:")


@pytest.mark.parametrize("how", ["was cancelled", "was terminated", "not started"])
async def test_a_decider_hears_of_every_other_end(stage: Stage, how: str) -> None:
    engine = await stage.engine([hand_over, Ticket])
    await engine.execute(Ticket, Open("t"))
    if how == "not started":
        await engine.start("t-handed", hand_over, "mine")
    await engine.execute(Ticket, Add("t", "hand over"))
    match how:
        case "was cancelled":
            await engine.handle("t-handed").cancel()
        case "was terminated":
            await engine.handle("t-handed").terminate()

    async def has_heard() -> bool:
        return len(await texts_of(engine)) == 2

    await until(has_heard)
    assert await texts_of(engine) == ("hand over", f"t-handed: {how}")


async def test_a_decider_and_what_it_started_are_one_tree(stage: Stage) -> None:
    engine = await stage.engine([hand_over, Ticket])
    await engine.execute(Ticket, Open("t"))
    await engine.execute(Ticket, Add("t", "hand over"))

    tree = await engine.handle("t", Ticket).tree()

    assert (tree.info.name, tree.info.kind) == ("ticket", "decider")
    [child] = tree.children
    assert (child.info.instance_id, child.info.parent_id) == ("t-handed", "ticket:t")
    history = kinds(await engine.handle("t", Ticket).history())
    assert history[-3:] == ["input_taken", "event_recorded", "child_scheduled"]
    await engine.handle("t-handed").terminate()


def shape(tree: InstanceTree) -> dict[str, Any]:
    """What is below each node: a child by its id, a called decider with an arrow."""
    children = {child.info.instance_id: shape(child) for child in tree.children}
    return children | {f"-> {each.info.instance_id}": shape(each) for each in tree.calls}


@orchestration
async def handing_over(ctx: Context) -> str:
    await ctx.execute(Ticket, Add("t", "hand over"))
    await ctx.send(Ticket, Open("sent"))
    return await go.receive()


@orchestration
async def opening(ctx: Context) -> None:
    for ticket in ("b", "a", "t", "b"):
        await ctx.execute(Ticket, Open(ticket))
    await handing_over.with_options(instance_id="child")()


async def test_an_orchestration_and_the_deciders_it_called_are_one_tree(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that others below it called, each once, with what they started."""
    engine = await stage.engine([opening, handing_over, hand_over, Ticket])
    handle = await engine.start("caller", opening)
    await waits_for(handle, "child")
    await waits_for(engine.handle("child"), "signal")

    async def is_decided() -> bool:
        return len(await handle.tree()) == 7

    await until(is_decided)  # What was sent comes into being with its first turn.
    whole: dict[str, Any] = {
        "child": {"-> ticket:sent": {}},
        "-> ticket:b": {},
        "-> ticket:a": {},
        "-> ticket:t": {"t-handed": {}},
    }
    tree = await handle.tree()
    assert shape(tree) == whole
    assert list(shape(tree)) == list(whole)
    assert {each.info.kind for each in tree.calls} == {"decider"}
    assert shape(await handle.tree(calls=False)) == {"child": {}}

    # Nothing is missed where histories are read in parts.
    monkeypatch.setattr("perdure.client.reading.trees.EVENTS_PER_READ", 3)
    monkeypatch.setattr("perdure.client.reading.trees.HISTORIES_PER_READ", 2)
    assert shape(await handle.tree()) == whole

    monkeypatch.setattr("perdure.client.handle.MAX_TREE_SHOWN", 4)
    with pytest.raises(LimitExceededError, match=r"limited to 4.*calls=False"):
        await handle.tree()
    assert len(await handle.tree(calls=False)) == 2


@orchestration
async def rounds(ctx: Context, number: int) -> str:
    await ctx.execute(Ticket, Open(f"r-{number}"))
    await ctx.execute(Ticket, Open("shared"))
    if number < 5:
        rounds.continue_as_new(number + 1)
    return await go.receive()


async def test_deciders_that_earlier_executions_called_are_in_the_tree(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the calls, as far back as is searched and kept."""
    engine = await stage.engine([rounds, Ticket])
    handle = await engine.start("rounds", rounds, 1)
    await waits_for(handle, "signal")
    called = [each.info.instance_id for each in (await handle.tree()).calls]

    assert called == ["ticket:r-1", "ticket:shared", *(f"ticket:r-{n}" for n in range(2, 6))]

    monkeypatch.setattr("perdure.client.reading.trees.EVENTS_PER_READ", 2)
    monkeypatch.setattr("perdure.client.reading.trees.HISTORIES_PER_READ", 2)
    assert [each.info.instance_id for each in (await handle.tree()).calls] == called

    monkeypatch.setattr("perdure.client.reading.trees.MAX_EXECUTIONS_SEARCHED", 2)
    assert list(shape(await handle.tree())) == [
        "-> ticket:r-4",
        "-> ticket:shared",
        "-> ticket:r-5",
    ]

    monkeypatch.undo()
    await handle.prune()
    assert list(shape(await handle.tree())) == ["-> ticket:r-5", "-> ticket:shared"]


async def test_a_tree_of_calls_in_a_circle_has_each_instance_once(stage: Stage) -> None:
    """A decider starts an orchestration that calls it and another, which sends to the first."""

    class Echo(Ticket):
        name = "echo"

        def decide(
            self, state: State, input: Input, now: datetime, /
        ) -> Decision[Input, Event, NotOpen]:
            return Decision.accept(Opened()).send(Circle, Add("c", "echo"))

    @orchestration
    async def back(ctx: Context) -> str:
        await ctx.execute(Circle, Add("c", "back"))
        await ctx.execute(Echo, Open("e"))
        return await go.receive()

    class Circle(Ticket):
        name = "circle"

        def decide(
            self, state: State, input: Input, now: datetime, /
        ) -> Decision[Input, Event, NotOpen]:
            if isinstance(input, Open):
                return Decision.accept(Opened()).start("back", back)
            return super().decide(state, input, now)

    engine = await stage.engine([back, Circle, Echo])
    await engine.execute(Circle, Open("c"))
    await waits_for(engine.handle("back"), "signal")

    assert shape(await engine.handle("c", Circle).tree()) == {"back": {"-> echo:e": {}}}
    assert shape(await engine.handle("back").tree()) == {"-> circle:c": {}, "-> echo:e": {}}
    assert shape(await engine.handle("e", Echo).tree()) == {"-> circle:c": {"back": {}}}


async def test_an_effect_of_a_decider_may_be_what_an_orchestration_waits_for(
    stage: Stage,
) -> None:
    """Around once: orchestration, decider, effect, decider, orchestration."""

    @activity
    async def look_up(ticket: str) -> Add:
        return Add(ticket, "found")

    class Asking(Ticket):
        name = "asking"

        def decide(
            self, state: State, input: Input, now: datetime, /
        ) -> Decision[Input, Event, NotOpen]:
            if isinstance(input, Open):
                return Decision.accept(Opened()).effect(look_up, input.ticket)
            return super().decide(state, input, now)

    @orchestration
    async def around(ctx: Context) -> str:
        outcome = await ctx.execute(Asking, Open("t"))
        assert isinstance(outcome, Accepted)
        event, version = await ctx.ref("t", Asking).wait_event(Added, after=outcome.version)
        return f"{version}: {event.text}"

    engine = await stage.engine([around, Asking, look_up])
    handle = await engine.start(around)

    assert await handle.result(timeout=timedelta(seconds=10)) == "2: found"
