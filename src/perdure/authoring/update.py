"""Updates: requests that an orchestration takes, in order with its signals, and answers once.

A request lies in a signal under a reserved name. Taking it is recorded as taking a signal is, and
its answer or refusal is an event of its own; the caller hears it when that is committed.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from perdure.authoring.call import Call
from perdure.authoring.scope import Place, Scope, SignalRequest, current_scope, refuse_elsewhere
from perdure.codec import ValueCodec, check_id, check_text
from perdure.durations import Duration, as_duration
from perdure.errors import (
    PayloadError,
    RefusedError,
    UpdateRefusedError,
    UpdateUnansweredError,
    UsageError,
)
from perdure.model.histories.events import UpdateAnswered
from perdure.model.options import UNSET, Unset
from perdure.model.updates import UPDATE_PREFIX, UpdateBody, UpdateOutcome

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
A = TypeVar("A")
T_co = TypeVar("T_co", covariant=True)
A_co = TypeVar("A_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)


class UpdateOptions(NamedTuple):
    """How a caller asks."""

    update_id: str | None = None
    timeout: timedelta | None = None


class AskedUpdate(Generic[T, A_co]):
    """An update as its callers see it: what it asks exactly, and an answer that may be taken for
    something wider. So `print(await handle.update(...))` has a type."""

    name: str
    asks: Any
    answers: Any
    options: UpdateOptions

    @cached_property
    def asks_codec(self) -> ValueCodec[T]:
        """How what is asked is stored."""
        return ValueCodec(self.asks, where=f"update {self.name!r}")

    @cached_property
    def answers_codec(self) -> ValueCodec[A_co]:
        """How the answer is stored."""
        return ValueCodec(self.answers, where=f"answer to update {self.name!r}")


class Update(AskedUpdate[T, A], Generic[T, A]):
    """A name, what is asked and what the answer is, shared by caller and orchestration.

    A request that comes before the code takes one is kept. Each is taken once, in the order of
    arrival with all signals, and answered or refused once: given again under its id, it gets the
    same outcome.
    """

    # Invariant in both on purpose: with a covariant T, update(Update[bool, A], "yes") would pass.

    @overload
    def __init__(self, name: str, asks: type[T], answers: type[A], /) -> None: ...
    @overload
    def __init__(self, name: str, asks: TypeForm[T], answers: type[A], /) -> None: ...
    @overload
    def __init__(self, name: str, asks: type[T], answers: TypeForm[A], /) -> None: ...
    @overload
    def __init__(self, name: str, asks: TypeForm[T], answers: TypeForm[A], /) -> None: ...
    def __init__(self, name: str, asks: Any, answers: Any, /) -> None:
        self.name = check_id("update name", name)
        self.asks = asks
        self.answers = answers
        self.options = UpdateOptions()

    def receive(self) -> Coroutine[object, None, Request[T, A]]:
        """Take the next request, inside an orchestration.

        One whose value is not of the type is refused, and the next one waited for.
        """
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"update {self.name!r} can be received only inside an orchestration; to ask use "
                "handle.update(update, value)"
            )
        # `async for` asks through __anext__; the user's line is one further out.
        is_loop = sys._getframe(1).f_code is _Requests.__anext__.__code__
        frame = sys._getframe(2 if is_loop else 1)
        place = Place(frame.f_code, frame.f_lasti)
        decode = partial(_request, self, scope)
        return _Receiving(scope, SignalRequest(f"{UPDATE_PREFIX}{self.name}", place, decode))

    def __aiter__(self) -> AsyncIterator[Request[T, A]]:
        return _Requests(self)

    @overload
    def served_by(
        self, handler: Callable[[T], Coroutine[Any, Any, A]], /
    ) -> AbstractAsyncContextManager[None]: ...
    @overload
    def served_by(self, handler: Callable[[T], A], /) -> AbstractAsyncContextManager[None]: ...
    def served_by(self, handler: Callable[[T], Any], /) -> AbstractAsyncContextManager[None]:
        """Answer requests one after another while an `async with` block runs.

        What the handler returns is the answer; `RefusedError` refuses. Any other exception leaves
        the block, so that a bug is not swallowed. Leaving the block takes no more requests and
        finishes the one in hand, unless the block was cancelled.
        """
        if not callable(handler):
            raise UsageError(
                f"update {self.name!r} cannot be served by {handler!r}: hand over a function that "
                "takes what is asked and returns the answer"
            )
        return _Served(self, handler)

    def with_options(
        self, *, update_id: str | Unset = UNSET, timeout: Duration | Unset | None = UNSET
    ) -> Update[T, A]:
        """Return the same update, asked under an id or for so long; this one stays as it is."""
        chosen, limit = self.options
        if not isinstance(update_id, Unset):
            chosen = check_id("update id", update_id)
        if not isinstance(timeout, Unset):
            limit = None if timeout is None else as_duration("timeout", timeout)
        changed: Update[T, A] = Update(self.name, self.asks, self.answers)
        changed.options = UpdateOptions(chosen, limit)
        return changed

    def __repr__(self) -> str:
        return f"Update({self.name!r}, {self.asks!r}, {self.answers!r})"


class Request(Generic[T_co, A_contra]):
    """One update in the hands of the orchestration. It is answered or refused once."""

    __slots__ = ("_codec", "_name", "_scope", "_value", "problem", "update_id")

    update_id: str
    """Its id, by which it is answered once."""

    def __init__(
        self, scope: Scope, update: Update[Any, Any], update_id: str, value: Any, problem: str
    ) -> None:
        self.update_id = update_id
        self.problem = problem
        """Why its value cannot be used; empty: it can. Such a request never reaches the code."""
        self._scope = scope
        self._name = update.name
        self._codec: ValueCodec[Any] = update.answers_codec
        self._value = value

    @property
    def value(self) -> T_co:
        """What is asked."""
        found: T_co = self._value
        return found

    def answer(self, value: A_contra, /) -> None:
        """Answer. Recorded with the turn; the caller hears it when that is committed.

        Raises:
            UsageError: It was answered or refused before.
            PayloadError: The value is not of the type of the answer.
        """
        data = self._codec.encode(value, f"answer to update {self._name!r}")
        self._note(UpdateAnswered(update_id=self.update_id, answer=msgspec.Raw(data)))

    def refuse(self, reason: str, /) -> None:
        """Refuse, and say why: the caller gets an `UpdateRefusedError` with these words.

        Raises:
            UsageError: It was answered or refused before.
        """
        said = check_text("reason", reason)
        self._note(UpdateAnswered(update_id=self.update_id, refusal=said))

    def __repr__(self) -> str:
        return f"<request {self.update_id!r} of update {self._name!r}>"

    def _note(self, event: UpdateAnswered) -> None:
        refuse_elsewhere(self._scope, f"a request of update {self._name!r}")
        self._scope.note(event)


def _request(update: Update[T, A], scope: Scope, data: bytes) -> Request[T, A]:
    """Return a request that was taken."""
    body = msgspec.json.decode(data, type=UpdateBody)
    value, problem = None, ""
    try:
        value = update.asks_codec.decode(bytes(body.value))
    except PayloadError as error:
        problem = str(error)
    return Request(scope, update, body.id, value, problem)


def answer_of(outcome: UpdateOutcome, instance_id: str, name: str, update_id: str) -> bytes:
    """Return the answer to an update as JSON, or raise what else it came to.

    Raises:
        UpdateRefusedError, UpdateUnansweredError: It has none.
    """
    match outcome.outcome:
        case "answered":
            return bytes(outcome.answer)
        case "refused":
            raise UpdateRefusedError(instance_id, name, update_id, outcome.reason)
        case "unanswered":
            raise UpdateUnansweredError(instance_id, name, update_id, outcome.reason)


class _Receiving(Call[Any]):
    """The wait for a request that can be used. What cannot be is refused on the way."""

    __slots__ = ("is_last",)

    def __init__(self, scope: Scope, request: SignalRequest) -> None:
        super().__init__(scope, request)
        self.is_last = False
        """Whether no other request is to be waited for when one was refused."""

    def send(self, value: None, /) -> object:
        """Ask; refuse what is not of the type, and ask again."""
        while True:
            try:
                return super().send(value)
            except StopIteration as done:
                request: Request[Any, Any] = done.value
                if not request.problem:
                    raise
            request.refuse(request.problem)
            if self.is_last:
                raise asyncio.CancelledError
            self._pending = None
            self._closed = False

    @property
    def has_request(self) -> bool:
        """Whether there is a request that the code has not seen yet."""
        return self._pending is not None and not self._closed and self._pending.future.done()


class _Requests(AsyncIterator[Any], Generic[T, A]):
    """The endless requests of an update, for `async for`."""

    def __init__(self, update: Update[T, A]) -> None:
        self._update = update

    def __anext__(self) -> Coroutine[object, None, Request[T, A]]:
        return self._update.receive()


class _Served(AbstractAsyncContextManager[None]):
    """Answers the requests of one update while a block runs."""

    def __init__(self, update: Update[Any, Any], handler: Callable[[Any], Any]) -> None:
        self._update = update
        self._handler = handler
        self._task: asyncio.Task[None] | None = None
        self._block: asyncio.Task[Any] | None = None
        self._wait: _Receiving | None = None
        self._is_leaving = False
        self._has_interrupted = False

    async def __aenter__(self) -> None:
        if current_scope() is None:
            raise UsageError(
                f"update {self._update.name!r} can be served only inside an orchestration"
            )
        self._block = asyncio.current_task()
        self._task = asyncio.create_task(self._serve())
        self._task.add_done_callback(self._served)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._is_leaving = True
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if is_cancelled or not self._has_one_in_hand():
            self._task.cancel()
        elif self._wait is not None:
            self._wait.is_last = True
        await self._finish(self._task)
        if self._task.cancelled():
            return
        failure = self._task.exception()
        if failure is None:
            return
        if self._has_interrupted:
            assert self._block is not None
            if self._block.uncancel() > 0:
                return  # Another request to stop came as well, and goes first.
        raise failure

    def _has_one_in_hand(self) -> bool:
        """Return whether a request was taken that the handler has not answered yet."""
        return self._wait is None or self._wait.has_request

    async def _finish(self, task: asyncio.Task[None]) -> None:
        try:
            while not task.done():
                await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            while not task.done():
                await asyncio.wait([task])
            raise

    async def _serve(self) -> None:
        while not self._is_leaving:
            receiving: Any = self._update.receive()
            self._wait = receiving
            request: Request[Any, Any] = await receiving
            self._wait = None
            await self._answer(request)

    async def _answer(self, request: Request[Any, Any]) -> None:
        try:
            answer = self._handler(request.value)
            if inspect.isawaitable(answer):
                answer = await answer
        except RefusedError as error:
            request.refuse(error.reason)
        else:
            request.answer(answer)

    def _served(self, task: asyncio.Task[None]) -> None:
        """Leave the block when the handler failed."""
        if task.cancelled() or task.exception() is None or self._is_leaving:
            return
        assert self._block is not None
        self._has_interrupted = self._block.cancel()
