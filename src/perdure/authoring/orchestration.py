"""Orchestrations: async functions that are replayed from their history."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

from perdure.authoring.call import Call
from perdure.authoring.context import Context
from perdure.authoring.definition import Definition, function_name
from perdure.authoring.scope import ChildRequest, Place, current_scope
from perdure.codec import check_id
from perdure.errors import DefinitionError, UsageError
from perdure.model.options import UNSET, IfExists, ParentClose, Unset

if TYPE_CHECKING:
    from typing_extensions import TypeForm

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

DEFAULT_VERSION = "1.0.0"

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
)


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


@dataclass(frozen=True, slots=True)
class Orchestration(Generic[P, R_co]):
    """An async function, and how to run it durably."""

    definition: Definition
    version: str
    options: OrchestrationOptions

    @property
    def name(self) -> str:
        """The name it is recorded under."""
        return self.definition.name

    @property
    def fn(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The function itself."""
        return self.definition.fn

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is known here by name only."""
        return self.definition.is_elsewhere

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
            ),
        )

    def with_options(
        self,
        *,
        instance_id: str | Unset = UNSET,
        version: str | Unset = UNSET,
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
        chosen = self.version if isinstance(version, Unset) else _check_version(self.name, version)
        return replace(self, version=chosen, options=options)

    @staticmethod
    def named(name: str, returns: TypeForm[T], /) -> Orchestration[..., T]:
        """Return an orchestration that another program defines, by its name and result type."""

        async def elsewhere(*args: Any, **kwargs: Any) -> Any:
            raise UsageError(f"{name!r} is known here by name only; a worker elsewhere runs it")

        return Orchestration(
            definition=Definition("orchestration", elsewhere, name, "", returns=returns),
            version=DEFAULT_VERSION,
            options=OrchestrationOptions(),
        )


class _WithContext(Protocol[P, R_co]):
    def __call__(
        self, ctx: Context, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R_co]: ...


class OrchestrationDecorator(Protocol):
    """What `@orchestration(...)` returns."""

    @overload
    def __call__(self, fn: _WithContext[P, R], /) -> Orchestration[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Orchestration[P, R]: ...


@overload
def orchestration(fn: _WithContext[P, R], /) -> Orchestration[P, R]: ...
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
        own_name = name if name is not None else function_name("orchestration", function)
        return _make(function, own_name, version)

    return wrap if fn is None else wrap(fn)


def _make(fn: Callable[..., Any], name: str, version: str) -> Orchestration[..., Any]:
    if not inspect.iscoroutinefunction(fn):
        raise DefinitionError(f"orchestration {name!r} must be an async def, got {fn!r}")
    return Orchestration(
        definition=Definition("orchestration", fn, name, "Context"),
        version=_check_version(name, version),
        options=OrchestrationOptions(),
    )


def _check_version(name: str, version: str) -> str:
    if not _SEMVER.fullmatch(version):
        raise DefinitionError(
            f"version {version!r} of {name!r} is not a semantic version such as '1.0.0'"
        )
    return version
