"""Orchestrations made at random, and a world that answers them in any order, resets included."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

from perdure import Signal, activity, context, inline, orchestration
from perdure.core.orchestrations.execution import Execution, ExecutionId
from perdure.core.orchestrations.turn import run_turn
from perdure.core.rewinding import NewBeginning, Source, cut_at, fork_of, reset_of
from perdure.core.turn_builder import TurnTerms
from perdure.errors import ActivityError
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityFailed,
    ChildCompleted,
    DetachedStarted,
    Event,
    Failure,
    MessageEvent,
    SignalReceived,
    Started,
    StoredEvent,
    TimerFired,
    read_event,
    write_event,
)
from perdure.model.instances import Stamp
from perdure.model.messages import Message
from perdure.model.turns import Turn
from tests.core.harness import START_MS, new_execution, raw, takes_nothing

Step = list[Any]

news = Signal("news", int)
more = Signal("more", int)
SIGNALS = {"news": news, "more": more}

logs: list[list[Any]] = []
"""What each execution has seen, in the order in which they began; the newest is the last one."""


@activity
async def say(word: str) -> str:
    raise NotImplementedError("the test answers")


@orchestration
async def below(word: str) -> str:
    raise NotImplementedError("the test answers")


@orchestration
async def wander(steps: list[Step]) -> list[Any]:
    log: list[Any] = []
    logs.append(log)
    for step in steps:
        await take(step, log)
    return log


async def take(step: Step, log: list[Any]) -> None:
    """Do one step, and log what came of it."""
    match step:
        case ["both", one, other]:
            await asyncio.gather(take(one, log), take(other, log))
        case ["within", seconds, inner]:
            try:
                async with asyncio.timeout(seconds):
                    await take(inner, log)
            except TimeoutError:
                log.append(["late"])
        case ["kv" | "no kv" | "report" | "uuid" | "random" | "origin", *_]:
            log.append(_note(step))
        case ["say" | "say uuid" | "say id" | "inline", *_]:
            log.append(await _call(step))
        case _:
            log.append(await _wait(step))


def _note(step: Step) -> list[Any]:
    ctx = context()
    match step:
        case ["uuid"]:
            return ["uuid", str(ctx.uuid())]
        case ["random"]:
            return ["random", ctx.random.random()]
        case ["origin"]:
            return ["origin", str(ctx.origin)]
        case ["kv", key, value]:
            ctx.kv[key] = value
        case ["no kv", key]:
            ctx.kv.pop(key, None)
        case ["report", value]:
            ctx.report(value)
    return ["noted"]


async def _call(step: Step) -> list[Any]:
    ctx = context()
    match step:
        case ["say uuid"]:
            return ["said", await say(str(ctx.uuid()))]
        case ["say id"]:
            return ["say id", len(await say(ctx.instance_id)) > 0]
        case ["inline", word]:
            return ["inline", await inline(lambda: word, name="whisper")]
    try:
        return ["say", await say(step[1])]
    except ActivityError:
        return ["say", "failed"]


async def _wait(step: Step) -> list[Any]:
    ctx = context()
    match step:
        case ["child", word]:
            return ["child", await below(word)]
        case ["child as", word, child_id]:
            child = below.with_options(instance_id=f"{ctx.instance_id}-{child_id}")
            return ["child", await child(word)]
        case ["start", word]:
            return ["started", (await ctx.start(below, word)).instance_id]
        case ["start as", word, child_id]:
            other = below.with_options(instance_id=f"{ctx.instance_id}-{child_id}")
            return ["started", (await ctx.start(other, word)).instance_id]
        case ["sleep", seconds]:
            await asyncio.sleep(seconds)
            return ["slept"]
    return [step[1], await SIGNALS[step[1]].receive()]


def drawn_steps(draw: random.Random, count: int) -> list[Step]:
    """Return a program."""
    return [_drawn_step(draw, depth=0) for _ in range(count)]


def _drawn_step(draw: random.Random, depth: int) -> Step:
    word = draw.choice(["a", "b", "c", "fail"])
    plain: list[Step] = [
        ["say", word],
        ["uuid"],
        ["random"],
        ["origin"],
        ["say uuid"],
        ["say id"],
        ["child", word],
        ["child as", word, f"{draw.getrandbits(40):x}"],
        ["start", word],
        ["start as", word, f"{draw.getrandbits(40):x}"],
        ["inline", word],
        ["sleep", draw.randint(1, 100)],
        ["signal", draw.choice(["news", "more"])],
        ["kv", draw.choice("xyz"), draw.randint(0, 9)],
        ["no kv", draw.choice("xyz")],
        ["report", draw.randint(0, 9)],
    ]
    if depth < 2 and draw.random() < 0.25:
        one, other = _drawn_step(draw, depth + 1), _drawn_step(draw, depth + 1)
        return draw.choice([["both", one, other], ["within", draw.randint(1, 50), one]])
    return draw.choice(plain)


class Player:
    """One execution and the world around it, which knows nothing but what turns have written."""

    def __init__(self, draw: random.Random, execution: Execution) -> None:
        self.draw = draw
        self.execution = execution
        self.history: list[StoredEvent] = []
        self.now_ms = START_MS
        self.kv: dict[str, Any] = {}
        self.report: Any = None
        self.under_way: dict[int, Event] = {}
        """What will be answered, by number, as the turns have put it."""
        self.children: dict[int, str] = {}
        self.world: dict[str, int] = {}
        """Every instance that was ever started, and its incarnation."""
        self.sent = {"news": 0, "more": 0}
        self.log: list[Any] = []
        """What its code has seen."""
        self._no = 0

    @classmethod
    def begun(cls, draw: random.Random, steps: list[Step]) -> Player:
        """Return an instance after its first turn."""
        player = cls(draw, new_execution(wander))
        started = Started(
            name=wander.name,
            version=wander.version,
            behaviour=1,
            input=raw({"steps": steps}),
        )
        player.deliver(started)
        player.log = logs.pop()
        return player

    @property
    def has_ended(self) -> bool:
        return self.execution.terminal is not None

    @property
    def result(self) -> list[Any]:
        last = self.event(len(self.history))
        assert last.kind == "completed", last
        found: list[Any] = json.loads(bytes(last.result))
        return found

    def event(self, seq: int) -> Any:
        stored = self.history[seq - 1]
        return read_event(stored.kind, stored.body)

    # ------------------------------------------------------------------ playing

    def play(self, turns: int = 10_000) -> None:
        """Let the world do things, in any order, until it ends or for so many turns."""
        for _ in range(turns):
            if self.has_ended:
                return
            seqs = sorted(self.under_way)
            if not seqs or self.draw.random() < 0.15:
                name = self.draw.choice(["news", "more"])
                value, self.sent[name] = self.sent[name], self.sent[name] + 1
                self.deliver(SignalReceived(name=name, value=raw(value)))
                continue
            seq = self.draw.choice(seqs)
            self.deliver(self._answer(seq, self.under_way[seq]))
        if turns >= 10_000:
            raise AssertionError(f"it does not end: {self.under_way}, {self.execution.open}")

    def _answer(self, seq: int, event: Any) -> MessageEvent:
        self.now_ms += self.draw.randint(0, 1_000)
        match event.kind:
            case "timer_scheduled":
                self.now_ms = max(self.now_ms, event.due_ms)
                return TimerFired(schedule=seq)
            case "child_scheduled":
                return ChildCompleted(schedule=seq, result=raw(_word(event).upper()))
            case "detached_scheduled":
                return DetachedStarted(schedule=seq)
            case "inline_scheduled":
                return ActivityCompleted(schedule=seq, result=raw("..."))
        word = _word(event)
        if word == "fail":
            return ActivityFailed(schedule=seq, failures=(Failure("ValueError", "no"),))
        return ActivityCompleted(schedule=seq, result=raw(word.upper()))

    def deliver(self, *events: MessageEvent) -> Turn:
        """Run one turn over these messages, and do what a store does with it."""
        messages = []
        for event in events:
            self._no += 1
            kind, body = write_event(event)
            messages.append(Message(self._no, self.now_ms, kind, body))
        _, incarnation, number = self.execution.id
        stamp = Stamp(incarnation, number, self.execution.last_seq + 1)
        terms = TurnTerms(stamp, 1, "w", self._no, 0, takes_nothing, lease=7)
        turn = run_turn(self.execution, messages, terms, now_ms=self.now_ms)
        for event in events:
            self.under_way.pop(getattr(event, "schedule", 0), None)
        self._commit(turn)
        return turn

    def _commit(self, turn: Turn) -> None:
        for kind, body in turn.events:
            self.history.append(StoredEvent(len(self.history) + 1, kind, turn.now_ms, body))
        for key, value in turn.kv:
            self.kv.pop(key, None)
            if value is not None:
                self.kv[key] = json.loads(value)
        if turn.report is not None:
            self.report = json.loads(turn.report)
        timers_gone = [int(key.partition(":")[2]) for key in turn.timers_gone]
        told = {delivery.instance_id for delivery in turn.deliveries}
        children_gone = [seq for seq, child in self.children.items() if child in told]
        for seq in (*turn.jobs_gone, *timers_gone, *children_gone):
            self.under_way.pop(seq, None)
        self._put(turn)
        self.check()

    def _put(self, turn: Turn) -> None:
        """Put what a turn begins."""
        for job in turn.jobs:
            assert job.seq not in self.under_way, "a call has two jobs"
            assert job.input == bytes(self.event(job.seq).input), "the recorded input stands"
            self.under_way[job.seq] = self.event(job.seq)
        for timer in turn.timers:
            seq = int(timer.key.partition(":")[2])
            assert timer.due_ms == self.event(seq).due_ms, "timers keep their due times"
            self.under_way[seq] = self.event(seq)
        for child in turn.children:
            assert child.if_taken is not None
            seq = int(json.loads(child.if_taken.body)["schedule"])
            self.under_way[seq] = self.event(seq)
            new = child.instance
            self.children[seq] = new.instance_id
            known = self.world.setdefault(new.instance_id, new.incarnation)
            assert known == new.incarnation, f"the id {new.instance_id} is taken"

    def check(self) -> None:
        """All that is open is under way once, and nothing else is."""
        if self.has_ended:
            return
        open_calls = {
            seq for seq, ask in self.execution.open.items() if ask.event.kind != "signal_awaited"
        }
        assert set(self.under_way) == open_calls

    # --------------------------------------------------------------- going back

    def source(self) -> Source:
        return Source(self.execution.id, list(self.history), self.has_ended)

    def reset(self, number: int, *, fork: bool = False) -> Player:
        """Go back to an event; return the new execution after its first turn."""
        cut = cut_at(self.history, number)
        own = self.execution.id._replace(execution=self.execution.id.execution + 1)
        if fork:
            own = ExecutionId(f"{own.instance_id}+", own.incarnation + 1, 1)
            begun = fork_of(self.source(), cut, own, commit_id=5)
        else:
            begun = reset_of(self.source(), cut, commit_id=5, reason="")
        return self._gone_back(begun, own, is_fork=fork)

    def _gone_back(self, begun: NewBeginning, own: ExecutionId, *, is_fork: bool) -> Player:
        player = Player(self.draw, new_execution(wander, id=own))
        player.now_ms = self.now_ms + 1_000
        player.sent = dict(self.sent)
        player.world = dict(self.world)
        rewind = begun.rewind
        if not is_fork:
            player.kv, player.report = dict(self.kv), self.report
        for key, value, _ in rewind.kv:
            player.kv.pop(key, None)
            if value is not None:
                player.kv[key] = json.loads(value)
        if rewind.report is not None:
            player.report = json.loads(rewind.report)
        player.history = list(rewind.prefix)
        player.execution.replay(rewind.prefix)
        if rewind.prefix:
            assert player.shown() == (player.kv, player.report), "values went back with the code"
        first = [rewind.first, *([rewind.answer[1:]] if rewind.answer else [])]
        messages = [read_event(kind, body) for kind, body in first]
        player.deliver(*[event for event in messages if isinstance(event, MessageEvent)])
        player.log = logs.pop()
        for _, kind, body in rewind.unread:
            event = read_event(kind, body)
            assert isinstance(event, SignalReceived)
            assert event.wait is None
            if not player.has_ended:
                player.deliver(event)
        return player

    def shown(self) -> tuple[dict[str, Any], Any]:
        """What the code believes that it keeps and reports."""
        kept = self.execution.scope.kv
        report = self.execution.scope.report
        values = {key: json.loads(bytes(kept[key].value)) for key in kept}
        return values, None if report is None else json.loads(report)

    def check_replay(self) -> None:
        """Replay all of it: live is replay."""
        again = new_execution(wander, id=self.execution.id)
        again.replay(self.history)
        assert logs.pop() == self.log
        assert again.digest() == self.execution.digest()
        assert again.open.keys() == self.execution.open.keys()


def drawn(log: Sequence[Any]) -> set[object]:
    """Return what was drawn from series of ids and random numbers when it was logged."""
    return {entry[1] for entry in log if entry[0] in ("uuid", "random")}


def received(log: Sequence[Any], name: str) -> list[int]:
    return [entry[1] for entry in log if entry[0] == name]


def _word(event: Any) -> str:
    word: str = json.loads(bytes(event.input))["word"]
    return word
