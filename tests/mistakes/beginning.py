"""Mistakes in a first program: what is decorated, awaited, handed over, named."""

import asyncio
from dataclasses import dataclass
from typing import Any

from perdure import ActivityContext, Context, Promise, Signal, race
from perdure.errors import (
    DefinitionError,
    InstanceFailedError,
    InvalidIdError,
    UsageError,
)
from tests.mistakes.defining import Opaque
from tests.mistakes.plain import Counter, echo, flow
from tests.mistakes.table import Ground, mistake
from tests.mistakes.untyped import Engine, Retry, activity, context, orchestration, run

MEMORY = "sqlite://:memory:"


# ------------------------------------------------------------------ awaited


@mistake(
    InstanceFailedError,
    "UsageError: <activity echo> is awaited without being called: write `await echo(...)`",
    before="object Activity can't be used in 'await' expression",
)
async def an_activity_is_awaited_without_a_call(ground: Ground) -> None:
    @orchestration
    async def wrong() -> int:
        return await echo  # type: ignore[no-any-return]  # the mistake

    await ground.result(wrong, echo)


@mistake(
    UsageError,
    "Handle('i-1') is no result: write `await handle.result()`",
    before="object Handle can't be used in 'await' expression",
)
async def a_handle_is_awaited(ground: Ground) -> None:
    handle: Any = await ground.start(flow, echo)
    await handle


@mistake(
    None,
    "AttributeError: 'coroutine' object has no attribute 'result'",
    "coroutine 'Client.start' was never awaited",
)
async def a_start_is_not_awaited(ground: Ground) -> str:
    """Python itself says both."""
    engine: Any = await ground.engine(flow, echo)
    handle = engine.start("i-1", flow)
    try:
        return await handle.result()  # type: ignore[no-any-return]  # it has none
    except AttributeError as error:
        return f"AttributeError: {error}"


@mistake(
    UsageError,
    "flow(...) was called outside an orchestration",
    "client.start(flow, ...) or run(flow, ...)",
)
def run_is_given_a_call(ground: Ground) -> None:
    run(flow(3))


@mistake(InstanceFailedError, "asyncio.run() cannot be called from a running event loop")
async def a_loop_is_run_inside_an_orchestration(ground: Ground) -> None:
    @orchestration
    async def wrong() -> Any:
        call = echo(1)
        try:
            return asyncio.run(call)
        finally:
            await call

    await ground.result(wrong, echo)


# ------------------------------------------------------------- handed over, named


@mistake(
    DefinitionError,
    "is an object: hand over its class, Counter",
    before="<Counter object at ...> is not a definition: hand over modules, registries, ...",
)
def an_object_of_a_decider_is_handed_to_an_engine(ground: Ground) -> None:
    Engine(MEMORY, [Counter()])


@mistake(
    UsageError,
    "got an unexpected keyword argument 'instance_id'",
    "all keywords are arguments of flow: the id comes first, as in start('x', flow, ...)",
    before="flow(x: int = 1) -> int: got an unexpected keyword argument 'instance_id'",
)
async def an_id_given_by_keyword(ground: Ground) -> None:
    engine: Any = await ground.engine(flow, echo)
    await engine.start(flow, 1, instance_id="x")


@mistake(
    UsageError,
    "got an unexpected keyword argument 'timeout'",
    "all keywords are arguments of flow: say how long to wait at result(timeout=...)",
    before="flow(x: int = 1) -> int: got an unexpected keyword argument 'timeout'",
)
def a_timeout_given_to_run(ground: Ground) -> None:
    run(flow, 1, timeout=5)


@mistake(
    UsageError,
    "got an unexpected keyword argument 'url'",
    "all keywords are arguments of flow: run() takes its store from $PERDURE_STORE",
)
def a_url_given_to_run(ground: Ground) -> None:
    run(flow, 1, url="sqlite:///x.db")


@mistake(
    InvalidIdError,
    "instance id <orchestration flow 1.0.0>",
    "the id comes first, as in handle('...', flow)",
    before="instance id <orchestration flow 1.0.0> is Orchestration; it must be str",
)
async def a_handle_asked_for_the_wrong_way_round(ground: Ground) -> None:
    engine: Any = await ground.engine(flow, echo)
    engine.handle(flow, "i-1")


@mistake(
    DefinitionError,
    "is not a function",
    "write @activity(retry=Retry(...))",
    before="Retry(...) is not a function: write @activity above a def, or @activity(name=...)",
)
def a_retry_given_by_position(ground: Ground) -> None:
    activity(Retry(max_attempts=2))


@mistake(
    DefinitionError,
    "the parameter context of ",
    "is annotated ActivityContext: the context comes first and is named ctx",
    before="ActivityContext cannot be stored: it is not plain data",
)
def a_context_of_another_name(ground: Ground) -> None:
    @activity
    async def work(context: ActivityContext, x: int) -> int:
        return x


