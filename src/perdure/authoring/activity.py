"""Activities: functions with side effects that a worker runs at least once per call."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from perdure.authoring.activity_context import ActivityContext, activity_context
from perdure.authoring.call import Call
from perdure.authoring.definition import (
    DefinedFunction,
    Definition,
    check_function,
    function_name,
    unchangeable,
)
from perdure.authoring.failures import revive_activity_error
from perdure.authoring.scope import ActivityRequest, Place, current_scope
from perdure.clock import to_ms
from perdure.codec import check_id
from perdure.durations import Duration, as_positive
from perdure.errors import DefinitionError, OptionError, UsageError
from perdure.model.histories.events import ActivityFailed
from perdure.model.options import (
    EFFECT_RETRY,
    UNSET,
    Retry,
    Unset,
    check_exceptions,
    job_policy,
)

if TYPE_CHECKING:
    from typing_extensions import TypeForm

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOptions:
    """How calls of an activity are queued and retried."""

    retry: Retry | Unset | None = UNSET
    """When to try again after a failure; None: fail at the first one. Left out: the call of an
    orchestration fails at the first one, an effect is retried by `EFFECT_RETRY`."""
    timeout: timedelta | None = None
    """How long one attempt may take."""
    deadline: timedelta | None = None
    """How long the call may take in all, waiting and retries included."""
    start_within: timedelta | None = None
    """How long the call may wait until a worker takes it for the first time."""
    tag: str | None = None
    """Only workers that serve this tag run it."""
    session: str | None = None
    """All calls of one session run on one worker."""

    def __post_init__(self) -> None:
        if not isinstance(self.retry, Retry | Unset | None):
            number = f"max_attempts={self.retry}" if isinstance(self.retry, int) else "..."
            raise OptionError(
                f"retry must be a Retry, or None for never, got {self.retry!r}; say "
                f"retry=Retry({number})"
            )
        for name in ("timeout", "deadline", "start_within"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, as_positive(name, value))
        for name in ("tag", "session"):
            value = getattr(self, name)
            if value is not None:
                check_id(name, value)


def activity_options(
    *,
    retry: Retry | Unset | None,
    timeout: Duration | None,
    deadline: Duration | None,
    start_within: Duration | None,
    tag: str | None,
    session: str | None = None,
) -> ActivityOptions:
    """Return options as they were given, where lengths of time may be numbers of seconds.

    Raises:
        OptionError: One cannot be.
    """
    given: Any = (timeout, deadline, start_within)
    return ActivityOptions(
        retry=retry,
        timeout=given[0],
        deadline=given[1],
        start_within=given[2],
        tag=tag,
        session=session,
    )


@unchangeable
@dataclass(frozen=True, slots=True, repr=False)
class Activity(DefinedFunction, Generic[P, R_co]):
    """A function with side effects, and how to call it durably."""

    definition: Definition
    options: ActivityOptions
    process: bool
    raises: tuple[type[Exception], ...]
    policy: bytes = field(init=False)
    """What the job of a call keeps of the options."""
    effect_policy: bytes = field(init=False)
    """The same for an effect."""

    def __post_init__(self) -> None:
        for name, by_default in (("policy", None), ("effect_policy", EFFECT_RETRY)):
            object.__setattr__(self, name, _policy_of(self.options, by_default))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, None, R_co]:
        """Bind, encode and check the arguments now; run when awaited.

        Inside an orchestration the run is durable. Anywhere else it is a plain call of the
        function, in a thread if it is not async.
        """
        scope = current_scope()
        if scope is None:
            return self._run_plainly(args, kwargs)
        frame = sys._getframe(1)
        codec = self.definition.codec
        deadline, start_within = self.options.deadline, self.options.start_within
        return Call(
            scope,
            ActivityRequest(
                label=self.definition.name,
                place=Place(frame.f_code, frame.f_lasti),
                input=codec.encode(args, kwargs),
                tag=self.options.tag,
                session=self.options.session,
                deadline_ms=None if deadline is None else to_ms(deadline),
                start_within_ms=None if start_within is None else to_ms(start_within),
                policy=self.policy,
                decode=codec.returns.decode,
                same_input=codec.same,
                revive=self._revive,
            ),
        )

    def with_options(
        self,
        *,
        retry: Retry | Unset | None = UNSET,
        timeout: Duration | Unset | None = UNSET,
        deadline: Duration | Unset | None = UNSET,
        start_within: Duration | Unset | None = UNSET,
        tag: str | Unset | None = UNSET,
        session: str | Unset | None = UNSET,
    ) -> Activity[P, R_co]:
        """Return the same activity with other options. Left out: as before. None: none."""
        old = self.options
        options = activity_options(
            retry=old.retry if isinstance(retry, Unset) else retry,
            timeout=old.timeout if isinstance(timeout, Unset) else timeout,
            deadline=old.deadline if isinstance(deadline, Unset) else deadline,
            start_within=old.start_within if isinstance(start_within, Unset) else start_within,
            tag=old.tag if isinstance(tag, Unset) else tag,
            session=old.session if isinstance(session, Unset) else session,
        )
        return replace(self, options=options)

    @staticmethod
    def named(name: str, returns: TypeForm[T], /) -> Activity[..., T]:
        """Return an activity that another program defines, by its name and result type."""

        def elsewhere(*_: object, **__: object) -> Any:
            raise UsageError(f"{name!r} is known here by name only; a worker elsewhere runs it")

        return Activity(
            definition=Definition("activity", elsewhere, name, "", returns=returns),
            options=ActivityOptions(),
            process=False,
            raises=(),
        )

    def _revive(self, failed: ActivityFailed) -> BaseException:
        return revive_activity_error(self.name, failed, self.raises)

    async def _run_plainly(self, args: Any, kwargs: Any) -> R_co:
        if self.definition.takes_connection:
            raise UsageError(
                f"{self.name} is a transaction, and there is no worker here to bring it a "
                f"connection: hand one over with {self.name}.fn(connection, ...)"
            )
        if self.definition.takes_context:
            args = (activity_context(), *args)
        if inspect.iscoroutinefunction(self.fn):
            result: R_co = await self.fn(*args, **kwargs)
            return result
        return await asyncio.to_thread(self.fn, *args, **kwargs)


class _AsyncWithContext(Protocol[P, R_co]):
    def __call__(
        self, ctx: ActivityContext, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R_co]: ...


class _TakesActivityContext(Protocol[P, R_co]):
    def __call__(self, ctx: ActivityContext, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class ActivityDecorator(Protocol):
    """What `@activity(...)` returns."""

    @overload
    def __call__(self, fn: _AsyncWithContext[P, R], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: _TakesActivityContext[P, R], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Activity[P, R]: ...


@overload
def activity(fn: _AsyncWithContext[P, R], /) -> Activity[P, R]: ...
@overload
def activity(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
@overload
def activity(fn: _TakesActivityContext[P, R], /) -> Activity[P, R]: ...
@overload
def activity(fn: Callable[P, R], /) -> Activity[P, R]: ...
@overload
def activity(
    *,
    name: str | None = None,
    retry: Retry | Unset | None = UNSET,
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    start_within: Duration | None = None,
    tag: str | None = None,
    process: bool = False,
    raises: Sequence[type[Exception]] = (),
) -> ActivityDecorator: ...
def activity(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | Unset | None = UNSET,
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    start_within: Duration | None = None,
    tag: str | None = None,
    process: bool = False,
    raises: Sequence[type[Exception]] = (),
) -> Any:
    """Make a function an activity. Registers nothing: hand it to a worker.

    Args:
        fn: The function; async ones run on the worker's loop, others in a thread.
        name: What it is recorded under; the function's own name if not given.
        retry: When to try again, None for never. By default a call of an orchestration is not, and
            an effect of a decider is tried five times.
        timeout: How long one attempt may take, as a timedelta or in seconds.
        deadline: How long a call may take in all.
        start_within: How long a call may wait until a worker takes it for the first time.
        tag: Only workers that serve this tag run it.
        process: Run it in a process of its own, for work that keeps a core busy.
        raises: Exceptions that come back to the caller as themselves.
    """
    options = activity_options(
        retry=retry, timeout=timeout, deadline=deadline, start_within=start_within, tag=tag
    )
    check_exceptions("raises", raises)

    def wrap(function: Callable[..., Any]) -> Activity[..., Any]:
        check_function("activity", function)
        own_name = name if name is not None else function_name("activity", function)
        return make_activity(function, own_name, options, process=process, raises=tuple(raises))

    return wrap if fn is None else wrap(fn)


def make_activity(
    fn: Callable[..., Any],
    name: str,
    options: ActivityOptions,
    *,
    process: bool = False,
    takes_connection: bool = False,
    raises: tuple[type[Exception], ...] = (),
) -> Activity[..., Any]:
    """Return the activity that a decorator stands for."""
    if process and inspect.iscoroutinefunction(fn):
        raise DefinitionError(f"activity {name!r} is async: process=True is for plain functions")
    return Activity(
        definition=Definition(
            "activity", fn, name, "ActivityContext", takes_connection=takes_connection
        ),
        options=options,
        process=process,
        raises=raises,
    )


def _policy_of(options: ActivityOptions, by_default: Retry | None) -> bytes:
    retry = by_default if isinstance(options.retry, Unset) else options.retry
    return job_policy(retry, options.timeout, options.deadline)


def encode_result(activity: Activity[..., Any], value: object) -> bytes:
    """Return what an activity returned as it is stored."""
    return activity.definition.codec.returns.encode(value, f"result of {activity.name}")
