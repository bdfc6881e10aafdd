"""What the commands say beside their answer: errors as one line, without passwords."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from perdure.cli.advice import in_commands
from perdure.cli.exit_codes import ExitCode, exit_code_of
from perdure.errors import InstanceNotFoundError, PerdureError
from perdure.store.urls import hide_password, shown_url

UNUSABLE = int(ExitCode.USAGE)
"""Exit code of a worker process that cannot do what it was asked for; another would not either."""


def printable(text: str) -> str:
    """Return a text that comes from a database as it may be written to a terminal (SEC-20)."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


@contextmanager
def errors_as_lines(url: str = "", *, exit_code: int | None = None) -> Iterator[None]:
    """Turn what goes wrong into one line and an exit code, without a traceback.

    Args:
        url: The store, whose password is not said.
        exit_code: For every error; by default what `exit_codes` says of it.
    """
    try:
        yield
    except PerdureError as error:
        say_error(error_text(error, url))
        sys.exit(exit_code_of(error) if exit_code is None else exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of the pipe has seen enough: what Python would still write goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.GOOD)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Have what warns say so on one line each, as errors do, and not as Python shows it to
    programmers."""
    with warnings.catch_warnings():
        warnings.showwarning = _say_warning
        yield


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    text = in_commands(" ".join(str(message).split()))
    click.echo(f"Warning: {printable(text)}", err=True)


def error_text(error: PerdureError, url: str) -> str:
    """Return what an error says, with the store where something is not, and without a password."""
    text = in_commands(str(error))
    if url and isinstance(error, InstanceNotFoundError) and "; " not in text:
        text += f" in {shown_url(url)}; perdure list shows what there is"
    return hide_password(text, url)


def say_error(text: str) -> None:
    """Write an error to where errors go, on one line."""
    click.echo(f"Error: {printable(' '.join(text.split()))}", err=True)


def named(names: Iterable[str]) -> str:
    """Return the names of what there is, for a message."""
    return ", ".join(names) or "none"


def say(text: str) -> None:
    """Write what is not the answer itself: it must not get in the way of a pipe."""
    click.echo(text, err=True)
