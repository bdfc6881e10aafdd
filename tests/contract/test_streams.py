"""What every store does with streams: indexes, what counts, what is void, and take-backs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.model.instances import Status
from perdure.model.jobs import ClaimedJob, JobEnd, StreamAppend
from perdure.model.streams import SentItems, StoredItem, StreamPage, StreamPlace
from perdure.model.turns import TurnStatus
from perdure.store.base import Store
from perdure.store.sql.commits.streams import MAX_ROW_BYTES
from tests.contract.store_values import (
    COMPLETED,
    CONTINUED,
    STARTED,
    accepted,
    begun,
    claim_jobs,
    continuation,
    first_turn,
    job,
    latest,
    new_instance,
    next_turn,
    outcome,
    result_of,
)


def sent(*words: str, to: str = "s") -> tuple[SentItems, ...]:
    """Return what was sent to a stream."""
    return (SentItems(to, tuple(f'"{word}"'.encode() for word in words)),)


def append(work: ClaimedJob, *words: str, to: str = "s", is_first: bool = False) -> StreamAppend:
    """Return what an attempt sends."""
    return StreamAppend(work.key, work.token, work.attempt, sent(*words, to=to), is_first)


def succeeded(work: ClaimedJob, *words: str) -> JobEnd:
    """Return the end of an attempt that has sent something."""
    end = result_of(work.key, work.token)
    return replace(end, sent=sent(*words) if words else (), attempt=work.attempt)


async def page(store: Store, after: int = 0, to: str = "s", limit: int = 100) -> StreamPage:
    """Read a stream."""
    found = await store.streams.read_stream("i", to, after=after, limit=limit)
    assert found is not None
    return found


async def read(store: Store, after: int = 0, to: str = "s") -> list[tuple[int, str]]:
    """Return what is in a stream: indexes and words; a take-back is its first void index."""
    return [(one.index, _shown(one)) for one in (await page(store, after, to)).items]


def _shown(item: StoredItem) -> str:
    return f"from {item.discards_from}" if item.body is None else item.body.decode().strip('"')


async def running(store: Store, seq: int = 2, **fields: Any) -> ClaimedJob:
    """Start an instance with a job, and claim that."""
    await begun(store, jobs=(job(seq),), **fields)
    [work] = await claim_jobs(store)
    return work


class TestTurns:
    """What orchestrations send."""

    async def test_it_is_stored_with_the_turn_in_order(self, store: Store) -> None:
        stamp = await begun(store, sent=sent("a", "b"))
        await accepted(store, next_turn("i", stamp, sent=sent("c")))

        assert await read(store) == [(1, "a"), (2, "b"), (3, "c")]
        assert await read(store, after=2) == [(3, "c")]
        assert await read(store, after=1) == [(2, "b"), (3, "c")]

    async def test_turns_of_one_batch_have_their_order(self, store: Store) -> None:
        start = new_instance()
        first = first_turn(start, sent=sent("a"))
        second = next_turn("i", first.next_stamp, sent=sent("b", "c"))

        await store.commit([first, second])

        assert await read(store) == [(1, "a"), (2, "b"), (3, "c")]

    async def test_a_turn_that_is_sent_again_sends_nothing_again(self, store: Store) -> None:
        turn = first_turn(new_instance(), sent=sent("a"))

        await accepted(store, turn)
        await accepted(store, turn)

        assert await read(store) == [(1, "a")]

    async def test_a_refused_turn_sends_nothing(self, store: Store) -> None:
        stamp = await begun(store)
        await accepted(store, next_turn("i", stamp))

        [receipt] = await store.commit([next_turn("i", stamp, sent=sent("a"))])

        assert receipt.status is TurnStatus.REFUSED
        assert await read(store) == []

    async def test_streams_and_instances_are_apart(self, store: Store) -> None:
        await begun(store, sent=(*sent("a"), *sent("b", to="t")))
        await begun(store, "j", sent=sent("c"))

        assert await read(store) == [(1, "a")]
        assert await read(store, to="t") == [(1, "b")]
        assert [head.stream for head in await store.streams.read_stream_heads("i")] == ["s", "t"]

    async def test_it_goes_on_when_the_instance_continues_and_stays_when_it_ends(
        self, store: Store
    ) -> None:
        stamp = await begun(store, sent=sent("a"))
        turn = next_turn("i", stamp, events=(CONTINUED,), continued=continuation(), sent=sent("b"))
        await accepted(store, turn)
        end = next_turn(
            "i", turn.next_stamp, events=(STARTED, COMPLETED), outcome=outcome(), sent=sent("c")
        )
        await accepted(store, end)

        assert await read(store) == [(1, "a"), (2, "b"), (3, "c")]
        assert (await page(store)).has_ended

    async def test_a_new_instance_of_the_id_begins_anew(self, store: Store) -> None:
        start = new_instance()
        await accepted(
            store,
            first_turn(
                start, events=(STARTED, COMPLETED), outcome=outcome(), sent=sent("a", "b", to="t")
            ),
        )

        again = new_instance(replaces=start.incarnation)
        await accepted(store, first_turn(again, sent=sent("c")))

        assert await read(store) == [(1, "c")]
        assert await read(store, to="t") == []
        assert [head.stream for head in await store.streams.read_stream_heads("i")] == ["s"]

    async def test_what_is_long_is_spread_over_rows(self, store: Store) -> None:
        words = [str(number) * 30_000 for number in range(10)] * 5
        await begun(store, sent=sent(*words))

        assert [word for _, word in await read(store)] == words
        assert not (await page(store, limit=1)).is_last
        assert len((await page(store, limit=1)).items) <= MAX_ROW_BYTES // 30_000


class TestActivities:
    """What attempts send."""

    async def test_it_is_read_while_the_attempt_has_its_job(self, store: Store) -> None:
        work = await running(store, sent=sent("begin"))

        assert await store.streams.append_streams([append(work, "a", "b")]) == [True]

        assert await read(store) == [(1, "begin"), (2, "a"), (3, "b")]
        assert not (await page(store)).has_void

    async def test_it_counts_for_good_once_the_attempt_has_succeeded(self, store: Store) -> None:
        work = await running(store)
        await store.streams.append_streams([append(work, "a")])

        assert await store.end_jobs([succeeded(work, "b")]) == [True]

        assert await read(store) == [(1, "a"), (2, "b")]
        assert not (await page(store)).has_void

    @pytest.mark.parametrize("way", ["end", "turn"])
    async def test_what_another_attempt_sent_under_the_same_token_does_not_count(
        self, store: Store, way: str
    ) -> None:
        """Jobs that were claimed together, or made by one turn, have one token."""
        stamp = await begun(store, jobs=(job(2), job(3)))
        first, second = sorted(await claim_jobs(store), key=lambda work: work.key.seq)
        assert first.token == second.token
        await store.streams.append_streams([append(first, "a"), append(second, "b")])

        if way == "end":
            await store.end_jobs([succeeded(first)])
        else:
            await accepted(store, next_turn("i", stamp, job_ends=(succeeded(first),)))
        await store.end_jobs([JobEnd(key=second.key, token=second.token, retry_at_ms=0)])
        [again] = await claim_jobs(store)
        await store.streams.append_streams([append(again, "B", is_first=True)])
        await store.end_jobs([succeeded(again)])

        words = [word for _, word in await read(store)]
        assert words == ["a", "from 2", "B"]

    async def test_the_short_way_keeps_it_too(self, store: Store) -> None:
        work = await running(store)
        await store.streams.append_streams([append(work, "a")])
        stamp = await latest(store)

        turn = next_turn("i", stamp, job_ends=(succeeded(work, "b"),), sent=sent("c"))
        await accepted(store, turn)

        assert await read(store) == [(1, "a"), (2, "b"), (3, "c")]

    async def test_the_end_of_a_refused_turn_keeps_it_too(self, store: Store) -> None:
        work = await running(store)
        stamp = await latest(store)
        await accepted(store, next_turn("i", stamp))

        turn = next_turn("i", stamp, job_ends=(succeeded(work, "b"),), sent=sent("c"))
        [receipt] = await store.commit([turn])

        assert receipt.ends_kept == (True,)
        assert await read(store) == [(1, "b")]

    async def test_whoever_lost_the_lease_sends_nothing(self, store: Store) -> None:
        work = await running(store)
        other = append(work, "b")._replace(token=work.token + 1)

        assert await store.streams.append_streams([other, append(work, "a")]) == [False, True]

        assert await read(store) == [(1, "a")]

    async def test_the_next_attempt_takes_back_what_the_former_sent(self, store: Store) -> None:
        work = await running(store, sent=sent("begin"))
        await store.streams.append_streams([append(work, "a", "b")])
        await store.end_jobs([JobEnd(key=work.key, token=work.token, retry_at_ms=0)])
        [again] = await claim_jobs(store)

        await store.streams.append_streams([append(again, "A", is_first=True)])

        assert await read(store) == [(1, "begin"), (4, "from 2"), (5, "A")]
        assert await read(store, after=3) == [(4, "from 2"), (5, "A")]
        assert await store.streams.append_streams([append(work, "late")]) == [False]

    async def test_what_a_failed_attempt_sent_is_void_at_once(self, store: Store) -> None:
        work = await running(store)
        await store.streams.append_streams([append(work, "a")])
        await store.end_jobs([JobEnd(key=work.key, token=work.token, retry_at_ms=0)])

        found = await page(store)

        assert (found.items, found.has_void) == ((), True)

    @pytest.mark.parametrize("way", ["cancelled", "ended", "terminated", "continued"])
    async def test_what_a_lost_call_sent_is_void(self, store: Store, way: str) -> None:
        work = await running(store)
        await store.streams.append_streams([append(work, "a")])
        stamp = await latest(store)
        fields: dict[str, dict[str, Any]] = {
            "cancelled": {"jobs_gone": (2,)},
            "ended": {"outcome": outcome(), "events": (COMPLETED,)},
            "terminated": {"outcome": outcome(Status.TERMINATED), "seize": True},
            "continued": {"continued": continuation(), "events": (CONTINUED,)},
        }
        await accepted(store, next_turn("i", stamp, **fields[way]))
        assert (await page(store)).has_void

        await store.streams.take_back("i")

        assert await read(store) == [(2, "from 1")]
        assert not (await page(store)).has_void

    async def test_what_counts_behind_it_comes_again_in_its_order(self, store: Store) -> None:
        stamp = await begun(store, jobs=(job(2), job(3)), sent=sent("o1"))
        first, second = sorted(await claim_jobs(store), key=lambda work: work.key.seq)
        await store.streams.append_streams([append(first, "a1")])
        await store.streams.append_streams([append(second, "b1", "b2")])
        await accepted(store, next_turn("i", stamp, sent=sent("o2")))
        await store.streams.append_streams([append(first, "a2")])
        await store.streams.append_streams([append(second, "b3")])
        await store.end_jobs([JobEnd(key=first.key, token=first.token, retry_at_ms=0)])

        await store.streams.take_back("i")

        assert await read(store) == [
            (1, "o1"),
            (8, "from 2"),
            *[(9, "b1"), (10, "b2"), (11, "o2"), (12, "b3")],
        ]
        # An earlier take-back that a later one covers is gone, and indexes rise.
        await store.streams.append_streams([append(second, "b4")])
        await store.end_jobs([JobEnd(key=second.key, token=second.token, retry_at_ms=0)])
        await store.streams.take_back("i")
        assert await read(store) == [(1, "o1"), (8, "from 2"), (14, "from 9"), (15, "o2")]

    async def test_a_take_back_covers_an_earlier_one_that_begins_behind_it(
        self, store: Store
    ) -> None:
        await begun(store, jobs=(job(2), job(3)))
        first, second = sorted(await claim_jobs(store), key=lambda work: work.key.seq)
        await store.streams.append_streams([append(first, "a")])
        await store.streams.append_streams([append(second, "b")])
        for work in (second, first):
            await store.end_jobs([JobEnd(key=work.key, token=work.token, retry_at_ms=0)])
            await store.streams.take_back("i")

        assert await read(store) == [(4, "from 1")]

    async def test_nothing_void_is_nothing_to_take_back(self, store: Store) -> None:
        work = await running(store)
        await store.streams.append_streams([append(work, "a")])

        await store.streams.take_back("i")
        await store.streams.take_back("nobody")

        assert await read(store) == [(1, "a")]


class TestReading:
    """What readers ask."""

    async def test_an_instance_that_is_not_there_has_no_stream(self, store: Store) -> None:
        assert await store.streams.read_stream("nobody", "s", after=0, limit=10) is None
        assert await store.streams.read_stream_heads("nobody") == []

    async def test_news_is_what_is_behind_a_place_or_void(self, store: Store) -> None:
        work = await running(store, sent=sent("a"))
        await store.streams.append_streams([append(work, "b", to="t")])

        async def news() -> list[bool]:
            places = [("i", "s", 0), ("i", "s", 1), ("i", "t", 1), ("i", "u", 0), ("j", "s", 0)]
            return await store.streams.find_stream_news([StreamPlace(*place) for place in places])

        assert await news() == [True, False, False, False, False]
        await store.end_jobs([JobEnd(key=work.key, token=work.token, retry_at_ms=0)])
        assert await news() == [True, False, True, False, False]

    async def test_a_head_counts_what_counts(self, store: Store) -> None:
        work = await running(store, sent=sent("a"))
        await store.streams.append_streams([append(work, "b", "c")])
        [head] = await store.streams.read_stream_heads("i")
        assert (head.stream, head.last_index, head.items) == ("s", 3, 3)

        await store.end_jobs([JobEnd(key=work.key, token=work.token, retry_at_ms=0)])

        [head] = await store.streams.read_stream_heads("i")
        assert (head.last_index, head.items) == (3, 1)

    async def test_deletion_removes_streams(self, store: Store) -> None:
        start = new_instance()
        turn = first_turn(start, events=(STARTED, COMPLETED), outcome=outcome(), sent=sent("a"))
        await accepted(store, turn)

        assert await store.admin.delete([("i", start.incarnation)], force=False) is not None

        assert await store.streams.read_stream_heads("i") == []
        await begun(store, sent=sent("b"))
        assert await read(store) == [(1, "b")]

    async def test_an_item_may_hold_anything(self, store: Store) -> None:
        body = '"\\u0000 Ä \N{PILE OF POO} \\" ]["'.encode()
        await begun(store, sent=(SentItems("Ä'; --", (body, b"null", b'{"a":[1]}')),))

        found = await page(store, to="Ä'; --")

        assert [item.body for item in found.items] == [body, b"null", b'{"a":[1]}']
