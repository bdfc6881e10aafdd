"""Mistakes in asking: starts, ids, handles, signals."""

import asyncio
from typing import Any

from perdure import Decider
from perdure.errors import (
    AlreadyExistsError,
    DefinitionError,
    InstanceFailedError,
    InstanceNotFoundError,
    InvalidIdError,
    OptionError,
    PayloadError,
    ResultTimeoutError,
    UsageError,
)
from tests.mistakes.plain import echo
from tests.mistakes.table import Ground, mistake
from tests.mistakes.untyped import Retry, Signal, activity, context, orchestration

approved = Signal("approved", bool)
aproved = Signal("aproved", bool)


@orchestration
async def flow(x: int) -> int:
    return await echo(x)  # type: ignore[no-any-return]  # it is one


@orchestration
async def other(x: int) -> int:
    return x


@orchestration
async def waiting() -> bool:
    return await approved.receive()  # type: ignore[no-any-return]  # it is one


async def _engine(ground: Ground) -> Any:
    return await ground.engine(flow, other, waiting, echo)


@mistake(UsageError, "missing a required argument: 'x'", before="the same")
async def a_start_without_an_argument(ground: Ground) -> None:
    await (await _engine(ground)).start(flow)


@mistake(UsageError, "too many positional arguments", before="the same")
async def a_start_with_an_argument_too_many(ground: Ground) -> None:
    await (await _engine(ground)).start(flow, 1, 2)


@mistake(PayloadError, "flow(x): got str where int is annotated", before="the same")
async def a_start_with_an_argument_of_a_wrong_type(ground: Ground) -> None:
    await (await _engine(ground)).start(flow, "1")


@mistake(UsageError, "'flow' is not an orchestration: start takes", before="the same")
async def a_start_by_the_name_of_the_orchestration(ground: Ground) -> None:
    await (await _engine(ground)).start("i-1", "flow")


@mistake(UsageError, "<activity echo> is not an orchestration", before="the same")
async def a_start_of_an_activity(ground: Ground) -> None:
    await (await _engine(ground)).start(echo, 1)


@mistake(
    InvalidIdError,
    "instance id 42 is no text: say start('42', flow, ...)",
    before="42 is not an orchestration",
)
async def a_number_as_an_id(ground: Ground) -> None:
    await (await _engine(ground)).start(42, flow, 1)


@mistake(InvalidIdError, "instance id", "is not allowed", before="the same")
async def an_id_with_a_line_break(ground: Ground) -> None:
    await (await _engine(ground)).start("a\nb", flow, 1)


@mistake(InvalidIdError, "instance id ''", "1 to 200", before="the same")
async def an_empty_id(ground: Ground) -> None:
    await (await _engine(ground)).start("", flow, 1)


@mistake(AlreadyExistsError, "already exists with another input", "if_exists=", before="the same")
async def an_id_that_is_taken(ground: Ground) -> None:
    engine = await _engine(ground)
    await engine.start("i-1", flow, 1)
    await engine.start("i-1", flow, 2)


@mistake(
    AlreadyExistsError,
    "already exists as flow 1.0.0, not other 1.0.0; use another id",
    before="the same",
)
async def an_id_that_another_orchestration_has(ground: Ground) -> None:
    engine = await _engine(ground)
    await engine.start("i-1", flow, 1)
    await engine.start("i-1", other, 1)


@mistake(InstanceNotFoundError, "no instance 'nobody'", before="the same")
async def the_result_of_an_instance_that_there_is_not(ground: Ground) -> None:
    await (await _engine(ground)).handle("nobody").result()


@mistake(PayloadError, "stored is int, which does not fit", before="the same")
async def a_handle_with_another_orchestration(ground: Ground) -> None:
    @orchestration
    async def gives_a_dict() -> dict[str, int]:
        return {}

    engine = await _engine(ground)
    await (await engine.start("i-1", flow, 1)).result()
    await engine.handle("i-1", gives_a_dict).result()


@mistake(
    ResultTimeoutError,
    "instance 'i-1' has no result after 0.01 s: ",
    "waits for signal 'approved'",
    before="AttributeError: 'int' object has no attribute 'total_seconds'",
)
async def a_number_of_seconds_to_wait(ground: Ground) -> None:
    handle = await (await _engine(ground)).start("i-1", waiting)
    await handle.result(timeout=0.01)


@mistake(
    OptionError,
    "timeout must be a timedelta or a number of seconds, got '1s'",
    before="AttributeError, and 'coroutine was never awaited'",
)
async def a_text_as_the_time_to_wait(ground: Ground) -> None:
    handle = await (await _engine(ground)).start("i-1", waiting)
    await handle.result(timeout="1s")


