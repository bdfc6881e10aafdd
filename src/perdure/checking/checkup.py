"""Check a store of any size: slice by slice, with flat memory, and only for so long.

Everything of an id is in one slice, read as of one moment; so what is true of each slice is true of
the store, and workers may go on meanwhile. What belongs to no single id (business keys, the feed,
sessions) is looked at afterwards.

A checkup that may not take as long as all slices need begins at a part that is chosen anew each
time, and says how much it has seen: ids fall into parts by their hash, so parts are as good a
sample as any, and checkups of several days see different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

from perdure.checking.decider_checks import check_keys
from perdure.checking.invariants import check_contents
from perdure.checking.violations import Violation
from perdure.model.instances import PARTS
from perdure.store.contents import FIRST_KEY, KeyPlace, Sliced, SlicePlace

MAX_KEPT = 1_000
"""How many violations are kept; more are counted."""

FEED_STEP = 50_000
"""How many positions of the feed are looked at together."""

AFTERWARDS = 1 / 6
"""How much more time what belongs to no single id may take, for each of its two sorts."""


@dataclass(slots=True)
class Checkup:
    """What was looked at so far, and what was found."""

    instances: int = 0
    events: int = 0
    share: float = 0.0
    """How much of all ids was looked at, from 0 to 1."""
    is_whole: bool = False
    """Whether everything was looked at."""
    violations: list[Violation] = field(default_factory=list)
    """The first of them."""
    found: int = 0
    """How many violations there are in all."""

    def add(self, violations: Iterable[Violation]) -> None:
        """Take in what was found."""
        for one in violations:
            self.found += 1
            if len(self.violations) < MAX_KEPT:
                self.violations.append(one)


async def check_slices(
    store: Sliced,
    *,
    for_s: float | None = None,
    first_part: int = 0,
    tell: Callable[[Checkup], None] = lambda checkup: None,
    clock: Callable[[], float] = monotonic,
) -> Checkup:
    """Check a store.

    Args:
        store: Which.
        for_s: How long the slices may take; None: until all are checked.
        first_part: Where to begin.
        tell: Called after each slice.
        clock: Tells the seconds that have passed.
    """
    checkup = Checkup()
    end_s = None if for_s is None else clock() + for_s
    # The range before the first slice comes last; what it has behind it was seen first.
    is_whole = await _check_range(store, checkup, first_part, PARTS, tell, clock, end_s)
    if is_whole and first_part > 0:
        is_whole = await _check_range(store, checkup, 0, first_part, tell, clock, end_s)
    ends_s = [None if for_s is None else clock() + for_s * AFTERWARDS * n for n in (1, 2)]
    has_all_keys = await _check_keys(store, checkup, clock, ends_s[0])
    has_all_fed = await _check_feed(store, checkup, clock, ends_s[1])
    checkup.is_whole = is_whole and has_all_keys and has_all_fed
    for session, workers in await store.find_torn_sessions():
        problem = f"{workers} workers run jobs of it"
        late = "was used after its lease had run out"
        checkup.add([Violation("S27", session, problem if workers else late)])
    return checkup


async def _check_range(
    store: Sliced,
    checkup: Checkup,
    first_part: int,
    end_part: int,
    tell: Callable[[Checkup], None],
    clock: Callable[[], float],
    end_s: float | None,
) -> bool:
    """Check parts; return whether there was time for all of them."""
    after: SlicePlace | None = SlicePlace(first_part, "")
    share = checkup.share
    while after is not None and after.part < end_part:
        if end_s is not None and clock() >= end_s:
            return False
        contents, after = await store.read_slice(after, end_part)
        checkup.add(check_contents(contents))
        checkup.instances += len(contents.instances)
        checkup.events += sum(map(len, contents.histories.values()))
        reached = end_part if after is None else after.part
        checkup.share = share + (reached - first_part) / PARTS
        tell(checkup)
    return True


async def _check_keys(
    store: Sliced, checkup: Checkup, clock: Callable[[], float], end_s: float | None
) -> bool:
    after: KeyPlace | None = FIRST_KEY
    while after is not None:
        if end_s is not None and clock() >= end_s:
            return False
        contents, after = await store.read_keys(after)
        checkup.add(check_keys(contents))
    return True


async def _check_feed(
    store: Sliced, checkup: Checkup, clock: Callable[[], float], end_s: float | None
) -> bool:
    end = await store.last_position()
    for after in range(0, end + 1, FEED_STEP):
        if end_s is not None and clock() >= end_s:
            return False
        for instance_id, execution, seq in await store.find_stray_feed(after, after + FEED_STEP):
            problem = f"the feed has event {seq} of execution {execution}, which is in no history"
            checkup.add([Violation("S33", instance_id, problem)])
    return True
