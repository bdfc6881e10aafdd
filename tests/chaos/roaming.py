"""Programs made at random that run for real: in an engine, on a store, with activities that leave a
trace outside. Many copies of one program go side by side, and go back; then what is stored is
compared with what a copy came to that never went back.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from perdure import Handle, Promise, Retry, Stream, Update, activity, orchestration
from perdure.authoring.registry import Defined
from perdure.core.summary import Summary
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    Origin,
    PromiseMade,
    SignalAwaited,
    Started,
    StoredEvent,
    WentBack,
    read_event,
)
from perdure.model.instances import Status
from perdure.model.jobs import JobKey
from perdure.model.updates import UPDATE_PREFIX
from perdure.repair import Point
from perdure.store.base import ExecutionKey
from perdure.store.contents import Contents, Inspectable
from tests.chaos.crashing import HandDriven, World
from tests.chaos.ledger import noted
from tests.core import wandering
from tests.core.wandering import SIGNALS, Step, drawn_steps, logs

add = Update("add", int, int)
due = Promise("due", str)
words = Stream("words", int)

MAX_ROUNDS = 400
"""Many more than any program needs."""


@activity(name=wandering.say.name, retry=Retry(max_attempts=1))
async def say(word: str) -> str:
    with noted():
        if word == "fail":
            raise ValueError("no")
        return word.upper()


@orchestration(name=wandering.below.name)
async def below(word: str) -> str:
    """Take some time, so that its parent may go back meanwhile, and have an effect."""
    await asyncio.sleep(5)
    return (await wandering.say(word.replace("fail", "d"))).upper()


@activity
async def recite(number: int) -> int:
    """Send to a stream, with all that an attempt sends."""
    with noted():
        words.send(number)
        await words.flush()
        words.send(number + 1)
    return number


@orchestration
async def roam(steps: list[Step]) -> list[Any]:
    """Do what `wander` does, and what there is besides: ask to be asked, promise, tell."""
    log: list[Any] = []
    logs.append(log)
    for step in steps:
        match step:
            case ["asked"]:
                request = await add.receive()
                request.answer(request.value + 1)
                log.append(["asked", request.value])
            case ["promise"]:
                log.append(["promised", await due.make().receive()])
            case ["tell", number]:
                words.send(number)
                log.append(["told"])
            case ["recite", number]:
                log.append(["recited", await recite(number)])
            case _:
                await wandering.take(step, log)
    return log


DEFINITIONS: list[Defined] = [roam, recite, say, below]


def drawn_program(draw: random.Random) -> list[Step]:
    """Return steps, of which about a third only a real engine can take."""
    steps = drawn_steps(draw, draw.randint(2, 7))
    for number in range(draw.randint(1, 4)):
        more: list[Step] = [["asked"], ["promise"], ["tell", 10 * number], ["recite", 10 * number]]
        steps.insert(draw.randint(0, len(steps)), draw.choice(more))
    return steps


def told_by(steps: Sequence[Step]) -> list[int]:
    """Return what a program sends to its stream, in order."""
    found = []
    for step in steps:
        match step:
            case ["tell", number]:
                found.append(number)
            case ["recite", number]:
                found += [number, number + 1]
    return found


class Herd:
    """Copies of programs in a world, and what is sent to them."""

    engine: HandDriven
    """Of the process that lives."""

    def __init__(self, world: World, draw: random.Random) -> None:
        self.world = world
        self._draw = draw
        self._sent: dict[str, Counter[str]] = {}
        """How many signals of each name every copy was sent."""

    @asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        """Have a process for the length of a block; it is killed at the end."""
        async with self.world.process() as self.engine:
            yield

    def handle(self, copy: str) -> Handle[list[Any]]:
        return self.engine.handle(copy, roam)

    async def start(self, copy: str, steps: list[Step]) -> None:
        self._sent[copy] = Counter()
        await self.engine.start(copy, roam, steps)

    async def fork(self, copy: str, branch: str, point: Point) -> None:
        """Branch off; what the copy was sent, the branch has or gets again."""
        self._sent[branch] = Counter(self._sent[copy])
        await self.handle(copy).fork(branch, point)

    async def drive(self, rounds: int = MAX_ROUNDS) -> None:
        """Let all copies go on, whatever happens to them first, to the end or for a while."""
        for _ in range(rounds):
            await self.engine.until_idle()
            # Mostly signals come before time passes, or nothing would ever come in time.
            if self._draw.random() < 0.7 and await self._send_some():
                continue
            if not await self.engine.pass_time() and not await self._send_some():
                return
        assert rounds < MAX_ROUNDS, "there is no end to it"

    async def _send_some(self) -> bool:
        """Send each copy that waits for signals one of them; return whether any does."""
        store = self.world.store
        is_sent = False
        rows = await store.read_instances(list(self._sent))
        for copy in [row.instance_id for row in rows if row and not row.status.is_terminal]:
            live, sent = await store.read_live(copy), self._sent[copy]
            if live is None or await store.read_inbox(copy):
                continue
            [history] = await store.read_histories([ExecutionKey(copy, *live.stamp.key)])
            waits = [event for event, _ in Summary(history).open.values()]
            names = [event.name for event in waits if isinstance(event, SignalAwaited)]
            if names:
                await self._send(copy, self._draw.choice(sorted(names)), sent, history)
                is_sent = True
        return is_sent

    async def _send(
        self, copy: str, name: str, sent: Counter[str], history: Sequence[StoredEvent]
    ) -> None:
        """Give a copy what it waits for: a signal, an update or the answer to its last promise."""
        number, sent[name] = sent[name], sent[name] + 1
        if name in SIGNALS:
            await self.handle(copy).send(SIGNALS[name], number)
        elif name.startswith(UPDATE_PREFIX):
            asking = self.handle(copy).update(add, number, update_id=f"u{number}")
            assert await self.engine.until_answered(asking) == [number + 1]
        else:
            events = [read_event(one.kind, one.body) for one in history]
            [*_, made] = [one for one in events if isinstance(one, PromiseMade)]
            assert await self.engine.resolve(due, made.token, "kept")
            assert not await self.engine.resolve(due, made.token, "too late")

    async def contents(self) -> Contents:
        assert isinstance(self.world.store, Inspectable)
        return await self.world.store.read_contents()


# ------------------------------------------------------------------ what is stored


class Came(NamedTuple):
    """What a copy came to, without what no two copies have in common."""

    log: Counter[str]
    kv: dict[str, Any]
    report: Any


def came_to(contents: Contents, copy: str) -> Came:
    row, report = contents.instances[copy], contents.reports.get(copy)
    assert row.status is Status.COMPLETED, f"{copy} is {row.status}: {row.reason}"
    return Came(
        # Of two things at once either may be the first.
        Counter(json.dumps(_masked(entry)) for entry in log_of(contents, copy)),
        {key: json.loads(value.value) for key, value in contents.kv.get(copy, {}).items()},
        None if report is None else json.loads(report.value),
    )


def log_of(contents: Contents, copy: str) -> list[Any]:
    found: list[Any] = json.loads(contents.instances[copy].output or b"")
    return found


def _masked(entry: list[Any]) -> list[Any]:
    return entry[:1] if entry[0] in ("uuid", "random", "origin", "said", "started") else entry


def has_time_limits(steps: Sequence[Step]) -> bool:
    """Return whether something in a program may be late: that is another matter when it goes back,
    because timers keep their times."""
    return any(
        step[0] == "within" or (step[0] == "both" and has_time_limits(step[1:])) for step in steps
    )


def newest_key(contents: Contents, copy: str) -> ExecutionKey:
    return max(key for key in contents.histories if key.instance_id == copy)


def origin_of(history: Sequence[StoredEvent]) -> Origin | None:
    start = read_event(history[0].kind, history[0].body)
    assert isinstance(start, Started)
    return start.origin


# ----------------------------------------------------------------- what was really done


def effects_not_as_recorded(world: World, contents: Contents, *, in_time: bool) -> list[str]:
    """Compare the runs of activities with the answers on record: each answer of an execution's own
    is that of one run, and nothing else ran. Where not all is in time, a call may have been given
    up while it ran."""
    ran = Counter(line.key for line in world.ledger if line.what in ("end", "failed"))
    began = Counter(line.key for line in world.ledger if line.what == "begin")
    recorded = Counter(
        JobKey(*key, seq).idempotency_key
        for key, history in contents.histories.items()
        for seq in own_answers(history)
    )
    least = 1 if in_time else 0
    return [
        f"{key}: began {began[key]}, ended {ran[key]}, recorded {recorded[key]} times"
        for key in sorted({*ran, *began, *recorded})
        if not (began[key] == ran[key] == 1 and least <= recorded[key] <= 1)
    ]


def own_answers(history: Sequence[StoredEvent]) -> Iterator[int]:
    """Yield the calls of an activity that an execution got the answer of itself: not with what it
    took over."""
    origin = origin_of(history)
    cut = 0 if origin is None else origin.cut
    calls, taken_over = set(), 0
    for stored in history:
        match read_event(stored.kind, stored.body):
            case WentBack(answered=answered):
                taken_over = answered
            case ActivityScheduled():
                calls.add(stored.seq)
            case ActivityCompleted(schedule=seq) | ActivityFailed(schedule=seq):
                if seq in calls and stored.seq > cut and seq != taken_over:
                    yield seq
