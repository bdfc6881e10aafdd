"""Options that many commands have, and what they become before a command sees them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.output import errors_as_lines
from perdure.cli.settings import KNOWN, read_setting
from perdure.client.remote.urls import is_remote
from perdure.errors import PerdureError, UsageError

if TYPE_CHECKING:
    _ParamType = click.ParamType[timedelta]
else:
    # Generic in newer releases of click only.
    _ParamType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

FORMS = ("table", "wide", "tsv", "csv", "json", "jsonl", "ids")


def store_option(command: F) -> F:
    """Add `--store`; the command gets it as `url`, and its errors are lines without a password."""

    @wraps(command)
    def run(*args: Any, url: str, **kwargs: Any) -> object:
        with errors_as_lines(url):
            return command(*args, url=url, **kwargs)

    return _setting_option(  # type: ignore[return-value]  # called by click only
        run,
        "store",
        "url",
        "URL",
        "Where the store is: sqlite:///shop.db, postgresql://user@host/database, or https://host "
        "of a server before it, whose token is in $PERDURE_TOKEN.",
    )


def database_option(command: F) -> F:
    """Add `--store` to what works on the database itself: a server before it is refused."""

    @wraps(command)
    def run(*args: Any, url: str, **kwargs: Any) -> object:
        if is_remote(url):
            raise UsageError(
                f"{url} is a server, and this command works on the database itself: give "
                "--store sqlite:///FILE or postgresql://..., where the database is"
            )
        return command(*args, url=url, **kwargs)

    return store_option(run)  # type: ignore[return-value]  # called by click only


def target_option(command: F) -> F:
    """Add `--target`; the command gets it as `target`, empty if it is not known."""
    return _setting_option(
        command,
        "target",
        "target",
        "TARGET",
        "The module or file of the definitions (shop.orders, shop/orders.py).",
    )


def form_options(command: F) -> F:
    """Add `--output`, `--json` and `--jsonl`; the command gets the chosen one as `form`."""
    return form_options_with()(command)


def form_options_with(*more: str) -> Callable[[F], F]:
    """Add `--output`, `--json` and `--jsonl`, with more forms than all commands have."""
    return lambda command: _with_forms(command, (*FORMS, *more))


def _with_forms(command: F, forms: tuple[str, ...]) -> F:

    @wraps(command)
    def run(
        *args: Any, form_said: str | None, as_json: bool, as_jsonl: bool, **kwargs: Any
    ) -> object:
        said = [form_said] if form_said else []
        said += ["json"] * as_json + ["jsonl"] * as_jsonl
        if len(said) > 1:
            raise click.UsageError(f"--output, --json and --jsonl: give one, not {len(said)}")
        form = said[0] if said and said[0] not in FORMS else chosen_form(said[0] if said else None)
        return command(*args, form=form, **kwargs)

    for option in (
        click.option("--jsonl", "as_jsonl", is_flag=True, help="One JSON object per line."),
        click.option("--json", "as_json", is_flag=True, help="JSON, for scripts."),
        click.option(
            "-o",
            "--output",
            "form_said",
            type=click.Choice(forms),
            help="The form of the answer.  [default: table on a terminal, tsv elsewhere]",
        ),
    ):
        run = option(run)
    return run  # type: ignore[return-value]  # called by click only, which hands over by name


def chosen_form(said: str | None) -> str:
    """Return the form of an answer: what was said, else what fits where it goes."""
    try:
        form = read_setting("output", said).value
    except PerdureError as error:
        raise click.UsageError(str(error)) from error
    if form and form not in FORMS:
        raise click.UsageError(f"there is no output {form!r}; known: {', '.join(FORMS)}")
    return form or ("table" if sys.stdout.isatty() else "tsv")


raw_option = click.option(
    "--raw",
    is_flag=True,
    help="Print a result that is text as it is, without quotes or escapes. It may hold anything, "
    "also what moves the cursor of a terminal.",
)


class DurationParam(_ParamType):
    """A length of time on the command line: `30s`, `1h30m`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return it.

        Raises:
            click.BadParameter: It is not one.
        """
        # Late: brings the client.
        from perdure.durations import parse_duration

        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(value)
        except PerdureError as error:
            self.fail(str(error), param, ctx)


DURATION = DurationParam()


def _setting_option(command: F, name: str, argument: str, metavar: str, help: str) -> F:
    known = KNOWN[name]
    default = f"${known.variable}, [tool.perdure] {name}" + (
        f", or {known.default}" if known.default else ""
    )

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> object:
        said: str | None = kwargs.pop(argument)
        try:
            kwargs[argument] = read_setting(name, said).value
        except PerdureError as error:
            raise click.UsageError(str(error)) from error
        return command(*args, **kwargs)

    option = click.option(
        known.flag, argument, metavar=metavar, help=f"{help}  [default: {default}]"
    )
    return option(run)  # type: ignore[return-value]  # called by click only
