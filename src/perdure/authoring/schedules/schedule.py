"""What users write: a schedule, declared by handing it to a worker or put by a client."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any, Generic, ParamSpec, TypeVar

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.schedules.spec import (
    Missed,
    Overlap,
    ScheduleSpec,
    slots_after,
    when_spec,
    zone_data,
)
from perdure.authoring.schedules.when import Cron, Every, When
from perdure.clock import from_datetime, to_ms
from perdure.codec import check_id
from perdure.durations import Duration, as_duration
from perdure.errors import InvalidIdError, OptionError, UsageError
from perdure.model.option_types import check_choice
from perdure.model.options import UNSET, Unset

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

MAX_NAME_BYTES = 100
"""Names of schedules are part of ids, which must have room for a time."""

MAX_WHENS = 100
MAX_EXCEPT_ON = 10_000
MAX_SLOTS = 100_000

OVERLAPS: tuple[Overlap, ...] = ("skip", "queue", "cancel", "terminate", "allow")
MISSED: tuple[Missed, ...] = ("none", "latest", "all")


class Schedule(Generic[P, R_co]):
    """What is started when. Handed to a worker it is declared in code; handed to a client, put by
    hand. Does not change: `with_options` returns another one."""

    __slots__ = ("name", "orchestration", "spec")

    name: str
    orchestration: Orchestration[P, R_co]
    spec: ScheduleSpec
    """As it is stored."""

    def __init__(
        self,
        name: str,
        when: When | Sequence[When],
        orchestration: Orchestration[P, R_co],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Say what is started when; nothing happens by it.

        Args:
            name: What it is known by in the store, and the beginning of its instances' ids.
            when: At which times; several are joined.
            orchestration: What is started.
            *args: Its arguments, as for `start`.
            **kwargs: The same.

        Raises:
            ValueError: There is no time, or it is none.
            UsageError: It is no orchestration, it has options that a schedule gives, or the
                arguments do not fit.
            PayloadError: An argument cannot be stored.
        """
        self.name = _checked_name(name)
        if not isinstance(orchestration, Orchestration):
            raise UsageError(
                f"schedule {name!r}: {orchestration!r} is no orchestration; a schedule takes a "
                "function made with @orchestration and its arguments"
            )
        options = orchestration.options
        if options.instance_id is not None or options.delay is not None:
            raise UsageError(
                f"schedule {name!r}: ids and times are the schedule's; hand over "
                f"{orchestration.name} without instance_id= and delay="
            )
        self.orchestration = orchestration
        self.spec = ScheduleSpec(
            orchestration=orchestration.name,
            version=orchestration.version,
            pinned=orchestration.version if options.pins_version else "",
            input=orchestration.definition.codec.encode(args, kwargs).decode(),
            whens=tuple(when_spec(one) for one in _checked_whens(name, when)),
            zone_data=zone_data(),
        )

    def __repr__(self) -> str:
        return f"<schedule {self.name} of {self.spec.orchestration}>"

    def with_options(
        self,
        *,
        overlap: Overlap | Unset = UNSET,
        missed: Missed | Unset = UNSET,
        within: Duration | Unset = UNSET,
        jitter: Duration | Unset = UNSET,
        starts_at: datetime | Unset | None = UNSET,
        ends_at: datetime | Unset | None = UNSET,
        except_on: Collection[date] | Unset = UNSET,
    ) -> Schedule[P, R_co]:
        """Return the same schedule with other options; left out means as before.

        Args:
            overlap: What happens to a slot while an earlier instance runs: it is left out
                (*skip*), waits for its end, of several the newest (*queue*), stops it first
                (*cancel*, *terminate*), or starts beside it (*allow*).
            missed: What happens to slots that are decided more than ten seconds late, since no
                worker ran: nothing (*none*), the newest is started (*latest*), each is (*all*).
            within: How old a missed slot may be.
            jitter: By how much starts are spread behind their slots.
            starts_at: Before it there are no slots.
            ends_at: From it on there are no slots.
            except_on: Dates, on the calendar of the place, that have no slots.

        Raises:
            OptionError: One is of no known value. (It is a `ValueError`.)
            UsageError: A time has no time zone.
        """
        changes: dict[str, Any] = {}
        if not isinstance(overlap, Unset):
            check_choice("overlap", overlap, OVERLAPS)
            changes["overlap"] = overlap
        if not isinstance(missed, Unset):
            check_choice("missed", missed, MISSED)
            changes["missed"] = missed
        for what, length in (("within", within), ("jitter", jitter)):
            if not isinstance(length, Unset):
                changes[f"{what}_ms"] = _checked_length(what, length)
        for what, time in (("starts", starts_at), ("ends", ends_at)):
            if not isinstance(time, Unset):
                known = None if time is None else checked_time(f"{what}_at", time)
                changes[f"{what}_ms"] = known
        if not isinstance(except_on, Unset):
            changes["except_on"] = _checked_dates(except_on)
        other: Schedule[P, R_co] = object.__new__(type(self))
        other.name, other.orchestration = self.name, self.orchestration
        other.spec = replace(self.spec, **changes)
        return other

    def slots(self, after: datetime, /, *, count: int = 10) -> list[datetime]:
        """Return when it would fire, behind a time. Pure.

        Args:
            after: Only slots behind it.
            count: How many at most.

        Raises:
            UsageError: The time has no time zone, or the count is none.
        """
        if not isinstance(count, int) or not 0 <= count <= MAX_SLOTS:
            raise UsageError(f"count must be a number from 0 to {MAX_SLOTS:,}, got {count!r}")
        found = slots_after(self.spec, checked_time("after", after))
        return [datetime.fromisoformat(slot.text) for slot in islice(found, count)]


def checked_time(what: str, value: object) -> int:
    """Return a time in milliseconds.

    Raises:
        UsageError: It is none, or has no time zone.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise UsageError(
            f"{what} must be a datetime with a time zone, got {value!r}; say "
            "datetime(..., tzinfo=UTC)"
        )
    return from_datetime(value)


def _checked_name(name: object) -> str:
    checked = check_id("schedule name", name)
    if len(checked.encode()) > MAX_NAME_BYTES:
        raise InvalidIdError("schedule name", checked, f"has more than {MAX_NAME_BYTES} bytes")
    return checked


def _checked_whens(name: str, when: object) -> tuple[When, ...]:
    found: tuple[Any, ...] = ()
    if isinstance(when, Cron | Every):
        found = (when,)
    elif isinstance(when, Sequence) and not isinstance(when, str):
        found = tuple(when)
    if not 1 <= len(found) <= MAX_WHENS or not all(isinstance(o, Cron | Every) for o in found):
        raise OptionError(
            f"schedule {name!r}: {when!r} is no time; say Cron('0 2 * * *', 'Europe/Berlin'), "
            f"Every(timedelta(minutes=5)), or a list of 1 to {MAX_WHENS} of those"
        )
    return found


def _checked_length(what: str, value: object) -> int:
    length = as_duration(what, value)
    if length < timedelta(0):
        raise OptionError(f"{what} must not be negative, got {value!r}")
    return to_ms(length)


def _checked_dates(dates: Collection[date]) -> tuple[str, ...]:
    for one in dates:
        if not isinstance(one, date) or isinstance(one, datetime):
            raise OptionError(f"except_on takes dates, as in date(2026, 12, 25); got {one!r}")
    if len(dates) > MAX_EXCEPT_ON:
        raise OptionError(f"except_on takes up to {MAX_EXCEPT_ON:,} dates, got {len(dates):,}")
    return tuple(sorted({one.isoformat() for one in dates}))
