"""Times of schedules: cron on the clock of a place, distances, calendars."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from perdure import Cron, Every, Orchestration, Schedule
from perdure.authoring.schedules.spec import newest_slot, slots_after
from perdure.authoring.schedules.when import times_of
from perdure.errors import OptionError, UsageError
from tests.sizes import IS_FULL

report = Orchestration.named("report", None)

ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Europe/Moscow",
    "Europe/Istanbul", "Atlantic/Azores", "America/New_York", "America/Chicago", "America/Denver",
    "America/Los_Angeles", "America/St_Johns", "America/Sao_Paulo", "America/Havana",
    "America/Santiago", "America/Asuncion", "Africa/Cairo", "Africa/Casablanca", "Asia/Kolkata",
    "Asia/Kathmandu", "Asia/Tehran", "Asia/Tokyo", "Asia/Jerusalem", "Asia/Beirut",
    "Australia/Sydney", "Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Auckland",
    "Pacific/Chatham",
)  # fmt: skip
FIRST, LAST = datetime(2019, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def texts(when: Cron | Every, after: datetime, count: int) -> list[str]:
    after_ms = round(after.timestamp() * 1000)
    return [slot.text for slot in islice(times_of(when, after_ms), count)]


def schedule(*whens: Cron | Every) -> Schedule[..., None]:
    return Schedule("s", whens, report)


# -------------------------------------------------------------- a clock that is moved


def test_a_time_of_day_that_is_left_out_comes_at_the_end_of_the_gap() -> None:
    assert texts(Cron("30 2 * * *", "Europe/Berlin"), datetime(2026, 3, 28, tzinfo=UTC), 3) == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_of_day_that_comes_twice_counts_the_first_time() -> None:
    assert texts(Cron("30 2 * * *", "Europe/Berlin"), datetime(2026, 10, 24, tzinfo=UTC), 3) == [
        "2026-10-24T02:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


def test_asked_between_the_two_a_time_of_day_has_come_already() -> None:
    between = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # 02:10 for the second time

    assert texts(Cron("30 2 * * *", "Europe/Berlin"), between, 1) == ["2026-10-26T02:30:00+01:00"]


def test_a_distance_comes_at_every_half_hour_of_real_time() -> None:
    assert texts(
        Cron("*/30 * * * *", "Europe/Berlin"), datetime(2026, 10, 25, 0, 15, tzinfo=UTC), 4
    ) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


def test_a_midnight_that_is_left_out_is_no_hour_of_a_distance() -> None:
    """In the Azores the clock goes from midnight to one."""
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)

    [first] = texts(Cron("* 0 * * *", "Atlantic/Azores"), start, 1)

    assert first == "2026-03-30T00:00:00+00:00"


def test_a_clock_that_is_moved_by_half_an_hour_loses_nothing() -> None:
    start = datetime(2026, 4, 5, 0, 0, tzinfo=UTC)

    [first] = texts(Cron("*/15 0 * * *", "Australia/Lord_Howe"), start, 1)

    assert first == "2026-04-06T00:00:00+10:30"


# ------------------------------------------------------------------ against a walk


@cache
def moves(zone: str) -> list[datetime]:
    """Return when the clock of a place is moved, to the hour."""
    place, found, at = ZoneInfo(zone), [], FIRST
    offset = at.astimezone(place).utcoffset()
    while at < LAST:
        at += timedelta(hours=1)
        now = at.astimezone(place).utcoffset()
        if now != offset:
            found.append(at)
            offset = now
    return found


class Walk:
    """Debian's rules, read from its manual: minute by minute, and no arithmetic but that."""

    def __init__(self, minute: str, hour: str, day: str, month: str, week: str) -> None:
        self.is_distance = minute.startswith("*") or hour.startswith("*")
        self.is_either = not (day.startswith("*") or week.startswith("*"))
        ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
        fields = (minute, hour, day, month, week)
        self.minutes, self.hours, self.days, self.months, self.weeks = (
            self.read(text, *bounds) for text, bounds in zip(fields, ranges, strict=True)
        )

    @staticmethod
    def read(text: str, low: int, high: int) -> set[int]:
        found: set[int] = set()
        for part in text.split(","):
            span, _, step = part.partition("/")
            first, _, last = span.partition("-")
            if span == "*":
                first, last = str(low), str(high)
            found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
        return found

    def fits(self, at: datetime) -> bool:
        is_day, is_week = at.day in self.days, at.isoweekday() % 7 in self.weeks
        return (
            at.minute in self.minutes
            and at.hour in self.hours
            and at.month in self.months
            and ((is_day or is_week) if self.is_either else (is_day and is_week))
        )

    def between(self, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
        """Return the times behind one and before another."""
        place = ZoneInfo(zone)
        if self.is_distance:
            at = start
            while (at := at + MINUTE) < end:
                if self.fits(at.astimezone(place)):
                    yield at
            return
        seen = set()
        local = start.astimezone(place).replace(tzinfo=None) - timedelta(days=1)
        while local < end.astimezone(place).replace(tzinfo=None) + timedelta(days=1):
            local += MINUTE
            if not self.fits(local):
                continue
            real = local
            while self.is_left_out(real, place):
                real += MINUTE
            seen.add(real.replace(tzinfo=place, fold=0).astimezone(UTC))
        yield from sorted(at for at in seen if start < at < end)

    @staticmethod
    def is_left_out(local: datetime, place: ZoneInfo) -> bool:
        there = local.replace(tzinfo=place)
        return there.astimezone(UTC).astimezone(place).replace(tzinfo=None) != local


def drawn_expression(dice: random.Random) -> str:
    minute = dice.choice(["0", "30", "59", "*/15", "*", "5,35", "1-3", "*/7", "0"])
    hour = dice.choice(["0", "1", "2", "3", "*", "*/2", "1-3", "2,14", "23", "0-23", "*"])
    day = dice.choice(["*", "*", "*", "1", "29", "13,25-31", "*/5"])
    month = dice.choice(["*", "*", "3", "10-11", "3,4,9,10"])
    week = dice.choice(["*", "*", "0", "1-5", "6"])
    return f"{minute} {hour} {day} {month} {week}"


@pytest.mark.parametrize("zone", ZONES)
def test_cron_comes_when_a_walk_over_every_minute_says(zone: str) -> None:
    dice = random.Random(f"{zone} cron")
    places = moves(zone)
    drawn = [FIRST + timedelta(days=dice.randrange(3640)) for _ in range(20 if IS_FULL else 2)]
    near = places if IS_FULL else dice.sample(places, min(len(places), 3))
    for middle in (*near, *drawn):
        fields = drawn_expression(dice)
        start = middle - timedelta(minutes=dice.randrange(1500))
        end = start + timedelta(minutes=dice.randrange(500, 3000))

        found = []
        for slot in times_of(Cron(fields, zone), round(start.timestamp() * 1000)):
            at = datetime.fromisoformat(slot.text)
            if at >= end:
                break
            found.append(at.astimezone(UTC))

        assert found == list(Walk(*fields.split()).between(zone, start, end)), (fields, start, end)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/Havana"])
def test_it_is_no_matter_from_where_the_next_time_is_looked_for(zone: str) -> None:
    """A tick begins at the slot before; a list goes on from where it is."""
    for expression in ("30 0,1,2,3 * * *", "*/20 * * * *", "15,45 2 * * *"):
        for moved in moves(zone):
            start_ms = round((moved - timedelta(hours=6)).timestamp() * 1000)
            straight = list(islice(times_of(Cron(expression, zone), start_ms), 8))

            again, after_ms = [], start_ms
            for _ in straight:
                slot = next(times_of(Cron(expression, zone), after_ms))
                again.append(slot)
                after_ms = slot.at_ms
            assert again == straight


# ------------------------------------------------------------------------ distances


def test_distances_are_counted_from_1970_and_do_not_drift() -> None:
    every = Every(timedelta(minutes=7), offset=timedelta(seconds=3))

    found = texts(every, datetime(2026, 1, 1, tzinfo=UTC), 2)

    assert found == ["2026-01-01T00:00:03+00:00", "2026-01-01T00:07:03+00:00"]
    seconds = datetime.fromisoformat(found[0]).timestamp() - 3
    assert seconds % 420 == 0


def test_parts_of_seconds_are_in_the_text() -> None:
    every = Every(timedelta(milliseconds=250))

    assert texts(every, datetime(2026, 1, 1, tzinfo=UTC), 2)[0] == "2026-01-01T00:00:00.250+00:00"


# ---------------------------------------------------------------------------- joined


def test_several_times_are_joined_and_each_comes_once() -> None:
    both = schedule(Every(timedelta(hours=12)), Cron("0 0,6 * * *"))

    assert [at.hour for at in both.slots(datetime(2026, 1, 1, tzinfo=UTC), count=4)] == [
        6,
        12,
        0,
        6,
    ]


def test_dates_are_left_out_on_the_calendar_of_the_place() -> None:
    nightly = schedule(Cron("0 0 * * *", "Pacific/Auckland")).with_options(
        except_on=[date(2026, 12, 25), date(2026, 12, 26)]
    )

    found = nightly.slots(datetime(2026, 12, 23, tzinfo=UTC), count=3)

    assert [at.date() for at in found] == [
        date(2026, 12, 24),
        date(2026, 12, 27),
        date(2026, 12, 28),
    ]


def test_a_day_of_seconds_that_is_left_out_costs_nothing() -> None:
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(365)]
    each = schedule(Every(timedelta(seconds=1)), Cron("* * * * *")).with_options(except_on=days)

    [found] = each.slots(datetime(2026, 1, 1, tzinfo=UTC), count=1)

    assert found == datetime(2027, 1, 1, tzinfo=UTC)


