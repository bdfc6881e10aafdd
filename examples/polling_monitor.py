"""A monitor: look again and again at something that cannot call back, until it is done.

An export is made by another system. The monitor asks how far it is, less and less often, gives up
after a time limit, and reports its progress; clients wait for the reports instead of polling it.
Between two looks it is no process, no thread and no memory that could be lost, only a timer in the
store.

    python examples/polling_monitor.py
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from perdure import Context, Engine, Retry, activity, default_url, orchestration

STORE = default_url()
FIRST_PAUSE = timedelta(milliseconds=50)
LONGEST_PAUSE = timedelta(milliseconds=400)


@dataclass(frozen=True)
class Export:
    """What the other system said when it was asked for an export."""

    export_id: str
    asked_at: datetime


@dataclass(frozen=True)
class Progress:
    """How far the export is."""

    percent: int
    next_look: datetime


@activity
async def ask_for_export(year: int) -> Export:
    """Ask the other system to begin."""
    print(f"asked for the export of {year}")
    return Export(f"export-{year}", datetime.now(UTC))


@activity(retry=Retry(max_attempts=5, first_delay=timedelta(milliseconds=100)))
async def look(export: Export) -> int:
    """Ask how far it is, in percent. The other system is played by the clock: it needs a second."""
    return min(100, (datetime.now(UTC) - export.asked_at) // timedelta(milliseconds=10))


@activity
async def download(export: Export) -> str:
    """Fetch what was exported; return the name of the file."""
    return f"{export.export_id}.csv"


@orchestration
async def fetch_export(ctx: Context, year: int, time_limit: timedelta) -> str:
    """Have a year exported, and fetch it when it is ready."""
    export = await ask_for_export(year)
    pause = FIRST_PAUSE
    async with asyncio.timeout(time_limit.total_seconds()):
        while (percent := await look(export)) < 100:
            ctx.report(Progress(percent, next_look=ctx.now() + pause))
            await asyncio.sleep(pause.total_seconds())
            pause = min(pause * 2, LONGEST_PAUSE)
    return await download(export)


async def main() -> None:
    """Start the monitor and show what it reports."""
    async with Engine(STORE, [fetch_export, ask_for_export, look, download]) as engine:
        handle = await engine.start(fetch_export, 2025, timedelta(minutes=5))
        seen = 0
        while report := await handle.wait_report(after=seen):
            progress = report.read(Progress)
            print(f"{progress.percent}% done, next look at {progress.next_look:%H:%M:%S.%f}"[:-3])
            seen = report.version
        print(f"fetched {await handle.result()}")


if __name__ == "__main__":
    asyncio.run(main())
