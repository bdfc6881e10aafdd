"""Orchestrations: async functions that are replayed from their history."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar, overload

from perdure.authoring.call import Call
from perdure.authoring.definition import (
    DefinedFunction,
    Definition,
    check_function,
    function_name,
    unchangeable,
)
from perdure.authoring.scope import ChildRequest, ContinueRequest, Place, current_scope
from perdure.clock import to_ms
from perdure.codec import check_id
from perdure.durations import Duration, as_duration
from perdure.errors import DefinitionError, OptionError, UsageError
from perdure.limits import MAX_VERSION_CHARS
from perdure.model.option_types import check_choice
from perdure.model.options import UNSET, IfExists, ParentClose, Unset
from perdure.model.versions import is_version

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from perdure.authoring.context import Context

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

DEFAULT_VERSION = "1.0.0"

OPEN_VERSION = ""
"""The version of an orchestration that is known by name only: the worker that begins it chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationOptions:
    """How an instance is started."""

    instance_id: str | None = None
    """The child's id; by default one is made from the parent's."""
    on_parent_close: ParentClose = "cancel"
    """What happens to a child when its parent ends first."""
    if_exists: IfExists = "join"
    """What a client's start does when the id exists: return the instance if definition and input
    are equal (*join*), always refuse (*fail*), replace one that has ended (*restart*), or terminate
    one that is live and then replace it (*terminate*)."""
    delay: timedelta | None = None
    """How long after the start its first turn may run; None: at once."""
    pins_version: bool = False
    """Whether the version was asked for: a continue-as-new then moves to that one."""

    def __post_init__(self) -> None:
        check_choice("on_parent_close", self.on_parent_close, ("cancel", "terminate", "abandon"))
        check_choice("if_exists", self.if_exists, ("join", "fail", "restart", "terminate"))
        if self.delay is None:
            return
        delay = as_duration("delay", self.delay)
        if delay < timedelta(0):
            raise OptionError(f"delay must not be negative, got {self.delay}")
        object.__setattr__(self, "delay", delay)

    @property
    def delay_ms(self) -> int:
        """The delay in milliseconds."""
        return 0 if self.delay is None else to_ms(self.delay)


