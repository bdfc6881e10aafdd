"""Everything that is counted, by name.

What is counted is counted once: when the store has accepted it, never at a commit that was refused,
never while a history is replayed.

Ids never become labels. Names do, since definitions are few; a metric that gets too many labels all
the same counts the later ones under `other`.
"""

from __future__ import annotations

from perdure.telemetry.counting import Counter, Gauge, Histogram
from perdure.telemetry.snapshots import MetricsSnapshot

DURATIONS_S = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600)
"""Buckets for durations of instances and of their calls."""

SHORT_DURATIONS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, *DURATIONS_S)
"""The same with finer steps below, where most of them lie."""

STORE_DURATIONS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
HISTORY_SIZES = (10, 50, 100, 500, 1_000, 5_000, 10_000)
TURN_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class Metrics:
    """Everything that a worker and a client of one store count.

    Read it with `snapshot()`, or hand it to `prometheus_collector`.
    """

    def __init__(self) -> None:
        self.snapshots = 0
        """How often it was read. The gauges that ask the store are refreshed only if it was."""
        self._orchestrations()
        self._deciders()
        self._projections()
        self._activities()
        self._machinery()
        self._client()
        self._families: tuple[Counter | Gauge | Histogram, ...] = tuple(
            found for found in vars(self).values() if isinstance(found, Counter | Gauge | Histogram)
        )

    def snapshot(self) -> MetricsSnapshot:
        """Return all numbers as they are now. Any thread may ask."""
        self.snapshots += 1
        return MetricsSnapshot(tuple(found.family() for found in self._families))

    def instance_ended(self, name: str, version: str, status: str, took_s: float) -> None:
        """Count the end of an instance, which was committed by a turn or from outside."""
        if not version:  # a decider's, since those have none
            self.decider_ends.add((name, status))
            return
        labels = (name, version, status)
        self.completions.add(labels)
        self.duration.observe(labels, took_s)

    def _orchestrations(self) -> None:
        which = ("orchestration", "version")
        self.starts = Counter(
            "perdure_orchestration_starts_total",
            "Executions whose first turn was committed, by who began them.",
            (*which, "initiated_by"),
        )
        self.completions = Counter(
            "perdure_orchestration_completions_total",
            "Instances that ended, by how.",
            (*which, "status"),
        )
        self.failures = Counter(
            "perdure_orchestration_failures_total",
            "Instances that failed, by the exception's class.",
            (*which, "error_type"),
        )
        self.cancellations = Counter(
            "perdure_orchestration_cancellations_total",
            "Instances that were asked to stop and took note of it.",
            which,
        )
        self.continued = Counter(
            "perdure_orchestration_continue_as_new_total",
            "Executions that ended by continuing as new.",
            which,
        )
        self.duration = Histogram(
            "perdure_orchestration_duration_seconds",
            "From the start of the first execution to the end of the instance.",
            (*which, "status"),
            bounds=SHORT_DURATIONS_S,
        )
        self.turns = Histogram(
            "perdure_orchestration_turns",
            "Turns of an execution, seen when it ends.",
            ("orchestration",),
            bounds=TURN_COUNTS,
        )
        self.history_size = Histogram(
            "perdure_orchestration_history_size",
            "Events of an execution, seen when it ends.",
            ("orchestration",),
            bounds=HISTORY_SIZES,
        )
        self.child_calls = Counter(
            "perdure_child_calls_total",
            "Children that were awaited and ended, by how.",
            ("parent", "child", "outcome"),
        )
        self.child_duration = Histogram(
            "perdure_child_duration_seconds",
            "From the call of a child to its answer.",
            ("parent", "child", "outcome"),
            bounds=SHORT_DURATIONS_S,
        )

    def _deciders(self) -> None:
        self.inputs = Counter(
            "perdure_decider_inputs_total",
            "Inputs that were decided, by what they came to: accepted, rejected or completed.",
            ("decider", "outcome"),
        )
        self.events = Counter(
            "perdure_decider_events_total", "Events that deciders have recorded.", ("decider",)
        )
        self.decider_ends = Counter(
            "perdure_decider_ends_total",
            "Instances of deciders that ended, by how.",
            ("decider", "status"),
        )
        self.slots = Counter(
            "perdure_schedule_slots_total",
            "Slots of schedules by what they came to: fired, queued, skipped. Those that were "
            "missed together count once.",
            ("schedule", "outcome"),
        )

    def _projections(self) -> None:
        self.projected = Counter(
            "perdure_projection_events_total",
            "Events that projections and subscriptions have handled here.",
            ("projection",),
        )
        self.projection_failures = Counter(
            "perdure_projection_failures_total",
            "Attempts of projections and subscriptions that failed, by the exception's class.",
            ("projection", "error_type"),
        )
        self.projections_behind = Gauge(
            "perdure_projection_behind",
            "How many positions the newest event lies ahead of a projection.",
            ("projection", "status"),
        )

    def _activities(self) -> None:
        self.executions = Counter(
            "perdure_activity_executions_total",
            "Activity calls that came to an end here: completed, failed for good or cancelled.",
            ("activity", "outcome", "tag"),
        )
        self.activity_duration = Histogram(
            "perdure_activity_duration_seconds",
            "How long the last attempt of an activity call took.",
            ("activity", "outcome", "tag"),
            bounds=SHORT_DURATIONS_S,
        )
        self.retries = Counter(
            "perdure_activity_retries_total",
            "Attempts of activity calls that failed and are made again.",
            ("activity", "tag"),
        )
        self.stream_items = Counter(
            "perdure_stream_items_total",
            "Items that turns and activities have stored in streams; void ones are counted too.",
            ("stream",),
        )
        self.dead_jobs = Counter(
            "perdure_dead_jobs_total",
            "Activity calls that ran out of attempts.",
            ("activity", "tag"),
        )

    def _machinery(self) -> None:
        self.held = Counter(
            "perdure_instances_held_total",
            "Instances that were blocked or parked.",
            ("orchestration", "status"),
        )
        self.refused = Counter(
            "perdure_commits_refused_total",
            "Turns that the store refused because another worker was faster.",
            ("orchestration",),
        )
        self.claims = Counter("perdure_claims_total", "Questions for work.", ("kind",))
        self.claimed = Counter("perdure_claimed_total", "Turns and jobs claimed.", ("kind",))
        self.store_duration = Histogram(
            "perdure_store_operation_duration_seconds",
            "How long the store took, waiting for others included.",
            ("operation", "status"),
            bounds=STORE_DURATIONS_S,
        )
        self.store_errors = Counter(
            "perdure_store_errors_total",
            "Operations of the store that failed, by the exception's class.",
            ("operation", "error_type"),
        )
        self.removed = Counter(
            "perdure_housekeeping_removed_total", "What the retention policy removed.", ("what",)
        )
        self.instances = Gauge(
            "perdure_active_instances", "Instances that have not ended.", ("status",)
        )
        self.queue_depth = Gauge(
            "perdure_queue_depth",
            "Turns and jobs in the store: ready, for later, or leased.",
            ("kind", "definition", "variant", "state"),
        )
        self.hot_instances = Gauge("perdure_hot_instances", "Instances in memory here.")

    def _client(self) -> None:
        self.client_starts = Counter(
            "perdure_client_starts_total",
            "Instances that this client started.",
            ("orchestration", "version"),
        )
        self.client_signals = Counter(
            "perdure_client_signals_total", "Signals that were delivered."
        )
        self.client_promises = Counter(
            "perdure_client_promises_total",
            "Promises that were resolved, rejected, or kept before.",
            ("outcome",),
        )
        self.client_updates = Counter("perdure_client_updates_total", "Updates that were sent.")
        self.update_wait = Histogram(
            "perdure_client_update_wait_seconds",
            "How long the answer to an update was waited for.",
            ("outcome",),
            bounds=SHORT_DURATIONS_S,
        )
        self.client_queries = Counter(
            "perdure_client_queries_total",
            "Queries that were computed here, by replaying a history.",
            ("orchestration", "version"),
        )
        self.client_bulk = Counter(
            "perdure_client_bulk_total",
            "Instances that were acted on by a filter.",
            ("action",),
        )
        self.client_cancels = Counter(
            "perdure_client_cancels_total", "Requests to cancel that were delivered."
        )
        self.client_resets = Counter(
            "perdure_client_resets_total",
            "Instances that this client has reset to an earlier point.",
            ("orchestration", "version"),
        )
        self.client_forks = Counter(
            "perdure_client_forks_total",
            "Instances that this client has begun with a part of the history of another one.",
            ("orchestration", "version"),
        )
        self.result_wait = Histogram(
            "perdure_client_result_wait_seconds",
            "How long a result was waited for.",
            ("outcome",),
            bounds=SHORT_DURATIONS_S,
        )
