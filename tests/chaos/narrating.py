"""What the processes of the test of streams under kills share: a story, its workers, its readers.

Run as `python -m tests.chaos.narrating worker URL` or `python -m tests.chaos.narrating reader URL`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta

from perdure import Client, Item, Retry, Stream, Worker, WorkerOptions, activity, orchestration

words = Stream("words", str)
ID = "story"
CHAPTERS = 3
LENGTH = 25
PAUSE_S = 0.004
OPTIONS = WorkerOptions(
    lease_for=timedelta(seconds=3), poll_max=timedelta(milliseconds=50), max_attempts=1_000
)


@activity(retry=Retry(max_attempts=None, first_delay=timedelta(milliseconds=1)))
async def tell(chapter: int) -> int:
    for word in range(LENGTH):
        words.send(f"{chapter}.{word}")
        await asyncio.sleep(PAUSE_S)
    return LENGTH


@orchestration
async def narrate() -> int:
    words.send("begin")
    told = 0
    for chapter in range(CHAPTERS):
        told += await tell(chapter)
        words.send(f"end of {chapter}")
    return told


def whole_story() -> list[str]:
    """Return what must be read in the end."""
    story = ["begin"]
    for chapter in range(CHAPTERS):
        story += [f"{chapter}.{word}" for word in range(LENGTH)]
        story.append(f"end of {chapter}")
    return story


async def work(url: str) -> None:
    """Serve until told to stop, or killed."""
    async with Worker(url, [tell, narrate], options=OPTIONS) as worker:
        say("ready")
        await worker.run()


async def read(url: str) -> None:
    """Read live, take back what is void, and print what is left."""
    shown: list[Item[str]] = []
    indexes: list[int] = []
    async with Client(url) as client:
        reader = client.handle(ID).stream(words)
        say("ready")
        async for item in reader:
            if item.discards_from is not None:
                shown = [one for one in shown if one.index < item.discards_from]
            shown.append(item)
            indexes.append(item.index)
    if reader.discards_from is not None:
        shown = [one for one in shown if one.index < reader.discards_from]
    rises = indexes == sorted(set(indexes))
    say(json.dumps({"shown": [one.value for one in shown], "rises": rises}))


def say(text: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, what, store = sys.argv
    asyncio.run(work(store) if what == "worker" else read(store))
