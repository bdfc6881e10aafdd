"""Mistakes that show after a crash: what is another thing in another process."""

import itertools
import os

from perdure import WorkerOptions, activity, orchestration
from tests.mistakes.table import Ground, mistake

counter = itertools.count()

SHADOW = WorkerOptions(shadow_rate=1)


@activity
async def note(text: str) -> str:
    return text


@mistake(
    None,
    "orchestration flow at",
    "differing.py:",
    "os.environ cannot be replayed: hand it in when the instance is started",
    before="nothing; blocked after a crash",
)
async def the_environment_decides(ground: Ground) -> None:
    @orchestration
    async def flow() -> str:
        return await note(os.environ.get("REGION", ""))

    await ground.result(flow, note)


@mistake(
    None,
    "orchestration flow at",
    "differing.py:",
    "the order of {'a', 'b'} is another one in every process",
    "use sorted(...)",
    before="nothing; blocked after a crash",
)
async def the_order_of_a_set_decides(ground: Ground) -> None:
    @orchestration
    async def flow() -> None:
        for name in {"a", "b"}:
            await note(name)

    await ground.result(flow, note)


@mistake(
    None,
    "orchestration flow at",
    "differing.py:",
    "os.getenv() cannot be replayed",
)
async def a_function_beside_it_asks_the_environment(ground: Ground) -> None:
    @orchestration
    async def flow() -> str:
        return await note(_region())

    await ground.result(flow, note)


def _region() -> str:
    return os.getenv("REGION", "")


@mistake(
    None,
    "the code of flow cannot be replayed (event 2, differing.py:",
    "a crash would have blocked instance 'i-1'",
    before="nothing; blocked after a crash",
)
async def a_global_counter_decides(ground: Ground) -> None:
    """Found by the shadow replay: `shadow_rate=1` in tests and development."""

    @orchestration
    async def flow() -> str:
        return await note(str(next(counter)))

    engine = await ground.engine(flow, note, options=SHADOW)
    await (await engine.start("i-1", flow)).result()
    await ground.until_heard("cannot be replayed")
