"""The demo on a terminal: its keys, and its end."""

from __future__ import annotations

import psutil  # type: ignore[import-untyped]  # no stubs

from perdure import Client
from tests.cli.terminal import Terminal


def test_on_a_terminal_the_demo_stays_with_its_pages_until_q_is_pressed() -> None:
    with Terminal("demo", "--seconds", "0.1", "--port", "0", "--no-open") as terminal:
        terminal.says("q quits")
        terminal.says("Now you")
        terminal.types("c")
        terminal.says("killed with SIGKILL, process")
        terminal.types("n")
        terminal.says("order-2  completed")
        terminal.types("q")

        assert terminal.end() == 0

    assert "http://127.0.0.1:" in terminal.text
    assert "0 completed activities repeated" in terminal.text


def test_q_ends_the_demo_in_the_midst_of_its_story() -> None:
    with Terminal("demo", "--seconds", "30", "--port", "0", "--no-open") as terminal:
        terminal.says("q quits")
        terminal.types("q")

        assert terminal.end() == 0


async def test_the_story_goes_on_if_the_demo_stood_still_until_its_order_had_ended() -> None:
    with Terminal("demo", "--seconds", "0.5", "--port", "0", "--no-open") as terminal:
        terminal.says("q quits")
        demo = psutil.Process(terminal.process.pid)
        [worker] = demo.children()
        url = worker.cmdline()[-1]
        demo.suspend()
        async with Client(url) as client:
            await client.handle("order-1").result()
        demo.resume()
        terminal.says("Now you")
        terminal.types("q")

        assert terminal.end() == 0

    assert "order-1  went on with 0 completed activities repeated" in terminal.text
