"""Tearing down a suspended execution leaves no trace, wherever it is suspended (S12)."""

import asyncio
import contextlib
import contextvars
import gc
import logging
import sys
import warnings
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from perdure.authoring.context import context
from perdure.authoring.inline import inline
from perdure.authoring.orchestration import orchestration
from perdure.authoring.race import race
from perdure.core.orchestrations.execution import Execution
from perdure.errors import NondeterminismError
from tests.core import programs
from tests.core.harness import Script, executions
from tests.core.programs import child, number, say
from tests.core.scenarios import SCENARIOS, Scenario

FOR_EVER = 10_000
"""How often a loop goes round that is meant never to end: a defect must not hang the tests."""


class Noise:
    """Everything that a program could be heard by after its end."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def unraisable(self, unraisable: Any) -> None:
        self.heard.append(f"unraisable {unraisable.exc_value!r} in {unraisable.object!r}")

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(f"log {record.getMessage()}")

    def warn(self, message: Any, *args: Any, **kwargs: Any) -> None:
        self.heard.append(f"warning {message}")


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect warnings, log records and exceptions that nobody can catch."""
    noise = Noise()
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", noise.emit)
    monkeypatch.setattr(sys, "unraisablehook", noise.unraisable)
    logging.getLogger().addHandler(handler)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", noise.warn)
        yield noise.heard
    logging.getLogger().removeHandler(handler)


@pytest.fixture(autouse=True, scope="module")
def _quick_collector() -> None:
    """Let the collector look only at what the tests make. What has been frozen stays so: see
    tests/collector.py."""
    gc.collect()
    gc.freeze()


def end(execution: Execution) -> list[object]:
    """Tear down, and check that nothing was asked for, then or in the garbage collector."""
    before = (execution.last_seq, execution.digest(), list(execution.open))
    undead = execution.tear_down()
    assert (execution.last_seq, execution.digest(), list(execution.open)) == before
    assert execution.calls.asks == []
    assert execution.tear_down() == []
    gc.collect()
    assert execution.calls.asks == []
    return undead


# --------------------------------------------------- everywhere, in every program


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
def test_every_program_can_be_torn_down_at_every_suspension(
    scenario: Scenario, noise: list[str]
) -> None:
    script = scenario.run()
    noise.clear()
    executions.clear()
    for length in script.boundaries:
        assert end(script.replayed(length)) == []
    assert end(script.execution) == []

    script.execution = script.replayed(0)
    executions.clear()
    gc.collect()
    assert noise == []


@contextlib.asynccontextmanager
async def _managed(trace: list[str]) -> AsyncGenerator[str, None]:
    try:
        yield await say("enter")
    finally:
        await asyncio.sleep(5)
        trace.append("after a sleep")


async def _generated() -> AsyncGenerator[str, None]:
    try:
        for word in "xyz":
            yield await say(word)
    finally:
        await say("generator")
        context().log.warning("the generator has ended")


class Rich:
    """A program with clean-up of every kind; the trace has what ran after a wait in it."""

    def __init__(self) -> None:
        self.trace: list[str] = []

        @orchestration(name="rich")
        async def program() -> str:
            return await self.run()

        self.program = program

    async def run(self) -> str:
        waiting = [self.clean("later"), say("later, too"), self.catch("never begun")]
        tasks = [
            asyncio.create_task(self.clean("a")),
            asyncio.create_task(self.catch("b")),
            asyncio.create_task(self.shield()),
            asyncio.create_task(child("c")),
        ]
        tasks[1].add_done_callback(lambda _: self.trace.append("called back"))
        try:
            async with _managed(self.trace):
                async for word in _generated():
                    await race(say(word), inline(len, word, name="length", returns=int))
                    first = _generated()
                    await anext(first)
                for coroutine in waiting:
                    await coroutine
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self.trace.append("after everything")
        return "done"

    async def catch(self, word: str) -> None:
        try:
            await say(word)
        except BaseException:
            await say("again")
            self.trace.append("after a second call")

    async def clean(self, word: str) -> None:
        event = asyncio.Event()
        try:
            await say(word)
        finally:
            context().log.warning("cleaning up")
            try:
                await asyncio.sleep(0)
                await number.receive()
                self.trace.append("after a signal")
            finally:
                await self.clean_more(event)

    async def clean_more(self, event: asyncio.Event) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await event.wait()
            self.trace.append("after an event")
        finally:
            asyncio.create_task(self.catch("new"))  # noqa: RUF006 - ended with the rest
            await asyncio.gather(say("1"), say("2"))
            self.trace.append("after a gather")

    async def shield(self) -> None:
        try:
            await asyncio.shield(say("shielded"))
        finally:
            async with asyncio.timeout(5), asyncio.TaskGroup() as group:
                group.create_task(say("in a group"))
            self.trace.append("after a group")


