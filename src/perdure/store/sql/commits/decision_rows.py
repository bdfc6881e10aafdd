"""Write what a batch decided of deciders: outcomes, keys, snapshots, the feed, observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.model.instances import part_of
from perdure.store.sql.commits.changes import DecisionChanges, ObservationRow, SnapshotRow
from perdure.store.sql.commits.row_types import (
    ObservationValues,
    OutcomeValues,
    SnapshotValues,
    UniqueKeyValues,
)
from perdure.store.sql.locking import lock_feed
from perdure.store.sql.packing import Bulk, Rows

DECIDER_ROWS = ("delete_unique_keys", "delete_snapshots", "delete_feed", "delete_observations")
"""Statements that remove what only deciders leave behind."""


def write_decisions(bulk: Bulk, decisions: DecisionChanges, *, now_ms: int) -> None:
    """Write everything there is; what is freed goes before what is taken."""
    if decisions.outcomes:
        put_outcomes(bulk, decisions.outcomes, now_ms=now_ms)
    if decisions.holders_gone:
        bulk.run_keys("delete_unique_keys", decisions.holders_gone)
    if decisions.keys_freed:
        bulk.run_keys("free_unique_keys", list(decisions.keys_freed))
    if decisions.keys_taken:
        taken = [
            UniqueKeyValues(part_of(key or ""), scope, key, *holder)
            for (scope, key), holder in decisions.keys_taken.items()
        ]
        bulk.write("insert_unique_keys", taken)
    if decisions.snapshots:
        _put_snapshots(bulk, decisions.snapshots)
    if decisions.feed:
        bulk.write("insert_feed", decisions.feed)
    if decisions.observations:
        insert_observations(bulk, decisions.observations)


def delete_decider_rows(bulk: Bulk, keys: Sequence[tuple[Any, ...]]) -> None:
    """Remove what only deciders leave behind."""
    if keys:
        lock_feed(bulk.connection)
    for name in DECIDER_ROWS:
        bulk.run_keys(name, keys)


def put_outcomes(
    bulk: Bulk, outcomes: Mapping[tuple[int, str, str], bytes], *, now_ms: int
) -> None:
    """Keep what inputs came to."""
    rows = Rows()
    for place, outcome in outcomes.items():
        rows.rows.append(OutcomeValues(*place, rows.place(outcome), len(outcome)))
    bulk.write_rows("put_outcomes", rows, now_ms=now_ms)


def _put_snapshots(bulk: Bulk, snapshots: Mapping[str, SnapshotRow]) -> None:
    rows = Rows()
    for instance_id, row in snapshots.items():
        schema, version, body = row.snapshot
        rows.rows.append(
            SnapshotValues(
                row.part,
                instance_id,
                row.incarnation,
                row.execution,
                row.seq,
                schema,
                version,
                row.made_ms,
                rows.place(body),
                len(body),
            )
        )
    bulk.write_rows("put_snapshots", rows)


def insert_observations(bulk: Bulk, observations: Sequence[ObservationRow]) -> None:
    """Keep inputs that deciders were given."""
    rows = Rows()
    for part, instance_id, no, at_ms, seen in observations:
        rows.rows.append(
            ObservationValues(
                part,
                instance_id,
                no,
                at_ms,
                seen.tag,
                seen.outcome,
                seen.input_id,
                rows.place(seen.input),
                len(seen.input),
                *rows.place_maybe(seen.rejection),
            )
        )
    bulk.write_rows("insert_observations", rows)
