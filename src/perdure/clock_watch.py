"""A clock that is watched: what it tells is compared with the time that passed.

A wall clock that jumps is wrong now, or was wrong before; which cannot be told at once. Leases,
timers and arrival times would carry a wrong moment on for years, so a jump is believed only when it
has lasted; until then time goes on as it was. A watch can also say for how long its clock has been
steady: housekeeping asks for that before it removes what is old.

Safety never depends on it: commits are fenced by stamps and tokens, not by times.
"""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from time import time_ns

from perdure.clock import JUMP_MS, Clock, boot_clock, passed_ns, system_clock

logger = logging.getLogger(__name__)

LASTS_MS = 60_000
"""How long a jump has to last before it is believed. So long may timers be late after one that was
right; a clock that is wrong for less leaves nothing behind."""

_ALWAYS_MS = sys.maxsize
_NEVER_NS = -sys.maxsize
_MS = 1_000_000
"""How many nanoseconds a millisecond has."""


class ClockWatch:
    """What is believed of a clock. May be asked by any thread: looks that cross each other agree.

    A single look that is off is not told to people: the process may have stood still between the
    two clocks it reads.
    """

    def __init__(
        self, told_ms: int, *, passed: Clock = boot_clock, follows_ms: int = JUMP_MS
    ) -> None:
        """Believe the first look.

        Args:
            told_ms: What the clock tells now.
            passed: Tells how much time passes. Its zero does not matter.
            follows_ms: A jump up to this far is believed at once.
        """
        self._passed = passed
        self._follows_ms = follows_ms
        self.jumps = 0
        """How many there were."""
        self.begin(told_ms)

    def begin(self, told_ms: int) -> None:
        """Believe what is told, whatever was told before."""
        passed_ms = self._passed()
        self._believed = self._seen = told_ms - passed_ms
        """What the clock tells, less the time that passed: as believed, and at the last look."""
        self._since_ms = passed_ms
        self._moved_ms: int | None = None
        self._unsaid_ms = 0
        self._is_calm = True
        """Whether the last look has found nothing that has to be followed or said."""

    def look(self, told_ms: int) -> int:
        """Take note of what the clock tells; return the time that is believed."""
        passed_ms = self._passed()
        seen = told_ms - passed_ms
        if seen != self._seen:
            self._notice(seen, passed_ms)
        elif self._unsaid_ms:
            self._say()
        if seen != self._believed:
            self._follow(seen, passed_ms)
        self._is_calm = self._seen == self._believed and not self._unsaid_ms
        return passed_ms + self._believed

    def count(self) -> int:
        """Return the time that is believed, without a look at the clock."""
        return self._passed() + self._believed

    def steady_ms(self) -> int:
        """Return for how long the clock has not jumped: since the start, if it never has."""
        return self._passed() - self._since_ms

    def since_moved_ms(self) -> int:
        """Return how long ago the believed time jumped ahead; very long if it never has."""
        return _ALWAYS_MS if self._moved_ms is None else self._passed() - self._moved_ms

    def _notice(self, seen: int, passed_ms: int) -> None:
        jump_ms = seen - self._seen
        self._seen = seen
        if abs(jump_ms) > JUMP_MS:
            self.jumps += 1
            self._since_ms = passed_ms
            self._unsaid_ms += jump_ms
        elif self._unsaid_ms:
            self._say()

    def _follow(self, seen: int, passed_ms: int) -> None:
        off_ms = seen - self._believed
        has_lasted = passed_ms - self._since_ms >= LASTS_MS
        if abs(off_ms) > self._follows_ms and not has_lasted:
            return
        self._believed = seen
        if off_ms > JUMP_MS:
            self._moved_ms = passed_ms
        if abs(off_ms) > self._follows_ms:
            logger.warning(
                "the clock's jump by %s has lasted: leases, timers and arrivals go by it now",
                _signed(off_ms),
                extra={"jump_ms": off_ms},
            )

    def _say(self) -> None:
        """Tell people of a jump, once a second look has found it."""
        jump_ms, self._unsaid_ms = self._unsaid_ms, 0
        if abs(jump_ms) <= JUMP_MS:
            return  # There and back again.
        if abs(self._seen - self._believed) > JUMP_MS:
            logger.warning(
                "the clock jumped by %s. Leases, timers and arrivals go by the time that passes, "
                "until the clock is back or has stayed like that for %d s; housekeeping removes "
                "nothing until it has been steady for long. Does anything keep the machine's "
                "time, such as NTP?",
                _signed(jump_ms),
                LASTS_MS // 1000,
                extra={"jump_ms": jump_ms},
            )
        elif abs(jump_ms) <= self._follows_ms:
            logger.warning(
                "the clock jumped by %s, and leases and timers with it. Housekeeping removes "
                "nothing until the clock has been steady for long",
                _signed(jump_ms),
                extra={"jump_ms": jump_ms},
            )
        else:
            logger.info("the clock is back; nothing went by its jump", extra={"jump_ms": jump_ms})


class WatchedSystemClock(ClockWatch):
    """The machine's clock, looked at whenever it is asked."""

    def __init__(self, wall: Clock = system_clock, *, passed: Clock = boot_clock) -> None:
        self._wall = wall
        self._is_machine = wall is system_clock and passed is boot_clock
        self._calm_ns = _NEVER_NS
        """What is believed while the machine's clock is calm; `_NEVER_NS` fits no clock."""
        super().__init__(wall(), passed=passed)

    def __call__(self) -> int:
        # Asked many times per turn, and mostly for nothing.
        calm_ns, now_ns = self._calm_ns, passed_ns()
        if -_MS <= time_ns() - now_ns - calm_ns <= _MS:
            return (now_ns + calm_ns) // _MS
        told_ms = self._wall()
        believed_ms = self._passed() + self._believed
        # Both clocks are cut to milliseconds, each at its own moment, so that a calm clock is one
        # off now and then.
        if self._is_calm and -1 <= told_ms - believed_ms <= 1:
            return believed_ms
        return self.look(told_ms)

    def begin(self, told_ms: int) -> None:
        """See `ClockWatch.begin`."""
        super().begin(told_ms)
        self._note_calm()

    def look(self, told_ms: int) -> int:
        """See `ClockWatch.look`."""
        now_ms = super().look(told_ms)
        self._note_calm()
        return now_ms

    def _note_calm(self) -> None:
        self._calm_ns = self._believed * _MS if self._is_machine and self._is_calm else _NEVER_NS


def steady_ms(clock: Clock) -> int:
    """Return for how long a clock has been steady; one that is not watched was handed in, and
    always is."""
    return clock.steady_ms() if isinstance(clock, ClockWatch) else _ALWAYS_MS


def jumps(clock: Clock) -> int:
    """Return how often a clock has jumped; see `steady_ms`."""
    return clock.jumps if isinstance(clock, ClockWatch) else 0


def since_moved_ms(clock: Clock) -> int:
    """Return how long ago a clock's believed time jumped ahead; see `steady_ms`."""
    return clock.since_moved_ms() if isinstance(clock, ClockWatch) else _ALWAYS_MS


def _signed(jump_ms: int) -> str:
    way = "ahead" if jump_ms > 0 else "back"
    return f"{timedelta(milliseconds=abs(jump_ms))} {way}"
