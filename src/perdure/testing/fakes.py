"""What activities do in a trial, and which calls of them were made.

A fake stands in for the function alone: arguments and results are encoded and checked as ever, and
retries, timeouts and failures are the worker's. It runs on the loop, whatever the activity does.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast, overload

from perdure.authoring.activity import Activity, encode_result
from perdure.codec import Json
from perdure.errors import UsageError
from perdure.jobs.attempts import JobCode
from perdure.jobs.slots import JobRun
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.jobs import ClaimedJob, JobKey

P = ParamSpec("P")
R = TypeVar("R")

MAX_YIELDS = 8
"""How many passes of the loop a fake may wait before it answers, where the seed draws that."""


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call of an activity that was made: by which instance, with what. One for each attempt."""

    instance_id: str
    arguments: Mapping[str, Json]
    """By parameter, as the activity gets them. Those that were left out are not there."""
    attempt: int
    """Which try of the call it is, from 1."""
    idempotency_key: str = ""
    """Equal in all attempts of a call and unlike any other call's."""


class Fake(Generic[P, R]):
    """What an activity does in a test. In two steps, so that a checker compares it with the
    activity's own types."""

    def __init__(self, activity: Activity[P, R]) -> None:
        self._activity = activity
        self._errors: list[Exception] = []
        self._values: list[R] = []
        self._fn: Callable[..., Any] | None = None
        self._taken: dict[tuple[JobKey, int], Callable[..., Any] | None] = {}
        """What attempts were given. One that is repeated because its worker died is given the same
        again."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> None: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> None: ...
    def __call__(self, fn: Any, /) -> None:
        """Have a function called instead, async or not. It takes no `ctx`: what that has is in
        `activity_context()`.

        Raises:
            UsageError: It cannot take the activity's arguments.
        """
        self._fn, self._values = _callable_as(self._activity, fn), []

    def returns(self, *values: R) -> Self:
        """Return these, one for each call; the last one for ever.

        Raises:
            UsageError: There is none.
            PayloadError: One is not what the activity returns, or cannot be stored.
        """
        if not values:
            raise UsageError(f"fake({self._activity.name}).returns() needs a value")
        for value in values:
            encode_result(self._activity, value)
        self._values, self._fn = list(values), None
        return self

    def raises(self, *errors: Exception) -> Self:
        """Raise these first, one for each attempt; then do what the fake says otherwise, or what
        the activity itself does.

        Raises:
            UsageError: One is not an exception.
        """
        for error in errors:
            if not isinstance(error, Exception):
                raise UsageError(
                    f"fake({self._activity.name}).raises(...) takes exceptions such as "
                    f"TimeoutError(), got {error!r}"
                )
        self._errors = list(errors)
        return self

    def take(self, job: ClaimedJob) -> Callable[..., Any] | None:
        """Return what an attempt calls; None: the activity's own function."""
        attempt = (job.key, job.failures.count)
        if attempt not in self._taken:
            self._taken[attempt] = self._next()
        return self._taken[attempt]

    def _next(self) -> Callable[..., Any] | None:
        if self._errors:
            return _raiser(self._errors.pop(0))
        if self._values:
            value = self._values.pop(0) if len(self._values) > 1 else self._values[0]
            return lambda *_, **__: value
        return self._fn


