"""`perdure start`: an instance of an orchestration that a worker runs; and what else starts one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Literal, NamedTuple, TypeVar

import click

from perdure.authoring.orchestration import Orchestration
from perdure.cli.forms import json_line, json_text, result_text
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import DURATION, form_options, raw_option, store_option
from perdure.cli.output import printable, say
from perdure.client.client import Client
from perdure.client.reading.filters import parse_time
from perdure.client.reading.info import Json
from perdure.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

IF_EXISTS = ("join", "fail", "restart", "terminate")


@click.command("start")
@click.argument("name")
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@click.option("--arg", "named", metavar="NAME=VALUE", multiple=True, help="An argument by name.")
@click.option("--id", "instance_id", help="Its id; one is made if none is given.")
@click.option("--version", help="The version to begin with.  [default: as the worker prefers]")
@click.option("--delay", type=DURATION, help="How long until its first turn, as in 10m.")
@click.option(
    "--at", metavar="TIME", help="When its first turn is, as in 2030-01-01T09:00, in UTC."
)
@click.option(
    "--if-exists",
    type=click.Choice(IF_EXISTS),
    default="join",
    show_default=True,
    help="What to do when the id exists: return it if definition and input are equal, refuse, "
    "begin it anew if it has ended, or terminate it and begin it anew.",
)
@click.option("--wait", is_flag=True, help="Wait for its end, and print its result.")
@click.option(
    "--timeout", type=DURATION, help="How long to wait, as in 30s; for ever if not given."
)
@raw_option
@form_options
@store_option
def start_command(
    name: str,
    values: tuple[str, ...],
    named: tuple[str, ...],
    instance_id: str | None,
    version: str | None,
    delay: timedelta | None,
    at: str | None,
    if_exists: Literal["join", "fail", "restart", "terminate"],
    wait: bool,
    timeout: timedelta | None,
    raw: bool,
    form: str,
    url: str,
) -> None:
    """Start an instance of the orchestration NAME, and print its id.

    Each VALUE is an argument, as JSON: perdure start greet_all '["Ada", "Grace"]'. @FILE reads one
    from a file. The instance is durable when this returns; a worker that has NAME runs it.
    """
    if (timeout is not None or raw) and not wait:
        raise UsageError(f"{'--raw' if raw else '--timeout'} is for --wait: give both")
    args = [parse_value(one, what=f"argument {n}") for n, one in enumerate(values, start=1)]
    kwargs = dict(named_argument(one) for one in named)
    if at is not None:
        delay = _delay_until(at, delay, now=datetime.now(UTC))
    definition: Orchestration[..., Any] = Orchestration.named(name, Any)
    definition = definition.with_options(if_exists=if_exists, delay=delay)
    if version is not None:
        definition = definition.with_options(version=version)

    async def work(client: Client) -> None:
        handle = (
            await client.start(definition, *args, **kwargs)
            if instance_id is None
            else await client.start(instance_id, definition, *args, **kwargs)
        )
        info = await handle.info()
        if info.unclaimed:
            say(f"it waits: {info.unclaimed}, which no live worker has; run perdure worker TARGET")
        if wait:
            say(printable(handle.instance_id))
            result = await handle.result(timeout=timeout)
            click.echo(result_text(form, result, raw=raw), color=raw or None)
        else:
            _print_id(handle.instance_id, form)

    ask(url, work)


def _delay_until(at: str, delay: timedelta | None, *, now: datetime) -> timedelta:
    if delay is not None:
        raise UsageError("give --at or --delay, not both")
    left = parse_time(at, now=now, what="--at") - now
    if left <= timedelta(0):
        raise UsageError(
            f"--at {at!r} is past: write a time to come, as in 2030-01-01T09:00, in UTC unless it "
            "names its zone; --delay takes a length of time"
        )
    return left


def named_argument(text: str) -> tuple[str, Json]:
    """Return an argument that was given as NAME=VALUE.

    Raises:
        UsageError: It is none.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--arg {text!r} must be NAME=VALUE, as in --arg amount=12")
    return name, parse_value(value, what=f"argument {name}")


class StartsWith(NamedTuple):
    """What is started if an instance is not there, by what is sent to it."""

    definition: Orchestration[..., Any]
    arguments: dict[str, Json]


def with_start_options(command: F) -> F:
    """Add `--start`, `--arg` and `--if-exists`; the command gets them as `starts`, None if nothing
    is to be started."""

    @wraps(command)
    def run(
        *args: Any, start: str | None, named: tuple[str, ...], if_exists: Any, **kwargs: Any
    ) -> object:
        if start is None and (named or if_exists is not None):
            raise UsageError(f"{'--arg' if named else '--if-exists'} is for --start: give both")
        starts = None
        if start is not None:
            asked: Orchestration[..., Any] = Orchestration.named(start, Any)
            if if_exists is not None:
                asked = asked.with_options(if_exists=if_exists)
            starts = StartsWith(asked, dict(named_argument(one) for one in named))
        return command(*args, starts=starts, **kwargs)

    for option in (
        click.option(
            "--if-exists",
            type=click.Choice(("restart", "terminate")),
            help="Of --start: begin one that has ended anew; without it, that is refused.",
        ),
        click.option("--arg", "named", metavar="NAME=VALUE", multiple=True, help="Of --start."),
        click.option(
            "--start", metavar="NAME", help="Start it as this orchestration, if it is not there."
        ),
    ):
        run = option(run)
    return run  # type: ignore[return-value]  # called by click only, which hands over by name


def _print_id(instance_id: str, form: str) -> None:
    if form in ("json", "jsonl"):
        whole = {"instance_id": instance_id}
        click.echo(json_text(whole) if form == "json" else json_line(whole))
    else:
        click.echo(printable(instance_id))
