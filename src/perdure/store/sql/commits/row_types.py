"""The rows that statements take in bulk, by the names of their values.

A statement reads a value by its position: `value ->> 10`. So the names here, the header of the
statement on each database, the positions that it reads and what the code gives them are compared by
a test: a column that is added in one place and not in the others fails there. A body lies in a blob
beside the rows; a row says where it begins and how long it is, or NULL twice if there is none.

The values are given by position. By name a row of an event takes twice as long to make, and there
are several in each commit.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure.store.sql.packing import RowValues


class DefinitionValues(RowValues, frozen=True):
    """A definition that gets a number."""

    definition_no: int
    kind: str
    name: str
    variant: str
    behaviour: int


class LiveValues(RowValues, frozen=True):
    """A live row, whole."""

    part: int
    instance_id: str
    definition_no: int | None
    incarnation: int
    execution: int
    next_seq: int
    wake_at_ms: int | None
    lease: int
    lease_until_ms: int
    home: str | None
    last_no: int
    last_at_ms: int
    last_commit: int
    attempts: int
    blocked_by: str | None
    is_stored: int
    """1: there is one already. PostgreSQL alone reads it."""


class EventValues(RowValues, frozen=True):
    """An event that is appended."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    kind: str
    at_ms: int
    body_begin: int
    body_length: int
    commit_id: int | None
    """Of its turn, with the first event of that."""


class MessageValues(RowValues, frozen=True):
    """A message or timer that is put into an inbox."""

    part: int
    instance_id: str
    no: int
    effective_at_ms: int
    rank: int
    execution: int
    kind: str
    timer_key: str | None
    body_begin: int
    body_length: int


class ReceiptValues(RowValues, frozen=True):
    """A message that was delivered."""

    part: int
    instance_id: str
    message_id: str
    no: int | None


class OutcomeValues(RowValues, frozen=True):
    """What an input came to."""

    part: int
    instance_id: str
    message_id: str
    outcome_begin: int
    outcome_length: int


class ArrivalValues(RowValues, frozen=True):
    """A message that is sent inside a user's transaction."""

    part: int
    instance_id: str
    body_begin: int
    body_length: int


class JobValues(RowValues, frozen=True):
    """A job that is added."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    queue_no: int
    visible_at_ms: int
    token: int
    worker_id: str | None
    attempt: int
    session: str | None
    policy_begin: int
    policy_length: int
    input_begin: int
    input_length: int
    start_by_ms: int | None


class RequeuedJobValues(RowValues, frozen=True):
    """A job that goes back into its queue."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    visible_at_ms: int
    attempt: int
    failures_begin: int | None
    failures_length: int | None
    details_begin: int | None
    details_length: int | None


class DeadJobValues(RowValues, frozen=True):
    """A job that ran out of attempts."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    failures_begin: int | None
    failures_length: int | None


class BeatValues(RowValues, frozen=True):
    """What a running job says of its progress."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    token: int
    details_begin: int | None
    details_length: int | None
    progress_begin: int | None
    progress_length: int | None


class StrandedTurnValues(RowValues, frozen=True):
    """An instance that a wrong clock has stranded, as it was found."""

    part: int
    instance_id: str
    wake_at_ms: int
    lease: int


class StrandedJobValues(RowValues, frozen=True):
    """A job that a wrong clock has stranded, as it was found."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    visible_at_ms: int
    token: int
    rest_ms: int
    """For how long it was to wait, of one that failed."""


class InstanceValues(RowValues, frozen=True):
    """The wide row of an instance that begins."""

    part: int
    instance_id: str
    incarnation: int
    definition_no: int
    created_ms: int
    parent_id: str | None
    parent_incarnation: int | None
    input_begin: int
    input_length: int


class MovedValues(RowValues, frozen=True):
    """An instance that goes on under another definition; with an input, in its next execution."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    definition_no: int
    input_begin: int | None
    input_length: int | None


class StatusValues(RowValues, frozen=True):
    """An instance whose status changes without ending it."""

    part: int
    instance_id: str
    incarnation: int
    status: str
    reason_begin: int | None
    reason_length: int | None


class EndedValues(RowValues, frozen=True):
    """An instance that ended."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    status: str
    last_commit: int
    digest_begin: int | None
    digest_length: int | None
    reason_begin: int | None
    reason_length: int | None
    output_begin: int | None
    output_length: int | None


class KvValues(RowValues, frozen=True):
    """What an instance keeps under a key."""

    part: int
    instance_id: str
    key: str
    updated_ms: int
    value_begin: int
    value_length: int


class ReportValues(RowValues, frozen=True):
    """What an instance says of itself."""

    part: int
    instance_id: str
    turns: int
    """How many have reported, by which the version rises."""
    updated_ms: int
    value_begin: int
    value_length: int


class StreamHeadValues(RowValues, frozen=True):
    """How many items of a stream are given indexes."""

    part: int
    instance_id: str
    stream: str
    items: int


class StreamValues(RowValues, frozen=True):
    """What was sent to a stream together."""

    part: int
    instance_id: str
    stream: str
    before_next: int
    """How far its last index is before the next one of the stream."""
    items: int
    incarnation: int
    execution: int
    seq: int
    attempt: int
    token: int
    at_ms: int
    body_begin: int
    body_length: int


class UniqueKeyValues(RowValues, frozen=True):
    """A business key that an instance takes."""

    part: int
    scope: str
    key: str | None
    instance_id: str
    incarnation: int


class SnapshotValues(RowValues, frozen=True):
    """The newest state of a decider."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    schema: int
    version: int
    made_ms: int
    body_begin: int
    body_length: int


class FeedValues(RowValues, frozen=True):
    """An event of a decider for those who read the feed."""

    part: int
    instance_id: str
    incarnation: int
    execution: int
    seq: int
    definition_no: int
    tag: str
    version: int
    cause: str
    correlation: str


class ObservationValues(RowValues, frozen=True):
    """An input that a decider was given."""

    part: int
    instance_id: str
    no: int
    at_ms: int
    tag: str
    outcome: str
    input_id: str
    input_begin: int
    input_length: int
    rejection_begin: int | None
    rejection_length: int | None


ROW_TYPES: Mapping[str, type[RowValues]] = {
    "intern": DefinitionValues,
    "beat_jobs": BeatValues,
    "bury_jobs": DeadJobValues,
    "end_instances": EndedValues,
    "insert_arrivals": ArrivalValues,
    "insert_events": EventValues,
    "insert_feed": FeedValues,
    "insert_instances": InstanceValues,
    "insert_jobs": JobValues,
    "insert_live": LiveValues,
    "insert_messages": MessageValues,
    "insert_observations": ObservationValues,
    "insert_receipts": ReceiptValues,
    "insert_unique_keys": UniqueKeyValues,
    "move_instances": MovedValues,
    "put_kv": KvValues,
    "put_live": LiveValues,
    "put_outcomes": OutcomeValues,
    "put_reports": ReportValues,
    "put_stream_heads": StreamHeadValues,
    "insert_stream_rows": StreamValues,
    "put_snapshots": SnapshotValues,
    "requeue_jobs": RequeuedJobValues,
    "set_statuses": StatusValues,
    "wake_stranded_jobs": StrandedJobValues,
    "wake_stranded_turns": StrandedTurnValues,
}
"""The rows of each statement that takes them as `rows`."""
