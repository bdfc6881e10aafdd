"""Metrics for Prometheus, by way of `prometheus_client`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perdure.telemetry.metrics import Metrics
from perdure.telemetry.snapshots import Distribution, Family

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


def prometheus_collector(*metrics: Metrics) -> Collector:
    """Return a collector for `prometheus_client`: `REGISTRY.register(prometheus_collector(...))`.

    Several metrics (of several engines in one process) are added up.
    """
    # Late: most processes do without it.
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    def exported(family: Family) -> Metric:
        if family.kind == "histogram":
            histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
            for labels, sample in family.samples.items():
                assert isinstance(sample, Distribution)
                histogram.add_metric(labels, _cumulated(sample), sum_value=sample.total)
            return histogram
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        found = kind(family.name, family.help, labels=family.labels)
        for labels, sample in family.samples.items():
            assert not isinstance(sample, Distribution)
            found.add_metric(labels, sample)
        return found

    class PerdureCollector(Collector):
        def describe(self) -> Iterable[Metric]:
            return [exported(family) for family in Metrics().snapshot().families]

        def collect(self) -> Iterable[Metric]:
            first, *others = [one.snapshot() for one in metrics]
            for other in others:
                first = first.plus(other)
            return [exported(family) for family in first.families]

    if not metrics:
        raise ValueError("prometheus_collector needs at least one Metrics: engine.telemetry")
    return PerdureCollector()


def _cumulated(sample: Distribution) -> list[tuple[str, float]]:
    buckets, so_far = [], 0
    for bound, count in zip((*sample.bounds, float("inf")), sample.counts, strict=True):
        so_far += count
        buckets.append(("+Inf" if bound == float("inf") else repr(float(bound)), float(so_far)))
    return buckets
