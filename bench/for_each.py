"""What does an item of a `for_each` over 100,000 take: time, CPU, bytes; how much memory all?"""

from __future__ import annotations

import resource
from pathlib import Path
from urllib.parse import urlsplit

from bench.harness import Case, Measured, Meter, Setup, finish
from perdure import Page, Tally, activity, for_each, orchestration

COUNT = 100_000
PAGE = 1_000


def _page(after: str) -> Page[int]:
    first, last = (int(part) for part in after.split("/"))
    behind = min(first + PAGE, last)
    return Page(list(range(first, behind)), next=f"{behind}/{last}" if behind < last else None)


@activity
async def numbers(after: str | None) -> Page[int]:
    return _page(after or f"0/{COUNT}")


@activity
async def quick_numbers(after: str | None) -> Page[int]:
    return _page(after or f"0/{COUNT // 50}")


@activity
async def nothing(number: int) -> None:
    return None


@orchestration
async def over_all() -> Tally:
    return await for_each(nothing, numbers)


@orchestration
async def over_few() -> Tally:
    return await for_each(nothing, quick_numbers)


async def items(setup: Setup) -> list[Measured]:
    """All items of a source in pages of 1,000, eight of them under way; nothing is done."""
    count = setup.size(COUNT, quick=COUNT // 50)
    many = over_few if setup.quick else over_all
    async with setup.engine([numbers, quick_numbers, nothing, over_all, over_few]) as engine:
        await finish(engine, over_few)
        before_kb, before = _peak_kb(), _bytes(setup)
        with Meter(engine._core.store) as meter:
            tally = await finish(engine, many)
        grown_kb, grown = _peak_kb() - before_kb, _bytes(setup) - before
        [newest, *_] = (await engine.instances(name="perdure.for_each", limit=1)).items
        longest = (await engine.handle(newest.instance_id).stats()).events
    assert tally.done == count, "an item is missing"
    row = f"for_each over {COUNT:,}"
    return [
        meter.measured(row, count / meter.took_s, "items/s", units=count, per="item"),
        Measured(row=f"{row}: of file per item", value=grown / count, unit="B"),
        Measured(row=f"{row}: more memory, of 64 MB cache", value=grown_kb / 1024, unit="MB"),
        Measured(row=f"{row}: events of the coordinator", value=longest, unit="events"),
    ]


def _bytes(setup: Setup) -> int:
    """Return the size of the database's files."""
    path = Path(urlsplit(setup.url).path)
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


CASES = (Case(name="for_each", run=items, most_repeats=1),)
