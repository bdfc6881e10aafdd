"""`--watch`: a list that goes on, drawn again on a terminal, told by its changes in a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

from perdure.cli.forms import Listing
from perdure.errors import UsageError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

WATCH_EVERY_S = 1.0
"""The pause between two looks."""


def watch_option(command: F) -> F:
    """Add `--watch`; the command gets it as `watch`."""
    return click.option(
        "--watch",
        is_flag=True,
        help="Go on: drawn again on a terminal, rows that are new or changed in a pipe.",
    )(command)


async def show_or_watch(
    listing: Listing[T], form: str, read: Callable[[], Awaitable[Sequence[T]]], *, watch: bool
) -> None:
    """Show a list, once or until Ctrl-C."""
    if not watch:
        listing.show(form, await read())
        return
    if form in ("json", "csv"):
        raise UsageError(f"--watch never ends, which {form} cannot say: give --jsonl")
    if form in ("table", "wide"):
        if sys.stdout.isatty():
            await _draw(listing, form, read)
        form = "tsv"
    await _tell(listing, form, read)


async def _draw(
    listing: Listing[T], form: str, read: Callable[[], Awaitable[Sequence[T]]]
) -> NoReturn:
    from rich.console import Console  # late: rich is needed on a terminal only
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            live.update(listing.table(await read(), wide=form == "wide"), refresh=True)
            await asyncio.sleep(WATCH_EVERY_S)


async def _tell(
    listing: Listing[T], form: str, read: Callable[[], Awaitable[Sequence[T]]]
) -> NoReturn:
    told: set[str] = set()
    while True:
        lines = [listing.render(form, [one]) or "" for one in await read()]
        for line in lines:
            if line not in told:
                click.echo(line)
        told = set(lines)
        await asyncio.sleep(WATCH_EVERY_S)
