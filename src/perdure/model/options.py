"""Options as values: how a call is retried, how a worker behaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final, Literal, TypeAlias

import msgspec

from perdure.clock import to_ms
from perdure.model.jobs import JobPolicy

Backoff: TypeAlias = Literal["fixed", "linear", "exponential"]
ParentClose: TypeAlias = Literal["cancel", "terminate", "abandon"]
IfExists: TypeAlias = Literal["join", "fail", "restart", "terminate"]


class Unset(Enum):
    """The type of an option that was not given: the definition's own value stays."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a failed activity is tried again.

    A run that is lost because its worker died is always repeated; this policy is about runs that
    raised or timed out. It is stored with each job, so a deploy does not change jobs under way.
    """

    max_attempts: int | None = 3
    """How many attempts may fail before the call does. None: never give up."""

    first_delay: timedelta = timedelta(seconds=1)
    """Pause after the first failure. Zero: try again at once."""

    backoff: Backoff = "exponential"
    """How the pause grows: not at all, by `first_delay` each time, or by `factor` each time."""

    factor: float = 2.0
    """By how much an exponential pause grows."""

    max_delay: timedelta = timedelta(minutes=5)
    """The longest pause."""

    jitter: float = 0.1
    """Up to which part of a pause is added at random, so that crowds spread out. 0: none."""

    no_retry: Sequence[type[BaseException] | str] = ()
    """Exceptions that fail the call at once, as classes (their subclasses too) or names."""

    def __post_init__(self) -> None:
        if self.max_attempts is not None and self.max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1 or None, got {self.max_attempts}")
        if self.first_delay < timedelta(0):
            raise ValueError(f"first_delay must not be negative, got {self.first_delay}")
        if self.max_delay < self.first_delay:
            raise ValueError(
                f"max_delay {self.max_delay} is shorter than first_delay {self.first_delay}: "
                "give both"
            )
        if self.backoff not in ("fixed", "linear", "exponential"):
            raise ValueError(f"backoff must be fixed, linear or exponential, got {self.backoff!r}")
        if self.factor < 1:
            raise ValueError(f"factor must be at least 1, got {self.factor}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be between 0 and 1, got {self.jitter}")


def job_policy(retry: Retry | None, timeout: timedelta | None) -> bytes:
    """Return what a job's row keeps of its options."""
    timeout_ms = None if timeout is None else to_ms(timeout)
    if retry is None:
        policy = JobPolicy(timeout_ms=timeout_ms)
    else:
        policy = JobPolicy(
            max_attempts=retry.max_attempts,
            backoff=retry.backoff,
            first_delay_ms=to_ms(retry.first_delay),
            factor=retry.factor,
            max_delay_ms=to_ms(retry.max_delay),
            jitter=retry.jitter,
            no_retry=tuple(
                name if isinstance(name, str) else name.__name__ for name in retry.no_retry
            ),
            timeout_ms=timeout_ms,
        )
    return msgspec.json.encode(policy)


MAX_GROWTH = 50.0
"""Natural logarithm of how often max_delay may exceed first_delay: far more than any of use."""


def delay_after(policy: JobPolicy, failures: int, *, chance: float) -> int:
    """Return the pause in milliseconds after the given number of failures.

    Args:
        policy: The job's stored policy.
        failures: How many attempts have failed, from 1.
        chance: A random number between 0 and 1, handed in.
    """
    match policy.backoff:
        case "fixed":
            delay = float(policy.first_delay_ms)
        case "linear":
            delay = float(policy.first_delay_ms) * failures
        case _:
            # In logarithms: attempt 1100 would overflow a float.
            growth = (failures - 1) * math.log(policy.factor)
            delay = policy.first_delay_ms * math.exp(min(growth, MAX_GROWTH))
    delay = min(delay, policy.max_delay_ms)
    return round(delay * (1 + policy.jitter * chance))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves. Every field has a default that is right for one machine."""

    async_jobs: int = 1_000
    """Asynchronous activities running at the same time."""

    threaded_jobs: int = 32
    """Synchronous activities running at the same time, each in a thread."""

    process_jobs: int = 0
    """Activities with `process=True` running at the same time. 0: one per core."""

    lease_for: timedelta = timedelta(seconds=30)
    """How long work stays ours without a sign of life. Longer: slower recovery after a crash.
    Shorter: more renewals, and more repeated work when the machine stalls."""

    poll_min: timedelta = timedelta(milliseconds=20)
    """How soon to look again for work of other processes after there was some."""

    poll_max: timedelta = timedelta(seconds=1)
    """How seldom to look when nothing happens. Work of this process is never polled for."""

    claim_batch: int = 200
    """How many turns or jobs to claim at once."""

    hot_instances: int = 20_000
    """How many instances stay in memory between turns. Others cost a replay when they go on."""

    max_attempts: int = 10
    """How often a turn may be claimed without an accepted commit before its instance is parked,
    and how often a job may be lost with its worker before it fails."""

    turn_warning: timedelta = timedelta(seconds=2)
    """How long a turn may compute before the stuck line is logged."""

    turn_limit: timedelta = timedelta(seconds=30)
    """How long a turn may compute before it is interrupted and its instance parked."""

    cancel_grace: timedelta = timedelta(seconds=10)
    """How long a cancelled activity may go on before it is abandoned."""

    stop_grace: timedelta = timedelta(seconds=10)
    """How long running activities may go on after the worker was asked to stop; then they are
    cancelled and their jobs given back."""

    watch_calls: Literal["always", "first", "never"] = "first"
    """When to watch for clocks, random and uuid inside turns: in every turn (tests, development),
    in the first turns of each definition, or never. Files, sockets, processes and threads are
    always watched."""

    watched_turns: int = 20
    """How many turns of each definition are watched under `watch_calls="first"`."""

    shadow_rate: float = 0.001
    """Which part of instances is replayed when it ends or leaves memory, to find code that cannot
    be replayed before a crash does. 1 in tests and development."""

    collect_after: int = 100_000
    """How many new objects Python's cyclic garbage collector waits for while the worker runs.
    0: leave Python's own setting."""

    thread_switch: timedelta = timedelta(milliseconds=1)
    """How long a thread waits for Python's global lock while the worker runs: shorter lets the
    store write while the loop computes. Zero: leave Python's own setting."""

    name: str | None = None
    """A lasting name for this worker; by default one is made of host, process and a random part."""

    def __post_init__(self) -> None:
        for field in ("async_jobs", "threaded_jobs", "claim_batch", "max_attempts"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        for field in ("process_jobs", "hot_instances", "watched_turns", "collect_after"):
            if getattr(self, field) < 0:
                raise ValueError(f"{field} must not be negative, got {getattr(self, field)}")
        if self.lease_for < timedelta(milliseconds=100):
            raise ValueError(f"lease_for must be at least 100 ms, got {self.lease_for}")
        if not timedelta(0) < self.poll_min <= self.poll_max < self.lease_for:
            raise ValueError("need 0 < poll_min <= poll_max < lease_for")
        if not timedelta(0) < self.turn_warning <= self.turn_limit:
            raise ValueError("need 0 < turn_warning <= turn_limit")
        if not 0 <= self.shadow_rate <= 1:
            raise ValueError(f"shadow_rate must be between 0 and 1, got {self.shadow_rate}")
