"""The loops that run the projections and subscriptions of a worker, which supervises them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from perdure.authoring.projection import AnyProjection, Projection, SqlProjection
from perdure.authoring.subscription import Subscription
from perdure.model.options import WorkerOptions
from perdure.projection.bell import Bell
from perdure.projection.handlers import ProjectionConsumer, SqlConsumer, Watch
from perdure.projection.reading import Consumer, FeedReader
from perdure.projection.subscribing import SubscriptionConsumer
from perdure.store.base import Store
from perdure.telemetry import Metrics

Duties: TypeAlias = dict[str, Callable[[], Coroutine[Any, Any, None]]]


def reader_duties(
    store: Store,
    readers: Mapping[str, AnyProjection[Any] | Subscription[Any]],
    options: WorkerOptions,
    metrics: Metrics,
    notice: Callable[[], None],
    watch: Watch,
) -> Duties:
    """Return a loop for each reader of the feed, and one that wakes them; none if there is none.

    Args:
        store: Where the events are.
        readers: Projections and subscriptions by name.
        options: How long leases last, how often to look.
        metrics: Where to count.
        notice: Hears that a worker of this process may find work.
        watch: Runs handlers that hold the store.
    """
    if not readers:
        return {}
    bell = Bell(store, options, readers)
    duties: Duties = {"feed": bell.run}
    for name, reader in readers.items():
        consumer = _consumer(reader, store, notice, watch)
        duties[f"projection {name}"] = FeedReader(store, consumer, options, metrics, bell).run
    return duties


def _consumer(
    reader: AnyProjection[Any] | Subscription[Any],
    store: Store,
    notice: Callable[[], None],
    watch: Watch,
) -> Consumer:
    match reader:
        case Projection():
            return ProjectionConsumer(reader)
        case SqlProjection():
            return SqlConsumer(reader, watch)
        case Subscription():
            return SubscriptionConsumer(reader, store, notice)
    raise AssertionError(f"{reader!r} reads no feed")
