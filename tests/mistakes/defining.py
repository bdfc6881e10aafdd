"""Mistakes in writing activities and orchestrations, and in their options."""

import functools
import threading
from typing import TYPE_CHECKING, Any

from perdure.authoring.registry import Registry
from perdure.errors import DefinitionError, InvalidIdError, OptionError, UsageError
from tests.mistakes.table import Ground, mistake
from tests.mistakes.untyped import Engine, Retry, Signal, WorkerOptions, activity, orchestration

if TYPE_CHECKING:
    from decimal import Decimal

TOO_LATE = "found at the first call, where it failed the instance"


class Opaque:
    """Holds what no JSON can."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def charge(order: str) -> int:
    return 1


# ----------------------------------------------------------------- functions


@mistake(DefinitionError, "has no name of its own", "name=...", before="the same")
def a_lambda_as_an_activity(ground: Ground) -> None:
    activity(lambda x: x)


@mistake(DefinitionError, "has no name of its own", "name=...", before="the same")
def a_partial_as_an_activity(ground: Ground) -> None:
    activity(functools.partial(charge, "o-1"))


@mistake(DefinitionError, "takes self", "a plain function, not a method", before="the same")
def a_method_as_an_activity(ground: Ground) -> None:
    class Shop:
        @activity
        def charge(self, order: str) -> int:
            return 1


@mistake(
    DefinitionError,
    "Charge is a class: an activity is a function",
    "resources=[...]",
    before="accepted; failed at run time",
)
def a_class_as_an_activity(ground: Ground) -> None:
    @activity
    class Charge: ...


@mistake(
    DefinitionError,
    "numbers yields: an activity returns one value",
    "Return a list",
    before='accepted; then "annotate it, for example as generator"',
)
def a_generator_as_an_activity(ground: Ground) -> None:
    @activity
    def numbers(count: int) -> Any:
        yield from range(count)


@mistake(
    DefinitionError,
    "numbers yields: an activity returns one value",
    before='accepted; then "annotate it, for example as async_generator"',
)
def an_async_generator_as_an_activity(ground: Ground) -> None:
    @activity
    async def numbers(count: int) -> Any:
        yield count


@mistake(
    DefinitionError,
    "orchestration 'flow' must be an async function (defining.py:",
    "write `async def flow(...)`",
    before="must be an async def, got <function ...>",
)
def a_plain_def_as_an_orchestration(ground: Ground) -> None:
    @orchestration
    def flow() -> int:
        return 1


@mistake(
    DefinitionError,
    "flow yields: an orchestration returns one value",
    before="must be an async def, got <function ...> (which it is)",
)
def an_async_generator_as_an_orchestration(ground: Ground) -> None:
    @orchestration
    async def flow() -> Any:
        yield 1


@mistake(DefinitionError, "'charge' is not a function", "@activity(name=...)")
def a_name_instead_of_a_function(ground: Ground) -> None:
    activity("charge")


@mistake(DefinitionError, "flow is <activity flow> already", "write two functions")
def both_decorators_on_one_function(ground: Ground) -> None:
    @orchestration
    @activity
    async def flow() -> int:
        return 1


@mistake(DefinitionError, "two activity definitions are named 'add'", before="the same")
def two_activities_of_one_name(ground: Ground) -> None:
    def make() -> Any:
        @activity
        def add(x: int) -> int:
            return x

        return add

    Registry([make(), make()])


@mistake(
    UsageError,
    "<activity charge> cannot be changed (fn was to be set)",
    "another function under the same name, @activity(name='charge')",
    before="TypeError: super(type, obj): obj must be an instance or subtype of type",
)
def monkeypatching_the_function_of_an_activity(ground: Ground) -> None:
    activity(charge).fn = lambda order: 2


# ------------------------------------------------------------------- options


@mistake(
    OptionError,
    "retry must be a Retry, or None for never, got 3",
    "retry=Retry(max_attempts=3)",
    before="AttributeError: 'int' object has no attribute 'max_attempts'",
)
def a_number_as_retry(ground: Ground) -> None:
    activity(retry=3)


@mistake(
    OptionError,
    "timeout must be a timedelta or a number of seconds, got '30s'",
    "timeout=300",
    before="TypeError: '<=' not supported between instances of 'str' and 'datetime.timedelta'",
)
def a_text_as_a_timeout(ground: Ground) -> None:
    activity(timeout="30s")


@mistake(OptionError, "timeout must be positive, got 0")
def no_time_at_all(ground: Ground) -> None:
    activity(timeout=0)


@mistake(OptionError, "timeout must be a timedelta or a number of seconds, got nan")
def a_time_that_is_no_number(ground: Ground) -> None:
    activity(timeout=float("nan"))


@mistake(OptionError, "timeout is limited to 36500 days, got inf seconds", "None means without end")
def an_endless_time_as_infinity(ground: Ground) -> None:
    activity(timeout=float("inf"))


@mistake(
    OptionError,
    "raises must be a list of exception classes, got <class 'ValueError'>",
    "raises=[ValueError]",
    before="TypeError: 'type' object is not iterable",
)
def one_class_instead_of_a_list_of_exceptions(ground: Ground) -> None:
    activity(raises=ValueError)(charge)


@mistake(
    OptionError,
    "no_retry must be a list of exception classes or their names, got 'ValueError'",
    before="accepted, letter by letter",
)
def one_name_instead_of_a_list_of_names(ground: Ground) -> None:
    Retry(no_retry="ValueError")


@mistake(
    OptionError,
    "max_attempts must be a whole number or None, got '3'",
    before="TypeError: '<' not supported between instances of 'str' and 'int'",
)
def a_text_as_a_number_of_attempts(ground: Ground) -> None:
    Retry(max_attempts="3")


@mistake(OptionError, "async_jobs must be a whole number, got 'many'")
def a_text_as_a_number_of_jobs(ground: Ground) -> None:
    WorkerOptions(async_jobs="many")


@mistake(
    OptionError, "retention must be a Retention, got 30", "Retention(ended=timedelta(days=30))"
)
def a_number_as_retention(ground: Ground) -> None:
    WorkerOptions(retention=30)


@mistake(
    OptionError,
    "if_exists must be one of join, fail, restart, terminate, got 'replace'",
    before="accepted, and then not known at the start",
)
def a_word_that_is_none_of_the_choices(ground: Ground) -> None:
    flow_of().with_options(if_exists="replace")


@mistake(
    OptionError,
    "delay must be a timedelta or a number of seconds, got '5 min'",
    before="delay must be a timedelta that is not negative",
)
def a_text_as_a_delay(ground: Ground) -> None:
    flow_of().with_options(delay="5 min")


@mistake(
    TypeError, "unexpected keyword argument 'max_retries'", before="the same, from Python itself"
)
def an_option_that_does_not_exist(ground: Ground) -> None:
    activity(max_retries=3)


@mistake(InvalidIdError, "activity name", "contains", "is not allowed")
def a_name_with_a_line_break(ground: Ground) -> None:
    activity(name="charge\ncard")(charge)


# -------------------------------------------------------------------- values


@mistake(
    DefinitionError,
    "activity 'keep': Opaque cannot be stored: it is not plain data",
    "pass an id and look the thing up",
    "written at",
    before=TOO_LATE,
)
async def a_parameter_that_cannot_be_stored(ground: Ground) -> None:
    @activity
    def keep(thing: Opaque) -> int:
        return 1

    await ground.engine(keep)


@mistake(DefinitionError, "activity 'make' result: Opaque cannot be stored", before=TOO_LATE)
async def a_result_that_cannot_be_stored(ground: Ground) -> None:
    @activity
    def make() -> Opaque:
        return Opaque()

    await ground.engine(make)


@mistake(
    DefinitionError,
    "an annotation cannot be resolved (name 'Decimal' is not defined)",
    "outside `if TYPE_CHECKING`",
    before=TOO_LATE,
)
async def a_type_that_is_imported_for_the_checker_alone(ground: Ground) -> None:
    @activity
    def pay(amount: "Decimal") -> int:
        return 1

    await ground.engine(pay)


@mistake(DefinitionError, "is not a definition", "functions made with @activity", before="the same")
async def a_plain_function_handed_to_an_engine(ground: Ground) -> None:
    await ground.engine(charge)


@mistake(
    DefinitionError,
    "'shop' is not a list of definitions",
    "hand over what has been imported",
    before="'s' is not a definition",
)
def the_name_of_a_module_handed_to_an_engine(ground: Ground) -> None:
    Engine("sqlite://:memory:", "shop")


@mistake(
    OptionError,
    "options must be a WorkerOptions, got {'async_jobs': 5}",
    "options=WorkerOptions(async_jobs=100)",
    before="AttributeError: 'dict' object has no attribute 'name'; nothing for an empty one",
)
def a_dict_as_the_options_of_an_engine(ground: Ground) -> None:
    Engine("sqlite://:memory:", [flow_of()], options={"async_jobs": 5})


@mistake(
    OptionError,
    "resources must be a list of objects, got",
    "resources=[...]",
    before="TypeError: 'object' object is not iterable",
)
def one_resource_instead_of_a_list(ground: Ground) -> None:
    Engine("sqlite://:memory:", [flow_of()], resources=object())


@mistake(
    OptionError,
    'tags must be "own", "any" or a collection of tags, got 5',
    before="TypeError: 'int' object is not iterable",
)
def a_number_as_tags(ground: Ground) -> None:
    WorkerOptions(tags=5)


@mistake(
    OptionError,
    "versions of 'checkout' must be a text such as '>=1.2,<2', got 1.2",
    before="AttributeError: 'float' object has no attribute 'split'",
)
def a_number_as_a_range_of_versions(ground: Ground) -> None:
    WorkerOptions(versions={"checkout": 1.2})


@mistake(
    OptionError,
    "behaviours must be (lowest, highest), from 1 on, got 2",
    before="TypeError: cannot unpack non-iterable int object",
)
def one_number_as_behaviours(ground: Ground) -> None:
    WorkerOptions(behaviours=2)


@mistake(DefinitionError, "has no name of its own", "name=...", before="the same")
def an_object_that_can_be_called_as_an_activity(ground: Ground) -> None:
    class Charge:
        def __call__(self, cents: int) -> int:
            return cents

    activity(Charge())


@mistake(UsageError, "signal 'go'", "cannot be")
def a_signal_of_a_type_that_cannot_be_stored(ground: Ground) -> None:
    _ = Signal("go", Opaque).codec


def flow_of() -> Any:
    @orchestration
    async def flow() -> int:
        return 1

    return flow
