"""What notebooks and rich show of handles, instances, lists and histories."""

from __future__ import annotations

import asyncio
import io
import sys
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from perdure import BlockingClient, Engine, Retry, Signal, activity, orchestration
from perdure.client.histories.history import History
from perdure.client.reading.display import MAX_CELL, MAX_ROWS
from perdure.errors import InstanceFailedError, UsageError
from perdure.ids import fresh_name
from tests.sizes import WITHIN_S

EVIL = "<script>alert(1)</script>\x1b[31m[bold]red" + "x" * 500
go = Signal("go", str)


@activity(retry=Retry(max_attempts=1))
async def say(text: str) -> str:
    raise ValueError(text)


@orchestration
async def talk(text: str) -> None:
    await say(text)


@orchestration
async def chat() -> str:
    await asyncio.sleep(0.001)
    return await go.receive()


class Tags(HTMLParser):
    """Counts what is there, and fails on what must not be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "strong", "table", "tr", "th", "td")
        assert {name for name, _ in attrs} <= {"style"}
        self.rows += tag == "tr"


def drawn(thing: Any) -> str:
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system=None, width=200).print(thing)
    return file.getvalue()


async def shown_things() -> tuple[list[Any], History]:
    """What clients return about a hostile payload, and a history with an open wait."""
    url = f"sqlite://:memory:{fresh_name()}"
    async with Engine(url, [talk, chat, say]) as engine:
        failed = await engine.start("talk-1", talk, EVIL)
        with pytest.raises(InstanceFailedError):
            await failed.result()
        waiting = await engine.start("chat-1", chat)
        async with asyncio.timeout(WITHIN_S):
            while "signal" not in await waiting.explain():  # noqa: ASYNC110 - as `until`
                await asyncio.sleep(0.01)
        things = [
            failed,
            await failed.info(),
            await failed.history(),
            await engine.instances(),
            await engine.dead_jobs(),
            await engine.instances(status="blocked"),
        ]
        return things, await waiting.history()


async def test_what_comes_from_a_store_is_text_and_cut() -> None:
    things, _ = await shown_things()

    for thing in things:
        html, text = thing._repr_html_(), drawn(thing)
        assert Tags(html)
        assert "\x1b" not in html + text
        assert len(html) < 20_000
        assert "x" * (MAX_CELL + 1) not in html + text
    assert "&lt;script&gt;" in things[2]._repr_html_()
    assert "[bold]red" in drawn(things[2])
    assert "talk-1" in things[0]._repr_html_()
    assert "failed" in drawn(things[3])


async def test_a_long_history_says_how_much_more_there_is() -> None:
    _, history = await shown_things()
    long = History(history * 100)

    assert Tags(long._repr_html_()).rows == MAX_ROWS + 1
    assert f"and {len(long) - MAX_ROWS:,} more" in long._repr_html_()
    assert f"and {len(long) - MAX_ROWS:,} more" in drawn(long)


def test_a_blocking_handle_shows_itself_too() -> None:
    with BlockingClient("sqlite://:memory:") as client:
        handle = client.handle("order-1")

        assert "instance order-1" in handle._repr_html_()
        assert "instance order-1" in drawn(handle)


async def test_calls_are_drawn_from_their_start_to_their_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    things, waiting = await shown_things()
    failed: History = things[2]

    [(name, began_s, took_s, is_open)] = failed.spans()
    assert (name, is_open) == ("activity say", False)
    assert began_s >= 0
    assert 0 <= took_s < timedelta(minutes=1).total_seconds()
    assert [(name, is_open) for name, *_, is_open in waiting.spans()] == [
        ("timer", False),
        ("signal go", True),
    ]
    axes = waiting.plot()
    assert len(axes.patches) == 2
    assert waiting.plot(axes) is axes
    assert History().spans() == []
    assert [one["seq"] for one in waiting.to_dicts()] == [one.seq for one in waiting]


def test_a_plot_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(UsageError, match=r"pip install perdure\[plot\]"):
        History().plot()