@pytest.mark.parametrize("pick", [0, -1], ids=["oldest first", "newest first"])
def test_a_rich_program_leaves_no_trace_wherever_it_is_torn_down(
    noise: list[str], pick: int
) -> None:
    rich = Rich()
    script = Script(rich.program)
    while not script.has_ended:
        seq = script.open[pick]
        if script.event(seq).kind == "signal_awaited":
            script.signal("number", 1)
        else:
            script.answer(seq, lambda event: "w" if "inline" not in event.kind else 1)
    assert end(script.execution) == []
    executions.clear()
    noise.clear()

    assert len(script.boundaries) > 20
    for length in script.boundaries:
        execution = script.replayed(length)
        rich.trace.clear()
        assert end(execution) == []
        executions.clear()
        del execution
        gc.collect()
        assert rich.trace == []
    assert noise == []


# -------------------------------------------------------------- those that will not die


def test_what_will_not_die_is_returned_and_not_run_again(noise: list[str]) -> None:
    rounds: list[int] = []
    over: list[bool] = []

    @orchestration
    async def lives_for_ever() -> None:
        while not over and len(rounds) < FOR_EVER:
            try:
                async with asyncio.timeout(5), asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(60))
                    await say("a")
            except BaseException:
                rounds.append(1)

    [undead] = end(Script(lives_for_ever).execution)
    count = len(rounds)
    executions.clear()
    gc.collect()

    assert count < FOR_EVER
    assert len(rounds) == count
    assert noise == []
    _end_for_good(undead, over)


