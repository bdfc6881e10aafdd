"""How far a `for_each` is, on the page of its coordinator, in words and on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import perdure.web
from perdure import Engine, Tally, activity, for_each, orchestration
from perdure.cli.commands.follow import draw_trees, drawn_tally
from perdure.client.reading.tallies import ReportedTally
from tests.engine.stage import Gate, until
from tests.web.site import KEY, browser, memory_url

gate = Gate()


@activity
async def send(number: int) -> None:
    if number == 1:
        raise ValueError("<b>no address</b>")
    if number == 5:
        await gate.pass_through()


@orchestration
async def send_all() -> Tally:
    return await for_each(send, list(range(6)), page_size=2, pages=1, max_failures=None)


async def test_the_tally_is_shown_while_it_grows() -> None:
    async with Engine(memory_url(), [send, send_all]) as engine:
        handle = await engine.start("mail", send_all)
        await gate.reached()
        [coordinator] = (await engine.instances(parent="mail")).items

        async def is_counted() -> bool:
            return "3 of 6 items done, 1 failed" in await handle.explain()

        await until(is_counted)
        below = await engine.handle(coordinator.instance_id).explain()
        tree = await handle.tree()
        console = Console(file=io.StringIO(), width=120, no_color=True)
        console.print(*await draw_trees(engine, [tree]))
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            shown = (await page.get(f"/i/{coordinator.instance_id.replace('/', '%2F')}")).text
        gate.opened.set()
        assert (await handle.result()).done == 5

    assert "is at 3 of 6 items done, 1 failed; it waits for child" in below
    assert '<progress max="6" value="4"' in shown
    assert "3 of 6 items done, 1 failed" in shown
    assert "&lt;b&gt;no address" in shown
    assert [one.info.name for one in tree.children] == ["perdure.for_each"]
    assert tree.children[0].children == ()
    assert "3 of 6 items done, 1 failed" in console.file.getvalue()  # type: ignore[attr-defined]  # made above


@pytest.mark.parametrize(
    ("tally", "shown"),
    [
        (ReportedTally(1_250, 0), "1,250 items done"),
        (ReportedTally(1_250, 2, total=2_504), "1,250 of 2,504 items done, 2 failed"),
        (ReportedTally(0, 0, total=0), "0 of 0 items done"),
    ],
)
def test_a_tally_is_drawn_whether_its_end_is_known_or_not(tally: ReportedTally, shown: str) -> None:
    console = Console(file=io.StringIO(), width=120, no_color=True)

    console.print(drawn_tally(tally))

    assert shown in console.file.getvalue()  # type: ignore[attr-defined]  # made above