@mistake(PayloadError, "signal 'approved'", "got str where bool is annotated", before="the same")
async def a_signal_with_a_value_of_a_wrong_type(ground: Ground) -> None:
    handle = await (await _engine(ground)).start("i-1", waiting)
    await handle.send(approved, "yes")


@mistake(UsageError, "'approved' is not a signal: make one with", before="the same")
async def a_signal_by_its_name(ground: Ground) -> None:
    handle = await (await _engine(ground)).start("i-1", waiting)
    await handle.send("approved", True)


@mistake(UsageError, "can be received only inside an orchestration", before="the same")
def a_signal_received_elsewhere(ground: Ground) -> None:
    approved.receive()


@mistake(
    None,
    "waits for signal 'approved'",
    "unread signal 'aproved' came, which it does not wait for",
    before="waits for signal 'approved'",
)
async def a_signal_that_is_misspelled(ground: Ground) -> str:
    handle = await (await _engine(ground)).start("i-1", waiting)
    await handle.send(aproved, True)
    text = ""
    while "unread" not in text:
        text = await handle.explain()
        await asyncio.sleep(0.002)
    return text


@mistake(
    None,
    "signal 'approved' is kept for instance 'i-2', which does not exist",
    "Is the id right?",
    before="nothing; kept for ever",
)
async def a_signal_to_an_instance_that_there_is_not(ground: Ground) -> None:
    await (await _engine(ground)).handle("i-2").send(approved, True)


@mistake(UsageError, "flow.continue_as_new(...) works only inside", before="the same")
def going_on_as_new_elsewhere(ground: Ground) -> None:
    flow.continue_as_new(1)


@mistake(
    UsageError,
    "execution must be a whole number of at least 1, got 'last'",
    before="TypeError: '<=' not supported between instances of 'int' and 'str'",
)
async def a_word_as_an_execution_to_export(ground: Ground) -> None:
    handle: Any = await (await _engine(ground)).start("i-1", waiting)
    await handle.export("last")


@mistake(UsageError, "is not an orchestration: start takes", before="the same")
async def a_start_of_a_plain_function(ground: Ground) -> None:
    def flow(x: int) -> int:
        return x

    engine: Any = await _engine(ground)
    await engine.start("i-1", flow, 1)


@mistake(
    InvalidIdError,
    "instance id None is no text: leave it out for one that is made, as in start(flow, ...)",
    before="instance id None is no text: say start('None', flow, ...)",
)
async def no_id_where_one_is_given(ground: Ground) -> None:
    engine: Any = await ground.engine(flow)
    await engine.start(None, flow, 1)


@mistake(
    UsageError,
    "is not an orchestration: start takes",
    "a decider is given inputs, as in client.execute(Basket, ...)",
    before="<class 'Basket'> is not an orchestration: start takes a function made with ...",
)
async def a_start_of_a_decider(ground: Ground) -> None:
    class Basket(Decider[int, int, int, str]):
        name = "basket"

    engine: Any = await ground.engine(flow)
    await engine.start("b-1", Basket, 1)


@mistake(
    DefinitionError,
    "<orchestration flow 1.0.0> is no decider",
    "an orchestration is started: client.start(...)",
    before="<orchestration flow 1.0.0> is no decider: hand over a subclass of Decider",
)
async def an_input_for_an_orchestration(ground: Ground) -> None:
    engine: Any = await ground.engine(flow)
    await engine.execute(flow, 1)


@mistake(
    ResultTimeoutError,
    "(attempt 1 failed: ValueError: no such card (asking.py:",
    "next one",
    before="... waits for activity 'fails' (attempt 1 failed, next one ...)",
)
async def waiting_for_an_activity_that_fails_again_and_again(ground: Ground) -> None:
    @activity(retry=Retry(max_attempts=None, first_delay=3600))
    async def fails() -> None:
        raise ValueError("no such card")

    @orchestration
    async def tries() -> None:
        await fails()

    handle = await ground.start(tries, fails)
    text = ""
    while "failed" not in text:
        text = await handle.explain()
        await asyncio.sleep(0.002)
    await handle.result(timeout=0.01)


@mistake(
    OptionError,
    "timeout must not be negative, got -1",
    before="instance 'i-1' has no result after -1 s: i-1 (flow 1.0.0) completed at ...",
)
async def a_time_to_wait_that_is_negative(ground: Ground) -> None:
    handle = await (await _engine(ground)).start("i-1", waiting)
    await handle.result(timeout=-1)


@mistake(
    InstanceFailedError,
    "'Context' object has no attribute 'sleep': asyncio itself is durable here: write `await "
    "asyncio.sleep(seconds)`",
    before="AttributeError: 'Context' object has no attribute 'sleep'",
)
async def a_method_that_contexts_have_elsewhere(ground: Ground) -> None:
    @orchestration
    async def wrong() -> None:
        await context().sleep(5)

    await ground.result(wrong)
