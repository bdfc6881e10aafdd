"""`perdure reset` and `perdure fork`: go on from an earlier point."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from perdure.cli.advice import in_commands
from perdure.cli.commands.act import Act, act_options, do_act, reason_option
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import store_option
from perdure.cli.output import say
from perdure.client.acting.bulk_acts import FAILED_OR_STOPPED
from perdure.client.client import Client
from perdure.client.histories.moving import handle_at
from perdure.client.histories.points import Point, chosen_point
from perdure.client.histories.resetting import ResetPlan
from perdure.client.reading.lists import InstanceQuery
from perdure.codec import JSON
from perdure.errors import UsageError
from perdure.model.instances import Status

F = TypeVar("F", bound=Callable[..., Any])


def _point_options(command: F) -> F:
    for option in (
        click.option("--plan", "plans", is_flag=True, help="Print what it would do; do nothing."),
        click.option("--returning", metavar="JSON", help="What the call of --after returns."),
        click.option("--nth", type=int, default=-1, help="Which call: 0 the first, -1 the last."),
        click.option("--version", metavar="V", help="Go on with this version, instead of its own."),
        click.option("--event", type=int, metavar="N", help="Keep all up to this event."),
        click.option("--after", metavar="CALL", help="Keep all up to the result of this call."),
        click.option("--before", metavar="CALL", help="Keep all before this call was made."),
    ):
        command = option(command)
    return command


@click.command("reset")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@_point_options
@reason_option
@act_options
def reset_command(ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Let instances go on from an earlier point, with the code that workers have today.

    Without --before, --after or --event: from just before what they failed at, or were stopped.
    What lies behind the point is done again; --plan tells what that is.
    """
    point, plans = _taken_point(options)
    version = options.pop("version")
    if plans:
        _show_plans(ids, point, version, **options)
        return

    async def do(client: Client, instance_id: str) -> str:
        handle = await handle_at(client, instance_id, version)
        await handle.reset(point, reason=reason)
        return ""

    async def do_all(client: Client, which: InstanceQuery, expect: int) -> int:
        return await client.reset_all(point, expect=expect, reason=reason, **which)

    statuses = FAILED_OR_STOPPED if point is None else tuple(Status)
    # With a version one after another, each to that of its own orchestration.
    together = do_all if version is None else None
    do_act(Act("reset", "reset", statuses, do, together), ids, **options)


@click.command("fork")
@click.argument("instance_id", metavar="ID")
@click.argument("new_id", metavar="NEW")
@_point_options
@store_option
def fork_command(instance_id: str, new_id: str, url: str, **options: Any) -> None:
    """Start the instance NEW with what ID did up to a point. ID is left as it is."""
    point, plans = _taken_point(options)
    version = options.pop("version")
    if plans:
        _show_plans((instance_id,), point, version, where=None, url=url)
        return

    async def work(client: Client) -> None:
        await (await handle_at(client, instance_id, version)).fork(new_id, point)

    ask(url, work)
    say(f"{new_id} goes on from {instance_id}, {_shown(point)}")


def _taken_point(options: dict[str, Any]) -> tuple[Point | None, bool]:
    """Take the options of a point out of all, and return it."""
    returning = options.pop("returning")
    result = None
    if returning is not None:
        result = JSON.encode(parse_value(returning, what="--returning"), "--returning")
    parts = {name: options.pop(name) for name in ("before", "after", "event", "nth")}
    return chosen_point(**parts, result=result), options.pop("plans")


def _show_plans(
    ids: tuple[str, ...],
    point: Point | None,
    version: str | None,
    *,
    where: str | None,
    url: str,
    **options: Any,
) -> None:
    if where is not None or not ids:
        raise UsageError("--plan is for instances that are named by their ids")

    async def work(client: Client) -> list[ResetPlan]:
        return [await (await handle_at(client, one, version)).plan(point) for one in ids]

    plans = ask(url, work)
    for instance_id, plan in zip(ids, plans, strict=True):
        if options.get("form") in ("json", "jsonl"):
            click.echo(json.dumps({"instance_id": instance_id, **asdict(plan)}))
        else:
            click.echo("\n".join([f"{instance_id}, {_shown(point)}:", *_told(plan)]))


def _told(plan: ResetPlan) -> list[str]:
    lines = [f"  keeps {plan.kept_events} events, drops {plan.dropped_events}"]
    if plan.runs_again:
        lines.append(f"  runs again: {', '.join(plan.runs_again)}")
    if plan.children_again:
        lines.append(f"  starts again, under other ids: {', '.join(plan.children_again)}")
    if plan.signals_kept:
        lines.append(f"  {plan.signals_kept} signals come again")
    if plan.updates_answered:
        lines.append(f"  answered since: updates {', '.join(plan.updates_answered)}")
    if plan.refused is not None:
        lines.append(f"  would be refused: {in_commands(plan.refused)}")
    if plan.mismatch is not None:
        lines.append(f"  the code does not fit: {plan.mismatch}")
    elif not plan.checked:
        lines.append("  whether the code fits is seen where the code is")
    return lines


def _shown(point: Point | None) -> str:
    return "before what it failed at" if point is None else point.text
