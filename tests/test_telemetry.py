from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from perdure.limits import MAX_LABEL_SETS
from perdure.telemetry import (
    Counter,
    Gauge,
    Histogram,
    JsonFormatter,
    Metrics,
    error_facts,
    prometheus_collector,
)


def test_a_counter_adds_up_by_labels() -> None:
    metrics = Metrics()

    metrics.starts.add(("checkout", "1.0.0", "client"))
    metrics.starts.add(("checkout", "1.0.0", "client"))
    metrics.starts.add(("checkout", "2.0.0", "parent"), by=3)

    now = metrics.snapshot()
    assert now.value("perdure_orchestration_starts_total") == 5
    assert now.value("perdure_orchestration_starts_total", version="1.0.0") == 2
    assert now.value("perdure_orchestration_starts_total", initiated_by="parent") == 3
    assert now.value("perdure_orchestration_starts_total", orchestration="other") == 0


def test_a_snapshot_no_longer_changes() -> None:
    metrics = Metrics()
    metrics.client_cancels.add()
    metrics.result_wait.observe(("completed",), 1)
    before = metrics.snapshot()

    metrics.client_cancels.add()
    metrics.result_wait.observe(("completed",), 1)

    assert before.value("perdure_client_cancels_total") == 1
    seen = before.distribution("perdure_client_result_wait_seconds")
    assert seen is not None
    assert (seen.count, seen.total) == (1, 1)


def test_a_histogram_counts_a_bound_into_its_own_bucket() -> None:
    histogram = Histogram("sizes", "", ("of",), bounds=(1, 10))

    for size in (0, 1, 2, 10, 11):
        histogram.observe(("x",), size)

    [sample] = histogram.family().samples.values()
    assert getattr(sample, "counts") == (2, 2, 1)  # noqa: B009 - of one of two types
    assert getattr(sample, "total") == 24  # noqa: B009


def test_unbounded_labels_end_in_one_called_other() -> None:
    """Metrics must not be what fills the memory, whatever names a program makes up."""
    counter = Counter("calls", "", ("name", "tag"))
    histogram = Histogram("sizes", "", ("name",), bounds=(1,))

    for number in range(MAX_LABEL_SETS + 5):
        counter.add((str(number), "x"))
        histogram.observe((str(number),), 1)

    counted, seen = counter.family().samples, histogram.family().samples
    assert len(counted) == len(seen) == MAX_LABEL_SETS + 1
    assert counted["other", "other"] == 5
    assert getattr(seen["other",], "count") == 5  # noqa: B009 - of one of two types


def test_a_gauge_forgets_what_is_no_longer_there() -> None:
    gauge = Gauge("depth", "", ("queue",))

    gauge.replace({("a",): 1, ("b",): 2})
    gauge.replace({("b",): 3})

    assert gauge.family().samples == {("b",): 3}


def test_a_gauge_with_too_many_labels_keeps_the_sum() -> None:
    gauge = Gauge("depth", "", ("queue",))

    gauge.replace({(str(number),): 1 for number in range(MAX_LABEL_SETS + 5)})

    samples = gauge.family().samples
    assert samples["other",] == 5
    assert len(samples) == MAX_LABEL_SETS + 1


def test_asking_for_a_metric_that_is_not_there_says_which_are() -> None:
    now = Metrics().snapshot()

    with pytest.raises(KeyError, match="perdure_claims_total"):
        now.value("perdure_clams_total")
    with pytest.raises(KeyError, match="kind"):
        now.value("perdure_claims_total", sort="turns")


def test_every_metric_has_a_name_of_ours_and_a_help_text() -> None:
    families = Metrics().snapshot().families

    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.name.startswith("perdure_")
        assert family.help.endswith(".")
        assert family.name.endswith("_total") == (family.kind == "counter")


def test_no_metric_has_an_id_for_a_label() -> None:
    """Ids are without number, and each would be a series of its own for ever."""
    labels = {label for family in Metrics().snapshot().families for label in family.labels}

    assert not {label for label in labels if "id" in label.split("_")}
    assert not labels & {"execution", "instance", "attempt", "worker"}


def test_prometheus_gets_all_that_was_counted_by_several_engines() -> None:
    one, other = Metrics(), Metrics()
    for metrics in (one, other):
        metrics.starts.add(("checkout", "1.0.0", "client"))
        metrics.turns.observe(("checkout",), 2)
    other.starts.add(("ship", "1.0.0", "parent"))
    other.hot_instances.read_by(lambda: 7.0)
    registry = CollectorRegistry()
    registry.register(prometheus_collector(one, other))

    text = generate_latest(registry).decode()

    starts = 'perdure_orchestration_starts_total{initiated_by="%s",orchestration="%s",version="%s"}'
    assert f"{starts % ('client', 'checkout', '1.0.0')} 2.0" in text
    assert f"{starts % ('parent', 'ship', '1.0.0')} 1.0" in text
    assert 'perdure_orchestration_turns_bucket{le="1.0",orchestration="checkout"} 0.0' in text
    assert 'perdure_orchestration_turns_bucket{le="2.0",orchestration="checkout"} 2.0' in text
    assert 'perdure_orchestration_turns_bucket{le="+Inf",orchestration="checkout"} 2.0' in text
    assert 'perdure_orchestration_turns_sum{orchestration="checkout"} 4.0' in text
    assert "perdure_hot_instances 7.0" in text


def test_a_second_collector_in_one_registry_is_refused() -> None:
    registry = CollectorRegistry()
    registry.register(prometheus_collector(Metrics()))

    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(prometheus_collector(Metrics()))


def record_of(message: str, *args: Any, exc_info: Any = None, **extra: Any) -> logging.LogRecord:
    logger = logging.getLogger("perdure.worker")
    return logger.makeRecord(
        logger.name, logging.WARNING, "file", 1, message, args, exc_info, extra=extra
    )


def test_a_json_line_has_the_text_and_the_facts() -> None:
    record = record_of("an instance is %s", "parked", instance_id="ü-1", attempt=3, kind=Counter)

    line = JsonFormatter().format(record)

    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == "an instance is parked"
    assert (found["instance_id"], found["attempt"]) == ("ü-1", 3)
    assert (found["level"], found["logger"]) == ("WARNING", "perdure.worker")
    assert found["time"].endswith("+00:00")
    assert "Counter" in found["kind"]


def test_a_json_line_has_the_exception() -> None:
    try:
        raise LookupError("nothing\nthere")
    except LookupError:
        record = record_of("it failed", exc_info=sys.exc_info())

    line = JsonFormatter().format(record)

    assert "\n" not in line
    assert "LookupError: nothing" in json.loads(line)["exception"]


def test_facts_about_an_exception_leave_out_its_text() -> None:
    """SEC-23: an exception's text may quote values."""
    try:
        raise LookupError("no order of Ada Lovelace")
    except LookupError as error:
        facts = error_facts(error)

    assert facts["error_type"] == "LookupError"
    assert "test_telemetry.py" in facts["raised_at"]
    assert "Ada" not in str(facts)
