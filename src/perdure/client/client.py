"""The client: start instances, and get handles to them. Works without a worker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import BEHAVIOUR, orchestration_key
from perdure.client.handle import Handle
from perdure.client.info import Json
from perdure.client.watch import Watch
from perdure.clock import Clock, system_clock
from perdure.codec import JSON, MAX_ID_BYTES, check_id
from perdure.errors import AlreadyExistsError, UsageError
from perdure.model.events import Started, write_event
from perdure.model.instances import InstanceRow, NewInstance
from perdure.model.messages import Delivery, DeliveryStatus
from perdure.model.turns import Outcome
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.worker.endings import Endings
from perdure.worker.turns import fresh_id

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_S = 10.0
"""How long a start or a signal waits for a locked, full or unreachable store before it gives up."""


class Client:
    """A door to the instances of one store.

    Use it as `async with Client(url) as client:`, or call `open` and `close`.
    """

    def __init__(self, url: str, /, *, clock: Clock = system_clock) -> None:
        self._store = open_store(url, clock=clock)
        self._endings = Endings()
        self._watch = Watch(self._store, self._endings, self.is_here, self.noticed_end)
        self._is_open = False

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Connect to the store."""
        if not self._is_open:
            await self._store.open()
            self._is_open = True
        return self

    async def close(self) -> None:
        """Let go of the store."""
        if self._is_open:
            self._is_open = False
            await self._watch.close()
            await self._store.close()

    @overload
    async def start(
        self,
        instance_id: str,
        orchestration: Orchestration[P, R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Handle[R]: ...
    @overload
    async def start(
        self, orchestration: Orchestration[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]: ...
    async def start(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start an instance, under an id that is given or made; durable when this returns.

        An id that exists with an equal definition and input gives its handle, live or finished.
        `orchestration.with_options(if_exists=...)` says otherwise.

        Raises:
            AlreadyExistsError: The id is taken by another definition or input.
            PayloadError: An argument cannot be stored.
        """
        instance_id, orchestration, rest = _split(first, args)
        new = self._new_instance(instance_id, orchestration, rest, kwargs)
        existing = await self._start(new, orchestration)
        if existing is not None:
            await self._settle(existing, new, orchestration)
        return Handle(self, new.instance_id, orchestration.definition.codec.returns)

    @overload
    def handle(self, instance_id: str, orchestration: Orchestration[..., R], /) -> Handle[R]: ...
    @overload
    def handle(self, instance_id: str, /) -> Handle[Json]: ...
    def handle(self, instance_id: str, orchestration: Any = None, /) -> Any:
        """Return a handle to an instance that exists. Asks nothing."""
        checked = check_id("instance id", instance_id)
        if orchestration is None:
            return Handle(self, checked, JSON)
        if not isinstance(orchestration, Orchestration):
            raise UsageError(
                f"{orchestration!r} is not an orchestration: handle takes an instance id and the "
                "function made with @orchestration that it runs"
            )
        return Handle(self, checked, orchestration.definition.codec.returns)

    # ------------------------------------------------- for handles and subclasses

    @property
    def store(self) -> Store:
        """The open store."""
        self._refuse_closed()
        return self._store

    def _refuse_closed(self) -> None:
        if not self._is_open:
            raise UsageError(
                f"this {type(self).__name__} is not open: use `async with`, or await open() first"
            )

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[DeliveryStatus]:
        """Put messages into inboxes."""
        return await self.store.deliver(deliveries, patience_s=PATIENCE_S)

    async def wait_ended(self, instance_id: str) -> Outcome:
        """Wait until an instance has ended."""
        self._refuse_closed()
        return await self._watch.ended(instance_id)

    def is_here(self, instance_id: str) -> bool:
        """Tell whether a worker of this process has the instance in memory."""
        return False

    def noticed_end(self, instance_id: str, incarnation: int, outcome: Outcome) -> None:
        """This client ended an instance itself, or found that somebody else did."""
        self._endings.tell(instance_id, outcome)

    async def _start(
        self, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> InstanceRow | None:
        """Start an instance; return the row that already has its id, if one does."""
        [existing] = await self.store.start([new], patience_s=PATIENCE_S)
        return existing

    def _code_of(self, orchestration: Orchestration[..., Any]) -> str:
        """Return the digest of the code, where it is known that this code will run."""
        return ""

    def _new_instance(
        self,
        instance_id: str | None,
        orchestration: Orchestration[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> NewInstance:
        now_ms = self.store.clock()
        if instance_id is None:
            instance_id = orchestration.options.instance_id
        encoded = orchestration.definition.codec.encode(args, kwargs)
        kind, body = write_event(
            Started(
                name=orchestration.name,
                version=orchestration.version,
                behaviour=BEHAVIOUR,
                input=msgspec.Raw(encoded),
                code=self._code_of(orchestration),
            )
        )
        return NewInstance(
            instance_id=instance_id or _made_id(orchestration.name, now_ms),
            incarnation=fresh_id(),
            definition=orchestration_key(orchestration.name, orchestration.version),
            input=encoded,
            start_kind=kind,
            start_body=body,
            created_ms=now_ms,
            commit_id=fresh_id(),
        )

    async def _settle(
        self, existing: InstanceRow, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> None:
        """The id exists: join it, replace it, or refuse."""
        policy = orchestration.options.if_exists
        if policy == "fail":
            raise AlreadyExistsError(new.instance_id, f"({existing.status})")
        if policy == "terminate" and not existing.status.is_terminal:
            await self.handle(new.instance_id).terminate("replaced by a new start")
            await self._replace(existing, new, orchestration)
        elif policy in ("restart", "terminate") and existing.status.is_terminal:
            await self._replace(existing, new, orchestration)
        else:
            _join(existing, new, orchestration)

    async def _replace(
        self, existing: InstanceRow, new: NewInstance, orchestration: Orchestration[..., Any]
    ) -> None:
        successor = msgspec.structs.replace(new, replaces=existing.incarnation)
        taken = await self._start(successor, orchestration)
        if taken is not None:
            _join(taken, new, orchestration)


def default_url() -> str:
    """Return the store to use when none is named."""
    return os.environ.get("PERDURE_STORE", "sqlite:///perdure.db")


def _split(
    first: Any, args: tuple[Any, ...]
) -> tuple[str | None, Orchestration[..., Any], tuple[Any, ...]]:
    instance_id = None
    if isinstance(first, str):
        instance_id = check_id("instance id", first)
        if not args:
            raise UsageError("start(instance_id, orchestration, ...): the orchestration is missing")
        first, *rest = args
        args = tuple(rest)
    if not isinstance(first, Orchestration):
        raise UsageError(
            f"{first!r} is not an orchestration: start takes a function made with @orchestration"
        )
    return instance_id, first, args


def _made_id(name: str, now_ms: int) -> str:
    # Time first, so that ids made one after another lie beside each other in the indexes.
    made = f"{name}-{now_ms:x}{fresh_id() & 0xFFFFFFFFFF:010x}"
    return made if len(made.encode()) <= MAX_ID_BYTES else made[-MAX_ID_BYTES // 4 :]


def _join(existing: InstanceRow, new: NewInstance, orchestration: Orchestration[..., Any]) -> None:
    """Accept an instance that is what would have been started; refuse anything else."""
    if (existing.name, existing.version) != (orchestration.name, orchestration.version):
        raise AlreadyExistsError(
            new.instance_id,
            f"as {existing.name} {existing.version}, not {orchestration.name} "
            f"{orchestration.version}",
        )
    if existing.input != new.input and not orchestration.definition.codec.same(
        existing.input, new.input
    ):
        raise AlreadyExistsError(new.instance_id, "with another input")
