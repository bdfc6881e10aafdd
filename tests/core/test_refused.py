"""What cannot work inside an orchestration says so, and what to use instead."""

import asyncio
import inspect
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure.authoring.orchestration import orchestration
from perdure.core.orchestrations.loop import DurableLoop
from perdure.errors import UsageError
from tests.core.harness import Script
from tests.core.programs import say

USE_ACTIVITY = "do I/O in an activity, or await inline"
Attempt = Callable[[], Coroutine[Any, Any, object]]


def loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def _connect() -> object:
    return await asyncio.open_connection("localhost", 80)


async def _serve() -> object:
    return await asyncio.start_server(lambda reader, writer: None, "localhost", 80)


async def _run_in_a_thread() -> object:
    return await asyncio.to_thread(len, "abc")


async def _run_in_an_executor() -> object:
    return await loop().run_in_executor(None, len, "abc")


async def _run_a_process() -> object:
    return await asyncio.create_subprocess_exec("true")


async def _run_a_shell() -> object:
    return await asyncio.create_subprocess_shell("true")


async def _handle_a_unix_signal() -> None:
    loop().add_signal_handler(signal.SIGTERM, print)


async def _call_from_a_thread() -> None:
    loop().call_soon_threadsafe(print)


async def _look_up_a_host() -> object:
    return await loop().getaddrinfo("localhost", 80)


async def _watch_a_file() -> None:
    loop().add_reader(0, print)


async def _set_a_task_factory() -> None:
    loop().set_task_factory(None)


async def _stop_the_loop() -> None:
    loop().stop()


async def _list_all_tasks() -> object:
    return [task.get_name() for task in asyncio.all_tasks()]


async def _wait_for_foreign_futures() -> object:
    futures = [asyncio.Future[int](), loop().create_future()]
    return await asyncio.wait(futures, timeout=1)


async def _coroutine(word: str) -> str:
    return await say(word)


async def _take_plain_coroutines_as_they_complete() -> object:
    coroutines = [_coroutine("a"), _coroutine("b")]
    try:
        return [await each for each in asyncio.as_completed(coroutines)]
    finally:
        for coroutine in coroutines:
            coroutine.close()


REFUSED: list[tuple[Attempt, str]] = [
    (_connect, USE_ACTIVITY),
    (_serve, USE_ACTIVITY),
    (_run_in_a_thread, "call an activity, or await inline"),
    (_run_in_an_executor, "call an activity, or await inline"),
    (_run_a_process, USE_ACTIVITY),
    (_run_a_shell, USE_ACTIVITY),
    (_handle_a_unix_signal, "handle.send"),
    (_call_from_a_thread, "send it a signal"),
    (_look_up_a_host, USE_ACTIVITY),
    (_watch_a_file, USE_ACTIVITY),
    (_set_a_task_factory, "tasks are made by perdure"),
    (_stop_the_loop, "return from the orchestration"),
    (_list_all_tasks, "keep the tasks you make in a list"),
    (_wait_for_foreign_futures, "create_future()"),
    (_take_plain_coroutines_as_they_complete, "create_task(c) for c in"),
]


@pytest.mark.parametrize(
    ("attempt", "advice"), REFUSED, ids=[attempt.__name__.strip("_") for attempt, _ in REFUSED]
)
def test_what_cannot_be_replayed_says_what_to_use_instead(attempt: Attempt, advice: str) -> None:
    @orchestration
    async def tries() -> str:
        try:
            await attempt()
        except UsageError as error:
            return str(error)
        return "it worked"

    script = Script(tries)

    assert advice in script.result
    script.check_every_beginning()


def test_nothing_of_the_loop_fails_without_saying_what_to_do() -> None:
    """Every method of asyncio's loop is ours or refused; none is left as asyncio's bare stub."""
    left = [
        name
        for name, method in inspect.getmembers(asyncio.AbstractEventLoop, inspect.isfunction)
        if not name.startswith("__") and getattr(DurableLoop, name) is method
    ]

    assert left == []


def test_other_executions_tasks_do_not_hinder_the_outer_loop() -> None:
    """asyncio.run asks for all tasks when it ends, those of a suspended execution among them."""

    async def outer() -> int:
        Script(_sleeper)
        return len(asyncio.all_tasks())

    assert asyncio.run(outer()) == 1


@orchestration
async def _sleeper() -> None:
    await asyncio.sleep(60)


def test_the_hint_for_as_completed_works() -> None:
    @orchestration
    async def follows_the_hint() -> list[str]:
        tasks = [asyncio.create_task(_coroutine(word)) for word in "ab"]
        return [await each for each in asyncio.as_completed(tasks)]

    script = Script(follows_the_hint)
    script.say("b", "a")

    assert script.result == ["B", "A"]
