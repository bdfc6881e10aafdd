"""Several processes that decide on the same instances: nothing is decided twice or in vain, nobody
starves, and what callers are told is what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from perdure import Accepted, AlreadyCompleted, Client, Decider, Decision, Rejected
from perdure.errors import InstanceHeldError, StoreUnavailableError
from perdure.model.messages import Message
from perdure.model.turns import Turn, TurnReceipt
from perdure.store.base import Store
from perdure.store.locked_turns import NOTHING_KNOWN, KnownInstance, LockedTurn, News
from tests.engine.stage import Gate, Stage, until
from tests.sizes import WITHIN_S


@dataclass(frozen=True)
class Put:
    to: str
    text: str


@dataclass(frozen=True)
class Written:
    text: str


class TroubleError(Exception):
    """What a caller brings on itself."""


class Page(Decider[tuple[str, ...], Put, Written, str]):
    """Keeps what is put onto it, in order; nothing twice; "end" is the last."""

    name = "page"

    def initial(self) -> tuple[str, ...]:
        return ()

    def instance_id(self, input: Put, /) -> str:
        return input.to

    def decide(
        self, state: tuple[str, ...], input: Put, now: datetime, /
    ) -> Decision[Put, Written, str]:
        if input.text == "trouble":
            raise TroubleError
        if input.text in state:
            return Decision.reject("there already")
        return Decision.accept(Written(input.text))

    def evolve(self, state: tuple[str, ...], event: Written, /) -> tuple[str, ...]:
        return (*state, event.text)

    def is_terminal(self, state: tuple[str, ...], /) -> bool:
        return "end" in state


@pytest.fixture
async def both(stage: Stage) -> tuple[Client, Client]:
    """Two processes without workers."""
    return await stage.client(), await stage.client()


async def put(client: Client, text: str, **options: Any) -> Any:
    return await client.execute(Page, Put("p", text), **options)


def store_of(client: Client) -> Store:
    return client._core.store


def refused(*clients: Client) -> int:
    return sum(client._core.turns().refused for client in clients)


class Watched:
    """Counts what a client asks of its store, and lets others come in between."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.questions: list[int] = []
        """How many instances were looked at with one question."""
        self.looking: Gate | None = None
        self.locked = 0
        self.before_commit: Callable[[], Awaitable[object]] | None = None
        store = store_of(client)
        self._commit, self._commit_locked = store.commit, store.commit_locked
        self._read_news = store.read_news
        monkeypatch.setattr(store, "commit", self.commit)
        monkeypatch.setattr(store, "commit_locked", self.commit_locked)
        monkeypatch.setattr(store, "read_news", self.read_news)

    async def commit(self, turns: Sequence[Turn]) -> list[TurnReceipt]:
        if self.before_commit is not None:
            await self.before_commit()
        return await self._commit(turns)

    def commit_locked(self, turns: Sequence[LockedTurn]) -> Awaitable[list[TurnReceipt | None]]:
        self.locked += len(turns)
        return self._commit_locked(turns)

    async def read_news(self, known: Sequence[KnownInstance]) -> list[News]:
        remembered = sum(one.stamp != NOTHING_KNOWN for one in known)
        if remembered:
            self.looks += remembered
            self.questions.append(remembered)
        if self.looking is not None:
            await self.looking.pass_through()
        return await self._read_news(known)


# ----------------------------------------------------------------------------------- look


async def test_who_is_alone_neither_looks_nor_locks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    watched = Watched(client, monkeypatch)

    for number in range(20):
        await put(client, str(number))

    assert (watched.looks, watched.locked, refused(client)) == (0, 0, 0)


