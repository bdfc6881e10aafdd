"""The context of an activity, for tests that call its function without a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from perdure.authoring.activity_context import ActivityContext, current_activity
from perdure.authoring.kv import encode_value
from perdure.clock import from_datetime, to_ms
from perdure.durations import Duration, as_duration
from perdure.errors import UsageError
from perdure.jobs.running import Host, RunningActivity
from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobKey
from perdure.testing.given_when import NOON


@contextmanager
def activity_context(
    *,
    activity: str = "activity",
    instance_id: str = "test",
    execution: int = 1,
    attempt: int = 1,
    orchestration: str = "test",
    orchestration_version: str = "1.0.0",
    tag: str | None = None,
    session: str | None = None,
    last_details: object = None,
    timeout: Duration | None = None,
    now: datetime = NOON,
    resources: Iterable[object] = (),
    client: Callable[[], object] = lambda: None,
) -> Iterator[RunningActivity]:
    """Have `activity_context()` and `ctx` work in a block, as in an activity at a worker.

        with activity_context(attempt=2, resources=[db]) as ctx:
            await charge(order)

    Inside it the activity is called as outside an orchestration; what it says is in `ctx.details`
    and `ctx.shown` as JSON, and `ctx.cancel()` cancels it.

    Args:
        activity: Its name.
        instance_id: The instance that makes the call.
        execution: Which execution of it.
        attempt: Which try it is, from 1.
        orchestration: The name of what makes the call.
        orchestration_version: Its version.
        tag: What the call was made with.
        session: What it belongs to.
        last_details: What the last heartbeat of an earlier attempt said.
        timeout: How long the attempt may take, for `ctx.deadline`; nothing ends it.
        now: When the call was made, and what the clock shows.
        resources: What it fetches with `ctx.resource(Type)`.
        client: Returns what it gets as `ctx.client`.
    """
    if not isinstance(attempt, int) or attempt < 1:
        raise UsageError(f"attempts count from 1, got {attempt!r}")
    now_ms = from_datetime(now)
    job = ClaimedJob(
        key=JobKey(instance_id, 1, execution, 1),
        token=1,
        queue=DefinitionKey("activity", activity, tag or ""),
        input=b"{}",
        policy=b"{}",
        attempt=attempt,
        created_ms=now_ms,
        session=session,
        details=None if last_details is None else encode_value(last_details, "last_details"),
        owner_name=orchestration,
        owner_version=orchestration_version,
    )
    context = RunningActivity(job, activity, Host("test", lambda: now_ms, tuple(resources), client))
    if timeout is not None:
        context.attempt_until_ms = now_ms + to_ms(as_duration("timeout", timeout))
    with _running(context):
        yield context


@contextmanager
def _running(context: ActivityContext) -> Iterator[None]:
    token = current_activity.set(context)
    try:
        yield
    finally:
        current_activity.reset(token)
