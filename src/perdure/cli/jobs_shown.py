"""Jobs, messages, queues, workers and sessions as the commands show them."""

from __future__ import annotations

from collections import Counter

from perdure.cli.forms import Column, Listing, value_text
from perdure.client.histories.event_texts import message_text
from perdure.client.reading.as_json import as_json
from perdure.client.reading.info import MessageInfo
from perdure.client.reading.overview import DeadJobInfo, QueueInfo, SessionInfo, WorkerInfo
from perdure.client.reading.served import shown_worker

DEAD_JOBS = Listing[DeadJobInfo](
    columns=(
        Column("job", lambda one: one.key),
        Column("activity", lambda one: one.activity),
        Column("attempts", lambda one: one.attempts),
        Column("died", lambda one: one.died_at),
        Column("failure", lambda one: one.failures[-1] if one.failures else ""),
        Column("instance", lambda one: one.instance_id, wide=True),
        Column("tag", lambda one: one.tag, wide=True),
        Column("input", lambda one: value_text(one.input), wide=True),
    ),
)

INBOX = Listing[MessageInfo](
    columns=(
        Column("no", lambda one: one.no),
        Column("kind", lambda one: message_text(one.kind, one.data)),
        Column("at", lambda one: one.at),
        Column("timer", lambda one: one.timer_key),
        Column("content", lambda one: value_text(one.data)),
    ),
)

QUEUES = Listing[QueueInfo](
    columns=(
        Column("queue", lambda one: one.name),
        Column("kind", lambda one: one.kind),
        Column("variant", lambda one: one.version or one.tag),
        Column("ready", lambda one: one.ready),
        Column("running", lambda one: one.leased),
        Column("later", lambda one: one.later),
        Column("oldest", lambda one: one.oldest_ready_at),
        Column("workers", lambda one: len(one.served_by)),
        Column("unclaimed", lambda one: one.unclaimed),
        Column("taken by", lambda one: ", ".join(one.served_by), wide=True),
    ),
)

WORKERS = Listing[WorkerInfo](
    columns=(
        Column("worker", lambda one: one.worker_id),
        Column("host", lambda one: one.host),
        Column("process", lambda one: str(one.pid)),
        Column("started", lambda one: one.started_at),
        Column("seen", lambda one: one.seen_at),
        Column("running", lambda one: _running(one)),
        Column("instances", lambda one: one.instances),
        Column("jobs", lambda one: one.jobs),
        Column("takes", lambda one: len(one.definitions)),
        Column("slots", lambda one: _slots(one), wide=True),
        Column("leases", lambda one: _leases(one), wide=True),
        Column("definitions", lambda one: _definitions(one), wide=True),
    ),
    json=lambda one: as_json(shown_worker(one)),
)

SESSIONS = Listing[SessionInfo](
    columns=(
        Column("session", lambda one: one.session),
        Column("worker", lambda one: one.owner),
        Column("held", lambda one: "yes" if one.is_held else "no"),
        Column("used", lambda one: one.used_at),
        Column("until", lambda one: one.until),
    ),
)


def _running(worker: WorkerInfo) -> str:
    """Return how many activities run of how many that can, at its last sign of life."""
    running = sum(one.running for one in worker.slots)
    return f"{running} of {sum(one.slots for one in worker.slots)}"


def _slots(worker: WorkerInfo) -> str:
    return ", ".join(f"{one.running} of {one.slots} {one.kind}" for one in worker.slots)


def _leases(worker: WorkerInfo) -> str:
    """Return how many leases it holds of what; those of definitions of one name together."""
    found: Counter[str] = Counter()
    for key, leased in worker.leases:
        found[key.name] += leased
    told = ", ".join(f"{leased} {name}" for name, leased in found.items())
    return told if worker.is_exact else f"{told}, or more"


def _definitions(worker: WorkerInfo) -> str:
    return ", ".join(
        f"{key.kind} {key.name}" + (f" {key.variant}" if key.variant else "")
        for key in worker.definitions
    )
