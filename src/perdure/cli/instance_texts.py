"""Instances as the commands show them."""

from __future__ import annotations

from datetime import timedelta

from perdure.cli.forms import Column, Listing, value_text
from perdure.client.reading.info import InstanceInfo, JobInfo
from perdure.model.instances import Status


def now_text(info: InstanceInfo) -> str:
    """Return in a few words what there is to know of an instance now."""
    match info.status:
        case Status.RUNNING:
            return f"unclaimed: {info.unclaimed}" if info.unclaimed else ""
        case Status.FAILED if isinstance(info.output, dict):
            return f"{info.output.get('type_name')}: {info.output.get('message')}"
        case Status.COMPLETED:
            return "" if info.output is None else value_text(info.output)
    return (info.reason or "").partition("\n")[0]


def took(info: InstanceInfo) -> timedelta | None:
    """Return how long an instance took; None if it has not ended."""
    return None if info.ended_at is None else info.ended_at - info.created_at


INSTANCES = Listing[InstanceInfo](
    columns=(
        Column("instance", lambda one: one.instance_id),
        Column("name", lambda one: one.name),
        Column("status", lambda one: one.status.value),
        Column("now", now_text),
        Column("started", lambda one: one.created_at),
        Column("took", took),
        Column("version", lambda one: one.version, wide=True),
        Column("kind", lambda one: one.kind, wide=True),
        Column("execution", lambda one: one.execution, wide=True),
        Column("parent", lambda one: one.parent_id, wide=True),
    ),
)


def job_state(job: JobInfo) -> str:
    """Return what an open job does."""
    if job.worker_id is not None:
        return "running"
    return "misfit" if job.misfit else "waiting"


OPEN_JOBS = Listing[JobInfo](
    columns=(
        Column("job", lambda one: one.key),
        Column("activity", lambda one: one.activity),
        Column("state", job_state),
        Column("attempt", lambda one: one.attempt),
        Column("worker", lambda one: one.worker_id),
        Column("asked", lambda one: one.created_at),
        Column("next", lambda one: one.visible_at if one.worker_id is None else None),
        Column("tag", lambda one: one.tag, wide=True),
        Column("misfit", lambda one: one.misfit, wide=True),
    ),
)
