"""A durable call: what `charge(order)` returns inside an orchestration.

It is a coroutine object of our own class, so that everything in asyncio that takes a coroutine
takes it, and a *set* of calls (`as_completed` builds one) has the same order in every process: a
call hashes by its creation number within the execution. Nothing is asked for until it is awaited or
made a task; cancelling the task that awaits it cancels the call.
"""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from perdure.authoring.scope import AnyRequest, Pending, Scope

R = TypeVar("R")


class Call(Coroutine[object, None, R]):
    """One durable call, awaited at most once."""

    __slots__ = (
        "__name__",
        "__qualname__",
        "_begun",
        "_closed",
        "_number",
        "_pending",
        "_request",
        "_scope",
    )

    def __init__(self, scope: Scope, request: AnyRequest) -> None:
        self._scope = scope
        self._request = request
        self._pending: Pending | None = None
        # Counted here and not by a call: one is made for every call.
        self._number = scope.numbers = scope.numbers + 1
        self._begun = False
        self._closed = False
        self.__name__ = self.__qualname__ = request.label

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"<durable call {self._request.label} from {self._request.place}>"

    def send(self, value: None, /) -> object:
        """Ask when first driven; return the recorded result when there is one."""
        if self._closed:
            raise RuntimeError(
                f"{self._request.label}(...) from {self._request.place} was awaited before, and a "
                "call is awaited once: keep its value, or make a task of it, asyncio.create_task("
                f"{self._request.label}(...)), which can be awaited again and again"
            )
        pending = self._pending
        if pending is None:
            self._begun = True
            pending = self._pending = self._scope.ask(self._request)
        elif not pending.future.done():
            raise RuntimeError(f"{self!r} is being awaited already")
        future = pending.future
        if future.done():
            self._closed = True
            raise StopIteration(self._result(pending))
        # What asyncio's own Future.__await__ does; Task refuses a future yielded without it.
        future._asyncio_future_blocking = True
        return future

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
        /,
    ) -> object:
        """Give up the call and let the exception (a cancellation, most often) pass."""
        self._give_up()
        error = typ if isinstance(typ, BaseException) else val
        if not isinstance(error, BaseException):
            error = typ() if isinstance(typ, type) else RuntimeError(typ)
        raise error.with_traceback(tb) if tb is not None else error

    def _result(self, pending: Pending) -> R:
        try:
            result: R = pending.result()
        except StopIteration as error:
            # As in any coroutine: it would pass for a return.
            raise RuntimeError("coroutine raised StopIteration") from error
        return result

    def close(self) -> None:
        """Give up the call."""
        self._give_up()

    def _give_up(self) -> None:
        was_open, self._closed = not self._closed, True
        if was_open and self._pending is not None:
            self._scope.give_up(self._pending)

    def __await__(self) -> Iterator[Any]:  # type: ignore[override]  # an iterator is all it needs
        return self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> object:
        return self.send(None)

    def _refuse_use(self, *_: object) -> NoReturn:
        """Refuse to be used as the value that it will give."""
        label = self._request.label
        raise TypeError(
            f"{label}(...) at {self._request.place} was not awaited, so there is no value yet: "
            f"write `await {label}(...)`"
        )

    __bool__ = __len__ = __getitem__ = __contains__ = _refuse_use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse_use
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __neg__ = _refuse_use
    __lt__ = __le__ = __gt__ = __ge__ = __or__ = __and__ = _refuse_use
    __int__ = __float__ = __index__ = _refuse_use

    # What inspect and asyncio's debug output look at on a native coroutine.
    cr_await = cr_code = cr_frame = None
    cr_running = False

    def __del__(self) -> None:
        # While replaying it was said before; while torn down the code did not get so far.
        if not self._closed and not self._begun and not self._scope.is_replaying:
            said = f"call of {self._request.label!r} at {self._request.place} was never awaited"
            self._scope.lost += (said,)
            warnings.warn(said, RuntimeWarning, stacklevel=2)
