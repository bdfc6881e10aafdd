"""Looking for work that others left in the store.

What happens in this process announces itself (`look`); what happens in others is noticed by the
store's change count; what becomes due is known from the store's next wake-up time. So a worker with
nothing to do only compares two numbers now and then, and one that runs on local work seldom claims.
A store that is told of changes has them compared at once, and else no oftener than it claims.

Comparing is cheap and done often; claiming is a transaction. Between two claims a worker rests for
as long as the last one took, so that what comes meanwhile is claimed together. One that finds
nothing after others' changes, time and again, heeds them less and less, until they pause. And one
that hears of no changes at all asks a server less and less, so that a large fleet can wait for
little.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from perdure.backoff import pause_after
from perdure.clock import Clock, to_ms
from perdure.clock_watch import since_moved_ms
from perdure.ids import fresh_id
from perdure.jobs.jobs import JobRunner
from perdure.jobs.slots import HARMLESS, SlotKind
from perdure.model.hints import Hint
from perdure.model.jobs import ClaimedJob, JobEnd
from perdure.model.options import WorkerOptions
from perdure.model.suspects import suspect_after
from perdure.model.turns import ClaimedTurn, JobClaim, TurnClaim
from perdure.model.worker_options import renew_every
from perdure.store.base import Store, TurnLease
from perdure.telemetry import Metrics
from perdure.turns.turns import TurnRunner

NEVER_MS = 2**62

COMPARE_MAX_S = 0.2
"""How seldom the change count is compared when nothing happens, and nothing would be told."""

AGAIN_MS = 20
"""How long after a claim that found all there was the next one looks what else comes, unless a hint
is quicker; if that finds nothing, it is worked out when something will be due."""

BLOCKED_EVERY_MS = 1_000
"""How often a worker that claims looks for instances that other code did not fit."""

ON_THE_LOOP = (SlotKind.ASYNC, SlotKind.BUILTIN, SlotKind.WAITING)
"""Kinds with so many slots that one claim for all of them is seldom too small."""


class _Claimed(NamedTuple):
    """What the claims of one moment have come to."""

    turns: list[ClaimedTurn]
    jobs: list[ClaimedJob]
    error: BaseException | None

    @classmethod
    def of(cls, answers: Sequence[Any]) -> _Claimed:
        """Return the answer to a claim of turns and those to claims of jobs, some of them errors,
        as one."""
        turns, *jobs = ([] if isinstance(one, BaseException) else one for one in answers)
        errors = [one for one in answers if isinstance(one, BaseException)]
        return cls(turns, [job for some in jobs for job in some], next(iter(errors), None))


class Claimer:
    """Claims turns and jobs when there may be some, and hands them to those who run them."""

    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        *,
        worker_id: str,
        turns: TurnRunner,
        jobs: JobRunner,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._clock: Clock = store.clock
        self._options = options
        self._worker_id = worker_id
        self._lease_ms = to_ms(options.lease_for)
        self._turns = turns
        self._jobs = jobs
        self._metrics = metrics
        self._definitions: tuple[tuple[int, str], ...] = ()
        self._queues: Mapping[SlotKind, Sequence[int]] = {}
        self._poll_min_s = options.poll_min.total_seconds()
        self._poll_max_s = options.poll_max.total_seconds()
        # What a dead worker has begun waits for the end of its lease, too: to ask more seldom than
        # the living renew theirs would add to that.
        self._seldom_s = renew_every(options.lease_for).total_seconds() if store.is_server else 0.0
        self._look_at_ms = 0
        self._claimed_s = 0.0
        self._took_s = 0.0
        """How long the last claim took."""
        self._blocked_at_ms = 0
        """When to look for blocked instances again."""
        self._heard_s = 0.0
        """When there was last something to claim, or a change of others."""
        self._seen_changes = -1
        self._fruitless = 0
        """How many claims in a row found nothing."""
        self._in_vain = 0
        """How many of others' changes, of late, had nothing for us."""
        self._quiet = 0
        """How many comparisons in a row found no change."""
        self._suspect_after = suspect_after(options)
        self._rounds = 0
        """How many claims there were; each kind of them may take a suspect in turn."""
        self._starved: tuple[SlotKind, ...] = ()
        """Kinds of which jobs may wait that there was no room for at the last claim."""
        self._rung = asyncio.Event()
        self._is_told = False
        """Whether a change of others has rung that no claim has followed yet."""
        self._has_more = False
        """Whether the last claim has got as much as it asked for, or a suspect alone."""

    def serve(
        self, definitions: Iterable[tuple[int, str]], queues: Mapping[SlotKind, Sequence[int]]
    ) -> None:
        """Say what to claim from now on.

        Args:
            definitions: Numbers of orchestrations and deciders, each with the name under which the
                code that runs it here is tried.
            queues: Numbers of queues, by where the code of their jobs runs.
        """
        self._definitions = tuple(definitions)
        self._queues = queues
        self._blocked_at_ms = 0
        self.look(0)

    @property
    def look_at_ms(self) -> int | None:
        """When to look for work: after a claim in vain, when the store has something due. None: not
        before something announces itself."""
        return None if self._look_at_ms == NEVER_MS else self._look_at_ms

    def look(self, at_ms: int = 0) -> None:
        """Look for work at that time, or now."""
        if at_ms < self._look_at_ms:
            self._look_at_ms = at_ms
            self._rung.set()

    def room_freed(self, job: ClaimedJob) -> None:
        """A job has left its place: if there was no room for all that waits, there may be now.

        Not for every single job, since a claim is a transaction: only when few are left to run, or
        when another suspect or session may come.
        """
        if (
            job.lost >= self._suspect_after
            or (job.session is not None and self._jobs.sessions.has_new_room())
            or (self._starved and self._jobs.is_hungry(self._starved))
        ):
            self.look(0)

    async def run(self) -> None:
        """Claim for ever. Ends only by cancellation."""
        stop = self._store.listen_changes(Hint.WORK, self._hearer())
        try:
            while True:
                if self._is_due() or self._is_time():
                    await self.run_once()
                self._rung.clear()
                if not self._is_due():
                    await self._wait()
        finally:
            stop()

    def _hearer(self) -> Callable[[], None]:
        """Return what has counts compared at once, for a store that is told of changes."""
        loop = asyncio.get_running_loop()

        def hear() -> None:
            # Called for every change, and by another thread; one ring is enough for many.
            if not self._is_told:
                self._is_told = True
                with suppress(RuntimeError):  # The loop is closed.
                    loop.call_soon_threadsafe(self._rung.set)

        return hear

    async def run_once(self) -> bool:
        """Claim once; return whether there was something."""
        # Before the number is read: a change after that rings again.
        self._is_told = False
        changes = self._store.change_count(Hint.WORK)
        is_changed, self._seen_changes = changes != self._seen_changes, changes
        self._rounds += 1
        # Before the claims: whatever announces itself from here on is looked for again.
        self._look_at_ms = NEVER_MS
        began_s = time.monotonic()
        found = await self._claim()
        self._claimed_s = time.monotonic()
        self._took_s = self._claimed_s - began_s
        if found or is_changed:
            self._heard_s = self._claimed_s
        if found:
            self._fruitless = self._in_vain = self._quiet = 0
            self.look(0 if self._has_more else self._clock() + AGAIN_MS)
        else:
            if is_changed:
                self._in_vain += 1
                self._quiet = 0
            await self._plan()
        return found

    async def _claim(self) -> bool:
        if since_moved_ms(self._clock) < self._lease_ms // 2:
            # All leases seem to have run out, also of the living. They have time to renew them.
            return False
        room = self._jobs.room()
        groups = self._groups(room)
        wanted = self._wanted_jobs(room, groups)
        # Who may take a suspect is decided for all at once: the claim of turns begins a little
        # later, and there may be room for other kinds of jobs by then.
        takes_suspect = self._takes_suspect(0, groups)
        # Handed to the store together, so that they share one transaction.
        claiming = asyncio.gather(
            self._claim_turns(takes_suspect=takes_suspect),
            *(self._store.claim_jobs(claim) for _, claim in wanted),
            return_exceptions=True,
        )
        try:
            answers = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await self._give_back(_Claimed.of(await claiming))
            raise
        claimed = _Claimed.of(answers)
        self._note_starved(wanted, answers[1:])
        self._has_more = self._may_have_left(claimed, [claim for _, claim in wanted], answers[1:])
        self._count(claimed)
        # What was leased is worked on, also if another claim has failed.
        for job in claimed.jobs:
            self._jobs.run(job)
        await self._turns.take(claimed.turns)
        if claimed.error is not None:
            raise claimed.error
        return bool(claimed.turns or claimed.jobs)

    def _count(self, claimed: _Claimed) -> None:
        for kind, found in (("turns", claimed.turns), ("jobs", claimed.jobs)):
            self._metrics.claims.add((kind,))
            if found:
                self._metrics.claimed.add((kind,), by=len(found))

    async def _give_back(self, claimed: _Claimed) -> None:
        """The worker stops while the store leases us something that it will not work on."""
        if claimed.turns:
            leases = [TurnLease(turn.instance_id, turn.lease) for turn in claimed.turns]
            await self._store.release_turns(leases)
        now_ms = self._clock()
        await self._store.end_jobs(
            [
                JobEnd(key=job.key, token=job.token, retry_at_ms=now_ms, refund=True)
                for job in claimed.jobs
            ]
        )

    async def _claim_turns(self, *, takes_suspect: bool) -> list[ClaimedTurn]:
        claim = self._turn_claim(takes_suspect=takes_suspect)
        ready = self._store.claim_turns(claim)
        now_ms = self._clock()
        if now_ms < self._blocked_at_ms:
            return await ready
        self._blocked_at_ms = now_ms + BLOCKED_EVERY_MS
        # None of the blocked is a suspect: the worker that found it not to fit has lived on.
        others = self._turn_claim(takes_suspect=False)
        turns, blocked = await asyncio.gather(ready, self._store.claim_blocked(others))
        if len(blocked) == self._options.claim_batch:
            self._blocked_at_ms = 0  # There may be more.
        return [*turns, *blocked]

    def _turn_claim(self, *, takes_suspect: bool) -> TurnClaim:
        return TurnClaim(
            self._worker_id,
            self._definitions,
            self._options.claim_batch,
            self._lease_ms,
            fresh_id(),
            self._suspect_after,
            takes_suspect=takes_suspect,
        )

    def _wanted_jobs(
        self, room: Mapping[SlotKind, int], groups: Sequence[tuple[SlotKind, ...]]
    ) -> list[tuple[tuple[SlotKind, ...], JobClaim]]:
        """Return what to claim of jobs, for the kinds there is room for."""
        batch = self._options.claim_batch
        terms = self._jobs.sessions.terms(len(groups))
        harmless = tuple(number for kind in HARMLESS for number in self._queues.get(kind, ()))
        return [
            (
                group,
                JobClaim(
                    self._worker_id,
                    tuple(number for kind in group for number in self._queues[kind]),
                    min(batch, *(room[kind] for kind in group)),
                    self._lease_ms,
                    fresh_id(),
                    sessions,
                    self._suspect_after,
                    takes_suspect=self._takes_suspect(place, groups),
                    harmless=harmless,
                ),
            )
            for place, (group, sessions) in enumerate(zip(groups, terms, strict=True), start=1)
        ]

    def _note_starved(
        self,
        wanted: Sequence[tuple[tuple[SlotKind, ...], JobClaim]],
        answers: Sequence[object],
    ) -> None:
        satisfied = {
            kind
            for (group, claim), jobs in zip(wanted, answers, strict=True)
            if isinstance(jobs, list) and len(jobs) < claim.limit
            for kind in group
        }
        self._starved = tuple(kind for kind in self._queues if kind not in satisfied)

    def _may_have_left(
        self, claimed: _Claimed, claims: Sequence[JobClaim], answers: Sequence[object]
    ) -> bool:
        """Return whether there may be more to claim at once."""
        return (
            len(claimed.turns) >= self._options.claim_batch
            or any(
                isinstance(jobs, list) and len(jobs) >= claim.limit
                for claim, jobs in zip(claims, answers, strict=True)
            )
            or any(turn.attempts > self._suspect_after for turn in claimed.turns)
            or any(job.lost >= self._suspect_after for job in claimed.jobs)
        )

    def _takes_suspect(self, place: int, groups: Sequence[tuple[SlotKind, ...]]) -> bool:
        """Return whether a claim may take a suspect: that of turns (0) or of a group of jobs (from
        1), one after the other, and only while none is under way."""
        is_its_turn = self._rounds % (1 + len(groups)) == place
        return is_its_turn and self._turns.suspects.may_come() and self._jobs.suspects.may_come()

    def _groups(self, room: Mapping[SlotKind, int]) -> list[tuple[SlotKind, ...]]:
        """Return the kinds there is room for, in groups that share a claim."""
        kinds = [kind for kind in self._queues if room.get(kind, 0) > 0]
        shared = tuple(kind for kind in kinds if kind in ON_THE_LOOP)
        others = [(kind,) for kind in kinds if kind not in ON_THE_LOOP]
        return [*([shared] if shared else ()), *others]

    async def _plan(self) -> None:
        """Nothing was found: work out when to look again."""
        self._fruitless += 1
        definitions = [number for number, _ in self._definitions]
        room = self._jobs.room()
        queues = [
            number
            for kind, numbers in self._queues.items()
            if room.get(kind, 0) > 0
            for number in numbers
        ]
        wake_ms = await self._store.next_wake_ms(definitions, queues)
        if wake_ms is None:
            return
        # What is due and was not given to us (it has another home, or waits for other code) must
        # not make us ask all the time.
        pause_ms = int(self._backed_off_s(self._fruitless) * 1000)
        now_ms = self._clock()
        self.look(wake_ms if wake_ms > now_ms else now_ms + pause_ms)

    def _is_due(self) -> bool:
        return self._look_at_ms <= self._clock()

    def _is_time(self) -> bool:
        """Return whether to claim without a date: something has changed, or it was long ago."""
        rested_s = time.monotonic() - self._claimed_s
        if self._store.change_count(Hint.WORK) == self._seen_changes:
            # The change count is a hint that a crash can swallow; the rows are the truth.
            silent_s = self._claimed_s - self._heard_s
            return rested_s >= max(self._poll_max_s, min(silent_s, self._seldom_s))
        # While others write all the time, we would ask without a pause.
        return rested_s >= self._rest_s()

    async def _wait(self) -> None:
        """Wait until something announces itself or becomes due, or it is time to compare counts."""
        if self._store.change_count(Hint.WORK) == self._seen_changes:
            rest_s = self._backed_off_s(self._quiet)
            if not self._store.hears_changes(Hint.WORK):
                rest_s = min(rest_s, max(COMPARE_MAX_S, self._poll_min_s))
        else:
            rest_s = self._claimed_s + self._rest_s() - time.monotonic()
        due_s = max(self._look_at_ms - self._clock(), 0) / 1000
        try:
            async with asyncio.timeout(min(rest_s, due_s)):
                await self._rung.wait()
        except TimeoutError:
            if self._store.change_count(Hint.WORK) == self._seen_changes:
                self._quiet += 1
                self._in_vain = max(self._in_vain - 1, 0)

    def _rest_s(self) -> float:
        """Return how long to rest after a claim before a change of others is heeded."""
        least_s = min(self._took_s, self._poll_min_s)
        return pause_after(self._in_vain, first_s=least_s, longest_s=self._poll_max_s)

    def _backed_off_s(self, times: int) -> float:
        """Return the pause after so many disappointments in a row."""
        return pause_after(times, first_s=self._poll_min_s, longest_s=self._poll_max_s)
