"""What workers and clients count, and log lines for machines. What it offers is listed here."""

from perdure.telemetry.counting import Counter, Gauge, Histogram
from perdure.telemetry.logs import JsonFormatter, error_facts, shown_error
from perdure.telemetry.metrics import Metrics
from perdure.telemetry.prometheus import prometheus_collector
from perdure.telemetry.snapshots import Distribution, Family, MetricsSnapshot

__all__ = [
    "Counter",
    "Distribution",
    "Family",
    "Gauge",
    "Histogram",
    "JsonFormatter",
    "Metrics",
    "MetricsSnapshot",
    "error_facts",
    "prometheus_collector",
    "shown_error",
]
