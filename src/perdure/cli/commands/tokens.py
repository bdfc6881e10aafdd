"""`perdure token`: make a token for a program, of which the server keeps the hash alone."""

from __future__ import annotations

import os
from datetime import datetime

import click

from perdure.cli.output import errors_as_lines, say
from perdure.client.reading.filters import parse_time
from perdure.errors import UsageError

SCOPES = ("read", "write", "admin")
"""As in `perdure.web.access`, which is not loaded for the help."""


@click.command("token")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=("read",),
    show_default=True,
    help="What it may do; several times for several.",
)
@click.option("--until", metavar="TIME", help="When it ends, as in 2030-01-01. Not given: never.")
@click.option("--file", "path", metavar="FILE", help="Add its line to this file of tokens.")
def token_command(name: str, scopes: tuple[str, ...], until: str | None, path: str | None) -> None:
    """Make a token for the program NAME, and print it, once: it is kept nowhere.

    The server is given its hash, as a line of the file that `perdure ui --tokens FILE` reads.
    Without --file that line is printed beside the token, on the standard error. A token is revoked
    by taking its line out of the file, and starting the server again.
    """
    with errors_as_lines():
        _make(name, scopes, until, path)


def _make(name: str, scopes: tuple[str, ...], until: str | None, path: str | None) -> None:
    from perdure.web.access import check_scopes, make_token, now_utc  # late: brings the web

    if not name or not name.isprintable() or set(name) & set(" #"):
        raise UsageError(f"NAME {name!r}: write one word, without # in it")
    ends: datetime | None = None
    if until is not None:
        ends = parse_time(until, now=now_utc(), what="--until")
        if ends <= now_utc():
            raise UsageError(f"--until {until} is over already")
    text, kept = make_token(name, scopes=check_scopes(scopes), expires_at=ends)
    if path is None:
        say(f"line for the file of tokens: {kept.line()}")
    else:
        _add_line(path, kept.line())
        say(f"its line was added to {path}")
    click.echo(text)


def _add_line(path: str, line: str) -> None:
    """Add a line to a file, which is made for its owner alone."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise UsageError(f"--file {path}: {error.strerror}") from error
