"""The context of a running orchestration: who it is, what time it is, its own randomness, what it
keeps and says of itself, and its way to other instances."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Coroutine, Mapping, MutableMapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, overload
from uuid import UUID

import msgspec

from perdure.authoring.activity_context import current_activity
from perdure.authoring.call import Call
from perdure.authoring.deciders import decider_ref
from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_ref import DeciderRef
from perdure.authoring.deciders.decision import Accepted, AlreadyCompleted, Rejected
from perdure.authoring.kv import KV, encode_value
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.ref import InstanceRef, read_kv
from perdure.authoring.scope import DetachedRequest, Place, Scope, current_scope, refuse_elsewhere
from perdure.clock import from_datetime
from perdure.codec import JSON, Json, check_id
from perdure.errors import LimitExceededError, OptionError, UsageError
from perdure.limits import MAX_REPORT_BYTES
from perdure.model.histories.events import Parent, Reported
from perdure.model.histories.origins import Seed
from perdure.model.histories.slot import Slot, slot_of

if TYPE_CHECKING:
    from typing_extensions import TypeForm

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
E = TypeVar("E")
X = TypeVar("X")


_CALL = "an activity or a child is called by itself, as in `await charge(order)`"
_SIGNAL = "write `await signal.receive()`, with signal = Signal(name, type)"
_ASYNCIO = "asyncio itself is durable here: "
INSTEAD = {
    "sleep": f"{_ASYNCIO}write `await asyncio.sleep(seconds)`",
    "timer": f"{_ASYNCIO}write `await asyncio.sleep(seconds)`",
    "create_timer": f"{_ASYNCIO}write `await asyncio.sleep(seconds)`",
    "gather": f"{_ASYNCIO}write `await asyncio.gather(...)`",
    "task_all": f"{_ASYNCIO}write `await asyncio.gather(...)`",
    "task_any": "write `await race(...)`",
    **dict.fromkeys(("activity", "call_activity", "execute_activity", "run"), _CALL),
    **dict.fromkeys(("call_sub_orchestrator", "execute_child_workflow", "child"), _CALL),
    **dict.fromkeys(("signal", "receive", "wait_signal", "wait_for_external_event"), _SIGNAL),
    "continue_as_new": "write `checkout.continue_as_new(...)`, with the name of the orchestration",
    "set_custom_status": "write `ctx.report(value)`",
    "current_utc_datetime": "write `ctx.now()`",
}
"""What people look for on a context who know it from elsewhere, and what is written instead."""


class Context:
    """An orchestration's view of itself. Everything here is the same at every replay."""

    __slots__ = ("_kv", "_log", "_random", "_scope")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._random: random.Random | None = None
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._kv: KV | None = None

    if not TYPE_CHECKING:  # A checker refuses it by itself, and would not with this.

        def __getattr__(self, name: str) -> NoReturn:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(
                f"{said}: {INSTEAD[name]}" if name in INSTEAD else said, name=name, obj=self
            )

    @property
    def instance_id(self) -> str:
        """The instance's id."""
        return self._scope.instance_id

    @property
    def execution(self) -> int:
        """Which generation of the instance this is, from 1."""
        return self._scope.execution

    @property
    def name(self) -> str:
        """The orchestration's name."""
        return self._scope.name

    @property
    def version(self) -> str:
        """The version the instance was started with."""
        return self._scope.version

    @property
    def parent(self) -> Parent | None:
        """The call that this instance answers to, if it is a child."""
        return self._scope.parent

    @property
    def slot(self) -> Slot | None:
        """Which time of which schedule this instance is for; None if no schedule has started it.
        Stays the same over `continue_as_new`."""
        recorded = self._scope.slot
        return None if recorded is None else slot_of(recorded)

    @property
    def origin(self) -> Seed | None:
        """The execution that this one was reset or forked from: whose id and uuids are in what was
        given away before. None up to the point that it went on from, and where it began anew."""
        return self._scope.origin

    @property
    def is_replaying(self) -> bool:
        """Whether the code runs over what is already recorded. Do not decide anything by it."""
        return self._scope.is_replaying

    @property
    def random(self) -> random.Random:
        """Random numbers of this execution's own series."""
        if self._random is None:
            self._random = self._scope.make_random()
        return self._random

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that is silent while replaying and knows the instance."""
        if self._log is None:
            self._log = _ReplaySilentLog(self._scope)
        return self._log

    def now(self) -> datetime:
        """Return the latest recorded time, UTC. It moves when the orchestration is woken, and goes
        back only if the clock had been wrong by more than a minute when it was recorded."""
        return self._scope.now()

    def uuid(self) -> UUID:
        """Return a new id, the same at every replay."""
        return self._scope.make_uuid()

    async def sleep_until(self, when: datetime) -> None:
        """Sleep until a point in time; at once if it has passed.

        Raises:
            OptionError: It is no datetime.
            ValueError: It has no time zone.
        """
        if not isinstance(when, datetime):
            raise OptionError(f"a point in time is a datetime with a time zone, got {when!r}")
        remaining_s = from_datetime(when) / 1000 - asyncio.get_running_loop().time()
        await asyncio.sleep(max(remaining_s, 0))

    # ------------------------------------------------- what it keeps and says of itself

    @property
    def kv(self) -> KV:
        """What the instance keeps by key: a dict of JSON that outlives continue-as-new and can be
        read from outside."""
        if self._kv is None:
            self._kv = KV(self._scope)
        return self._kv

    @property
    def reported(self) -> Json:
        """The last report as JSON; None if there is none."""
        refuse_elsewhere(self._scope, "ctx.reported")
        report = self._scope.report
        return None if report is None else JSON.decode(report)

    def report(self, value: object) -> None:
        """Say how far the instance is, for clients to read and wait for. None takes it back.

        Raises:
            PayloadError: The value cannot be stored.
            LimitExceededError: It is too large.
        """
        refuse_elsewhere(self._scope, "ctx.report")
        data = encode_value(value, "report")
        if len(data) > MAX_REPORT_BYTES:
            raise LimitExceededError(
                "report: the size in bytes",
                allowed=MAX_REPORT_BYTES,
                found=len(data),
                advice="report a summary, and keep the data where clients can fetch it",
            )
        self._scope.note(Reported(value=msgspec.Raw(data)))

    def patched(self, change: str) -> bool:
        """Return whether to take the new side of a change of the code.

        False in an execution that passed this place, or any other with the same change, before the
        change was deployed; true in all others, where it is put on record. When no instance is left
        that was there before, delete the `if` and its old side: what is on record does no harm.
        """
        refuse_elsewhere(self._scope, "ctx.patched")
        return self._scope.patched(check_id("change", change))

    # --------------------------------------------------------------- other instances

    @overload
    def start(
        self,
        instance_id: str,
        orchestration: Orchestration[P, R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[object, None, InstanceRef[R]]: ...
    @overload
    def start(
        self, orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[object, None, InstanceRef[R]]: ...
    def start(
        self, first: Any, /, *args: Any, **kwargs: Any
    ) -> Coroutine[object, None, InstanceRef[Any]]:
        """Start an instance that goes on by itself, under an id that is given or made.

        It is no child: it does not end with this instance, and is not waited for unless it is
        asked through the ref. It is started even if this instance ends right away.

        Raises (at the `await`):
            AlreadyExistsError: The id is taken; `ctx.ref(id)` reaches the instance that has it.
        """
        refuse_elsewhere(self._scope, "ctx.start")
        instance_id, orchestration, rest = _split(first, args)
        frame = sys._getframe(1)
        codec = orchestration.definition.codec
        options = orchestration.options
        decode = codec.returns.decode
        return Call(
            self._scope,
            DetachedRequest(
                label=orchestration.name,
                place=Place(frame.f_code, frame.f_lasti),
                version=orchestration.version,
                instance_id=options.instance_id if instance_id is None else instance_id,
                input=codec.encode(rest, kwargs),
                delay_ms=options.delay_ms,
                refer=lambda made: InstanceRef(made, decode),
                same_input=codec.same,
            ),
        )

    @overload
    def ref(self, instance_id: str, orchestration: Orchestration[..., R], /) -> InstanceRef[R]: ...
    @overload
    def ref(
        self, instance_id: str, decider: type[Decider[S, I, E, X]], /
    ) -> DeciderRef[S, I, E, X]: ...
    @overload
    def ref(self, instance_id: str, /) -> InstanceRef[Json]: ...
    def ref(
        self, instance_id: str, definition: Any = None, /
    ) -> InstanceRef[Any] | DeciderRef[Any, Any, Any, Any]:
        """Return a ref to another instance, of an orchestration or of a decider. Asks nothing."""
        if definition is None:
            return InstanceRef(instance_id, JSON.decode)
        if isinstance(definition, type) and issubclass(definition, Decider):
            return DeciderRef(instance_id, definition)
        if not isinstance(definition, Orchestration):
            raise _no_orchestration("ctx.ref", definition)
        return InstanceRef(instance_id, definition.definition.codec.returns.decode)

    def read_kv(
        self, instance_id: str, key: str, type: TypeForm[T], /
    ) -> Coroutine[object, None, T | None]:
        """Read what another instance keeps under a key, as a type; None if there is nothing.

        Raises (at the `await`):
            InstanceNotFoundError: There is no such instance.
            PayloadError: The value is none of that type.
        """
        refuse_elsewhere(self._scope, "ctx.read_kv")
        return read_kv(self._scope, instance_id, key, type)

    def execute(
        self, decider: type[Decider[S, I, E, X]], input: I, /
    ) -> Coroutine[object, None, Accepted[E, S] | Rejected[X] | AlreadyCompleted]:
        """Give a decider an input, and return what it came to. It is decided once.

        Raises (at the `await`):
            UniqueKeyError: Another instance has the business key.
            ActivityError: The decider's code raised.
        """
        refuse_elsewhere(self._scope, "ctx.execute")
        return decider_ref.execute(self._scope, decider, input)

    def send(
        self, decider: type[Decider[Any, I, Any, Any]], input: I, /
    ) -> Coroutine[object, None, None]:
        """Put an input into a decider's inbox, once: a worker with the code decides it soon.

        Raises (at the `await`):
            InstanceEndedError: The instance has completed.
        """
        refuse_elsewhere(self._scope, "ctx.send")
        return decider_ref.send(self._scope, decider, input)


def _split(
    first: object, args: tuple[Any, ...]
) -> tuple[str | None, Orchestration[..., Any], tuple[Any, ...]]:
    """Take an id apart from the orchestration and its arguments."""
    instance_id: str | None = None
    found: object = first
    if isinstance(first, str):
        instance_id = check_id("instance id", first)
        found, args = (args[0], args[1:]) if args else (None, args)
    if not isinstance(found, Orchestration):
        raise _no_orchestration("ctx.start", found)
    return instance_id, found, args


def _no_orchestration(what: str, found: object) -> UsageError:
    return UsageError(
        f"{found!r} is not an orchestration: {what} takes an instance id and a function made with "
        "@orchestration, or Orchestration.named(name, type)"
    )


def context() -> Context:
    """Return the context of the orchestration that runs here."""
    scope = current_scope()
    if scope is None:
        beside = "; an activity has activity_context()" if current_activity.get(None) else ""
        raise UsageError(f"no orchestration runs here: context() works inside one{beside}")
    found: Context = scope.context
    return found


class _ReplaySilentLog(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, scope: Scope) -> None:
        super().__init__(logging.getLogger("perdure.orchestration"), {})
        self._scope = scope

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the standard library's name
        return not self._scope.is_replaying and self.logger.isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, Any] = kwargs.get("extra") or {}
        scope = self._scope
        kwargs["extra"] = {
            "instance_id": scope.instance_id,
            "execution": scope.execution,
            "definition": scope.name,
            "version": scope.version,
            **extra,
        }
        return msg, kwargs
