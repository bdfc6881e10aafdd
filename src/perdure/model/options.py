"""Options as values: how a call is retried. How a worker behaves is in `worker_options`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final, Literal, TypeAlias

import msgspec

from perdure.clock import to_ms
from perdure.durations import DurationField
from perdure.errors import OptionError, UsageError
from perdure.model.jobs import JobPolicy
from perdure.model.option_types import take_types
from perdure.model.worker_options import Retention as Retention
from perdure.model.worker_options import WorkerOptions as WorkerOptions

Backoff: TypeAlias = Literal["fixed", "linear", "exponential"]
ParentClose: TypeAlias = Literal["cancel", "terminate", "abandon"]
IfExists: TypeAlias = Literal["join", "fail", "restart", "terminate"]
IfHeld: TypeAlias = Literal["warn", "raise", "wait"]
IF_HELD: Final = ("warn", "raise", "wait")


def check_if_held(given: str) -> None:
    """Refuse what does not say what a waiting caller does when an instance is held.

    Raises:
        UsageError: It is none of the words.
    """
    if given not in IF_HELD:
        raise UsageError(f"if_held must be one of {', '.join(IF_HELD)}, got {given!r}")


class Unset(Enum):
    """The type of an option that was not given: the definition's own value stays."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


MAX_DELAY: Final = timedelta(minutes=5)
"""The longest pause between two attempts, if none is given and the first is not longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a failed activity is tried again.

    A run that is lost because its worker died is always repeated; this policy is about runs that
    raised or timed out. It is stored with each job, so a deploy does not change jobs under way.
    """

    max_attempts: int | None = 3
    """How many attempts may fail before the call does. None: never give up."""

    first_delay: DurationField = DurationField(timedelta(seconds=1))
    """Pause after the first failure. Zero: try again at once."""

    backoff: Backoff = "exponential"
    """How the pause grows: not at all, by `first_delay` each time, or by `factor` each time."""

    factor: float = 2.0
    """By how much an exponential pause grows."""

    max_delay: DurationField = DurationField(MAX_DELAY)
    """The longest pause. Left out, it is at least `first_delay`."""

    jitter: float = 0.1
    """Up to which part of a pause is added at random, so that crowds spread out. 0: none."""

    no_retry: Sequence[type[BaseException] | str] = ()
    """Exceptions that fail the call at once, as classes (their subclasses too) or names."""

    def __post_init__(self) -> None:
        # By identity: five minutes that were given are meant.
        is_left_out = self.max_delay is MAX_DELAY
        take_types(self)
        if self.max_attempts is not None and self.max_attempts < 1:
            raise OptionError(f"max_attempts must be at least 1 or None, got {self.max_attempts}")
        if self.first_delay < timedelta(0):
            raise OptionError(f"first_delay must not be negative, got {self.first_delay}")
        if is_left_out:
            object.__setattr__(self, "max_delay", max(self.max_delay, self.first_delay))
        if self.max_delay < self.first_delay:
            raise OptionError(
                f"max_delay {self.max_delay} is shorter than first_delay {self.first_delay}: "
                "give a longer one, or leave it out"
            )
        if self.backoff not in ("fixed", "linear", "exponential"):
            raise OptionError(f"backoff must be fixed, linear or exponential, got {self.backoff!r}")
        if self.factor < 1:
            raise OptionError(f"factor must be at least 1, got {self.factor}")
        if not 0 <= self.jitter <= 1:
            raise OptionError(f"jitter must be between 0 and 1, got {self.jitter}")
        check_exceptions("no_retry", self.no_retry, or_names=True)


def check_exceptions(name: str, given: object, *, or_names: bool = False) -> None:
    """Refuse what is no list of exception classes.

    Args:
        name: Which option it is.
        given: What was given.
        or_names: Whether names of classes may be among them.

    Raises:
        OptionError: It is not one.
    """
    shown = " or their names" if or_names else ""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise OptionError(
            f"{name} must be a list of exception classes{shown}, got {given!r}; say "
            f"{name}=[ValueError], for example"
        )
    for one in given:
        is_class = isinstance(one, type) and issubclass(one, BaseException)
        if not is_class and not (or_names and isinstance(one, str)):
            raise OptionError(
                f"{name} must be a list of exception classes{shown}, and {one!r} is none"
            )


EFFECT_RETRY: Final = Retry(max_attempts=5)
"""How an effect is retried whose activity does not say. No code awaits an effect, so none could
try it again."""


def job_policy(
    retry: Retry | None, timeout: timedelta | None, deadline: timedelta | None = None
) -> bytes:
    """Return what a job's row keeps of its options."""
    timeout_ms = None if timeout is None else to_ms(timeout)
    deadline_ms = None if deadline is None else to_ms(deadline)
    if retry is None:
        policy = JobPolicy(timeout_ms=timeout_ms, deadline_ms=deadline_ms)
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
            deadline_ms=deadline_ms,
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
