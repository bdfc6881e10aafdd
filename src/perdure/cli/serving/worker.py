"""`perdure worker`: serve the definitions of a target until told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar

import msgspec

from perdure.authoring.registry import Registry
from perdure.cli.interruptible import run_interruptibly
from perdure.cli.output import say
from perdure.cli.serving.fleet import STOPPING, Fleet
from perdure.cli.serving.systemd import Notifier
from perdure.cli.serving.worker_flags import RETAIN, WORKER_FLAGS
from perdure.cli.targets import described, load_target
from perdure.client.worker import Worker
from perdure.clock import to_ms
from perdure.errors import PerdureError, UsageError
from perdure.model.options import WorkerOptions
from perdure.store.opening import open_store
from perdure.store.urls import shown_url

T = TypeVar("T")

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

RELEASE_WITHIN_S = 10.0
"""How long the store may take to free what a process held that has died; else its leases end."""

STOP_WITHIN_S = 30.0
"""How long a process may take to stop, beyond what activities are granted; then it is killed."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says about a worker."""

    url: str
    target: str
    name: str | None = None
    tags: tuple[str | None, ...] = ()
    concurrency: int | None = None
    stop_grace_s: float | None = None
    http: str | None = None
    """Where to answer what is asked of the process, as `:9090`; nowhere if not given."""
    http_tokens: str | None = None
    insecure_no_auth: bool = False
    others: dict[str, Any] = {}
    """Further options by their names, those of retention behind `retain_`; durations in seconds."""

    def options(self) -> WorkerOptions:
        """Return how such a worker behaves; what is not said is as ever.

        Raises:
            UsageError: A value makes no sense.
        """
        usual = WorkerOptions()
        grace_s = self.stop_grace_s
        try:
            chosen = WorkerOptions(
                name=self.name,
                tags=self.tags or usual.tags,
                async_jobs=usual.async_jobs if self.concurrency is None else self.concurrency,
                threaded_jobs=usual.threaded_jobs if self.concurrency is None else self.concurrency,
                stop_grace=usual.stop_grace if grace_s is None else timedelta(seconds=grace_s),
            )
            return replace(chosen, **self._others(chosen))
        except ValueError as error:
            raise UsageError(str(error)) from error

    def _others(self, usual: WorkerOptions) -> dict[str, Any]:
        """Return the further options, as values of their types."""
        kept = {
            name.removeprefix(RETAIN): _typed(name, value)
            for name, value in self.others.items()
            if name.startswith(RETAIN)
        }
        found = {
            name: _typed(name, value)
            for name, value in self.others.items()
            if not name.startswith(RETAIN)
        }
        return found | {"retention": replace(usual.retention, **kept)}


def _typed(name: str, value: Any) -> Any:
    match WORKER_FLAGS[name].type:
        case "duration":
            return timedelta(seconds=value)
        case "range":
            return tuple(value)
    return value


def run_worker(
    settings: WorkerSettings, processes: int, *, code: str | None = None, is_unit: bool = False
) -> int:
    """Serve a target with so many processes until SIGTERM or SIGINT; return the exit code.

    Args:
        settings: What the command line says of each process.
        processes: How many.
        code: How the digest of the target's code must begin.
        is_unit: Whether systemd is told how it is.
    """
    options = settings.options()
    if settings.http is not None:
        from perdure.cli.serving.worker_http import check_http  # late: brings the web

        check_http(settings)
    notifier = Notifier() if is_unit else None
    registry = load_target(settings.target)
    if code is not None:
        check_code(registry, code)
    start_logging()

    def started(worker_ids: Sequence[str]) -> None:
        say(_headline(settings, registry, worker_ids))
        if notifier is not None:
            notifier.ready(f"{described(registry)} in {len(worker_ids)} of {processes} processes")

    def stopping() -> None:
        say(STOPPING)
        if notifier is not None:
            notifier.stopping()

    if processes == 1:
        serving = serve(
            settings,
            registry,
            started=lambda worker_id: started([worker_id]),
            stopping=stopping,
        )
        run_interruptibly(_alive(notifier, serving))
        return 0
    if ":memory:" in settings.url:
        raise UsageError("processes cannot share a store in memory: give --store a file")
    # Before they all do it: what is wrong with the store is said once.
    run_interruptibly(_open_once(settings.url))
    fleet = Fleet(
        [msgspec.json.encode(_numbered(settings, number + 1)) for number in range(processes)],
        stop_within_s=options.stop_grace.total_seconds() + STOP_WITHIN_S,
        started=started,
        died=partial(_end_leases, settings.url, options),
    )
    return run_interruptibly(_alive(notifier, fleet.run()))