@unchangeable
@dataclass(frozen=True, slots=True, repr=False)
class Orchestration(DefinedFunction, Generic[P, R_co]):
    """An async function, and how to run it durably."""

    definition: Definition
    version: str
    options: OrchestrationOptions

    def __repr__(self) -> str:
        named = " ".join(filter(None, (self.name, self.version)))
        return f"<orchestration {named}>"

    @property
    def fn(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The function itself."""
        return self.definition.fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, None, R_co]:
        """Start a child and wait for it, inside an orchestration. Anywhere else this is refused."""
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"{self.name}(...) was called outside an orchestration, where nothing makes it "
                f"durable: use client.start({self.name}, ...) or run({self.name}, ...), or "
                f"{self.name}.fn(...) for the plain function"
            )
        frame = sys._getframe(1)
        codec = self.definition.codec
        return Call(
            scope,
            ChildRequest(
                label=self.name,
                place=Place(frame.f_code, frame.f_lasti),
                version=self.version,
                instance_id=self.options.instance_id,
                input=codec.encode(args, kwargs),
                on_parent_close=self.options.on_parent_close,
                decode=codec.returns.decode,
                same_input=codec.same,
                delay_ms=self.options.delay_ms,
            ),
        )

    def continue_as_new(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """End this execution of the instance and begin the next one with these arguments.

        For an orchestration that never ends: the next one has a history of its own. It keeps the
        instance's id, parent, values under keys, report and the signals that were not received yet.
        Open calls and timers are dropped, children are closed by their `on_parent_close`. `finally`
        blocks run first. The next execution runs on the version that the worker prefers (the
        latest, as a rule), or on one that is asked for with `with_options(version=...)`.

        Works in the orchestration's own task only, by an exception that `except Exception` does not
        catch.

        Raises:
            UsageError: Called outside an orchestration, in another one, or in a task of its own;
                or the arguments do not fit.
        """
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"{self.name}.continue_as_new(...) works only inside the orchestration "
                f"{self.name!r}; to begin one use client.start({self.name}, ...)"
            )
        frame = sys._getframe(1)
        codec = self.definition.codec
        scope.continue_as_new(
            ContinueRequest(
                label=self.name,
                place=Place(frame.f_code, frame.f_lasti),
                version=self.version if self.options.pins_version else None,
                input=codec.encode(args, kwargs),
                same_input=codec.same,
            )
        )

    def with_options(
        self,
        *,
        instance_id: str | Unset = UNSET,
        version: str | Unset = UNSET,
        delay: Duration | Unset | None = UNSET,
        on_parent_close: ParentClose | Unset = UNSET,
        if_exists: IfExists | Unset = UNSET,
    ) -> Orchestration[P, R_co]:
        """Return the same orchestration with other options; left out means as before."""
        options = self.options
        if not isinstance(instance_id, Unset):
            options = replace(options, instance_id=check_id("instance id", instance_id))
        if not isinstance(on_parent_close, Unset):
            options = replace(options, on_parent_close=on_parent_close)
        if not isinstance(if_exists, Unset):
            options = replace(options, if_exists=if_exists)
        if not isinstance(delay, Unset):
            given: Any = delay
            options = replace(options, delay=given)
        if isinstance(version, Unset):
            return replace(self, options=options)
        options = replace(options, pins_version=True)
        return replace(self, version=_check_version(self.name, version), options=options)

    @staticmethod
    def named(name: str, returns: TypeForm[T], /) -> Orchestration[..., T]:
        """Return an orchestration that another program defines, by its name and result type.

        Its version is open: the worker that begins an instance chooses by its policy, the latest it
        has if nothing else was said. `with_options(version=...)` names one.
        """

        async def elsewhere(*args: Any, **kwargs: Any) -> Any:
            raise UsageError(f"{name!r} is known here by name only; a worker elsewhere runs it")

        return Orchestration(
            definition=Definition("orchestration", elsewhere, name, "", returns=returns),
            version=OPEN_VERSION,
            options=OrchestrationOptions(),
        )


class _TakesContext(Protocol[P, R_co]):
    def __call__(
        self, ctx: Context, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R_co]: ...


class OrchestrationDecorator(Protocol):
    """What `@orchestration(...)` returns."""

    @overload
    def __call__(self, fn: _TakesContext[P, R], /) -> Orchestration[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Orchestration[P, R]: ...


@overload
def orchestration(fn: _TakesContext[P, R], /) -> Orchestration[P, R]: ...
@overload
def orchestration(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Orchestration[P, R]: ...
@overload
def orchestration(
    *, name: str | None = None, version: str = DEFAULT_VERSION
) -> OrchestrationDecorator: ...
def orchestration(
    fn: Any = None, /, *, name: str | None = None, version: str = DEFAULT_VERSION
) -> Any:
    """Make an async function an orchestration. Registers nothing: hand it to a worker.

    Args:
        fn: The async function.
        name: What it is recorded under; the function's own name if not given.
        version: Recorded with every instance, which stays on it.
    """

    def wrap(function: Callable[..., Any]) -> Orchestration[..., Any]:
        check_function("orchestration", function)
        own_name = name if name is not None else function_name("orchestration", function)
        return _make(function, own_name, version)

    return wrap if fn is None else wrap(fn)


def _make(fn: Callable[..., Any], name: str, version: str) -> Orchestration[..., Any]:
    if not inspect.iscoroutinefunction(fn):
        code = getattr(fn, "__code__", None)
        where = (
            "" if code is None else f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
        )
        raise DefinitionError(
            f"orchestration {name!r} must be an async function{where}: write `async def {name}"
            "(...)`, and await what it calls"
        )
    return Orchestration(
        definition=Definition("orchestration", fn, name, "Context"),
        version=_check_version(name, version),
        options=OrchestrationOptions(),
    )


def _check_version(name: str, version: str) -> str:
    if not isinstance(version, str) or not is_version(version):
        raise DefinitionError(
            f"version {version!r} of {name!r} is not a semantic version such as '1.0.0', "
            f"of at most {MAX_VERSION_CHARS} characters"
        )
    return version
