"""What notebooks and rich show of things that clients return: a table, escaped and cut.

HTML has its style in it and no script, so that it is the same wherever a notebook is shown. Nothing
that comes from a store is taken for HTML, for markup of rich, or for codes of a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from perdure.client.reading.as_json import shown_time

if TYPE_CHECKING:
    from perdure.client.reading.info import InstanceInfo

MAX_ROWS = 100
"""How many rows are shown; how many more there are is said."""
MAX_CELL = 80
"""How many characters of a cell are shown."""

_TABLE = "border-collapse:collapse;font-size:90%"
_CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top"
_COLOURS = {
    "running": "#0b7285",
    "completed": "#2b8a3e",
    "blocked": "#e67700",
    "parked": "#e67700",
    "failed": "#c92a2a",
    "cancelled": "#868e96",
    "terminated": "#868e96",
}


class ShownTable:
    """A heading and rows of text, for a notebook or for rich."""

    def __init__(self, heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._heading = _cut(heading)
        self._columns = columns
        self._rows = [[_cut(cell) for cell in row] for row in rows[:MAX_ROWS]]
        self._left_out = max(len(rows) - MAX_ROWS, 0)

    def html(self) -> str:
        """Return it as HTML."""
        head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in self._columns)
        body = "".join(
            f"<tr>{''.join(self._cell(cell) for cell in row)}</tr>" for row in self._rows
        )
        more = f"<div>and {self._left_out:,} more</div>" if self._left_out else ""
        table = f'<table style="{_TABLE}"><tr>{head}</tr>{body}</table>' if self._columns else ""
        return f"<div><strong>{escape(self._heading)}</strong>{table}{more}</div>"

    def rich(self) -> Any:
        """Return it as a table of rich's."""
        from rich.table import Table  # late: few need it
        from rich.text import Text

        caption = f"and {self._left_out:,} more" if self._left_out else None
        table = Table(title=Text(self._heading), caption=caption, box=None, title_justify="left")
        for name in self._columns:
            table.add_column(Text(name), overflow="fold")
        for row in self._rows:
            table.add_row(*(Text(cell) for cell in row))
        return table

    @staticmethod
    def _cell(text: str) -> str:
        colour = _COLOURS.get(text)
        more = f";color:{colour};font-weight:600" if colour else ""
        return f'<td style="{_CELL}{more}">{escape(text)}</td>'


def instances_table(heading: str, items: Sequence[InstanceInfo]) -> ShownTable:
    """Return instances as a table."""
    rows = [
        [
            one.instance_id,
            one.name,
            one.status.value,
            one.reason or one.unclaimed or "",
            shown_time(one.created_at),
            "" if one.ended_at is None else shown_time(one.ended_at),
        ]
        for one in items
    ]
    return ShownTable(heading, ["instance", "name", "status", "why", "started", "ended"], rows)


def objects_table(heading: str, items: Sequence[Any]) -> ShownTable:
    """Return things of one kind as a table: a column for each field."""
    if not items:
        return ShownTable(heading, [], [])
    names = list(type(items[0]).__dataclass_fields__)
    rows = [[_text(getattr(one, name)) for name in names] for one in items]
    return ShownTable(heading, names, rows)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _cut(text: str) -> str:
    """Return a text on one line, of printable characters, not too long."""
    plain = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[: MAX_CELL + 1])
    return plain if len(plain) <= MAX_CELL else f"{plain[: MAX_CELL - 1]}…"
