"""`inline`: any callable, run outside the turn by the worker that has the orchestration, recorded.

For small things that are not worth a definition. A worker that takes the instance over runs the
callable again if its result was not recorded; it gets it from the replayed code, so nothing but the
arguments and the result is stored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, overload

from perdure.authoring.call import Call
from perdure.authoring.definition import function_name
from perdure.authoring.failures import revive_activity_error
from perdure.authoring.scope import InlineRequest, Place, current_scope
from perdure.codec import ArgumentsCodec, ValueCodec, check_id
from perdure.errors import UsageError
from perdure.model.options import job_policy

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_POLICY = job_policy(None, None)


@overload
def inline(
    fn: Callable[[*Ts], Coroutine[Any, Any, T]], /, *args: *Ts, name: str | None = None
) -> Coroutine[object, None, T]: ...
@overload
def inline(
    fn: Callable[[*Ts], T], /, *args: *Ts, name: str | None = None
) -> Coroutine[object, None, T]: ...
@overload
def inline(
    fn: Callable[[*Ts], Any], /, *args: *Ts, name: str | None = None, returns: TypeForm[T]
) -> Coroutine[object, None, T]: ...
def inline(
    fn: Callable[[*Ts], Any], /, *args: *Ts, name: str | None = None, returns: Any = None
) -> Coroutine[object, None, Any]:
    """Run a callable with its arguments outside the turn, and record what it returns.

    Args:
        fn: What to run: async on the worker's loop, anything else in a thread. At least once.
        args: Its arguments; recorded and compared at replay.
        name: What it is recorded under. A lambda needs one; others have their own.
        returns: The type to decode the result by, where the annotation of `fn` does not say it.
    """
    scope = current_scope()
    if scope is None:
        raise UsageError("inline(...) works only inside an orchestration; just call the function")
    frame = sys._getframe(1)
    label = check_id("inline name", name if name is not None else function_name("inline call", fn))
    where = f"inline {label!r}"
    arguments = ArgumentsCodec(fn, where=where)
    value = arguments.returns if returns is None else ValueCodec(returns, where=where)
    return Call(
        scope,
        InlineRequest(
            label=label,
            place=Place(frame.f_code, frame.f_lasti),
            input=arguments.encode(args, {}),
            run=partial(fn, *args),
            encode=partial(value.encode, path=f"result of {label}"),
            decode=value.decode,
            same_input=arguments.same,
            policy=_POLICY,
            revive=partial(revive_activity_error, label, raises=()),
        ),
    )
