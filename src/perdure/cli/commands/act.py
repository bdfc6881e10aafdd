"""`perdure signal`, `cancel`, `terminate`, `unpark`, `restart`, `retry`: done to instances.

Each takes ids, `-` for ids on standard input, or `--where FILTER`. What hits several is confirmed.
One that is refused does not keep the others from being done; the exit code is that of the first.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from perdure.authoring.signal import Signal
from perdure.cli.advice import in_commands
from perdure.cli.chosen import choose, confirm, find_ids, where_option
from perdure.cli.commands.starting import StartsWith, with_start_options
from perdure.cli.exit_codes import ExitCode, exit_code_of
from perdure.cli.forms import Column, Listing
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import error_text, say, say_error
from perdure.client.client import Client
from perdure.client.reading.lists import InstanceQuery
from perdure.errors import PartlyDoneError, PerdureError, StoreError, UsageError
from perdure.ids import fresh_name
from perdure.limits import BULK_MAX
from perdure.model.instances import ENDED, HELD, LIVE, Status

F = TypeVar("F", bound=Callable[..., Any])


class Act(NamedTuple):
    """Something that is done to instances."""

    verb: str
    """For the question: `cancel 12 instances?`"""
    done: str
    """For the answer."""
    statuses: Sequence[Status]
    """Whom a filter finds that names no status."""
    do: Callable[[Client, str], Awaitable[str]]
    """Does it to one, and returns what came of it if that is not `done`."""
    do_all: Callable[[Client, InstanceQuery, int], Awaitable[int]] | None = None
    """Does it to so many that a filter finds, and returns how many there was anything to do to."""
    unasked: int = 1
    """Up to so many instances a person is not asked to confirm."""


class ActResult(NamedTuple):
    """What became of one instance."""

    instance_id: str
    result: str


DONE = Listing[ActResult](
    columns=(
        Column("instance", lambda one: one.instance_id),
        Column("result", lambda one: one.result),
    ),
)


def act_options(command: F) -> F:
    """Add the options that all of these commands have."""
    for option in (
        store_option,
        form_options,
        click.option("--dry-run", is_flag=True, help="Print which ones, and do nothing."),
        click.option("--yes", is_flag=True, help="Do not ask, also if it hits several."),
        where_option,
    ):
        command = option(command)
    return command


reason_option = click.option("--reason", default="", help="Why; kept with the instance.")


@click.command("signal")
@click.argument("words", metavar="[ID] NAME [VALUE]", nargs=-1, required=True)
@click.option("--message-id", help="Sent again with the same id, it is delivered once.")
@act_options
@with_start_options
def signal_command(
    words: tuple[str, ...],
    message_id: str | None,
    starts: StartsWith | None,
    **options: Any,
) -> None:
    """Send the signal NAME, with VALUE as JSON (null if left out), to an instance.

    With --where, to all that the filter finds: perdure signal --where name:order approved true

    With --start, an instance that is not there is started and gets the signal in one commit:
    perdure signal order-1 approved true --start order --arg amount=12
    """
    if starts is not None:
        if message_id is not None:
            raise UsageError("--message-id is not for --start: give one of them")
        _refuse_many(words, where=options["where"])
    has_filter = options["where"] is not None
    ids, rest = ((), words) if has_filter else (words[:1], words[1:])
    if not 1 <= len(rest) <= 2:
        usage = "NAME [VALUE]" if has_filter else "ID NAME [VALUE]"
        raise UsageError(f"write perdure signal {usage}; a VALUE with spaces is in quotes")
    signal: Signal[Any] = Signal(rest[0], Any)
    value = parse_value(rest[1], what=f"value of signal {rest[0]}") if len(rest) > 1 else None

    async def do(client: Client, instance_id: str) -> str:
        if starts is None:
            await client.handle(instance_id).send(signal, value, message_id=message_id)
        else:
            await client.send_with_start(
                signal, value, instance_id, starts.definition, **starts.arguments
            )
        return ""

    async def do_all(client: Client, which: InstanceQuery, expect: int) -> int:
        once = message_id or fresh_name()
        return await client.signal_all(signal, value, expect=expect, message_id=once, **which)

    do_act(Act("send the signal to", "sent", LIVE, do, do_all), ids, **options)


@click.command("cancel")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@reason_option
@act_options
def cancel_command(ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Ask instances to stop: their code sees CancelledError and may clean up."""

    async def do(client: Client, instance_id: str) -> str:
        return await _unless_ended(
            client, instance_id, lambda: client.handle(instance_id).cancel(reason)
        )

    async def do_all(client: Client, which: InstanceQuery, expect: int) -> int:
        return await client.cancel_all(expect=expect, reason=reason, **which)

    do_act(Act("cancel", "asked to stop", LIVE, do, do_all), ids, **options)


