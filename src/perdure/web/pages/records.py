"""How definitions have gone lately: how many ended, how many of them failed, how long they took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

import msgspec

from perdure.client.client import Client
from perdure.client.reading.info import InstanceInfo
from perdure.model.instances import Status
from perdure.telemetry.snapshots import Distribution

ACTIVITY_TIMES = "perdure_activity_duration_seconds"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """How a definition has gone lately."""

    ended: int
    failed: int
    p50_s: float
    """Half of those that ended took at most so long."""
    p95_s: float


def records_of(found: Iterable[InstanceInfo]) -> dict[str, Record]:
    """Return how instances have gone, by the name of their definition."""
    took: dict[str, list[float]] = defaultdict(list)
    failed: dict[str, int] = defaultdict(int)
    for one in found:
        if one.ended_at is not None and one.kind == "orchestration":
            took[one.name].append((one.ended_at - one.created_at).total_seconds())
            failed[one.name] += one.status is Status.FAILED
    return {
        name: Record(
            ended=len(lengths),
            failed=failed[name],
            p50_s=quantile(lengths, 0.5) or 0.0,
            p95_s=quantile(lengths, 0.95) or 0.0,
        )
        for name, lengths in took.items()
    }


def records_of_activities(client: Client) -> dict[str, Record]:
    """Return how the activities have gone that this process has run."""
    family = client.telemetry.snapshot().family(ACTIVITY_TIMES)
    seen: dict[str, Distribution] = {}
    failed: dict[str, int] = defaultdict(int)
    for (name, outcome, *_), sample in family.samples.items():
        if isinstance(sample, Distribution) and sample.count:
            seen[name] = sample.plus(seen[name]) if name in seen else sample
            failed[name] += sample.count if outcome == "failed" else 0
    return {
        name: Record(
            ended=one.count,
            failed=failed[name],
            p50_s=bound_of(one, 0.5),
            p95_s=bound_of(one, 0.95),
        )
        for name, one in seen.items()
    }


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value that so large a share of values does not exceed; None of none."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)] if values else None


def bound_of(seen: Distribution, share: float) -> float:
    """Return a bound that so large a share of what was seen does not exceed."""
    wanted, so_far = share * seen.count, 0
    for bound, count in zip(seen.bounds, seen.counts, strict=False):
        so_far += count
        if so_far >= wanted:
            return bound
    return seen.bounds[-1]
