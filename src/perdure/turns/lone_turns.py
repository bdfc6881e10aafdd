"""Turns in a process without a worker: inputs are decided here, all else is left to workers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from perdure.authoring.registry import Registry
from perdure.errors import NondeterminismError
from perdure.ids import fresh_id
from perdure.model.options import WorkerOptions
from perdure.store.base import Store
from perdure.telemetry import Metrics
from perdure.turns.coverage import Coverage
from perdure.turns.endings import Endings
from perdure.turns.job_room import NoJobs
from perdure.turns.metrics import TurnMetrics
from perdure.turns.surroundings import Surroundings
from perdure.turns.turns import TurnRunner


def lone_turns(
    store: Store,
    endings: Endings,
    metrics: Metrics,
    options: WorkerOptions | None = None,
    *,
    registry: Registry | None = None,
    unfit: Callable[[str, NondeterminismError], None] = lambda *_: None,
) -> TurnRunner:
    """Return what runs turns of deciders where there is no worker.

    Args:
        store: The open store.
        endings: Who waits for ends in this process.
        metrics: Where to count.
        options: How turns are watched.
        registry: The code of orchestrations that are replayed here; none if not given.
        unfit: Hears of each instance whose code cannot be replayed; for trials.
    """
    options = options or WorkerOptions()
    # Not among the workers, so it is no instance's home: any worker may claim at once.
    worker_id = f"client-{socket.gethostname()}-{os.getpid()}-{fresh_id():x}"
    around = Surroundings(
        worker_id=worker_id,
        jobs=NoJobs(),
        endings=endings,
        metrics=TurnMetrics(metrics, worker_id=worker_id),
        unfit=unfit,
    )
    return TurnRunner(store, Coverage(registry or Registry(()), options), options, around)
