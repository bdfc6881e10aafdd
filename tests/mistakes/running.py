"""Mistakes in running: `run`, engines, workers, and what they are not handed."""

import asyncio
import time
from typing import Any

from perdure.errors import (
    InstanceFailedError,
    InstanceHeldError,
    NotServedError,
    OptionError,
    UsageError,
)
from perdure.testing import Trial
from tests.mistakes.plain import echo, flow
from tests.mistakes.table import Ground, mistake
from tests.mistakes.untyped import (
    BlockingClient,
    Client,
    Engine,
    Worker,
    activity,
    orchestration,
    run,
)

HUNG = "waited for ever; logged: an instance is blocked"
MEMORY = "sqlite://:memory:"


def hidden() -> Any:
    """Return an activity that no name leads to."""

    @activity(name="hidden")
    async def found_by_nobody() -> int:
        return 1

    return found_by_nobody


@orchestration
async def reads_the_clock() -> float:
    return time.time()


@orchestration
async def has_a_child() -> float:
    return await reads_the_clock()  # type: ignore[no-any-return]  # it is one


# ------------------------------------------------------------------------- run


@mistake(
    InstanceHeldError,
    "time.time() at running.py:",
    "in reads_the_clock cannot be replayed: use context().now()",
    "what was done so far is kept: run() with the instance id",
    before=HUNG,
)
def run_what_cannot_be_replayed(ground: Ground) -> None:
    run(reads_the_clock)


@mistake(InstanceHeldError, "reads_the_clock cannot be replayed", "instance 'p-1", before=HUNG)
def run_a_parent_whose_child_cannot_be_replayed(ground: Ground) -> None:
    run("p-1", has_a_child)


@mistake(
    NotServedError,
    "no live worker serves activity 'hidden'",
    "run() serves what the code of its orchestration names",
    "Engine(url, [orchestration, activity])",
    before="waited for ever; logged: hand it to a worker, Worker(url, [...]), and start that",
)
def run_what_calls_an_activity_that_no_name_leads_to(ground: Ground) -> None:
    @orchestration
    async def calls(where: list[str]) -> int:
        return await made[where[0]]()  # type: ignore[no-any-return]  # it is one

    class Table(dict[str, Any]):
        """No table that is looked into."""

    made = Table(hidden=hidden())
    run(calls, ["hidden"])


@mistake(UsageError, "run takes an orchestration", "got 'flow'", before="the same")
def run_without_an_orchestration(ground: Ground) -> None:
    run("flow")


@mistake(UsageError, "run takes an orchestration", "<activity echo>")
def run_an_activity(ground: Ground) -> None:
    run(echo, 1)


# ---------------------------------------------------------------- what is missing


@mistake(
    None,
    "no live worker serves activity 'echo'; calls of it wait until one does",
    "hand it to a worker",
    before="the same",
)
async def an_activity_that_the_engine_does_not_have(ground: Ground) -> str:
    handle = await ground.start(flow)
    await ground.until_heard("no live worker")
    return await handle.explain()


@mistake(
    None,
    "unclaimed: needs flow 1.0.0, which no live worker has",
    "hand it to one, as in Engine(url, [flow])",
    before="unclaimed: needs flow 1.0.0, which no live worker has",
)
async def an_orchestration_that_the_engine_does_not_have(ground: Ground) -> str:
    engine = await ground.engine(echo)
    handle = await engine.start(flow)
    return await handle.explain()


# ------------------------------------------------------------------ held instances


@mistake(
    None,
    "i-1 (reads_the_clock 1.0.0) is blocked: time.time() at running.py:",
    'result() goes on waiting; if_held="raise" ends it',
    before="waited without a word",
)
async def waiting_for_an_instance_that_is_blocked(ground: Ground) -> None:
    handle = await ground.start(reads_the_clock)
    waiting = asyncio.ensure_future(handle.result())
    await ground.until_heard("goes on waiting")
    await handle.terminate("that is enough")
    await asyncio.gather(waiting, return_exceptions=True)


@mistake(InstanceHeldError, "instance 'i-1' is blocked: time.time() at running.py:")
async def waiting_with_a_way_to_end(ground: Ground) -> None:
    handle = await ground.start(reads_the_clock)
    await handle.result(if_held="raise")


@mistake(UsageError, "if_held must be one of warn, raise, wait, got 'fail'")
async def waiting_in_a_way_that_there_is_not(ground: Ground) -> None:
    handle: Any = await ground.start(flow, echo)
    await handle.result(if_held="fail")


@mistake(
    None,
    "instance 'i-1' (reads_the_clock 1.0.0) is blocked: time.time() at running.py:",
    "info().reason tells more",
    before="an instance is blocked: its code does not fit its history",
)
async def looking_at_the_log_for_what_is_blocked(ground: Ground) -> None:
    await ground.start(reads_the_clock)
    await ground.until_heard("is blocked")


# ----------------------------------------------------------------------- lifetimes


@mistake(UsageError, "this Client is not open", "await open() first", before="the same")
async def a_client_that_is_not_opened(ground: Ground) -> None:
    await Client(MEMORY).start(flow)


