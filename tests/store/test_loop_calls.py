"""Calls from the threads of a store to event loops."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial

import pytest

from perdure.store.loop_calls import LoopCalls


@pytest.fixture
def calls() -> Iterator[LoopCalls]:
    made = LoopCalls()
    yield made
    made.close()


async def test_a_function_is_called_on_the_loop_in_the_order_in_which_threads_ask(
    calls: LoopCalls,
) -> None:
    loop, found = calls.attend(), list[tuple[int, int]]()
    done = asyncio.Event()

    def ask() -> None:
        for number in range(100):
            calls.call(loop, partial(note, number))
        calls.call(loop, done.set)

    def note(number: int) -> None:
        found.append((number, threading.get_ident()))

    in_thread(ask)
    await done.wait()

    assert found == [(number, threading.get_ident()) for number in range(100)]


async def test_one_that_fails_is_reported_and_takes_no_other_along(calls: LoopCalls) -> None:
    loop, done, said = calls.attend(), asyncio.Event(), list[object]()
    loop.set_exception_handler(lambda _, context: said.append(context.get("exception")))

    def fail() -> None:
        raise ZeroDivisionError

    def ask() -> None:
        for one in (fail, fail, done.set):
            calls.call(loop, one)

    in_thread(ask)
    await done.wait()

    assert [type(one) for one in said] == [ZeroDivisionError, ZeroDivisionError]


async def test_what_was_asked_for_before_closing_is_called(calls: LoopCalls) -> None:
    loop, found = calls.attend(), list[str]()
    in_thread(lambda: calls.call(loop, lambda: found.append("asked")))

    calls.close()

    assert found == ["asked"]


async def test_closing_from_another_thread_calls_what_waits_on_the_loop(calls: LoopCalls) -> None:
    loop, done = calls.attend(), asyncio.Event()
    in_thread(lambda: calls.call(loop, done.set))

    in_thread(calls.close)

    await done.wait()


async def test_a_loop_that_is_let_go_is_still_called(calls: LoopCalls) -> None:
    loop, done = calls.attend(), asyncio.Event()
    calls.close()

    in_thread(lambda: calls.call(loop, done.set))

    await done.wait()


def test_a_loop_that_is_closed_is_no_trouble_and_keeps_no_file(calls: LoopCalls) -> None:
    before = open_files()
    for _ in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(attend(calls))
        loop.close()
        in_thread(partial(calls.call, loop, threading.get_ident))

    assert asyncio.run(attend(calls)) is None
    calls.close()
    assert open_files() == before


@pytest.mark.parametrize("what", ["no counter", "no reader"])
async def test_where_there_is_no_counter_the_loop_is_called_as_by_others(
    calls: LoopCalls, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    loop, done = asyncio.get_running_loop(), asyncio.Event()
    if what == "no counter":
        monkeypatch.delattr(os, "eventfd", raising=False)
    else:
        monkeypatch.setattr(loop, "add_reader", refuse)
    calls.attend()

    in_thread(lambda: calls.call(loop, done.set))

    await done.wait()


async def test_the_context_of_the_first_caller_is_not_kept(calls: LoopCalls) -> None:
    whose = ContextVar("whose", default="nobody's")
    token = whose.set("the first caller's")
    loop, done, seen = calls.attend(), asyncio.Event(), list[str]()
    whose.reset(token)

    def look() -> None:
        seen.append(whose.get())
        done.set()

    in_thread(lambda: calls.call(loop, look))
    await done.wait()

    assert seen == ["nobody's"]


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="there is no counter to close")
async def test_what_user_code_closes_with_all_files_takes_no_call_along(
    calls: LoopCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[int]()

    def open_one(*args: int) -> int:
        opened.append(made(*args))
        return opened[0]

    made = os.eventfd
    monkeypatch.setattr(os, "eventfd", open_one)
    loop, done = calls.attend(), asyncio.Event()
    os.close(opened[0])

    in_thread(lambda: calls.call(loop, done.set))

    await done.wait()


async def attend(calls: LoopCalls) -> None:
    calls.attend()


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def open_files() -> int:
    return len(os.listdir("/dev/fd"))