def test_there_are_no_slots_before_the_start_and_from_the_end_on() -> None:
    some = schedule(Every(timedelta(hours=1))).with_options(
        starts_at=datetime(2026, 1, 1, 5, tzinfo=UTC), ends_at=datetime(2026, 1, 1, 8, tzinfo=UTC)
    )

    found = some.slots(datetime(2025, 1, 1, tzinfo=UTC))

    assert [at.hour for at in found] == [5, 6, 7]


def test_the_newest_slot_is_the_last_of_all_that_were() -> None:
    dice = random.Random(7)
    for _ in range(100):
        cron = Cron(drawn_expression(dice), dice.choice(ZONES))
        when = cron if dice.random() < 0.5 else Every(MINUTE * 7)
        spec = schedule(when).spec
        after_ms = round(FIRST.timestamp() * 1000) + dice.randrange(10**11)
        until_ms = after_ms + dice.randrange(3 * 86_400_000)

        every = []
        for slot in slots_after(spec, after_ms):
            if slot.at_ms > until_ms:
                break
            every.append(slot)

        assert newest_slot(spec, after_ms, until_ms) == (every[-1] if every else None)


# --------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    "made",
    [
        lambda: Cron("61 * * * *"),
        lambda: Cron("* * *"),
        lambda: Cron("0 0 30 2 *"),
        lambda: Cron("nonsense"),
        lambda: Cron("0 30 2 * * *"),
        lambda: Cron("0 2 * * *", "Europe/Nowhere"),
        lambda: Cron("0 2 * * *", "../etc/passwd"),
        lambda: Every(timedelta(0)),
        lambda: Every(timedelta(seconds=-1)),
        lambda: Every(timedelta(microseconds=1)),
        lambda: Schedule("s", "0 2 * * *", report),  # type: ignore[arg-type]
        lambda: Schedule("s", [], report),
        lambda: schedule(Every(MINUTE)).with_options(within=-MINUTE),
        lambda: schedule(Every(MINUTE)).with_options(overlap="never"),  # type: ignore[arg-type]
        lambda: schedule(Every(MINUTE)).with_options(except_on=["today"]),  # type: ignore[list-item]
    ],
)
def test_what_cannot_be_a_time_is_refused_when_it_is_made(made: object) -> None:
    assert callable(made)
    with pytest.raises(ValueError, match=r"."):
        made()


def test_a_period_that_is_too_long_is_said_to_be() -> None:
    with pytest.raises(ValueError, match="limited to 365,000 days, got 1000000 days"):
        Every(timedelta(days=10**6))
    assert Every(timedelta(days=365_000)).period == timedelta(days=365_000)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="time zone"):
        schedule(Every(MINUTE)).slots(datetime(2026, 1, 1))
    with pytest.raises(UsageError, match="starts_at must be a datetime with a time zone"):
        schedule(Every(MINUTE)).with_options(starts_at=datetime(2026, 1, 1))


def test_ids_and_delays_are_the_schedules() -> None:
    with pytest.raises(UsageError, match="ids and times are the schedule's"):
        Schedule("s", Every(MINUTE), report.with_options(instance_id="mine"))


def test_an_option_is_no_matter_to_the_others() -> None:
    one = schedule(Every(MINUTE)).with_options(overlap="queue", jitter=MINUTE)

    assert one.with_options(missed="all").spec.overlap == "queue"
    assert one.with_options(missed="all").spec.jitter_ms == 60_000
    with pytest.raises(OptionError):
        one.with_options(jitter=-MINUTE)
