"""Promises: values that come once, from wherever the token was given to."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from perdure.authoring.call import Call
from perdure.authoring.scope import Place, Scope, SignalRequest, current_scope, refuse_elsewhere
from perdure.codec import ValueCodec, check_id
from perdure.errors import PromiseRejectedError, UsageError
from perdure.model.promises import PromiseId

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_NAME_BYTES = 100
"""A promise is a signal under a longer name, and names have a limit."""


class Promise(Generic[T]):
    """A signal that comes once, from the one who has the token.

    An orchestration makes one and gives its token away: in the address of a webhook, in a letter,
    to another program. Who has the token keeps the promise with `client.resolve(...)` or breaks it
    with `client.reject(...)`, once; the first one counts.
    """

    # Invariant in T on purpose, as Signal is.

    @overload
    def __init__(self, name: str, type: type[T], /) -> None: ...
    @overload
    def __init__(self, name: str, type: TypeForm[T], /) -> None: ...
    def __init__(self, name: str, type: Any, /) -> None:
        self.name = check_id("promise name", name)
        if len(name.encode()) > MAX_NAME_BYTES:
            raise UsageError(
                f"promise name {name[:20]!r}... has {len(name.encode())} bytes; allowed are "
                f"{MAX_NAME_BYTES}"
            )
        self.type = type

    @cached_property
    def codec(self) -> ValueCodec[T]:
        """How its values are stored."""
        return ValueCodec(self.type, where=f"promise {self.name!r}")

    def make(self) -> Made[T]:
        """Make one, inside an orchestration. Its token is on record with the turn."""
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"promise {self.name!r} can be made only inside an orchestration; to keep one use "
                "client.resolve(promise, token, value)"
            )
        promise, token = scope.make_promise(self.name)
        return Made(scope, promise, token, self.codec)

    def __repr__(self) -> str:
        return f"Promise({self.name!r}, {self.type!r})"


class Made(Generic[T_co]):
    """A promise that was made: its token is the right to keep it, once."""

    def __init__(
        self, scope: Scope, promise: PromiseId, token: str, codec: ValueCodec[Any]
    ) -> None:
        self._scope = scope
        self._promise = promise
        self._token = token
        self._codec = codec
        self._is_received = False

    @property
    def token(self) -> str:
        """What is given away: letters, digits, `-` and `_`, the same at every replay."""
        return self._token

    if not TYPE_CHECKING:  # A checker refuses it by itself, and would not with this.

        def __await__(self) -> NoReturn:
            raise UsageError(f"{self!r} is not awaited itself: write `await promise.receive()`")

    def receive(self) -> Coroutine[object, None, T_co]:
        """Wait for the value.

        Raises:
            PromiseRejectedError: It was rejected.
        """
        refuse_elsewhere(self._scope, f"promise {self._promise.name!r}")
        if self._is_received:
            raise UsageError(
                f"promise {self._promise.name!r} was received already, and comes once: keep its "
                "value in a variable"
            )
        frame = sys._getframe(1)
        place = Place(frame.f_code, frame.f_lasti)
        request = SignalRequest(self._promise.signal, place, self._decode, self._reject)
        return Call(self._scope, request)

    def _decode(self, data: bytes) -> T_co:
        self._is_received = True
        value: T_co = self._codec.decode(data)
        return value

    def _reject(self, reason: str) -> PromiseRejectedError:
        self._is_received = True
        return PromiseRejectedError(self._promise.name, reason)

    def __repr__(self) -> str:
        # Without the token: what is logged must not be a right.
        return f"<promise {self._promise.name!r} of {self._promise.instance_id!r}>"