async def test_memory_that_others_have_overtaken_decides_nothing_in_vain(
    both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each has met the other, a look tells what is new before anything is decided."""
    one, two = both
    for number in range(4):
        await put(both[number % 2], f"warm-up {number}")
    before = refused(one, two)
    watched = Watched(one, monkeypatch)

    answers = [await put(both[number % 2], str(number)) for number in range(20)]

    assert refused(one, two) == before
    assert watched.looks == 10
    assert [answer.version for answer in answers] == list(range(5, 25))
    assert [answer.state for answer in answers] == [
        (*(f"warm-up {number}" for number in range(4)), *map(str, range(last + 1)))
        for last in range(20)
    ]


async def test_inputs_that_come_while_a_look_is_under_way_share_the_next(
    both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = both
    await meet(one, two)
    names = ("q", "r", "s")
    for name in names:
        await one.execute(Page, Put(name, "first"))
    watched = Watched(one, monkeypatch)
    gate = watched.looking = Gate()

    answers = [asyncio.create_task(put(one, "a"))]
    await gate.reached()
    answers += [asyncio.create_task(one.execute(Page, Put(name, "a"))) for name in names]
    await until(lambda: all(is_ahead(one, f"page:{name}") for name in names))
    gate.opened.set()
    await asyncio.gather(*answers)

    assert watched.questions == [1, 3]


async def test_a_look_waits_for_the_commit_under_way(
    both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that those who come when they have heard of it share the look."""
    monkeypatch.setattr("perdure.turns.loading.catching_up.GATHER_FOR_S", WITHIN_S)
    one, two = both
    await meet(one, two)
    await one.execute(Page, Put("q", "first"))
    watched, gate = Watched(one, monkeypatch), Gate()
    watched.before_commit = gate.pass_through

    async def put_two() -> None:
        await put(one, "a")
        await put(one, "b")

    calling = asyncio.create_task(put_two())
    await gate.reached()
    beside = asyncio.create_task(one.execute(Page, Put("q", "a")))
    await until(lambda: is_ahead(one, "page:q"))
    asked_before = list(watched.questions)
    gate.opened.set()
    await asyncio.gather(calling, beside)

    assert asked_before == [1]
    assert watched.questions == [1, 2]


async def test_a_look_does_not_wait_for_a_commit_that_takes_long(
    both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rejected needs none, whatever keeps the store from writing."""
    monkeypatch.setattr("perdure.turns.loading.catching_up.GATHER_FOR_S", 0.001)
    one, two = both
    await meet(one, two)
    await one.execute(Page, Put("q", "first"))
    watched, gate = Watched(one, monkeypatch), Gate()
    watched.before_commit = gate.pass_through

    held = asyncio.create_task(put(one, "a"))
    await gate.reached()
    answer = await one.execute(Page, Put("q", "first"))
    gate.opened.set()
    await held

    assert answer == Rejected("there already")


def is_ahead(client: Client, instance_id: str) -> bool:
    hot = client._core.turns().hot.get(instance_id)
    return hot is not None and hot.is_ahead


async def test_what_a_look_finds_may_be_a_rejection(both: tuple[Client, Client]) -> None:
    one, two = both
    await meet(one, two)
    await put(two, "a")

    assert await put(one, "a") == Rejected("there already")


async def test_what_others_have_ended_is_found_to_have_ended(both: tuple[Client, Client]) -> None:
    one, two = both
    await meet(one, two)
    await put(two, "end")

    assert await put(one, "a") == AlreadyCompleted()


async def test_what_others_have_deleted_begins_anew(both: tuple[Client, Client]) -> None:
    one, two = both
    await meet(one, two)
    await put(two, "end")
    await two.handle("page:p").delete()

    answer = await put(one, "a")

    assert isinstance(answer, Accepted)
    assert answer.state == ("a",)


@pytest.mark.parametrize("sender", [0, 1], ids=["sent here", "sent there"])
async def test_what_waits_in_the_inbox_comes_before_an_input_after_a_look(
    both: tuple[Client, Client], sender: int
) -> None:
    """Else the turn would count as having seen it, and no worker would come for it."""
    one, two = both
    await meet(one, two)
    await put(two, "a")
    await both[sender].send(Page, Put("p", "b"))

    answer = await put(one, "c")

    assert answer.state[-3:] == ("a", "b", "c")


async def test_what_is_sent_while_the_inbox_is_read_is_not_overtaken(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stage.client()
    await put(client, "a")
    await client.send(Page, Put("p", "b"))
    hot = client._core.turns().hot.get("page:p")
    assert hot is not None
    later: list[asyncio.Task[Any]] = []
    store = store_of(client)
    read_inbox = store.read_inbox

    async def read_and_send(instance_id: str) -> list[Message]:
        found = await read_inbox(instance_id)
        if not later:
            await client.send(Page, Put("p", "d"))
            later.append(asyncio.create_task(put(client, "e")))
            await until(lambda: len(hot.inputs or ()) == 2)
        return found

    monkeypatch.setattr(store, "read_inbox", read_and_send)
    await put(client, "c")
    await later[0]

    state = await client.state(Page, "p")
    assert state.index("b") < state.index("c")
    assert state.index("d") < state.index("e")


async def meet(one: Client, two: Client) -> None:
    """Have two processes notice each other."""
    for number in range(2):
        await put(one, f"meet one {number}")
        await put(two, f"meet two {number}")
    await put(one, "met")


# ----------------------------------------------------------------------------------- lock


async def test_who_is_always_too_late_decides_under_the_lock(
    both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between each of its looks and commits another process is faster."""
    monkeypatch.setattr("perdure.client.deciders.inputs.MAX_TRIES", 3)
    one, two = both
    await put(one, "first")
    watched = Watched(one, monkeypatch)
    rivals = iter(range(100))
    watched.before_commit = lambda: put(two, f"rival {next(rivals)}")

    answers = [await put(one, f"{number}") for number in range(3)]

    assert all(isinstance(answer, Accepted) for answer in answers)
    assert watched.locked >= 1
    written = [event.event.text for event in await two.events(Page, "p")]
    assert [text for text in written if text.isdigit()] == ["0", "1", "2"]
    assert len(set(written)) == len(written)


async def test_an_input_that_is_overtaken_is_never_queued(
    both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `decide` raises over it is its caller's, and the instance goes on for all."""
    one, two = both
    await put(one, "first")
    watched = Watched(one, monkeypatch)
    watched.before_commit = lambda: put(two, "rival")

    async def deliver(*_: object, **__: object) -> None:
        raise AssertionError("it was queued")

    monkeypatch.setattr(store_of(one), "start", deliver)
    monkeypatch.setattr(store_of(one), "deliver", deliver)
    await put(one, "second")
    with pytest.raises(TroubleError):
        await put(one, "trouble")

    assert (await put(two, "third")).state == ("first", "rival", "second", "third")


@pytest.fixture
def always_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every direct turn of an instance that is there thought under its lock."""
    monkeypatch.setattr("perdure.turns.direct.contention.Contention.wants_lock", lambda *_: True)


@pytest.mark.usefixtures("always_locked")
class TestUnderTheLock:
    """Whatever an input may come to, it comes to under the lock as well."""

    async def test_an_input_is_accepted_rejected_or_raises(
        self, both: tuple[Client, Client]
    ) -> None:
        one, two = both
        await put(one, "first")

        assert (await put(two, "a")).state == ("first", "a")
        assert await put(one, "a") == Rejected("there already")
        with pytest.raises(TroubleError):
            await put(one, "trouble")
        assert (await put(one, "b")).version == 3
        assert (await put(two, "end")).state == ("first", "a", "b", "end")
        assert await put(one, "c") == AlreadyCompleted()

    async def test_an_input_id_is_answered_once_for_all(self, both: tuple[Client, Client]) -> None:
        one, two = both
        await put(one, "first")

        first = await put(one, "a", input_id="x")
        again = await put(two, "a", input_id="x")
        no = await put(one, "a", input_id="y")

        assert again == first
        assert no == await put(two, "a", input_id="y") == Rejected("there already")

    async def test_callers_of_two_processes_are_all_decided_once_in_their_order(
        self, both: tuple[Client, Client]
    ) -> None:
        await put(both[0], "first")

        async def caller(client: Client, name: str) -> list[Any]:
            answers = []
            for number in range(0, 12, 2):
                await client.send(Page, Put("p", f"{name}:{number:02}"))
                answers.append(await put(client, f"{name}:{number + 1:02}"))
            return answers

        told = await asyncio.gather(
            *(caller(client, f"{door}{no}") for door, client in enumerate(both) for no in range(3))
        )

        stored = [event.event.text for event in await both[0].events(Page, "p")]
        assert len(stored) == len(set(stored)) == 73
        for door in range(2):
            for no in range(3):
                own = [text for text in stored if text.startswith(f"{door}{no}:")]
                assert own == sorted(own)
        for answer in (answer for answers in told for answer in answers):
            assert list(answer.state) == stored[: answer.version]
            assert answer.events[0].text == stored[answer.version - 1]

    async def test_a_parked_instance_is_told_to_be(
        self, stage: Stage, both: tuple[Client, Client]
    ) -> None:
        """A message that came before cannot be decided: a worker parks it."""
        stage.allow_log("a turn of instance .* failed")
        stage.allow_log("parked")
        one, two = both
        await put(one, "first")
        await two.send(Page, Put("p", "trouble"))
        engine = await stage.engine([Page])
        await until_parked(engine)

        with pytest.raises(InstanceHeldError):
            await put(one, "a")

    async def test_code_that_is_too_slow_for_the_lock_decides_all_the_same(
        self, stage: Stage, both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stage.expect_log("its turn took longer than")
        one, _ = both
        await put(one, "first")
        given_up: list[LockedTurn] = []
        watched = Watched(one, monkeypatch)
        commit_locked = watched._commit_locked

        def note(turns: Sequence[LockedTurn]) -> Awaitable[list[TurnReceipt | None]]:
            given_up.extend(turns)
            return commit_locked(turns)

        def wait_for_the_end(*_: object) -> Decision[Put, Written, str]:
            monkeypatch.setattr(Page, "decide", decide)
            while not given_up[0].is_void:
                pass  # The guard lets no decider sleep.
            return Decision.accept(Written("slow"))

        decide = Page.decide
        watched._commit_locked = note
        monkeypatch.setattr("perdure.store.sql.questions.news.HOLD_FOR_S", 0.02)
        monkeypatch.setattr(Page, "decide", wait_for_the_end)
        answer = await put(one, "slow")

        assert answer.state == ("first", "slow")
        assert watched.locked >= 1


async def until_parked(client: Client) -> None:
    """Wait until the instance is parked."""

    async def is_parked() -> bool:
        return (await client.handle("page:p").info()).status.value == "parked"

    await until(is_parked)


async def test_who_never_gets_a_turn_is_told_that_nothing_is_stored(
    both: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.client.deciders.inputs.MAX_TRIES", 2)
    monkeypatch.setattr("perdure.turns.direct.contention.Contention.wants_lock", lambda *_: False)
    one, two = both
    await put(one, "first")
    watched = Watched(one, monkeypatch)
    rivals = iter(range(100))
    watched.before_commit = lambda: put(two, f"rival {next(rivals)}")

    with pytest.raises(
        StoreUnavailableError, match=r"kept moving .* 2 times; nothing of it is stored"
    ):
        await put(one, "a")

    assert "a" not in await two.state(Page, "p")