def check_code(registry: Registry, digest: str) -> None:
    """Refuse a target that is not the code that was meant.

    Raises:
        UsageError: None of its definitions has a digest that begins so.
    """
    found = {
        **{
            f"{name} {version}": registry.code_of(name, version)
            for name, version in registry.orchestrations
        },
        **{name: registry.code_of_decider(name) for name in registry.deciders},
    }
    if not digest or not any(code.startswith(digest) for code in found.values()):
        known = ", ".join(f"{name}: {code}" for name, code in sorted(found.items()))
        raise UsageError(
            f"--code {digest}: this is other code ({known or 'no definition'}); nothing was started"
        )


async def _alive(notifier: Notifier | None, work: Coroutine[Any, Any, T]) -> T:
    """Do something, and let systemd see meanwhile that the loop runs."""
    async with nullcontext() if notifier is None else notifier.alive():
        return await work


async def serve(
    settings: WorkerSettings,
    registry: Registry,
    *,
    made: Callable[[str], None] = lambda _: None,
    started: Callable[[str], None],
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run one worker in this process until SIGTERM or SIGINT.

    Args:
        settings: What the command line says.
        registry: What to serve.
        made: Hears the worker's id before it takes anything.
        started: Hears the worker's id when it has begun to work.
        stopping: Hears that it was told to stop.
    """
    worker = Worker(settings.url, registry, options=settings.options())
    made(worker.worker_id)
    async with _answering(settings, worker), worker:
        running = asyncio.ensure_future(worker.run())
        # It listens to signals before another process hears that it is there, and may send one.
        await asyncio.sleep(0)
        started(worker.worker_id)
        await running
        stopping()


def _answering(settings: WorkerSettings, worker: Worker) -> AbstractAsyncContextManager[None]:
    """Return what answers those who look after the process, while it is open."""
    if settings.http is None:
        return nullcontext()
    from perdure.cli.serving.worker_http import answering  # late: brings the web

    return answering(settings, worker)


def start_logging() -> None:
    """Write the log to where errors go, unless the target has set up logging by itself."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)


async def _open_once(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()


async def _end_leases(url: str, options: WorkerOptions, worker_id: str) -> None:
    """Free what a worker held whose process has died, so that no worker waits for its leases."""
    store = open_store(url)
    try:
        await store.open()
        async with asyncio.timeout(RELEASE_WITHIN_S):
            await store.release_worker(
                worker_id,
                lease_ms=to_ms(options.lease_for),
                # The process that takes its place has its name, and comes back for them.
                keeps_sessions=options.name is not None,
            )
    except (PerdureError, TimeoutError) as error:
        trouble = str(error) or f"the store did not answer within {RELEASE_WITHIN_S:g} s"
        say(f"what worker {worker_id} held waits until its leases end: {trouble}")
    finally:
        await store.close()


def _numbered(settings: WorkerSettings, number: int) -> WorkerSettings:
    """Return the settings for one of several processes: a lasting name and a port are for one."""
    changes: dict[str, Any] = {}
    if settings.name is not None:
        changes["name"] = f"{settings.name}-{number}"
    if settings.http is not None:
        from perdure.cli.serving.worker_http import numbered_address  # late: brings the web

        changes["http"] = numbered_address(settings.http, number)
    return msgspec.structs.replace(settings, **changes)


def _headline(settings: WorkerSettings, registry: Registry, worker_ids: Sequence[str]) -> str:
    parts = (
        f"perdure {version('perdure')}",
        f"store {shown_url(settings.url)}",
        f"{settings.target}: {described(registry)}",
        f"worker{'s' * (len(worker_ids) > 1)} {', '.join(worker_ids)}",
    )
    return "   ".join(parts)
