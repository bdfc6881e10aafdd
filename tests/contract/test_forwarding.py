"""What every store does with items that an instance sends to a stream of another."""

from __future__ import annotations

from perdure.model.streams import ForwardedItems, SentItems
from perdure.model.turns import TurnStatus
from perdure.store.base import Store
from perdure.store.sql.commits.streams import MAX_ROW_BYTES
from tests.contract.store_values import (
    COMPLETED,
    CONTINUED,
    STARTED,
    accepted,
    begun,
    continuation,
    ended,
    first_turn,
    latest,
    new_instance,
    next_turn,
    outcome,
)


def to(instance_id: str, incarnation: int, *words: str) -> tuple[ForwardedItems, ...]:
    """Return items for a stream of an instance."""
    bodies = tuple(f'"{word}"'.encode() for word in words)
    return (ForwardedItems(instance_id, incarnation, "s", bodies),)


async def read(store: Store, instance_id: str = "i") -> list[str]:
    """Return what is in the stream of an instance."""
    found = await store.streams.read_stream(instance_id, "s", after=0, limit=100)
    assert found is not None
    return [(one.body or b"").decode().strip('"') for one in found.items]


async def test_they_are_stored_with_the_turn_behind_what_is_there(store: Store) -> None:
    stamp = await begun(store, sent=(SentItems("s", (b'"own"',)),))
    page = first_turn(
        new_instance("page"),
        events=(STARTED, COMPLETED),
        outcome=outcome(),
        forwarded=to("i", stamp.incarnation, "a", "b"),
    )

    await accepted(store, page)
    await accepted(store, page)
    await accepted(store, next_turn("i", stamp, sent=(SentItems("s", (b'"last"',)),)))

    assert await read(store) == ["own", "a", "b", "last"]
    assert await read(store, "page") == []


async def test_results_keep_the_numbers_of_their_items(store: Store) -> None:
    """In whatever rows they come to lie, and beside items that have none."""
    stamp = await begun(store, sent=(SentItems("s", (b"0",)),))
    large = tuple(b'"%s"' % (b"x" * (MAX_ROW_BYTES // 3)) for _ in range(5))
    results = ForwardedItems("i", stamp.incarnation, "s", large, numbers=(7, 8, 10, 11, 14))
    await begun(store, "page", forwarded=(results,))
    await accepted(store, next_turn("i", stamp, sent=(SentItems("s", (b"1",)),)))

    whole = await store.streams.read_stream("i", "s", after=0, limit=100)
    part = await store.streams.read_stream("i", "s", after=3, limit=100)

    assert whole is not None
    assert [one.number for one in whole.items] == [None, 7, 8, 10, 11, 14, None]
    assert [one.body for one in whole.items] == [b"0", *large, b"1"]
    assert part is not None
    assert part.items == whole.items[3:]


async def test_the_instance_that_gets_them_stays_as_it_was(store: Store) -> None:
    stamp = await begun(store)

    await begun(store, "page", forwarded=to("i", stamp.incarnation, "a"))

    assert await latest(store) == stamp
    await accepted(store, next_turn("i", stamp))


async def test_a_refused_turn_sends_nothing(store: Store) -> None:
    stamp = await begun(store)
    old = await begun(store, "page")
    await accepted(store, next_turn("page", old))

    turn = next_turn("page", old, forwarded=to("i", stamp.incarnation, "a"))
    [receipt] = await store.commit([turn])

    assert receipt.status is TurnStatus.REFUSED
    assert await read(store) == []


async def test_what_is_for_one_that_has_ended_or_is_another_is_dropped(store: Store) -> None:
    incarnation = await ended(store)
    await begun(store, "page", forwarded=to("i", incarnation, "late"))
    anew = new_instance("i", replaces=incarnation)
    await accepted(store, first_turn(anew))
    await begun(store, "other page", forwarded=to("i", incarnation, "later"))
    await begun(store, "page for nobody", forwarded=to("nobody", incarnation, "lost"))

    assert await read(store) == []
    assert await store.streams.read_stream_heads("nobody") == []


async def test_none_of_one_batch_is_lost(store: Store) -> None:
    stamp = await begun(store)
    pages = [
        first_turn(new_instance(f"page {word}"), forwarded=to("i", stamp.incarnation, word))
        for word in ("a", "b", "c")
    ]

    await store.commit(pages)

    # On PostgreSQL they may go through several connections, so in any order.
    assert sorted(await read(store)) == ["a", "b", "c"]


async def test_what_is_for_an_execution_that_was_left_is_dropped(store: Store) -> None:
    stamp = await begun(store)
    [late] = to("i", stamp.incarnation, "late")
    [early] = to("i", stamp.incarnation, "early")
    await begun(store, "page 1", forwarded=(early._replace(execution=1, seq=1),))

    await accepted(store, next_turn("i", stamp, events=(CONTINUED,), continued=continuation()))
    await begun(store, "page 2", forwarded=(late._replace(execution=1, seq=1),))

    assert await read(store) == ["early"]
