"""The forms of an answer: a table for people, lines with tabs for a pipe, JSON for scripts.

A cell is a value, and each form shows it in its way: a point in time is relative on a terminal and
ISO 8601 elsewhere. Whatever comes from a database is shown without control characters.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import click

from perdure.cli.output import printable
from perdure.client.histories.event_texts import value_text as value_text
from perdure.client.reading.as_json import as_json, shown_time
from perdure.durations import shown_duration

T = TypeVar("T")


class Exact(NamedTuple):
    """A point in time that a table shows as it is: in a history the order of seconds matters."""

    at: datetime


Cell: TypeAlias = str | int | datetime | Exact | timedelta | None

MAX_CELL = 200
"""How many characters of a cell a table shows; `wide` and the other forms show all."""

UNBOUNDED = 10_000
"""The width of a table that is not fitted into a terminal."""

MAX_WHOLE = 48
"""Up to how many characters what names a thing stays on one line."""

_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")

STYLES = {
    "running": "cyan",
    "completed": "green",
    "ok": "green",
    "blocked": "bold yellow",
    "parked": "bold yellow",
    "stuck": "bold yellow",
    "paused": "yellow",
    "failed": "bold red",
    "dead": "bold red",
    "cancelled": "dim",
    "terminated": "dim",
}
"""Words that stand out in a table. The word says it; the colour only helps."""


class Column(NamedTuple, Generic[T]):
    """One column of a list."""

    heading: str
    cell: Callable[[T], Cell]
    wide: bool = False
    """Whether a table leaves it out, unless it is asked to be wide."""


# Without slots: what is made of `Listing[T]` is given a note of its T.
@dataclass(frozen=True, kw_only=True)
class Listing(Generic[T]):
    """How things of one kind are shown."""

    columns: Sequence[Column[T]]
    """The first one is what names a thing."""
    json: Callable[[T], Any] = field(default=as_json)

    def show(self, form: str, items: Sequence[T]) -> None:
        """Write them in a form."""
        text = self.render(form, items)
        if text is None:
            self._console_table(form, items)
        elif text:
            click.echo(text)

    def render(self, form: str, items: Sequence[T]) -> str | None:
        """Return them as text; None for a table, which needs a terminal's width."""
        match form:
            case "json":
                return json_text([self.json(one) for one in items])
            case "jsonl":
                return "\n".join(json_line(self.json(one)) for one in items)
            case "csv":
                return self._csv(items)
            case "ids":
                return "\n".join(map(self.name, items))
            case "tsv":
                return "\n".join(self.line(one) for one in items)
        return None

    def name(self, item: T) -> str:
        """Return what names one of them."""
        return plain(self.columns[0].cell(item))

    def line(self, item: T) -> str:
        """Return one of them as a line with tabs: every column."""
        return "\t".join(plain(column.cell(item)) for column in self.columns)

    def table(self, items: Iterable[T], *, wide: bool = False, now: datetime | None = None) -> Any:
        """Return them as a table of rich's."""
        # Late: rich is needed on a terminal only.
        from rich.table import Table
        from rich.text import Text

        moment = now or datetime.now(UTC)
        columns = [column for column in self.columns if wide or not column.wide]
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        rows = [[for_people(column.cell(item), moment) for column in columns] for item in items]
        # What names a thing is not broken in two, unless it is so long that it has to be.
        longest = max((len(row[0]) for row in rows), default=0)
        for number, column in enumerate(columns):
            is_whole = number == 0 and longest <= MAX_WHOLE
            table.add_column(Text(printable(column.heading)), overflow="fold", no_wrap=is_whole)
        for row in rows:
            cut = [row[0], *(text if wide else shortened(text, MAX_CELL) for text in row[1:])]
            table.add_row(*(Text(text, style=STYLES.get(text, "")) for text in cut))
        return table

    def _console_table(self, form: str, items: Sequence[T]) -> None:
        print_rich(self.table(items, wide=form == "wide"), wide=form == "wide")

    def _csv(self, items: Iterable[T]) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([for_spreadsheets(printable(one.heading)) for one in self.columns])
        for item in items:
            writer.writerow([for_spreadsheets(plain(column.cell(item))) for column in self.columns])
        return file.getvalue().removesuffix("\n")


def print_rich(thing: Any, *, wide: bool = False) -> None:
    """Write something of rich's.

    Args:
        thing: What to write.
        wide: Whether a line may be as long as it is. So it is in any case where there is no
            terminal, whose width would be made up.
    """
    from rich.console import Console  # late: rich is needed on a terminal only

    console = Console(highlight=False)
    if wide or not (console.is_terminal or "COLUMNS" in os.environ):
        console.width = UNBOUNDED
    console.print(thing, soft_wrap=False)


def plain(cell: Cell) -> str:
    """Return a cell for programs: one line, no control characters."""
    match cell:
        case None:
            return ""
        case datetime():
            return shown_time(cell)
        case Exact(at):
            return shown_time(at)
        case timedelta():
            return f"{cell.total_seconds():.3f}"
    return printable(str(cell))


def for_spreadsheets(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula (SEC-19): a quote is before what would
    be one. Numbers are none."""
    if text.startswith(_FORMULA_SIGNS) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def for_people(cell: Cell, now: datetime) -> str:
    """Return a cell for a terminal."""
    match cell:
        case None | "":
            return "-"
        case datetime():
            return ago(cell, now)
        case Exact(at):
            return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"
        case timedelta():
            return shown_duration(cell)
        case int():
            return f"{cell:,}"
    return printable(str(cell))


def ago(at: datetime, now: datetime) -> str:
    """Return a point in time as people say it."""
    length = now - at
    if length < timedelta(0):
        return f"in {shown_duration(-length)}"
    return f"{shown_duration(length)} ago" if length >= timedelta(seconds=1) else "now"


def shortened(text: str, length: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def json_text(value: Any) -> str:
    """Return JSON for people and programs. Control characters are escaped, as JSON has it."""
    return _escaped(json.dumps(as_json(value), indent=2))


def json_line(value: Any) -> str:
    """Return JSON on one line."""
    return _escaped(json.dumps(as_json(value), separators=(",", ":")))


def result_text(form: str, result: Any, *, raw: bool) -> str:
    """Return what an instance returned, by itself.

    Args:
        form: Of the answer; JSON in any case.
        result: As stored.
        raw: Whether a text is printed as it is.
    """
    if raw and isinstance(result, str):
        return result
    return json_text(result) if form == "json" else json_line(result)


def _escaped(text: str) -> str:
    # The one control character that JSON does not escape.
    return text.replace("\x7f", "\\u007f")
