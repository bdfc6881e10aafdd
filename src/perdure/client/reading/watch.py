"""Waiting for instances to end, to report, to keep a value or to answer an update.

What turns of this process commit is told at once by the worker; the rest is found by looking, with
one question to the store for all that are waited for, and looking is worth it only after other
processes had news: at once, if the store is told of that. The number that tells of news is always
read before the rows: what comes in between is found by the next look.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from perdure.backoff import LOOK_MAX_S, LOOK_MIN_S, GrowingPause
from perdure.client.reading.outcomes import outcome_in
from perdure.client.reading.questions import RowQuestions
from perdure.errors import InstanceNotFoundError, StoreError
from perdure.model.admin import KvRow, ReportRow
from perdure.model.hints import Hint
from perdure.model.instances import InstanceRow
from perdure.model.streams import StreamPlace
from perdure.model.turns import InstanceEnd
from perdure.store.base import Store
from perdure.turns.endings import Endings

logger = logging.getLogger(__name__)

GAP_S = 0.0005
REST = 3
"""Between two looks, at least, and how many times as long as the first of them took."""
LOOK_LATER_S = 0.02
"""How long looking is put off for an instance that is in memory here: most end before that."""
LOOK_HERE_S = 2.0
"""How often to look, without a sign of change, at instances that are in memory here: their news is
told, unless it came about elsewhere."""
BEGUN_LASTS_S = 0.05
"""How long after a start its caller believes, without a sign of change, that nothing has come of it
yet: a sign may be lost."""


class NewsMark(NamedTuple):
    """What this process had heard of instances at some time."""

    of_others: int
    """The number of news of other processes."""
    told: int
    """How much was told here."""
    at_s: float


@dataclass(eq=False, slots=True)
class _Want:
    """A caller waits for a report newer than a version, for a value under a key that was set after
    a time, or for an item of a stream behind an index."""

    instance_id: str
    key: str | None
    after: int
    found: asyncio.Future[ReportRow | KvRow | None]
    stream: str | None = None


@dataclass(eq=False, slots=True)
class _WantedAnswer:
    """A caller waits for what an update comes to, by the id of its receipt."""

    instance_id: str
    receipt: str
    found: asyncio.Future[bytes | None]
    is_sent: bool = False
    """Before that, that there is no receipt says nothing."""


class InstanceWatch:
    """Looks for news of instances that callers wait for."""

    def __init__(
        self,
        store: Store,
        endings: Endings,
        is_here: Callable[[str], bool],
        tell: Callable[[str, int, InstanceEnd], None],
    ) -> None:
        """Prepare.

        Args:
            store: Where to look.
            endings: Who waits for what, and who tells at once.
            is_here: Tells whether a worker of this process has an instance in memory, and so will
                most likely be the one to end or change it, and tell.
            tell: Called with an end that was found by looking.
        """
        self._store = store
        self._questions = RowQuestions(store)
        self._endings = endings
        self._is_here = is_here
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        """Begins to look a little later, if something is waited for then."""
        self._wants: list[_Want] = []
        self._answers: dict[_WantedAnswer, None] = {}
        self._told: set[str] = set()
        self._wake = asyncio.Event()
        self._is_changed = False
        self._seen: int | None = 0
        """The number of news that have been looked at; None: it is not known."""

    def mark(self) -> NewsMark:
        """Return what was heard so far, for a caller that is about to start an instance."""
        news = self._store.change_count(Hint.NEWS)
        return NewsMark(news, self._endings.told, time.monotonic())

    async def ended(
        self, instance_id: str, *, hears_holds: bool, begun: NewsMark | None = None
    ) -> InstanceEnd:
        """Wait until an instance has ended.

        Args:
            instance_id: The instance.
            hears_holds: Whether to stop waiting when it is held.
            begun: What was heard before this process started it, if it has.

        Raises:
            InstanceNotFoundError: There is no such instance, or it was deleted meanwhile.
            InstanceHeldError: It is parked or blocked, and that is to be heard.
        """
        future = self._endings.expect(instance_id, hears_holds=hears_holds)
        try:
            if self._is_here(instance_id):
                self._look_later()
            else:
                seen = self._store.change_count(Hint.NEWS)
                if not self._is_as_begun(begun, seen):
                    row = await self._row(instance_id)
                    if row.status.is_terminal:
                        return outcome_in(row)
                    if row.status.is_held:
                        self._endings.tell_held(instance_id, row.status, row.reason or "")
                self._look_on(seen)
            return await future
        finally:
            self._endings.forget(instance_id, future)

    async def reported(self, instance_id: str, *, after: int) -> ReportRow | None:
        """Wait until an instance has a report newer than a version, or has ended.

        Returns:
            Its newest report; None if it ended without a newer one.

        Raises:
            InstanceNotFoundError: There is no such instance, or it was deleted meanwhile.
        """
        found = await self._wanted(instance_id, key=None, after=after)
        assert not isinstance(found, KvRow)
        return found

    async def kept(self, instance_id: str, key: str, *, after_ms: int = 0) -> KvRow | None:
        """Wait until an instance keeps a value under a key, set after a time, or has ended.

        Returns:
            The value; None if it ended without one.

        Raises:
            InstanceNotFoundError: There is no such instance, or it was deleted meanwhile.
        """
        found = await self._wanted(instance_id, key=key, after=after_ms)
        assert not isinstance(found, ReportRow)
        return found

    async def answered(
        self, instance_id: str, receipt: str, send: Callable[[], Awaitable[bool]]
    ) -> bytes | None:
        """Send an update, and wait until its receipt tells what it came to.

        Args:
            instance_id: The instance.
            receipt: The id of the receipt.
            send: Sends it; returns whether it is new, and so cannot have an answer yet. It is
                called when the answer can no longer be missed.

        Returns:
            What is kept of its outcome; None if that is not known, and the instance has ended, was
            deleted, or has no such receipt.
        """
        want = _WantedAnswer(
            instance_id, receipt, self._endings.expect_answer(instance_id, receipt)
        )
        self._answers[want] = None
        seen = self._count_news()
        try:
            is_new = await send()
            want.is_sent = True
            if want.found.done() and want.found.result() is None:
                # An end before it was sent is another instance's.
                want.found = self._endings.expect_answer(instance_id, receipt)
                is_new = False
            if not is_new or not self._is_here(instance_id):
                await self._serve_answers([want])
            if not want.found.done():
                self._look_on(seen)
            return await want.found
        finally:
            del self._answers[want]
            self._endings.forget_answer(instance_id, receipt, want.found)

    async def sent(self, place: StreamPlace) -> None:
        """Wait until there may be something behind a place in a stream, or the instance has ended.

        Raises:
            InstanceNotFoundError: There is no such instance, or it was deleted meanwhile.
        """
        await self._wanted(place.instance_id, key=None, after=place.after, stream=place.stream)

    async def close(self) -> None:
        """Stop looking."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ------------------------------------------------------------------ inside

    def _is_as_begun(self, begun: NewsMark | None, seen: int) -> bool:
        """Return whether nothing was heard since an instance was started here, a moment ago."""
        return (
            begun is not None
            and begun.of_others == seen
            and begun.told == self._endings.told
            and time.monotonic() - begun.at_s < BEGUN_LASTS_S
        )

    async def _row(self, instance_id: str) -> InstanceRow:
        row = await self._questions.row(instance_id)
        if row is None:
            raise InstanceNotFoundError(instance_id)
        return row

    async def _wanted(
        self, instance_id: str, *, key: str | None, after: int, stream: str | None = None
    ) -> ReportRow | KvRow | None:
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        want = _Want(instance_id, key, after, found, stream)
        self._wants.append(want)
        self._endings.listen(instance_id, self._heard)
        seen = self._count_news()
        try:
            await self._serve([want])
            if not want.found.done():
                self._look_on(seen)
            return await want.found
        finally:
            self._wants.remove(want)
            self._endings.unlisten(instance_id, self._heard)

    def _heard(self, instance_id: str) -> None:
        """The worker of this process has changed an instance."""
        self._told.add(instance_id)
        self._wake.set()

    def _is_looking(self) -> bool:
        return self._task is not None and not self._task.done()

    def _is_waiting(self) -> bool:
        return bool(self._endings.awaited() or self._wants or self._answers)

    def _look_later(self) -> None:
        """Begin to look if an instance that is here has not ended soon: the worker tells its end,
        but it may go elsewhere."""
        if self._later is None and not self._is_looking():
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(LOOK_LATER_S, self._look_after_all)

    def _look_after_all(self) -> None:
        self._later = None
        if self._is_waiting():
            self._look_on(None)

    def _count_news(self) -> int | None:
        """Return the number of news by now; None if they are being looked at, which goes on at
        least as long as something is waited for."""
        return None if self._is_looking() else self._store.change_count(Hint.NEWS)

    def _look_on(self, seen: int | None) -> None:
        """Look for what is waited for, if that is not being done.

        Args:
            seen: The number of news before the rows were read that are known. None: look at once.
        """
        if not self._is_looking():
            # A client that was closed may be opened again under another loop.
            self._wake = asyncio.Event()
            self._seen = seen
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        stop = self._store.listen_changes(Hint.NEWS, self._hearer())
        try:
            await self._look_on_and_on()
        finally:
            stop()

    def _hearer(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def ring() -> None:
            self._is_changed = True
            self._wake.set()

        def hear() -> None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(ring)

        return hear

    async def _look_on_and_on(self) -> None:
        pause, least_s = GrowingPause(LOOK_MIN_S, LOOK_MAX_S, factor=1.5), 0.0
        seen_here = self._seen
        rested_s = 0.0
        while self._is_waiting():
            if self._store.change_count(Hint.NEWS) != self._seen:
                self._is_changed = True  # There was news before it could ring.
            rested_s += await self._rest(pause.seconds, least_s)
            self._is_changed = False  # Before the number is read: what changes after that rings.
            changes = self._store.change_count(Hint.NEWS)
            # At the longest pause look anyway: a change count is a hint, the rows are the truth.
            if changes == self._seen and not pause.is_longest:
                pause.grow()
                continue
            wanted_s = LOOK_MIN_S if changes != self._seen else LOOK_MAX_S
            self._seen = changes
            looks_here = rested_s >= (LOOK_MAX_S if changes != seen_here else LOOK_HERE_S)
            if looks_here:
                seen_here, rested_s = changes, 0.0
            ids = {*self._endings.awaited(), *(want.instance_id for want in self._wants)}
            ids.update(want.instance_id for want in self._answers)
            began_s = time.monotonic()
            await self._look_once({one for one in ids if looks_here or not self._is_here(one)})
            # Where very many are waited for, looking takes long: it must not be all that is done.
            least_s = max(GAP_S, REST * (time.monotonic() - began_s))
            pause.restart(at_least_s=max(wanted_s, least_s))

    async def _rest(self, pause_s: float, least_s: float) -> float:
        """Do nothing for a while, except to look at once at what the worker here tells of.

        Args:
            pause_s: How long, as long as the store is not told of a change.
            least_s: How long also then.

        Returns:
            How long it was.
        """
        began_s = time.monotonic()
        while True:
            until_s = began_s + (least_s if self._is_changed else pause_s)
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return time.monotonic() - began_s
            if not self._told:
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._wake.wait()
            told, self._told = self._told, set()
            await self._look_once({want.instance_id for want in self._wants} & told)

    async def _look_once(self, ids: set[str]) -> None:
        if not ids:
            return
        try:
            awaited = [one for one in self._endings.awaited() if one in ids]
            ends = await self._store.read_ends(awaited) if awaited else {}
            for one, end in ends.items():
                if end is None:
                    self._endings.tell_gone(one)
                elif end.outcome.status.is_held:
                    held = end.outcome
                    self._endings.tell_held(one, held.status, held.reason or "")
                else:
                    self._tell(one, end.incarnation, end.outcome)
            await self._serve([want for want in self._wants if want.instance_id in ids])
            await self._serve_answers([want for want in self._answers if want.instance_id in ids])
        except StoreError:
            logger.warning("could not look for news this time", exc_info=True)

    async def _read(self, ids: Iterable[str]) -> list[InstanceRow | None]:
        asked = list(ids)
        return await self._store.read_instances(asked) if asked else []

    async def _serve(self, wants: list[_Want]) -> None:
        """Give those who wait what there is for them by now."""
        if not wants:
            return
        ids = sorted({want.instance_id for want in wants})
        # The rows first: of an instance that has ended by then, the last report is there by then.
        rows = dict(zip(ids, await self._read(ids), strict=True))
        await self._serve_readers([want for want in wants if want.stream is not None], rows)
        wants = [want for want in wants if want.stream is None]
        reporting = sorted({want.instance_id for want in wants if want.key is None})
        reports: dict[str, ReportRow | None] = {}
        if reporting:
            found = await self._store.admin.read_reports(reporting)
            reports = dict(zip(reporting, found, strict=True))
        for want in wants:
            row = rows[want.instance_id]
            if want.key is None:
                report = reports[want.instance_id]
                is_news = report is not None and report.version > want.after
                _give(want, row, report, is_news=is_news)
            elif row is not None:
                kept = (await self._store.admin.read_kv(want.instance_id, want.key)).get(want.key)
                is_news = kept is not None and kept.updated_ms > want.after
                _give(want, row, kept, is_news=is_news)
            else:
                _give(want, row, None, is_news=False)

    async def _serve_answers(self, wants: list[_WantedAnswer]) -> None:
        """Give those who wait for an answer what there is for them by now."""
        # Of what is sent while the receipts are read, they say nothing.
        sent = {want for want in wants if want.is_sent}
        by_instance: dict[str, list[_WantedAnswer]] = {}
        for want in wants:
            if not want.found.done():
                by_instance.setdefault(want.instance_id, []).append(want)
        # The rows first: of an instance that has ended by then, the last answer is there by then.
        rows = await self._read(by_instance)
        for row, asked in zip(rows, by_instance.values(), strict=True):
            receipts = sorted({want.receipt for want in asked})
            known = await self._store.deciders.read_receipts(asked[0].instance_id, receipts)
            is_over = row is None or row.status.is_terminal
            for want in asked:
                outcome = known.get(want.receipt)
                if want.found.done():
                    continue
                is_lost = is_over or want.receipt not in known
                if outcome is not None or (is_lost and want in sent):
                    want.found.set_result(outcome)

    async def _serve_readers(self, wants: list[_Want], rows: dict[str, InstanceRow | None]) -> None:
        """Have those read on who wait for items of streams, if there are some."""
        places = [StreamPlace(want.instance_id, want.stream or "", want.after) for want in wants]
        news = await self._store.streams.find_stream_news(places) if places else []
        for want, is_news in zip(wants, news, strict=True):
            _give(want, rows[want.instance_id], None, is_news=is_news)


def _give(
    want: _Want, row: InstanceRow | None, value: ReportRow | KvRow | None, *, is_news: bool
) -> None:
    if want.found.done():
        return
    if row is None:
        want.found.set_exception(InstanceNotFoundError(want.instance_id))
    elif is_news:
        want.found.set_result(value)
    elif row.status.is_terminal:
        want.found.set_result(None)
