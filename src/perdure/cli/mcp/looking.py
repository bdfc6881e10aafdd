"""The tools that look. None of them changes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from perdure.cli.advice import in_commands
from perdure.cli.doctor import examine
from perdure.cli.instance_texts import job_state, now_text
from perdure.cli.mcp.marking import MAX_VALUE, payload
from perdure.cli.mcp.tool import Tool, ToolAnswer
from perdure.client.client import Client
from perdure.client.histories.event_texts import names_in, subject_of, value_of
from perdure.client.reading.failure_groups import grouped
from perdure.client.reading.filters import FILTER_WORDS, parse_filter
from perdure.client.reading.info import InstanceInfo
from perdure.client.reading.lists import InstanceQuery
from perdure.errors import UsageError
from perdure.limits import PAGE_MAX
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.instances import Status

MAX_FOUND = 50
"""How many instances one call of `find` shows."""
MAX_EVENTS = 200
"""How many events one call of `history` shows."""
MAX_SHOWN = 50
"""How many jobs, messages and dead jobs one call shows."""
CHECKS_FOR_S = 5.0
"""For how long `doctor` holds what is stored against the invariants."""

WORDS = "Filter words, all of which must hold, as in 'name:checkout status:failed since:2h'. " + (
    "; ".join(f"{word}: {meaning}" for word, (_, meaning) in FILTER_WORDS.items())
)

Words = Annotated[str, msgspec.Meta(description=WORDS, max_length=1_000)]
InstanceId = Annotated[str, msgspec.Meta(description="The id of an instance.", max_length=1_000)]


class FindArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which instances."""

    filter: Words = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_FOUND)] = 20
    after: (
        Annotated[str, msgspec.Meta(description="The `next` of the page before.", max_length=2_000)]
        | None
    ) = None


class ExplainArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which instance."""

    instance_id: InstanceId


class HistoryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events."""

    instance_id: InstanceId
    execution: (
        Annotated[
            int, msgspec.Meta(ge=1, description="Which one, from 1; the current one if left out.")
        ]
        | None
    ) = None
    after: Annotated[
        int, msgspec.Meta(ge=0, description="Only events with a higher number than this.")
    ] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_EVENTS)] = 50


class WhyFailedArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which failures."""

    filter: Words = ""


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """There are none."""


def read_filter(text: str) -> InstanceQuery:
    """Return the conditions that filter words are.

    Raises:
        UsageError: A word is unknown or has a value that it cannot have.
    """
    return parse_filter(text, now=datetime.now(UTC))


async def _find(client: Client, wanted: FindArguments) -> ToolAnswer:
    query = read_filter(wanted.filter)
    page = await client.instances(limit=wanted.limit, after=wanted.after, **query)
    return {
        "instances": [await _shown(client, one) for one in page.items],
        "next": page.next,
    }


async def _shown(client: Client, info: InstanceInfo) -> dict[str, Any]:
    """Return where an instance stands; of one that has not ended, in a sentence."""
    if info.status.is_terminal:
        now = now_text(info)
    else:
        now = in_commands(await client.handle(info.instance_id).explain())
    return {**_facts(info), "now": now}


def _facts(info: InstanceInfo) -> dict[str, Any]:
    return {
        "instance_id": info.instance_id,
        "name": info.name,
        "version": info.version,
        "status": info.status.value,
        "started_at": info.created_at,
        "ended_at": info.ended_at,
        "parent_id": info.parent_id,
    }


async def _explain(client: Client, wanted: ExplainArguments) -> ToolAnswer:
    handle = client.handle(wanted.instance_id)
    info = await handle.info()
    jobs = await handle.jobs()
    inbox = await client.inbox(wanted.instance_id)
    dead = await client.dead_jobs(instance_id=wanted.instance_id, limit=MAX_SHOWN)
    return {
        "explanation": in_commands(await handle.explain()),
        **_facts(info),
        "execution": info.execution,
        "input": payload(info.input),
        "output": payload(info.output),
        "jobs": [
            {
                "key": one.key,
                "activity": one.activity,
                "state": job_state(one),
                "attempt": one.attempt,
                "worker_id": one.worker_id,
                "asked_at": one.created_at,
                "next_at": None if one.worker_id else one.visible_at,
                "misfit": one.misfit,
            }
            for one in jobs[:MAX_SHOWN]
        ],
        "inbox": [
            {"kind": one.kind, "at": one.at, "timer": one.timer_key, "content": payload(one.data)}
            for one in inbox[:MAX_SHOWN]
        ],
        "dead_jobs": [
            {
                "key": one.key,
                "activity": one.activity,
                "attempts": one.attempts,
                "died_at": one.died_at,
                "failure": one.failures[-1] if one.failures else "",
            }
            for one in dead.items
        ],
        "jobs_in_all": len(jobs),
        "messages_in_all": len(inbox),
    }


async def _history(client: Client, wanted: HistoryArguments) -> ToolAnswer:
    events = await client.handle(wanted.instance_id).history(
        wanted.execution, after=wanted.after, limit=wanted.limit
    )
    names = names_in(events)
    return {
        "events": [
            {
                "seq": one.seq,
                "at": one.at,
                "kind": one.kind,
                "of": subject_of(one, names),
                "value": value_of(one)[: MAX_VALUE + 1],
            }
            for one in events
        ],
        "next_after": events[-1].seq if len(events) == wanted.limit else None,
    }


async def _why_failed(client: Client, wanted: WhyFailedArguments) -> ToolAnswer:
    query = read_filter(wanted.filter)
    if "status" in query:
        raise UsageError("filter: why_failed is about failed instances; leave out status:")
    query["status"] = "failed"
    failed = await client.instances(limit=PAGE_MAX, **query)
    query["status"] = ["blocked", "parked"]
    held = await client.instances(limit=MAX_SHOWN, **query)
    dead = await client.dead_jobs(limit=MAX_SHOWN)
    return {
        "failures": grouped(failed.items),
        "looked_at": len(failed.items),
        "are_all": failed.next is None,
        "held": [
            {
                "instance_id": one.instance_id,
                "name": one.name,
                "status": one.status.value,
                "reason": one.reason,
            }
            for one in held.items
        ],
        "dead_jobs": [
            {
                "key": one.key,
                "instance_id": one.instance_id,
                "activity": one.activity,
                "failure": one.failures[-1] if one.failures else "",
            }
            for one in dead.items
        ],
    }


async def _queues(client: Client, _: NoArguments) -> ToolAnswer:
    queues = [one for one in await client.queues() if not one.name.startswith(RESERVED_PREFIX)]
    workers = await client.workers()
    return {
        "queues": queues,
        "workers": [
            {
                "worker_id": one.worker_id,
                "host": one.host,
                "pid": one.pid,
                "seen_at": one.seen_at,
                "slots": one.slots,
                "instances": one.instances,
                "jobs": one.jobs,
            }
            for one in workers
        ],
    }


def doctor_of(url: str) -> Tool[NoArguments]:
    """Return the tool that examines a store: it also looks at the database itself."""

    async def run(client: Client, _: NoArguments) -> ToolAnswer:
        # It has a loop of its own, and takes seconds.
        found = await asyncio.to_thread(examine, url, is_thorough=False, sample_s=CHECKS_FOR_S)
        return {
            "findings": [
                {
                    "check": one.check,
                    "level": one.level.value,
                    "found": one.found,
                    "advice": one.advice,
                }
                for one in found
            ]
        }

    return Tool(
        name="doctor",
        title="Examine the store",
        about="Check the database, workers, instances in trouble, dead jobs, projections, schedules"
        " and a sample of what must always hold. Each finding has a level and what to do.",
        arguments=NoArguments,
        run=run,
    )


def tools_that_look(url: str) -> Sequence[Tool[Any]]:
    """Return the tools that change nothing."""
    statuses = ", ".join(one.value for one in Status)
    return (
        Tool(
            name="find",
            title="Find instances",
            about="List instances, newest first, with what each waits for or came to. Statuses: "
            f"{statuses}. A page may be short and not the last: go on with `next` until it is"
            " null.",
            arguments=FindArguments,
            run=_find,
        ),
        Tool(
            name="explain",
            title="Explain an instance",
            about="Say in one sentence what an instance waits for, who has it and why nothing"
            " moves, with the evidence: open jobs, what is in its inbox, dead jobs, input, output.",
            arguments=ExplainArguments,
            run=_explain,
        ),
        Tool(
            name="history",
            title="Read a history",
            about="Read what is recorded of an instance, one short line per event, oldest first.",
            arguments=HistoryArguments,
            run=_history,
        ),
        Tool(
            name="why_failed",
            title="Group failures",
            about="Group the newest 500 failed instances by what went wrong, the largest group"
            " first, with examples; and list what is blocked or parked, and dead jobs.",
            arguments=WhyFailedArguments,
            run=_why_failed,
        ),
        Tool(
            name="queues",
            title="Look at queues and workers",
            about="Tell what waits for which definition, since when, who takes it, and what no live"
            " worker takes (`unclaimed`); and which workers live and how busy they are.",
            arguments=NoArguments,
            run=_queues,
        ),
        doctor_of(url),
    )
