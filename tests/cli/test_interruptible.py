"""Ctrl-C ends the loop of a command between two steps."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.cli.interruptible import run_interruptibly


def test_ctrl_c_while_a_result_is_handed_over_breaks_nothing() -> None:
    complaints: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
        handed: asyncio.Future[int] = loop.create_future()

        def hand_over() -> None:
            assert not handed.done()
            signal.raise_signal(signal.SIGINT)
            handed.set_result(1)

        loop.call_soon(hand_over)
        await handed
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work())

    assert complaints == []


def test_work_that_is_interrupted_puts_its_things_away() -> None:
    put_away: list[str] = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            put_away.append("all")

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work())

    assert put_away == ["all"]


def test_a_second_ctrl_c_does_not_wait() -> None:
    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work())


def test_what_is_cancelled_without_ctrl_c_is_told_as_that() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_interruptibly(work())


def test_the_next_command_of_the_process_is_interrupted_as_the_first() -> None:
    async def work() -> int:
        return 1

    before = signal.getsignal(signal.SIGINT)

    assert run_interruptibly(work()) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_command_runs_in_any_thread() -> None:
    """Only the main one hears signals."""

    async def work() -> int:
        return 7

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: run_interruptibly(work())).result() == 7
