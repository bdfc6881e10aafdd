"""How the demo shows itself: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class PlainScreen:
    """Lines with a time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        return None

    def line(self, text: str) -> None:
        """Say something that stays."""
        click.echo(f"{_now()}  {text}")

    def progress(self, done: int) -> None:
        """Say nothing: the lines say it."""


class RichScreen:
    """A progress bar, with lines above it."""

    def __init__(self, steps: int) -> None:
        self._progress = Progress(
            TextColumn("[bold]order-1"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("activities"),
            console=Console(),
        )
        self._task = self._progress.add_task("order-1", total=steps)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def line(self, text: str) -> None:
        """Say something that stays."""
        self._progress.console.print(f"[dim]{_now()}[/]  {text}", highlight=False)

    def progress(self, done: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done)


def _now() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