@mistake(
    UsageError,
    "this Engine is not open any more: make a new Engine(...), and use it inside its block",
    before="use `async with`, or await open() first",
)
async def an_engine_that_is_used_after_its_block(ground: Ground) -> None:
    async with Engine(MEMORY, [flow, echo]) as engine:
        pass
    await engine.start(flow)


@mistake(
    UsageError,
    "this Engine was closed and is not opened again: make a new Engine(...)",
    before="the store was opened before; make a new one",
)
async def an_engine_that_is_opened_twice(ground: Ground) -> None:
    engine = Engine(MEMORY, [flow, echo])
    for _ in range(2):
        async with engine:
            pass


@mistake(UsageError, "this Worker was closed and is not opened again: make a new Worker(...)")
async def a_worker_that_is_opened_twice(ground: Ground) -> None:
    worker = Worker(MEMORY, [flow, echo])
    for _ in range(2):
        async with worker:
            pass


@mistake(
    UsageError,
    "an Engine is entered with `async with Engine(...)`",
    "with BlockingClient(url)",
    before="TypeError: 'Engine' object does not support the context manager protocol",
)
def an_engine_entered_with_with(ground: Ground) -> None:
    with Engine(MEMORY, [flow]):
        pass


@mistake(
    UsageError,
    "a Worker is entered with `async with Worker(...)`",
    before="TypeError: 'Worker' object does not support the context manager protocol",
)
def a_worker_entered_with_with(ground: Ground) -> None:
    async def main() -> None:
        with Worker(MEMORY, [flow]):
            pass

    asyncio.run(main())


@mistake(
    UsageError,
    "enter it with `with BlockingClient(...)`",
    "`async with Client(url)` in an async function",
    before="TypeError: 'BlockingClient' object does not support the asynchronous context ...",
)
async def a_blocking_client_entered_with_async_with(ground: Ground) -> None:
    async with BlockingClient(MEMORY):
        pass


@mistake(UsageError, "this BlockingClient is not open: use `with`, or call open() first")
def a_blocking_client_that_is_not_opened(ground: Ground) -> None:
    BlockingClient(MEMORY).start(flow)


@mistake(
    UsageError,
    "this Engine is in a block already, whose end closes it: use it there",
    before="nothing; the outer block was left with a closed engine",
)
async def an_engine_in_two_blocks(ground: Ground) -> None:
    async with Engine(MEMORY, [flow, echo]) as engine, engine:
        pass


@mistake(
    UsageError,
    "this BlockingClient is in a block already, whose end closes it: use it there",
    before="nothing; the outer block was left with a closed client",
)
def a_blocking_client_in_two_blocks(ground: Ground) -> None:
    with BlockingClient(MEMORY, create=True) as client, client:
        pass


@mistake(
    UsageError,
    "this BlockingClient was closed and is not opened again: make a new BlockingClient(...)",
    before="this Client was closed and is not opened again: make a new Client(...)",
)
def a_blocking_client_that_is_opened_twice(ground: Ground) -> None:
    with BlockingClient(MEMORY, create=True) as client:
        pass
    with client:
        pass


@mistake(
    UsageError,
    "this BlockingClient is not open any more: make a new BlockingClient(...)",
    before="this BlockingClient is not open: use `with`, or call open() first",
)
def a_handle_that_is_used_after_its_client_was_closed(ground: Ground) -> None:
    with BlockingClient(MEMORY, create=True) as client:
        handle = client.start(flow)
    handle.info()


@mistake(
    UsageError,
    "this Client is in a block already, whose end closes it: use it there",
)
async def a_client_of_a_server_in_two_blocks(ground: Ground) -> None:
    async with Client("http://127.0.0.1:9") as client, client:
        pass


@mistake(
    UsageError,
    "this Engine was opened in another event loop, and works only there",
    "a fixture of pytest-asyncio needs the loop_scope of its tests",
    before="RuntimeError: Event loop is closed",
)
async def an_engine_used_in_another_event_loop(ground: Ground) -> None:
    engine = await ground.engine(flow, echo)

    def elsewhere() -> None:
        asyncio.run(engine.start(flow))

    await asyncio.to_thread(elsewhere)


@mistake(
    InstanceFailedError,
    "this Engine cannot be used inside an orchestration or a decider",
    "use context().start, .execute, .send or .ref there, or do it in an activity",
    before="got Future attached to a different loop; the thread that writes ended",
)
async def a_client_used_inside_an_orchestration(ground: Ground) -> None:
    engines: list[Any] = []

    @orchestration
    async def looks() -> str:
        return str((await engines[0].handle("i-1").info()).status)

    engines.append(await ground.engine(looks))
    await (await engines[0].start("i-1", looks)).result()


@mistake(UsageError, "a Trial is entered with `async with Trial(...)`")
def a_trial_entered_with_with(ground: Ground) -> None:
    trial: Any = Trial
    with trial([flow, echo]):
        pass


@mistake(OptionError, "by must be a timedelta or a number of seconds, got '3d'")
async def a_text_as_the_time_that_a_trial_lets_pass(ground: Ground) -> None:
    trial: Any
    async with Trial([flow, echo]) as trial:
        await trial.advance("3d")
