"""The loops that run the projections and subscriptions of a worker, which supervises them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from perdure.authoring.deciders.projection import AnyProjection, Projection, SqlProjection
from perdure.authoring.deciders.subscription import Subscription
from perdure.model.options import WorkerOptions
from perdure.projection.handler_watch import HandlerWatch
from perdure.projection.handlers import ProjectionHandler, SqlHandler
from perdure.projection.reading import FeedHandler, FeedReader
from perdure.projection.subscribing import SubscriptionHandler
from perdure.projection.wake import FeedWake
from perdure.store.base import Store
from perdure.telemetry import Metrics

Loops: TypeAlias = dict[str, Callable[[], Coroutine[Any, Any, None]]]


def reader_loops(
    store: Store,
    readers: Mapping[str, AnyProjection[Any] | Subscription[Any]],
    options: WorkerOptions,
    metrics: Metrics,
    notice: Callable[[], None],
    watch: HandlerWatch,
    *,
    worker_id: str,
) -> Loops:
    """Return a loop for each reader of the feed, and one that wakes them; none if there is none.

    Args:
        store: Where the events are.
        readers: Projections and subscriptions by name.
        options: How long leases last, how often to look.
        metrics: Where to count.
        notice: Hears that a worker of this process may find work.
        watch: Runs handlers that hold the store.
        worker_id: Who reads.
    """
    if not readers:
        return {}
    wake = FeedWake(store, options, readers)
    loops: Loops = {"feed": wake.run}
    for name, reader in readers.items():
        handler = _handler(reader, store, notice, watch)
        read = FeedReader(store, handler, options, metrics, wake, worker_id=worker_id)
        loops[f"projection {name}"] = read.run
    return loops


def _handler(
    reader: AnyProjection[Any] | Subscription[Any],
    store: Store,
    notice: Callable[[], None],
    watch: HandlerWatch,
) -> FeedHandler:
    match reader:
        case Projection():
            return ProjectionHandler(reader)
        case SqlProjection():
            return SqlHandler(reader, watch)
        case Subscription():
            return SubscriptionHandler(reader, store, notice)
    raise AssertionError(f"{reader!r} reads no feed")
