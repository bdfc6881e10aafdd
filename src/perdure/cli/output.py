"""What the commands say: errors as one line, without passwords."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from perdure.errors import PerdureError
from perdure.store.urls import hide_password

UNUSABLE = 2
"""Exit code: the command cannot do what it was asked for."""


def printable(text: str) -> str:
    """Return a text that comes from a database as it may be written to a terminal (SEC-20)."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


@contextmanager
def errors_as_lines(url: str = "") -> Iterator[None]:
    """Turn what goes wrong into one line and an exit code, without a traceback."""
    try:
        yield
    except PerdureError as error:
        say_error(hide_password(str(error), url))
        sys.exit(UNUSABLE)


def say_error(text: str) -> None:
    """Write an error to where errors go, on one line."""
    click.echo(f"Error: {printable(' '.join(text.split()))}", err=True)


def say(text: str) -> None:
    """Write what is not the answer itself: it must not get in the way of a pipe."""
    click.echo(text, err=True)
