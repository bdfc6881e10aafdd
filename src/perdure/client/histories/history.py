"""The events of an execution: a list that notebooks show, and that can be drawn."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from perdure.client.histories.event_texts import names_in, subject_of, value_of
from perdure.client.reading.as_json import as_json, shown_time
from perdure.client.reading.display import ShownTable
from perdure.client.reading.info import HistoryEvent, Json
from perdure.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_BARS = 200
"""How many calls are drawn: the first ones."""


class History(list[HistoryEvent]):
    """What is recorded in an execution, in order."""

    def to_dicts(self) -> list[dict[str, Json]]:
        """Return the events as plain dictionaries, for `pandas.DataFrame` and the like."""
        return [as_json(event) for event in self]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each call, timer, child and wait as a bar, from when it was asked for to its answer.

        Args:
            ax: Where to draw; by default a figure of its own.

        Raises:
            UsageError: matplotlib is not installed.
        """
        if not find_spec("matplotlib"):
            raise UsageError("a plot needs matplotlib; run: pip install perdure[plot]")
        if ax is None:
            from matplotlib import pyplot  # late: an extra, and slow to load

            _, ax = pyplot.subplots(figsize=(9, max(2.0, 0.3 * len(self.spans()) + 1)))
        for place, (name, began_s, took_s, is_open) in enumerate(self.spans()):
            style: dict[str, Any] = {"alpha": 0.4, "hatch": "//"} if is_open else {}
            ax.barh(place, max(took_s, 0.001), left=began_s, height=0.6, color="C0", **style)
            ax.text(began_s, place, f" {name}", va="center", fontsize=8, parse_math=False)
        ax.set_yticks([])
        ax.invert_yaxis()
        ax.set_xlabel("seconds since the start")
        return ax

    def spans(self) -> list[tuple[str, float, float, bool]]:
        """Return what was asked for: its name, when (in seconds since the first event), how long
        it took, and whether it has no answer yet; then it took until the newest event."""
        if not self:
            return []
        names = names_in(self)
        answered = {
            asked: event
            for event in self
            if isinstance(asked := event.data.get("schedule") or event.data.get("wait"), int)
        }
        first, last = self[0].at, self[-1].at
        found = []
        for event in self:
            if not event.kind.endswith(("_scheduled", "_awaited")):
                continue
            end = answered.get(event.seq)
            took_s = ((last if end is None else end.at) - event.at).total_seconds()
            what = event.kind.rpartition("_")[0].replace("_", " ")
            name = f"{what} {subject_of(event, names)}".strip()
            found.append((name, (event.at - first).total_seconds(), took_s, end is None))
        return found[:MAX_BARS]

    def _repr_html_(self) -> str:
        return self._shown().html()

    def __rich__(self) -> Any:
        return self._shown().rich()

    def _shown(self) -> ShownTable:
        names = names_in(self)
        rows = [
            [
                str(event.seq),
                shown_time(event.at),
                event.kind.replace("_", " "),
                subject_of(event, names),
                value_of(event),
            ]
            for event in self
        ]
        return ShownTable(f"{len(self):,} events", ["#", "when", "what", "of", "value"], rows)
