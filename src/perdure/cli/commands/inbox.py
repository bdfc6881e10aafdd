"""`perdure inbox`: what an instance has been sent and has not taken yet."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from perdure.cli.chosen import confirm_what
from perdure.cli.exit_codes import ExitCode
from perdure.cli.jobs_shown import INBOX
from perdure.cli.opening import ask
from perdure.cli.options import form_options, store_option
from perdure.cli.output import printable, say_error
from perdure.cli.watching import show_or_watch, watch_option
from perdure.client.client import Client
from perdure.client.histories.event_texts import message_text
from perdure.client.reading.info import MessageInfo


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
