"""How a worker behaves, as a value that is checked when it is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, TypeAlias

from perdure.durations import DurationField, OptionalDurationField
from perdure.errors import OptionError
from perdure.limits import MAX_TAG_BYTES as MAX_TAG_BYTES
from perdure.limits import MAX_TAGS as MAX_TAGS
from perdure.model.option_types import check_choice, take_types
from perdure.model.versions import VersionRange, is_version

Tags: TypeAlias = Literal["own", "any"] | Collection[str | None]

ZERO = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a worker removes by itself, and when. None: never.

    Nothing is removed for its age before the clock has been steady for an hour, from the worker's
    start or from a jump on; for a day, if nothing in the store is of the last week.
    """

    ended: OptionalDurationField = OptionalDurationField(None)
    """How long instances are kept after they ended."""

    executions: int | None = None
    """How many earlier executions of an instance that continues as new are kept."""

    receipts: OptionalDurationField = OptionalDurationField(timedelta(days=7))
    """How long it is remembered that a message was delivered to an instance that has ended, so that
    the same message sent again is known for a repetition."""

    unborn: OptionalDurationField = OptionalDurationField(timedelta(days=30))
    """How long messages wait for an instance that no client starts."""

    dead_jobs: OptionalDurationField = OptionalDurationField(None)
    """How long jobs that ran out of attempts are kept for a person to look at."""

    pages: OptionalDurationField = OptionalDurationField(timedelta(hours=1))
    """How long pages of `for_each` that completed or were cancelled are kept, though the tree that
    they belong to stays. None: as long as that."""

    streams: OptionalDurationField = OptionalDurationField(None)
    """How long what instances sent to streams is kept after they ended. None: as long as they."""

    def __post_init__(self) -> None:
        take_types(self)
        for name in ("ended", "receipts", "unborn", "dead_jobs", "pages", "streams"):
            value = getattr(self, name)
            if value is not None and value < ZERO:
                raise OptionError(f"{name} must not be negative, got {value}")
        if self.executions is not None and self.executions < 0:
            raise OptionError(f"executions must not be negative, got {self.executions}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves. Every field has a default that is right for one machine."""

    async_jobs: int = 1_000
    """Asynchronous activities running at the same time."""

    threaded_jobs: int = 32
    """Synchronous activities running at the same time, each in a thread."""

    process_jobs: int = 0
    """Activities with `process=True` running at the same time. 0: one per core."""

    lease_for: DurationField = DurationField(timedelta(seconds=30))
    """How long work stays ours without a sign of life. Longer: slower recovery after the crash of a
    machine, or of a process where no worker of the same host can see it. Shorter: more renewals,
    and more repeated work when the machine stalls."""

    poll_min: DurationField = DurationField(timedelta(milliseconds=20))
    """How soon to look again for work of other processes after there was some."""

    poll_max: DurationField = DurationField(timedelta(seconds=1))
    """How seldom to ask for work when nothing happens. Work of this process is never polled for;
    that of others is noticed sooner if the store can tell that something has changed. A server that
    tells of no change is asked less and less, down to three times per lease."""

    claim_batch: int = 200
    """How many turns or jobs to claim at once."""

    hot_instances: int = 20_000
    """How many instances stay in memory between turns. Others cost a replay when they go on."""

    max_attempts: int = 10
    """How often a turn may be claimed without an accepted commit before its instance is parked,
    and how often a job may be lost with its worker before it fails. What was lost twice is taken
    alone, so that it is not given up for what killed the worker beside it. 1: at the first loss,
    whatever else was lost with it."""

    turn_warning: DurationField = DurationField(timedelta(seconds=2))
    """How long a turn may compute, or an async activity hold up the loop without awaiting anything,
    before the stuck line is logged."""

    turn_limit: DurationField = DurationField(timedelta(seconds=30))
    """How long a turn may compute before it is interrupted and its instance parked."""

    cancel_grace: DurationField = DurationField(timedelta(seconds=10))
    """How long a cancelled activity may go on before it is abandoned."""

    stop_grace: DurationField = DurationField(timedelta(seconds=10))
    """How long running activities may go on after the worker was asked to stop; then they are
    cancelled and their jobs given back."""

    watch_calls: Literal["always", "first", "never"] = "first"
    """How to watch for clocks, random and uuid inside turns. "first": closely in the first turns of
    each definition; after that, from Python 3.12 on, in the code that turns run, in every turn and
    at next to no cost. Python 3.11 cannot do that: there a definition is watched closely for ever
    if its code names a clock or the like, itself or in a function that it reaches by name.
    "always": closely in every turn (tests, development), which takes up to three times as long.
    "never": not at all. Files, sockets, processes and threads are always watched."""

    watched_turns: int = 20
    """How many turns of each definition are watched closely under `watch_calls="first"`."""

    shadow_rate: float = 0.001
    """Which part of instances is replayed when it ends or leaves memory, to find code that cannot
    be replayed before a crash does. 1 in tests and development."""

    collect_after: int = 100_000
    """How many new objects Python's cyclic garbage collector waits for while the worker runs; what
    was there when the worker began it passes over. 0: leave Python's own setting."""

    thread_switch: DurationField = DurationField(timedelta(milliseconds=1))
    """How long a thread waits for Python's global lock while the worker runs: shorter lets the
    store write while the loop computes. Zero: leave Python's own setting."""

    name: str | None = None
    """A lasting name for this worker; by default one is made of host, process and a random part.
    With a name its sessions are still its own after a restart. Each needs its own: of two processes
    of one name only the one that started later takes jobs with a session."""

    tags: Tags = "own"
    """Which activity calls to take, by their tag. "own": untagged ones, and those with the tags
    that the activities handed over carry themselves. "any": all of them. Or the tags themselves,
    where None stands for untagged: `(None, "gpu")`; `()` takes no activities at all."""

    max_sessions: int = 10
    """How many sessions may have jobs running here at the same time. Those that belong to this
    worker and have none running at the moment do not count. 0: take no jobs with a session."""

    session_lease: DurationField = DurationField(timedelta(seconds=30))
    """How long a session stays with its worker without a sign of life. Longer: the next worker
    waits longer after a crash. Shorter: a stall moves sessions away."""

    session_idle: DurationField = DurationField(timedelta(seconds=300))
    """How long a session without jobs is kept for the next one. Longer than a third of `lease_for`,
    the pause between two renewals."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """Which recorded versions of an orchestration to take, by its name: `{"checkout": ">=1.2,<2"}`.
    Those without code of their own here run on the highest version in the range that is here. By
    default exactly the versions that are here."""

    behaviours: tuple[int, int] | None = None
    """Which behaviour numbers to take, from the first to the last. None: the one of this release.
    For instances that began under another release of perdure and are known to be replayed alike."""

    prefer: Mapping[str, str] = field(default_factory=dict)
    """Which version begins when a start leaves it open, or an instance continues as new, by name.
    By default the latest."""

    heartbeat_every: DurationField = DurationField(timedelta(seconds=1))
    """How often the details of a heartbeat are written at most; later ones are kept until then."""

    unserved_retry: DurationField = DurationField(timedelta(seconds=1))
    """Pause before a job that cannot be run here after all (an inline call whose orchestration
    cannot be had) is offered again. Doubles each time."""

    unserved_retry_max: DurationField = DurationField(timedelta(seconds=60))
    """The longest such pause."""

    retention: Retention = Retention()
    """What is removed by itself, and when."""

    housekeeping_every: DurationField = DurationField(timedelta(seconds=300))
    """How often to look for what may be removed."""

    metrics_every: DurationField = DurationField(timedelta(seconds=60))
    """How often to ask the store what waits, for the gauges. Nothing is asked unless a collector
    collects them."""

    def __post_init__(self) -> None:
        take_types(self)
        check_choice("watch_calls", self.watch_calls, ("always", "first", "never"))
        if not isinstance(self.retention, Retention):
            raise OptionError(
                f"retention must be a Retention, got {self.retention!r}; say "
                "retention=Retention(ended=timedelta(days=30)), for example"
            )
        self._check_numbers()
        self._check_durations()
        if not 0 <= self.shadow_rate <= 1:
            raise OptionError(f"shadow_rate must be between 0 and 1, got {self.shadow_rate}")
        object.__setattr__(self, "tags", _checked_tags(self.tags))
        object.__setattr__(self, "versions", dict(self.versions))
        object.__setattr__(self, "prefer", dict(self.prefer))
        _check_versions(self.versions, self.prefer)
        if self.behaviours is not None:
            object.__setattr__(self, "behaviours", _checked_behaviours(self.behaviours))

    def _check_numbers(self) -> None:
        for name in ("async_jobs", "threaded_jobs", "claim_batch", "max_attempts"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, got {getattr(self, name)}")
        not_negative = (
            "process_jobs",
            "hot_instances",
            "watched_turns",
            "collect_after",
            "max_sessions",
        )
        for name in not_negative:
            if getattr(self, name) < 0:
                raise OptionError(f"{name} must not be negative, got {getattr(self, name)}")

    def _check_durations(self) -> None:
        for name in ("lease_for", "session_lease"):
            if getattr(self, name) < timedelta(milliseconds=100):
                raise OptionError(f"{name} must be at least 100 ms, got {getattr(self, name)}")
        if not ZERO < self.poll_min <= self.poll_max < self.lease_for:
            raise OptionError("need 0 < poll_min <= poll_max < lease_for")
        if not ZERO < self.turn_warning <= self.turn_limit:
            raise OptionError("need 0 < turn_warning <= turn_limit")
        for name in ("heartbeat_every", "unserved_retry", "housekeeping_every", "metrics_every"):
            if getattr(self, name) <= ZERO:
                raise OptionError(f"{name} must be longer than nothing, got {getattr(self, name)}")
        if self.unserved_retry_max < self.unserved_retry:
            raise OptionError(
                f"unserved_retry_max {self.unserved_retry_max} is shorter than unserved_retry "
                f"{self.unserved_retry}: give both"
            )
        if self.session_idle <= renew_every(self.lease_for):
            raise OptionError(
                f"session_idle must be longer than a third of lease_for {self.lease_for}, the "
                f"pause between two renewals, got {self.session_idle}"
            )


def renew_every(lease: timedelta) -> timedelta:
    """Return the pause between two renewals of a lease.

    A third of it: one renewal may fail, and the next still comes in time.
    """
    return lease / 3


def _checked_tags(tags: Tags) -> Tags:
    if isinstance(tags, str):
        if tags not in ("own", "any"):
            raise OptionError(f'tags must be "own", "any" or a collection of tags, got {tags!r}')
        return tags
    if not isinstance(tags, Collection):
        raise OptionError(f'tags must be "own", "any" or a collection of tags, got {tags!r}')
    try:
        found = tuple(dict.fromkeys(tags))
    except TypeError:
        raise OptionError(f"tags must each be a text or None, got {tags!r}") from None
    if sum(tag is not None for tag in found) > MAX_TAGS:
        raise OptionError(f"tags may name at most {MAX_TAGS} tags, got {found!r}")
    for tag in found:
        if tag is None:
            continue
        if (
            not isinstance(tag, str)
            or not 1 <= len(tag.encode("utf-8", "replace")) <= MAX_TAG_BYTES
        ):
            raise OptionError(f"tags must each have 1 to {MAX_TAG_BYTES} bytes, got {tag!r}")
    return found


def _check_versions(ranges: Mapping[str, str], prefer: Mapping[str, str]) -> None:
    for name, text in ranges.items():
        if not isinstance(text, str):
            raise OptionError(
                f"versions of {name!r} must be a text such as '>=1.2,<2', got {text!r}"
            )
        try:
            VersionRange(text)
        except ValueError as error:
            raise OptionError(f"versions of {name!r}: {error}") from None
    for name, version in prefer.items():
        if not isinstance(version, str) or not is_version(version):
            raise OptionError(
                f"prefer: {version!r} of {name!r} is not a semantic version such as '1.0.0'"
            )


def _checked_behaviours(behaviours: tuple[int, int]) -> tuple[int, int]:
    match behaviours:
        case (int() as lowest, int() as highest) if 1 <= lowest <= highest:
            return lowest, highest
    raise OptionError(f"behaviours must be (lowest, highest), from 1 on, got {behaviours!r}")
