"""How far running activities are: the same on the page of an instance and in `perdure watch`."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from rich.console import Console

import perdure.web
from perdure import Engine, activity, activity_context, orchestration
from perdure.cli.commands.follow import draw_trees
from perdure.client.client import Client
from perdure.client.reading.info import InstanceTree, Json
from perdure.client.reading.progress import read_portion
from tests.engine.stage import OPTIONS, until
from tests.web.site import KEY, browser, memory_url

PORTIONS: list[tuple[Json, float, str]] = [
    (0, 0.0, "0%"),
    (0.254, 0.254, "25%"),
    (1, 1.0, "100%"),
    ([1, 4], 0.25, "1 of 4"),
    ({"done": 6_400, "of": 12_800}, 0.5, "6,400 of 12,800"),
    ({"done": 3, "total": 12, "what": "rows"}, 0.25, "3 of 12"),
]
"""What is a part of a whole, which, and how it is said."""
OTHERS: list[Json] = [
    17,
    -0.5,
    True,
    None,
    "half",
    [5, 4],
    [1, 0],
    [0, 0],
    [1, 2, 3],
    [True, 2],
    {"done": 1},
    {"done": "1", "of": 2},
    {"done": 1, "of": 10**400},
]


@pytest.mark.parametrize(("value", "fraction", "said"), PORTIONS)
def test_a_part_of_a_whole_may_be_said_in_several_ways(
    value: Json, fraction: float, said: str
) -> None:
    portion = read_portion(value)

    assert portion is not None
    assert (portion.fraction, str(portion)) == (fraction, said)


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: repr(value)[:20])
def test_what_is_no_part_of_a_whole_is_none(value: Json) -> None:
    assert read_portion(value) is None


# ------------------------------------------------------------------- where it is shown


@activity
async def say(value: Any) -> None:
    activity_context().progress(value)
    await asyncio.Event().wait()


@orchestration
async def saying(values: list[Any]) -> None:
    await asyncio.gather(*(say(one) for one in values))


@orchestration
async def above(values: list[Any]) -> None:
    await saying.with_options(instance_id="below")(values)


async def drawn(client: Client, *trees: InstanceTree) -> str:
    console = Console(file=io.StringIO(), width=160, no_color=True)
    console.print(*await draw_trees(client, trees))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # made above
    return text


async def test_every_form_is_a_bar_on_the_page_and_in_the_tree_below_its_instance() -> None:
    said = [value for value, *_ in PORTIONS]
    others = [one for one in OTHERS if one != OTHERS[-1]]

    async with Engine(memory_url(), [say, saying, above], options=OPTIONS) as engine:
        top = await engine.start("above", above, [*said, *others])
        await until(lambda: _have_said(engine, len(said) + len(others)))
        tree = await drawn(engine, await top.tree())
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            shown = (await page.get("/i/below?tab=jobs")).text
        await top.terminate()

    assert tree.count("━") > 0
    for _, _, words in PORTIONS:
        assert f"{words}\n" in " ".join(tree.split(" ")).replace(" \n", "\n"), words
        assert f'aria-label="progress"></progress> <span class="hint">{words}</span>' in shown
    assert shown.count('aria-label="progress"') == len(PORTIONS)
    assert tree.count("say (attempt 1)") == len(said) + len(others)


async def test_only_so_many_instances_are_asked_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perdure.cli.commands.follow.MAX_ASKED", 1)

    async with Engine(memory_url(), [say, saying, above], options=OPTIONS) as engine:
        top = await engine.start("above", above, [0.5])
        await until(lambda: _have_said(engine, 1))
        tree = await drawn(engine, await top.tree())
        await top.terminate()

    assert "50%" not in tree
    assert "bars are drawn for 1 of 2 instances" in tree


async def _have_said(client: Client, wanted: int) -> bool:
    if await client.count(prefix="below") == 0:
        return False
    return sum(one.at is not None for one in await client.handle("below").progress()) == wanted
