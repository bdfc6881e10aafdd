"""Mistakes in tests: trials, fakes, recorded histories."""

from typing import Any

from perdure.errors import InstanceFailedError, OptionError, UsageError
from perdure.testing import (
    Trial,
    activity_context,
    check_invariants,
    crash_everywhere,
    replay,
)
from tests.mistakes.plain import Counter, echo, flow
from tests.mistakes.table import Ground, mistake

UNTYPED: Any = Trial


# -------------------------------------------------------------------------- trials


@mistake(
    TypeError,
    "a point in time is a datetime with a time zone, got '2027-01-01'",
    before="AttributeError: 'str' object has no attribute 'tzinfo'",
)
def a_text_as_the_time_of_a_trial(ground: Ground) -> None:
    UNTYPED([flow, echo], now="2027-01-01")


@mistake(
    OptionError,
    "resources must be a list of objects",
    before="TypeError: 'int' object is not iterable",
)
def one_resource_for_a_trial_instead_of_a_list(ground: Ground) -> None:
    UNTYPED([flow, echo], resources=3)


@mistake(OptionError, "seed must be a whole number, got 'lucky'")
def a_word_as_a_seed(ground: Ground) -> None:
    UNTYPED([flow, echo], seed="lucky")


@mistake(
    InstanceFailedError,
    "the trial cannot move the clock while activity 'echo' runs, and the code of that one asks "
    "for it: do it in the test",
    before="the trial does not come to rest within 60 s",
)
async def a_fake_that_moves_the_clock(ground: Ground) -> None:
    trial: Any
    async with Trial([flow, echo]) as trial:

        @trial.fake(echo)
        async def _(x: int) -> int:
            await trial.advance(60)
            return x

        await (await trial.start("i-1", flow)).result()


@mistake(UsageError, "trial.fake(...) takes a function made with @activity")
async def a_fake_of_an_orchestration(ground: Ground) -> None:
    trial: Any
    async with Trial([flow, echo]) as trial:
        trial.fake(flow).returns(1)


@mistake(UsageError, "activity 'echo' was not handed to this trial")
async def a_fake_of_what_the_trial_was_not_given(ground: Ground) -> None:
    trial: Any
    async with Trial([flow]) as trial:
        trial.fake(echo).returns(1)


@mistake(UsageError, "takes exceptions such as TimeoutError(), got <class 'ValueError'>")
async def a_class_as_the_error_of_a_fake(ground: Ground) -> None:
    trial: Any
    async with Trial([flow, echo]) as trial:
        trial.fake(echo).raises(ValueError)


# -------------------------------------------------------------- the rest of the kit


@mistake(
    UsageError,
    "crash_everywhere(...) takes an async function of a trial",
    before="TypeError: object NoneType can't be used in 'await' expression",
)
def a_test_that_is_not_async_with_crashes(ground: Ground) -> None:
    everywhere: Any = crash_everywhere
    everywhere(lambda trial: None, [flow, echo])


@mistake(
    UsageError,
    "replay takes the lines of a history as objects, got 'orders.jsonl'",
    before="AttributeError: 'str' object has no attribute 'get'",
)
def the_path_of_a_history_instead_of_its_lines(ground: Ground) -> None:
    replayed: Any = replay
    replayed("orders.jsonl", [flow, echo])


@mistake(
    UsageError,
    "inputs must be a list of inputs, a function of a random.Random or a hypothesis strategy, "
    "got 3",
    before="TypeError: object of type 'int' has no len()",
)
def one_input_instead_of_a_list_to_check_with(ground: Ground) -> None:
    check_invariants(Counter, inputs=3, invariant=lambda state: state >= 0)


@mistake(
    UsageError,
    "invariant must be a function of a state, got True",
    before="TypeError: 'bool' object is not callable",
)
def a_truth_value_as_what_must_hold(ground: Ground) -> None:
    check: Any = check_invariants
    check(Counter, inputs=[1], invariant=True)


@mistake(
    UsageError,
    "attempts count from 1, got 'first'",
    before="TypeError: '<' not supported between instances of 'str' and 'int'",
)
def a_word_as_the_attempt_of_a_test(ground: Ground) -> None:
    context: Any = activity_context
    with context(attempt="first"):
        pass