@mistake(
    DefinitionError,
    "the parameter ctx of ",
    "is annotated Context: the context comes first and is named ctx",
    before="Context cannot be stored: it is not plain data",
)
def a_context_that_is_not_the_first(ground: Ground) -> None:
    @orchestration
    async def work(x: int, ctx: Context) -> int:
        return x


@mistake(
    InstanceFailedError,
    "no orchestration runs here: context() works inside one; an activity has activity_context()",
    before="no orchestration runs here: context() works inside one",
)
async def the_context_of_orchestrations_in_an_activity(ground: Ground) -> None:
    @activity
    async def stamp() -> str:
        return str(context().now())

    @orchestration
    async def stamped() -> str:
        return await stamp()  # type: ignore[no-any-return]  # it is one

    await ground.result(stamped, stamp)


# ------------------------------------------------------------------- values


@dataclass
class Settings:
    connection: Opaque


@dataclass
class Order:
    number: str
    settings: list[Settings]


@mistake(
    DefinitionError,
    "activity 'keep': Opaque (order.settings.connection) cannot be stored",
    before="activity 'keep': Opaque cannot be stored",
)
async def a_field_of_a_field_that_cannot_be_stored(ground: Ground) -> None:
    @activity
    async def keep(order: Order) -> None: ...

    await ground.engine(keep)


# ---------------------------------------------------------- awaited too late, or twice


@mistake(
    InstanceFailedError,
    "result of wrong: got a future, such as gather(...) returns, that was not awaited; write "
    "`await` before it",
    before="got NumberedGathering where list is annotated; pass list",
)
async def a_gather_is_not_awaited(ground: Ground) -> None:
    @orchestration
    async def wrong() -> list[int]:
        return asyncio.gather(echo(1), echo(2))  # type: ignore[return-value]  # the mistake

    await ground.result(wrong, echo)


@mistake(
    InstanceFailedError,
    "echo(x): got a task that was not awaited; write `await` before it",
    before="got NumberedTask where int is annotated; pass int",
)
async def a_task_is_handed_over_instead_of_its_result(ground: Ground) -> None:
    @orchestration
    async def wrong() -> int:
        task = asyncio.create_task(echo(1))
        return await echo(task)  # type: ignore[no-any-return]  # it is one

    await ground.result(wrong, echo)


@mistake(
    InstanceFailedError,
    "echo(...) from beginning.py:",
    "was awaited before, and a call is awaited once: keep its value, or make a task of it",
    before="RuntimeError: cannot reuse already awaited coroutine",
)
async def a_call_is_awaited_twice(ground: Ground) -> None:
    @orchestration
    async def wrong() -> int:
        call = echo(1)
        return await call + await call  # type: ignore[no-any-return]  # it is one

    await ground.result(wrong, echo)


@mistake(
    InstanceFailedError,
    "race(...) takes calls and other awaitables, each as an argument of its own, as in "
    "race(a(), b()) or race(*calls); got [",
    before="TypeError: An asyncio.Future, a coroutine or an awaitable is required",
)
async def a_list_of_calls_for_a_race(ground: Ground) -> None:
    @orchestration
    async def wrong() -> Any:
        calls: Any = [echo(1), echo(2)]
        try:
            return await race(calls)
        finally:
            await asyncio.gather(*calls)

    await ground.result(wrong, echo)


@mistake(
    InstanceFailedError,
    "is not awaited itself: write `await signal.receive()`",
    before="TypeError: object Signal can't be used in 'await' expression",
)
async def a_signal_is_awaited(ground: Ground) -> None:
    go: Any = Signal("go", int)

    @orchestration
    async def wrong() -> Any:
        return await go

    await ground.result(wrong)


@mistake(
    InstanceFailedError,
    "<promise 'paid' of 'i-1'> is not awaited itself: write `await promise.receive()`",
    before="TypeError: object Made can't be used in 'await' expression",
)
async def a_promise_is_awaited(ground: Ground) -> None:
    paid: Any = Promise("paid", int)

    @orchestration
    async def wrong() -> Any:
        return await paid.make()

    await ground.result(wrong)


@mistake(
    InstanceFailedError,
    "instance 'i-1' asks for its own result, and would wait for ever",
    before="nothing; waited for ever",
)
async def an_instance_that_waits_for_itself(ground: Ground) -> None:
    @orchestration
    async def wrong() -> Any:
        return await context().ref("i-1").result()

    await ground.result(wrong)


@mistake(
    DefinitionError,
    "Shop.charge takes cls: an activity is a plain function, not a method",
    before="<classmethod(<function ...>)> is not a function: write @activity above a def",
)
def a_class_method_as_an_activity(ground: Ground) -> None:
    class Shop:
        @activity
        @classmethod
        def charge(cls) -> None: ...
