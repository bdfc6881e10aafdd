"""`perdure job` and `perdure inbox`: jobs of instances, dead ones of the whole store, messages that
were not taken yet, and mending what got stuck."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence

import click

from perdure.cli.chosen import confirm_what, read_ids
from perdure.cli.exit_codes import ExitCode
from perdure.cli.forms import json_line, json_text
from perdure.cli.instance_texts import OPEN_JOBS
from perdure.cli.jobs_shown import DEAD_JOBS, INBOX
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import printable, say, say_error
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.client import Client
from perdure.client.histories.event_texts import message_text
from perdure.client.reading.info import JobInfo, MessageInfo
from perdure.client.reading.overview import DeadJobInfo, read_job_key
from perdure.errors import UsageError
from perdure.limits import PAGE_MAX


@click.group("job")
def job_command() -> None:
    """Look at jobs, and mend what got stuck."""


@job_command.command("list")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--dead", is_flag=True, help="Dead jobs, of the whole store if no ID is given.")
@click.option("--activity", help="With --dead: of this activity.")
@click.option("--tag", help="With --dead: of calls with this tag.")
@click.option(
    "--limit",
    type=click.IntRange(1, PAGE_MAX),
    default=100,
    show_default=True,
    help="How many at most.",
)
@watch_option
@form_options
@store_option
def list_jobs(
    ids: tuple[str, ...],
    dead: bool,
    activity: str | None,
    tag: str | None,
    limit: int,
    watch: bool,
    form: str,
    url: str,
) -> None:
    """List the open jobs of instances; with --dead, jobs that ran out of attempts.

    How many wait in the whole store: perdure queues
    """
    if not ids and not dead:
        raise UsageError("name the instances whose jobs to list, or give --dead")
    if (activity or tag) and not dead:
        raise UsageError("--activity and --tag are for dead jobs: give --dead")
    wanted = read_ids(ids) if ids else [None]

    async def read_open(client: Client) -> Sequence[JobInfo]:
        return [job for one in wanted if one for job in await client.handle(one).jobs()][:limit]

    async def read_dead(client: Client) -> Sequence[DeadJobInfo]:
        found: list[DeadJobInfo] = []
        for one in wanted:
            page = await client.dead_jobs(limit=limit, activity=activity, tag=tag, instance_id=one)
            found += page.items
            if page.next is not None and not watch:
                say(f"the first {limit} are shown: --limit N for more")
        return found[:limit]

    async def work(client: Client) -> None:
        if dead:
            await show_or_watch(DEAD_JOBS, form, lambda: read_dead(client), watch=watch)
        else:
            await show_or_watch(OPEN_JOBS, form, lambda: read_open(client), watch=watch)

    ask(url, work)


@job_command.command("show")
@click.argument("key")
@form_options
@store_option
def show_job(key: str, form: str, url: str) -> None:
    """Show a job, open or dead, by its KEY."""
    wanted = read_job_key(key)

    async def work(client: Client) -> JobInfo | DeadJobInfo | None:
        dead = await client.dead_jobs(limit=PAGE_MAX, instance_id=wanted.instance_id)
        open_jobs = await client.handle(wanted.instance_id).jobs()
        found: list[JobInfo | DeadJobInfo] = [*dead.items, *open_jobs]
        return next((one for one in found if one.key == key), None)

    found = ask(url, work)
    if found is None:
        say_error(
            f"there is no job {key!r}: it may have ended meanwhile; perdure job list "
            f"{wanted.instance_id} shows those that are open"
        )
        sys.exit(ExitCode.NOT_FOUND)
    if form in ("json", "jsonl"):
        click.echo(json_text(found) if form == "json" else json_line(found))
    elif isinstance(found, JobInfo):
        OPEN_JOBS.show("wide" if form == "table" else form, [found])
    else:
        _show_dead(form, found)


def _show_dead(form: str, job: DeadJobInfo) -> None:
    DEAD_JOBS.show("wide" if form == "table" else form, [job])
    if form == "table":
        for number, failure in enumerate(job.failures, start=1):
            click.echo(f"failure {number}: {printable(failure)}")


@job_command.command("retry")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@store_option
def retry_job(keys: tuple[str, ...], url: str) -> None:
    """Put dead jobs back into their queues, with all their attempts."""
    _each(url, keys, "put back", lambda client, key: client.retry_dead_job(key))


@job_command.command("forget")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@store_option
def forget_job(keys: tuple[str, ...], url: str) -> None:
    """Remove dead jobs for good."""
    _each(url, keys, "forgotten", lambda client, key: client.forget_dead_job(key))


@job_command.command("complete")
@click.argument("key")
@click.argument("value")
@store_option
def complete_job(key: str, value: str, url: str) -> None:
    """End an open job by hand: its orchestration goes on with VALUE, JSON, as the result."""
    result = parse_value(value, what="value")
    _each(url, (key,), "completed", lambda client, one: client.complete_job(one, result))


@job_command.command("fail")
@click.argument("key")
@click.argument("text")
@store_option
def fail_job(key: str, text: str, url: str) -> None:
    """End an open job by hand: its orchestration gets an ActivityError with TEXT."""
    _each(url, (key,), "failed", lambda client, one: client.fail_job(one, text))


def _each(
    url: str, keys: Sequence[str], done: str, do: Callable[[Client, str], Awaitable[None]]
) -> None:
    for key in keys:
        read_job_key(key)

    async def work(client: Client) -> None:
        for key in keys:
            await do(client, key)
            click.echo(f"{printable(key)}\t{done}")

    ask(url, work)


# ------------------------------------------------------------------------- inbox


@click.group("inbox")
def inbox_command() -> None:
    """Look at messages and timers that an instance has not taken yet, and drop one."""


@inbox_command.command("list")
@click.argument("instance_id", metavar="ID")
@watch_option
@form_options
@store_option
def list_inbox(instance_id: str, watch: bool, form: str, url: str) -> None:
    """List what is in the inbox of an instance: signals, updates, results, timers, inputs, in the
    order in which they are taken. What a timer has under `at` is when it is due.

    -o ids prints the numbers that `perdure inbox drop` takes.
    """

    async def work(client: Client) -> None:
        await show_or_watch(INBOX, form, lambda: client.inbox(instance_id), watch=watch)

    ask(url, work)


@inbox_command.command("drop")
@click.argument("instance_id", metavar="ID")
@click.argument("numbers", metavar="NO...", type=int, nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def drop_from_inbox(instance_id: str, numbers: tuple[int, ...], yes: bool, url: str) -> None:
    """Remove messages or timers from an inbox, as if they had never been sent.

    NO is what `perdure inbox list` shows. What waits for them waits on.
    """
    wanted = list(dict.fromkeys(numbers))
    there = {one.no: one for one in ask(url, lambda client: client.inbox(instance_id))}
    missing = [number for number in wanted if number not in there]
    if missing:
        say_error(
            f"the inbox of {instance_id!r} has no message {missing[0]}: it may have been taken "
            f"meanwhile; perdure inbox list {instance_id} shows what is there"
        )
        sys.exit(ExitCode.NOT_FOUND)
    # Outside any event loop, which would keep Ctrl-C for itself while a person is asked.
    confirm_what(_told(instance_id, [there[number] for number in wanted]), yes=yes)

    async def work(client: Client) -> None:
        for number in wanted:
            await client.drop_message(instance_id, number)
            click.echo(f"{printable(instance_id)}\t{number}\tdropped")

    ask(url, work)


def _told(instance_id: str, messages: Sequence[MessageInfo]) -> str:
    """Return what is about to be done, for the question."""
    what = ", ".join(f"{one.no} ({message_text(one.kind, one.data)})" for one in messages)
    return printable(f"drop {what} from the inbox of {instance_id}")