class Fakes:
    """The fakes of a trial and the calls that were made in it."""

    def __init__(
        self, known: Mapping[str, Activity[..., Any]], chance: random.Random | None
    ) -> None:
        """Begin without fakes.

        Args:
            known: The activities that were handed over, by name.
            chance: Draws the order in which fakes answer; None: that of their calls.
        """
        self._known = known
        self._chance = chance
        self._fakes: dict[str, Fake[..., Any]] = {}
        self._calls: dict[str, list[CallMade]] = {}

    def fake(self, activity: Activity[P, R]) -> Fake[P, R]:
        """Return the fake of an activity, the same at every call."""
        self._checked("fake", activity)
        made: Fake[P, R] = Fake(activity)
        self._fakes.setdefault(activity.name, made)
        # The one under this name is of this activity, and so of its types.
        return cast(Fake[P, R], self._fakes[activity.name])

    def calls(self, activity: Activity[..., Any]) -> list[CallMade]:
        """Return the calls of an activity so far."""
        return list(self._calls.get(self._checked("calls", activity).name, ()))

    def all_calls(self) -> dict[str, list[CallMade]]:
        """Return all calls so far, by activity."""
        return self._calls

    def stand_in(self, run: JobRun) -> JobCode | None:
        """Put a call on record; return what is called instead of the activity, if it is faked."""
        work, name = run.work, run.job.queue.name
        if work is None or name.startswith(RESERVED_PREFIX):
            return None
        activity = self._known[name]
        arguments = _by_name(activity, work, run.job.input)
        key = run.job.key
        made = CallMade(key.instance_id, arguments, run.job.attempt, key.idempotency_key)
        self._calls.setdefault(name, []).append(made)
        fake = self._fakes.get(name)
        fn = None if fake is None else fake.take(run.job)
        if fn is None:
            return None
        passes = 0 if self._chance is None else self._chance.randrange(MAX_YIELDS)
        return work._replace(fn=_on_loop(fn, passes), takes_context=False, takes_connection=False)

    def _checked(self, method: str, activity: Any) -> Activity[..., Any]:
        if not isinstance(activity, Activity):
            raise UsageError(
                f"trial.{method}(...) takes a function made with @activity, got {activity!r}"
            )
        known = self._known.get(activity.name)
        if known is None or known.definition is not activity.definition:
            names = ", ".join(sorted(self._known)) or "none"
            raise UsageError(
                f"activity {activity.name!r} was not handed to this trial (activities there: "
                f"{names}): add it to Trial([...])"
            )
        return activity


def _raiser(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        # As a new one: each attempt has a traceback of its own.
        raise error.with_traceback(None)

    return fail


def _on_loop(fn: Callable[..., Any], passes: int) -> Callable[..., Awaitable[Any]]:
    async def answer(*args: Any, **kwargs: Any) -> Any:
        for _ in range(passes):
            await asyncio.sleep(0)
        value = fn(*args, **kwargs)
        return await value if inspect.isawaitable(value) else value

    return answer


def _by_name(activity: Activity[..., Any], work: JobCode, input: bytes) -> Mapping[str, Json]:
    args, kwargs = work.decode(input)
    return {**dict(zip(_parameters(activity), args, strict=False)), **kwargs}


def _parameters(activity: Activity[..., Any]) -> Mapping[str, inspect.Parameter]:
    definition = activity.definition
    is_first_ours = definition.takes_context or definition.takes_connection
    parameters = list(inspect.signature(activity.fn).parameters.values())
    return {one.name: one for one in parameters[1 if is_first_ours else 0 :]}


def _by_position(activity: Activity[..., Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is called with arguments by position where the activity's own could
    be: a fake may name its parameters as it likes."""
    parameters = _parameters(activity)
    positional = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]

    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for name in positional[len(given) :]:
            if name not in kwargs:
                break
            given.append(kwargs.pop(name))
        return fn(*given, **kwargs)

    return call


def _callable_as(activity: Activity[..., Any], fn: Any) -> Callable[..., Any]:
    """Return a function that can be called as the activity is.

    Raises:
        UsageError: It cannot: its failures would look like those of the activity.
    """
    if not callable(fn):
        raise UsageError(f"fake({activity.name})(...) takes a function, got {fn!r}")
    wanted = list(_parameters(activity).values())
    first = [None for one in wanted if one.kind is one.POSITIONAL_ONLY]
    either = [one.name for one in wanted if one.kind is one.POSITIONAL_OR_KEYWORD]
    named = {one.name: None for one in wanted if one.kind is one.KEYWORD_ONLY}
    try:
        signature = inspect.signature(fn)
    except ValueError:
        return _by_position(activity, fn)  # C code that does not tell.
    try:
        signature.bind(*first, *(None for _ in either), **named)
        return _by_position(activity, fn)
    except TypeError as error:
        problem = error
    try:
        signature.bind(*first, **dict.fromkeys(either), **named)
    except TypeError:
        shown = ", ".join(map(str, wanted))
        raise UsageError(
            f"the fake of {activity.name} cannot be called as {activity.name}({shown}): {problem}"
        ) from None
    checked: Callable[..., Any] = fn
    return checked
