"""Counters, gauges and histograms: plain dictionaries of numbers by labels.

Each number has one writer, the thread of the loop (renewals of leases have a thread and labels of
their own), so nothing is locked. Any thread may read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from perdure.limits import MAX_LABEL_SETS
from perdure.telemetry.snapshots import Distribution, Family, Labels

OTHER = "other"
"""Stands for all label values beyond `MAX_LABEL_SETS`."""


class Counter:
    """Numbers that only rise, one per combination of labels."""

    kind: Literal["counter"] = "counter"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._values: dict[Labels, int] = {}

    def add(self, labels: Labels = (), by: int = 1) -> None:
        """Count something."""
        try:
            self._values[labels] += by
        except KeyError:
            key = labels if len(self._values) < MAX_LABEL_SETS else _others(self.labels)
            self._values[key] = self._values.get(key, 0) + by

    def family(self) -> Family:
        """Return what was counted so far."""
        return Family(self.name, self.kind, self.help, self.labels, dict(self._values))


class Gauge:
    """Numbers that say how things stand: set all at once, or read when they are asked for."""

    kind: Literal["gauge"] = "gauge"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._read: Callable[[], float] | None = None
        self._values: dict[Labels, float] = {}

    def read_by(self, read: Callable[[], float]) -> None:
        """Have a function tell the number of a gauge without labels; called from any thread."""
        self._read = read

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Forget all numbers and take these."""
        kept = dict(list(values.items())[:MAX_LABEL_SETS])
        if len(kept) < len(values):
            kept[_others(self.labels)] = sum(values.values()) - sum(kept.values())
        self._values = kept

    def family(self) -> Family:
        """Return the numbers as they stand."""
        values: Mapping[Labels, float] = self._values
        if self._read is not None:
            values = {(): self._read()}
        return Family(self.name, self.kind, self.help, self.labels, values)


class Histogram:
    """How often which size was seen, one series of buckets per combination of labels."""

    kind: Literal["histogram"] = "histogram"

    def __init__(
        self, name: str, help: str, labels: Labels = (), *, bounds: Sequence[float]
    ) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.bounds = tuple(bounds)
        self._series: dict[Labels, _Series] = {}

    def observe(self, labels: Labels, value: float) -> None:
        """Count a size."""
        series = self._series.get(labels)
        if series is None:
            series = self._first(labels)
        series.counts[bisect_left(self.bounds, value)] += 1
        series.total += value

    def _first(self, labels: Labels) -> _Series:
        key = labels if len(self._series) < MAX_LABEL_SETS else _others(self.labels)
        return self._series.setdefault(key, _Series(len(self.bounds) + 1))

    def family(self) -> Family:
        """Return what was seen so far."""
        samples = {
            labels: Distribution(self.bounds, tuple(series.counts), series.total)
            for labels, series in list(self._series.items())
        }
        return Family(self.name, self.kind, self.help, self.labels, samples)


class _Series:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total = 0.0


def _others(labels: Labels) -> Labels:
    return (OTHER,) * len(labels)