WAITS: dict[str, Callable[[], Any]] = {
    "an activity": lambda: say("a"),
    "a signal": lambda: number.receive(),
    "a child": lambda: child("a"),
    "a detached start": lambda: context().start("ship-1", child, "a"),
    "another instance": lambda: context().ref("other").result(),
    "an inline call": lambda: inline(len, "a", name="length", returns=int),
    "time": lambda: asyncio.sleep(1),
    "nothing": lambda: asyncio.sleep(0),
    "an event": lambda: asyncio.Event().wait(),
    "a queue": lambda: asyncio.Queue[int]().get(),
    "several": lambda: asyncio.gather(say("a"), say("b")),
    "one in time": lambda: asyncio.wait_for(say("a"), 5),
    "one behind a shield": lambda: asyncio.shield(say("a")),
    "the first": lambda: race(say("a"), say("b")),
    "a point in time": lambda: context().sleep_until(context().now() + timedelta(seconds=5)),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_waiting_stops_a_loop_that_catches_everything(
    wait: Callable[[], Any], noise: list[str]
) -> None:
    over: list[bool] = []

    @orchestration
    async def loops() -> None:
        with contextlib.suppress(BaseException):
            await say("begin")
        for _ in range(FOR_EVER):
            with contextlib.suppress(BaseException):
                if over:
                    return
                await wait()

    [undead] = end(Script(loops).execution)

    assert noise == []
    _end_for_good(undead, over)


def _end_for_good(undead: Any, over: list[bool]) -> None:
    """Let the program see that it is over, so that the interpreter's end need not run it."""
    over.append(True)
    with contextlib.suppress(BaseException):
        undead.close()


def test_a_generator_that_yields_while_it_is_closed_is_returned() -> None:
    over: list[bool] = []

    async def yields_for_ever() -> AsyncGenerator[int, None]:
        while True:
            try:
                yield 1
            except GeneratorExit:
                if over:
                    raise

    @orchestration
    async def holds_it() -> None:
        generator = yields_for_ever()
        await anext(generator)
        await say("a")

    undead = end(Script(holds_it).execution)

    assert len(undead) == 1
    over.append(True)


# ------------------------------------------------------------------- single traits


def test_clean_up_runs_as_far_as_it_needs_nothing() -> None:
    ran: list[str] = []
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    @orchestration
    async def cleans() -> None:
        token = variable.set("inside")
        try:
            await say("a")
        finally:
            ran.append(variable.get())
            variable.reset(token)
            task = asyncio.current_task()
            ran.append("no task" if task is None else task.get_name())
            await say("b")
            ran.append("not reached")

    end(Script(cleans).execution)

    assert ran == ["inside", "root"]


def test_torn_down_code_logs_nothing_through_the_context(caplog: pytest.LogCaptureFixture) -> None:
    @orchestration
    async def logs() -> None:
        try:
            context().log.warning("begun")
            await say("a")
        finally:
            context().log.warning("ended")

    end(Script(logs).execution)

    assert [record.getMessage() for record in caplog.records] == ["begun"]


def test_an_error_while_tearing_down_is_nobodys() -> None:
    @orchestration
    async def raises() -> None:
        try:
            await say("a")
        finally:
            sys.exit("in clean-up")

    assert end(Script(raises).execution) == []


def test_coroutines_made_and_not_yet_awaited_do_not_warn(noise: list[str]) -> None:
    async def step(*_: object) -> str:
        return await say("b")

    @orchestration
    async def has_them_everywhere() -> None:
        held = [step(), {"key": step(step())}, (say("c"), child("d"), [asyncio.sleep(1)])]
        kept = step()

        async def inner() -> str:
            return await kept

        await asyncio.gather(step(await say("a"), held), step(), inner())

    @orchestration
    async def has_one_on_the_stack() -> None:
        await asyncio.gather(step(), step(await say("a")))

    for program in (has_them_everywhere, has_one_on_the_stack):
        end(Script(program).execution)
        executions.clear()
        gc.collect()
    assert noise == []


def test_nothing_is_kept_alive_by_a_torn_down_execution() -> None:
    class Heavy:
        pass

    seen: list[weakref.ref[Heavy]] = []

    @orchestration
    async def holds() -> None:
        heavy = Heavy()
        seen.append(weakref.ref(heavy))
        try:
            await say("a")
        except ZeroDivisionError:
            del heavy

    script = Script(holds)
    end(script.execution)

    assert seen[0]() is None, "the frame is gone, although the execution is not"


def test_finished_generators_are_not_kept() -> None:
    seen: list[weakref.ref[Any]] = []

    async def one() -> AsyncGenerator[int, None]:
        yield 1

    @orchestration
    async def reads_many() -> None:
        for _ in range(100):
            generator = one()
            seen.append(weakref.ref(generator))
            async for _value in generator:
                pass
        del generator
        await say("a")

    Script(reads_many)

    assert [ref for ref in seen if ref() is not None] == []


def test_an_execution_that_never_began_can_be_torn_down() -> None:
    script = Script(programs.awaits)

    assert end(script.replayed(0)) == []


def test_a_failed_replay_can_be_torn_down(noise: list[str]) -> None:
    script = Script(programs.compensates)
    script.history[1] = script.history[1]._replace(kind="signal_awaited", body=b'{"name":"x"}')
    with pytest.raises(NondeterminismError):
        script.replayed()

    for execution in executions:
        assert execution.tear_down() == []
    executions.clear()
    gc.collect()
    assert noise == []
