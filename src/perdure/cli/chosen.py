"""Which instances a command is about: ids, `-` for ids on standard input, or `--where FILTER`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import click

from perdure.cli.exit_codes import ExitCode
from perdure.cli.output import say
from perdure.client.client import Client
from perdure.client.reading.filters import FILTER_WORDS, parse_filter
from perdure.client.reading.lists import InstanceQuery
from perdure.codec import check_id
from perdure.errors import UsageError
from perdure.limits import BULK_MAX, PAGE_MAX
from perdure.model.instances import Status

F = TypeVar("F", bound=Callable[..., Any])

MAX_STDIN_IDS = 100_000
"""How many ids one command reads from standard input."""

WORDS_HELP = "Words: " + ", ".join(f"{word}:" for word in FILTER_WORDS) + "."


class Chosen(NamedTuple):
    """Which instances: these ids, or all that meet the conditions."""

    ids: Sequence[str]
    query: InstanceQuery | None


def where_option(command: F) -> F:
    """Add `--where`; the command gets it as `where`."""
    return click.option(
        "--where",
        metavar="FILTER",
        help='All that a filter finds, as in "name:checkout status:failed". ' + WORDS_HELP,
    )(command)


def choose(words: Sequence[str], where: str | None) -> Chosen:
    """Return which instances are meant. Nothing is asked of a store.

    Raises:
        UsageError: None are named, or in two ways; the filter is empty; or an id or a filter word
            is not valid.
    """
    if where is not None:
        if words:
            raise UsageError("give ids or --where, not both")
        query = parse_filter(where, now=datetime.now(UTC))
        if not query or query == {"roots_only": False}:
            raise UsageError(
                "--where is empty, which would mean every instance: say which, as in "
                '--where "name:checkout status:failed"'
            )
        return Chosen((), query)
    if not words:
        raise UsageError("say which instances: ids, - for ids on standard input, or --where")
    return Chosen(read_ids(words), None)


def read_ids(words: Sequence[str]) -> list[str]:
    """Return ids, those of standard input in place of `-`: the first word of each line.

    So what `perdure list` prints in a pipe can be read.
    """
    found: list[str] = []
    for word in words:
        if word != "-":
            found.append(check_id("instance id", word))
            continue
        for line in sys.stdin:
            instance_id = line.rstrip("\r\n").partition("\t")[0]
            if instance_id.strip():
                found.append(check_id("instance id", instance_id))
            if len(found) > MAX_STDIN_IDS:
                raise UsageError(f"more than {MAX_STDIN_IDS:,} ids on standard input")
    if not found:
        raise UsageError("there is no id on standard input")
    return list(dict.fromkeys(found))


async def find_ids(client: Client, chosen: Chosen, statuses: Sequence[Status]) -> list[str]:
    """Return the ids of those that are meant.

    Args:
        client: Where to look.
        chosen: Which.
        statuses: Only these matter to the command, if the filter names none.
    """
    if chosen.query is None:
        return list(chosen.ids)
    query = chosen.query.copy()
    query.setdefault("status", list(statuses))
    found: list[str] = []
    after = None
    while len(found) < BULK_MAX:
        page = await client.instances(
            limit=min(PAGE_MAX, BULK_MAX - len(found)), after=after, **query
        )
        found += [info.instance_id for info in page.items]
        after = page.next
        if after is None:
            break
    if after is not None:
        say(f"more than {BULK_MAX:,} instances match: the newest {BULK_MAX:,} now; run it again")
    return found


def confirm(verb: str, ids: Sequence[str], *, yes: bool, more_than: int = 1) -> None:
    """Have a person confirm what hits several instances.

    Args:
        verb: What would be done to them.
        ids: Which.
        yes: It is confirmed already.
        more_than: So many are not asked about.

    Raises:
        SystemExit: The person said no.
        UsageError: There is no terminal to ask at, and `--yes` was not given.
    """
    if len(ids) > more_than:
        some = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
        confirm_what(f"{verb} {len(ids):,} instance{'s' * (len(ids) > 1)} ({some})", yes=yes)


def confirm_what(what: str, *, yes: bool) -> None:
    """Have a person confirm something. See `confirm`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"this would {what}: give --yes if you mean it")
    if not click.confirm(f"{what}?", err=True):
        say("nothing was done")
        sys.exit(ExitCode.FAILED)