@click.command("terminate")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@reason_option
@act_options
def terminate_command(ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Stop instances now. Their code is not asked, and no worker is needed."""

    async def do(client: Client, instance_id: str) -> str:
        return await _unless_ended(
            client, instance_id, lambda: client.handle(instance_id).terminate(reason)
        )

    async def do_all(client: Client, which: InstanceQuery, expect: int) -> int:
        return await client.terminate_all(expect=expect, reason=reason, **which)

    do_act(Act("terminate", "terminated", LIVE, do, do_all), ids, **options)


@click.command("unpark")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@act_options
def unpark_command(ids: tuple[str, ...], **options: Any) -> None:
    """Let parked or blocked instances be tried again, by any worker."""

    async def do(client: Client, instance_id: str) -> str:
        was_held = await client.handle(instance_id).unpark()
        return "" if was_held else "was neither parked nor blocked"

    async def do_all(client: Client, which: InstanceQuery, expect: int) -> int:
        return await client.unpark_all(expect=expect, **which)

    do_act(Act("unpark", "unparked", HELD, do, do_all), ids, **options)


@click.command("restart")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@act_options
def restart_command(ids: tuple[str, ...], **options: Any) -> None:
    """Start instances again that have ended, with the same definition and input.

    What they left behind is removed.
    """

    async def do(client: Client, instance_id: str) -> str:
        await client.handle(instance_id).restart()
        return ""

    do_act(Act("restart", "restarted", ENDED, do), ids, **options)


@click.command("retry")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@act_options
def retry_command(ids: tuple[str, ...], **options: Any) -> None:
    """Put the dead jobs of instances back into their queues, with all their attempts.

    A single one by its key: perdure job retry KEY
    """

    async def do(client: Client, instance_id: str) -> str:
        await client.handle(instance_id).info()  # fails for one that is not there
        retried = await client.retry_dead_jobs(instance_id=instance_id)
        return f"{retried} job{'s' * (retried != 1)} put back" if retried else "had no dead job"

    async def do_all(client: Client, which: InstanceQuery, expect: int) -> int:
        return await client.retry_all(expect=expect, **which)

    do_act(Act("retry the dead jobs of", "retried", tuple(Status), do, do_all), ids, **options)


# ------------------------------------------------------------------------ inside


def _refuse_many(words: Sequence[str], *, where: str | None) -> None:
    if where is not None or words[0] == "-":
        raise UsageError(
            "--start is for one instance that is named: perdure signal ID NAME [VALUE] --start NAME"
        )


async def _unless_ended(
    client: Client, instance_id: str, stop: Callable[[], Awaitable[None]]
) -> str:
    """Stop an instance; of one that has ended, say that."""
    info = await client.handle(instance_id).info()
    if info.status.is_terminal:
        return f"had ended: {info.status.value}"
    await stop()
    return ""


def do_act(
    act: Act,
    words: Sequence[str],
    *,
    where: str | None,
    yes: bool,
    dry_run: bool,
    form: str,
    url: str,
) -> None:
    """Do something to the instances that a person named, or that a filter finds."""
    chosen = choose(words, where)
    ids = chosen.ids
    if chosen.query is not None:
        ids = ask(url, lambda client: find_ids(client, chosen, act.statuses))
        say("1 instance matches" if len(ids) == 1 else f"{len(ids):,} instances match")
    if dry_run:
        DONE.show(form, [ActResult(one, f"would {act.verb}") for one in ids])
        return
    # Outside any event loop, which would keep Ctrl-C for itself while a person is asked.
    confirm(act.verb, ids, yes=yes, more_than=act.unasked)
    do_all = act.do_all
    if chosen.query is not None and do_all is not None and 1 < len(ids) < BULK_MAX:
        which = chosen.query.copy()
        which.setdefault("status", list(act.statuses))
        count = len(ids)
        sys.exit(ask(url, lambda one: _by_filter(act, do_all(one, which, count), ids, form)))
    sys.exit(ask(url, lambda client: _do_to_all(client, act, ids, form=form, url=url)))


async def _by_filter(act: Act, doing: Awaitable[int], ids: Sequence[str], form: str) -> ExitCode:
    """Let the client do it to all that the filter finds, if they are still as many."""
    refused: dict[str, str] = {}
    code = ExitCode.GOOD
    try:
        done = await doing
    except PartlyDoneError as error:
        done, refused, code = error.done, error.refused, exit_code_of(error)
        for instance_id, why in refused.items():
            say_error(in_commands(f"{instance_id}: {why}"))
    meant = [one for one in ids if one not in refused]
    result = act.done if done == len(meant) else f"{act.done} if there was anything to do"
    DONE.show(form, [ActResult(one, result) for one in meant])
    say(f"{done:,} of {len(ids):,} done")
    return code


async def _do_to_all(
    client: Client, act: Act, ids: Sequence[str], *, form: str, url: str
) -> ExitCode:
    done: list[ActResult] = []
    code = ExitCode.GOOD
    for instance_id in ids:
        try:
            done.append(ActResult(instance_id, await act.do(client, instance_id) or act.done))
        except StoreError:
            raise
        except PerdureError as error:
            say_error(error_text(error, url))
            code = code or exit_code_of(error)
    DONE.show(form, done)
    if len(ids) > 1:
        say(f"{len(done):,} of {len(ids):,} done")
    return code
