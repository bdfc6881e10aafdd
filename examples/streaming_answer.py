"""An answer that is read while it is written, however often its writer dies.

A language model would take its time to answer, so its words are shown as they come. They are sent
to a stream: what the reader has seen of an attempt that failed is taken back, and a reader that
comes late, from any process, sees the answer once.

    python examples/streaming_answer.py              # Ctrl-C it, or kill it, and run it again
"""

import asyncio
from datetime import timedelta

from perdure import ActivityContext, Engine, Retry, Stream, activity, orchestration

words = Stream("words", str)

ANSWER = [
    "Streams",
    "keep",
    "what",
    "was",
    "said",
    "and",
    "take",
    "back",
    "what",
    "never",
    "counted",
    ".",
]


@activity(retry=Retry(max_attempts=5, first_delay=timedelta(milliseconds=10)))
async def write_answer(ctx: ActivityContext, question: str) -> str:
    """Stand in for a model; the first attempt is cut off in the middle."""
    for number, word in enumerate(ANSWER):
        words.send(word)
        await asyncio.sleep(0.05)
        if ctx.attempt == 1 and number == 5:
            await words.flush()
            raise ConnectionError("the model hung up")
    return " ".join(ANSWER)


@orchestration
async def answer(question: str) -> str:
    words.send(f"Q: {question}")
    text = await write_answer(question)
    words.send("(done)")
    return text


async def main() -> None:
    async with Engine("sqlite:///streaming_answer.db", [write_answer, answer]) as engine:
        handle = await engine.start("answer-1", answer, "What are streams for?")
        shown: dict[int, str] = {}
        async for item in handle.stream(words):
            if item.discards_from is not None:
                print(f"- taken back from {item.discards_from} on")
                shown = {index: word for index, word in shown.items() if index < item.discards_from}
            shown[item.index] = item.value
            print(item.value)
        print("shown:", " ".join(shown.values()))
        late = [item.value async for item in handle.stream(words)]
        print("late: ", " ".join(late))


if __name__ == "__main__":
    asyncio.run(main())
