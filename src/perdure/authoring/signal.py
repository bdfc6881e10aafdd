"""Signals: named, typed values sent to an orchestration. Buffered, in order, never dropped."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from perdure.authoring.call import Call
from perdure.authoring.scope import Place, SignalRequest, current_scope
from perdure.codec import ValueCodec, check_id
from perdure.errors import InvalidIdError, UsageError
from perdure.model.promises import SIGNAL_PREFIX
from perdure.model.updates import UPDATE_PREFIX

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


_RESERVED = (
    f"begins with {UPDATE_PREFIX!r}, which is for updates: ask with "
    "handle.update(Update(name, ...), value), or use another name"
)


class Signal(Generic[T]):
    """A name and a type, shared by sender and receiver.

    Signals that come before the code waits, or before the instance is started, are kept. Each one
    is received once, in the order of arrival.
    """

    # Invariant in T on purpose: with a covariant T, send(Signal[bool], "yes") would pass.

    @overload
    def __init__(self, name: str, type: type[T], /) -> None: ...
    @overload
    def __init__(self, name: str, type: TypeForm[T], /) -> None: ...
    def __init__(self, name: str, type: Any, /) -> None:
        self.name = check_id("signal name", name)
        if name.startswith(SIGNAL_PREFIX):
            raise UsageError(
                f"signal name {name!r}: names that begin with {SIGNAL_PREFIX!r} are those of "
                "promises, which are kept with client.resolve(promise, token, value)"
            )
        if name.startswith(UPDATE_PREFIX):
            raise InvalidIdError("signal name", name, _RESERVED)
        self.type = type

    @cached_property
    def codec(self) -> ValueCodec[T]:
        """How its values are stored."""
        return ValueCodec(self.type, where=f"signal {self.name!r}")

    if not TYPE_CHECKING:  # A checker refuses it by itself, and would not with this.

        def __await__(self) -> NoReturn:
            raise UsageError(f"{self!r} is not awaited itself: write `await signal.receive()`")

    def receive(self) -> Coroutine[object, None, T]:
        """Wait for the next value, inside an orchestration."""
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"signal {self.name!r} can be received only inside an orchestration; "
                "to send it use handle.send(signal, value)"
            )
        # `async for` asks through __anext__; the user's line is one further out.
        is_loop = sys._getframe(1).f_code is _Values.__anext__.__code__
        frame = sys._getframe(2 if is_loop else 1)
        place = Place(frame.f_code, frame.f_lasti)
        return Call(scope, SignalRequest(self.name, place, self.codec.decode))

    def __aiter__(self) -> AsyncIterator[T]:
        return _Values(self)

    def __repr__(self) -> str:
        return f"Signal({self.name!r}, {self.type!r})"


class _Values(AsyncIterator[T]):
    """The endless values of a signal, for `async for`."""

    def __init__(self, signal: Signal[T]) -> None:
        self._signal = signal

    def __anext__(self) -> Coroutine[object, None, T]:
        return self._signal.receive()
