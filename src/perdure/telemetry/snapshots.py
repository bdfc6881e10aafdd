"""What was counted up to a moment, as values that no longer change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Labels: TypeAlias = tuple[str, ...]
"""The values of a metric's labels, in the order of their names."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a histogram has seen under some labels."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """How many lay at or below each bound and above the one before; the last: above all."""
    total: float
    """The sum of all that was seen."""

    @property
    def count(self) -> int:
        """How many were seen."""
        return sum(self.counts)

    def plus(self, other: Distribution) -> Distribution:
        """Return both together."""
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Distribution(self.bounds, counts, self.total + other.total)


Sample: TypeAlias = "float | Distribution"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    samples: Mapping[Labels, Sample]

    def matching(self, labels: Mapping[str, str]) -> list[Sample]:
        """Return the samples that have these labels, whatever their others are."""
        if unknown := set(labels) - set(self.labels):
            raise KeyError(f"{self.name} has the labels {self.labels}, not {sorted(unknown)}")
        wanted = [(self.labels.index(name), value) for name, value in labels.items()]
        return [
            sample
            for values, sample in self.samples.items()
            if all(values[index] == value for index, value in wanted)
        ]


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """All metrics at one moment."""

    families: tuple[Family, ...]

    def family(self, name: str) -> Family:
        """Return a metric by its name."""
        for family in self.families:
            if family.name == name:
                return family
        raise KeyError(f"no metric {name!r} (known: {', '.join(f.name for f in self.families)})")

    def value(self, name: str, **labels: str) -> float:
        """Return a counter or gauge, summed over all labels that are not given."""
        samples = self.family(name).matching(labels)
        return sum(sample for sample in samples if not isinstance(sample, Distribution))

    def distribution(self, name: str, **labels: str) -> Distribution | None:
        """Return what a histogram has seen, over all labels that are not given; None: nothing."""
        found: Distribution | None = None
        for sample in self.family(name).matching(labels):
            if isinstance(sample, Distribution):
                found = sample if found is None else found.plus(sample)
        return found

    def plus(self, other: MetricsSnapshot) -> MetricsSnapshot:
        """Return both together: of several workers or clients in one process."""
        others = {family.name: family for family in other.families}
        return MetricsSnapshot(
            tuple(_merged(family, others.get(family.name)) for family in self.families)
        )


def _merged(one: Family, other: Family | None) -> Family:
    samples = dict(one.samples)
    for labels, sample in other.samples.items() if other is not None else ():
        before = samples.get(labels)
        if isinstance(sample, Distribution):
            samples[labels] = sample.plus(before) if isinstance(before, Distribution) else sample
        else:
            samples[labels] = sample + (before if isinstance(before, int | float) else 0)
    return Family(one.name, one.kind, one.help, one.labels, samples)
