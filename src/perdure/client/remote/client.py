"""The client of a store behind a server: `Client("https://...", token=...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import (
    DeciderDefinition,
    definition_of,
)
from perdure.authoring.deciders.describing import Transition
from perdure.authoring.orchestration import Orchestration
from perdure.client.acting.starting import encode_arguments, id_for_handle, made_id, split
from perdure.client.client import Client
from perdure.client.core import SEEN_WITHIN, ClientCore
from perdure.client.deciders.decided_events import DecidedEvent
from perdure.client.deciders.decisions import Observed, decider_name
from perdure.client.deciders.projections import ProjectionInfo
from perdure.client.histories.histories import named_in_errors
from perdure.client.histories.moving import moved_version
from perdure.client.reading.info import InstanceInfo, Json, ListPart
from perdure.client.reading.lists import InstanceQuery, check_count, check_limit
from perdure.client.reading.overview import QueueInfo, SessionInfo, WorkerInfo
from perdure.client.remote import bulk, deciding, jobs, promises, removing, starting
from perdure.client.remote import schedules as scheduling
from perdure.client.remote.connection import RemoteConnection, encoded, read
from perdure.client.remote.handle import RemoteHandle
from perdure.client.remote.values import (
    BESIDE_THE_STORE,
    arguments_of,
    body_of,
    conditions,
    refuse,
    tuples_of_worker,
)
from perdure.clock import Clock, system_clock, to_ms
from perdure.codec import JSON, check_id
from perdure.core.deciders import fold
from perdure.core.deciders.fold import DomainEvent, domain_history, state_at, state_name
from perdure.core.guard import Guard
from perdure.durations import Duration, as_duration
from perdure.errors import UsageError
from perdure.model.admin import DeletedCounts, StoreTotals
from perdure.model.histories.events import StoredEvent
from perdure.store.within.borrowing import RunOnThread
from perdure.telemetry import Metrics

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the contract's letter for an input
E = TypeVar("E")
X = TypeVar("X")


class RemoteClient(Client):
    """A door to the instances of a store behind a server. Made by `Client("https://...")`.

    What needs a transaction in the store's database is refused with a sentence. Inputs are decided
    by the code of the server, or of a worker; reading a decider's state takes its class here, and
    its history from the server.
    """

    def __init__(
        self,
        url: str,
        /,
        *,
        create: bool = False,
        clock: Clock = system_clock,
        token: str | None = None,
    ) -> None:
        if create:
            raise UsageError("create= is for the URL of a store; a server has its store already")
        self._connection = RemoteConnection(url, token)
        self._clock = clock
        self._metrics = Metrics()

    @property
    def _core(self) -> ClientCore:  # type: ignore[override]  # there is none
        """Refused: whatever asks for it works on the store itself."""
        refuse("this", BESIDE_THE_STORE)

    @property
    def telemetry(self) -> Metrics:
        """Nothing: the server counts."""
        return self._metrics

    async def __aenter__(self) -> Self:
        self._connection.enter()
        return await self.open()

    async def open(self) -> Self:
        """Be ready to ask the server."""
        await self._connection.open()
        return self

    async def close(self) -> None:
        """Let go of the server."""
        await self._connection.close()

    # -------------------------------------------------------------- starting, handles

    async def start(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start an instance; see `Client.start`."""
        instance_id, orchestration, rest = split(first, args)
        options = orchestration.options
        # Made here: a request that is sent again after a fault starts nothing twice.
        chosen = instance_id or options.instance_id or made_id(orchestration.name, self._clock())
        codec = orchestration.definition.codec
        await self._connection.post(
            "instances",
            name=orchestration.name,
            version=orchestration.version or None,
            instance_id=chosen,
            input=arguments_of(encoded(encode_arguments(orchestration, rest, kwargs))),
            delay_s=0 if options.delay is None else to_ms(options.delay) / 1000,
            if_exists=options.if_exists,
        )
        return RemoteHandle(self._connection, chosen, codec.returns)

    send_with_start = starting.send_with_start
    update_with_start = starting.update_with_start

    def handle(self, instance_id: str, definition: Any = None, /) -> Any:
        """Return a handle to an instance that exists; see `Client.handle`."""
        checked = id_for_handle(instance_id)
        if definition is None:
            return RemoteHandle(self._connection, checked, JSON)
        if isinstance(definition, type) and issubclass(definition, Decider):
            stored_id = definition_of(definition).stored_id(checked)
            return RemoteHandle(self._connection, stored_id, JSON)
        if not isinstance(definition, Orchestration):
            raise UsageError(
                f"{definition!r} is not an orchestration: handle takes an instance id and the "
                "function made with @orchestration that it runs, or a decider's class"
            )
        returns = definition.definition.codec.returns
        return RemoteHandle(self._connection, checked, returns, moved_version(definition))

    def _within(self, connection: object, errands: RunOnThread | None) -> Client:
        """Refused: a transaction of the caller's is in the store's database."""
        refuse("within", "a transaction of yours is in the store's database; " + BESIDE_THE_STORE)

    # ----------------------------------------------------------------------- deciders

    execute = deciding.execute
    send = deciding.send
    execute_json = deciding.execute_json
    send_json = deciding.send_json
    dry_run = deciding.dry_run

    async def state(
        self,
        decider: type[Decider[S, Any, Any, Any]],
        instance_id: str,
        /,
        *,
        at: int | None = None,
    ) -> S:
        """Return the state of an instance, folded here from its history; see `Client.state`."""
        definition, history = await self._history_of(decider, instance_id)
        with named_in_errors(None):
            past: S = state_at(definition, history, Guard(watch_calls=False), at=at)[0]
        return past

    async def events(
        self,
        decider: type[Decider[Any, Any, Any, Any]],
        instance_id: str,
        /,
        *,
        after: int = 0,
    ) -> list[DomainEvent]:
        """Return the events of an instance in order; see `Client.events`."""
        check_count("after", after, least=0)
        definition, history = await self._history_of(decider, instance_id)
        with named_in_errors(None):
            return domain_history(definition, history, after=after)

    async def state_json(self, decider: str, instance_id: str, /, *, at: int | None = None) -> Json:
        """Return the state of an instance as JSON, folded by the server's code; see
        `Client.state_json`."""
        told = await self._connection.get(
            "deciders", check_id("decider", decider), "instances", instance_id, "state", at=at
        )
        return told["state"]

    async def events_json(
        self, decider: str, instance_id: str, /, *, after: int = 0, limit: int = 100
    ) -> list[DecidedEvent]:
        """Return events of an instance as they are recorded; see `Client.events_json`."""
        told = await self._connection.get(
            *("deciders", check_id("decider", decider), "instances", instance_id, "events"),
            after=after,
            limit=limit,
        )
        found: list[DecidedEvent] = read(list[DecidedEvent], told["items"])
        return found

    async def transitions(
        self,
        decider: type[Decider[S, Any, Any, Any]],
        instance_id: str,
        /,
        *,
        name_of: Callable[[S], str] = state_name,
        after: int = 0,
    ) -> list[Transition]:
        """Return which inputs led from which state to which; see `Client.transitions`."""
        check_count("after", after, least=0)
        definition, history = await self._history_of(decider, instance_id)
        with named_in_errors(None):
            return fold.transitions(
                definition, history, Guard(watch_calls=False), name_of=name_of, after=after
            )

    async def observations(
        self,
        decider: type[Decider[Any, Any, Any, Any]] | str,
        instance_id: str,
        /,
        *,
        after: int = 0,
        limit: int = 100,
    ) -> list[Observed]:
        """Return the inputs that an instance was given; see `Client.observations`."""
        check_count("after", after, least=0)
        told = await self._connection.get(
            "deciders",
            decider_name(decider),
            *("instances", instance_id, "observations"),
            after=after,
            limit=check_limit(limit),
        )
        found: list[Observed] = read(list[Observed], told["items"])
        return found

    async def key_holder(
        self, decider: type[Decider[Any, Any, Any, Any]] | str, key: str, /
    ) -> str | None:
        """Return the id of the instance that has a business key; see `Client.key_holder`."""
        name = decider_name(decider)
        told = await self._connection.get("deciders", name, "keys", check_id("unique key", key))
        holder: str | None = told["instance_id"]
        return holder

    async def _history_of(
        self, decider: type[Decider[Any, Any, Any, Any]], instance_id: str
    ) -> tuple[DeciderDefinition, list[StoredEvent]]:
        definition = definition_of(decider)
        events = await self.handle(instance_id, decider).history()
        return definition, [
            StoredEvent(one.seq, one.kind, round(one.at.timestamp() * 1000), body_of(one.data))
            for one in events
        ]

    # ---------------------------------------------------------- the whole store: lists

    async def instances(
        self, *, limit: int = 100, after: str | None = None, **which: Unpack[InstanceQuery]
    ) -> ListPart[InstanceInfo]:
        """Return instances, newest first; see `Client.instances`. A page has 50 at most."""
        query = conditions(which)
        told = await self._connection.get(
            "instances", limit=check_limit(limit), after=after, payloads=True, **query
        )
        return ListPart(items=read(list[InstanceInfo], told["items"]), next=told["next"])

    async def count(self, **which: Unpack[InstanceQuery]) -> int:
        """Return how many instances there are; see `Client.count`."""
        told = await self._connection.get("instances-count", **conditions(which))
        return int(told["count"])

    async def delete(self, instance_id: str, /, *, force: bool = False) -> DeletedCounts:
        """Delete an instance and everything below it; see `Client.delete`."""
        deleted: DeletedCounts = await self.handle(instance_id).delete(force=force)
        return deleted

    delete_all = removing.delete_all
    prune = removing.prune

    async def metrics(self) -> StoreTotals:
        """Return how much there is in the whole store."""
        found: StoreTotals = read(StoreTotals, await self._connection.get("totals"))
        return found

    async def queues(self) -> list[QueueInfo]:
        """Return what waits for which definition, and who takes it."""
        found: list[QueueInfo] = read(list[QueueInfo], await self._connection.get("queues"))
        return found

    async def workers(self, *, seen_within: Duration = SEEN_WITHIN) -> list[WorkerInfo]:
        """Return the workers that gave a sign of life lately.

        Perdure's own activities, which every worker takes, are not among their definitions.
        """
        within_s = as_duration("seen_within", seen_within).total_seconds()
        return [
            read(WorkerInfo, tuples_of_worker(one))
            for one in await self._connection.get("workers", seen_within_s=within_s)
        ]

    async def sessions(self) -> list[SessionInfo]:
        """Return which worker has which session."""
        found: list[SessionInfo] = read(list[SessionInfo], await self._connection.get("sessions"))
        return found

    # What follows is written where it belongs by its subject.

    dead_jobs = jobs.dead_jobs
    count_dead_jobs = jobs.count_dead_jobs
    retry_dead_job = jobs.retry_dead_job
    retry_dead_jobs = jobs.retry_dead_jobs
    forget_dead_job = jobs.forget_dead_job
    complete_job = jobs.complete_job
    fail_job = jobs.fail_job
    inbox = jobs.inbox
    drop_message = jobs.drop_message

    resolve = promises.resolve
    reject = promises.reject

    cancel_all = bulk.cancel_all
    terminate_all = bulk.terminate_all
    signal_all = bulk.signal_all
    unpark_all = bulk.unpark_all
    retry_all = bulk.retry_all
    reset_all = bulk.reset_all

    # ------------------------------------------------------------------------- schedules

    put_schedule = scheduling.put_schedule
    schedule = scheduling.schedule
    schedules = scheduling.schedules

    # ----------------------------------------------------------------------- projections

    async def projections(self) -> list[ProjectionInfo]:
        """Return how all projections and subscriptions stand."""
        told = await self._connection.get("projections")
        found: list[ProjectionInfo] = read(list[ProjectionInfo], told)
        return found

    async def projection(self, name: str, /) -> ProjectionInfo:
        """Return how a projection or subscription stands."""
        told = await self._connection.get("projections", check_id("projection", name))
        found: ProjectionInfo = read(ProjectionInfo, told)
        return found

    async def pause_projection(self, name: str, /, *, reason: str = "") -> None:
        """Let a projection handle no more events; see `Client.pause_projection`."""
        await self._connection.post("projections", name, "pause", reason=reason)

    async def resume_projection(self, name: str, /, *, skip: bool = False) -> None:
        """Let a projection go on; see `Client.resume_projection`."""
        await self._connection.post("projections", name, "resume", skip=skip)

    async def rebuild_projection(self, name: str, /) -> None:
        """Let a projection handle all events once more; see `Client.rebuild_projection`."""
        await self._connection.post("projections", name, "rebuild")

    async def forget_projection(self, name: str, /) -> None:
        """Forget a projection or subscription; see `Client.forget_projection`."""
        await self._connection.ask("DELETE", ("projections", name))
