"""Bring a decider's state and notes to where its history ends, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from perdure.core.deciders.fold import Fold, unbroken
from perdure.core.deciders.notes import DeciderNotes
from perdure.model.histories.events import EventRecorded, EventsRemoved, StoredEvent
from perdure.model.histories.removed import read_memory
from perdure.model.histories.rows import read_row


def replaying(
    fold: Fold,
    notes: DeciderNotes,
    history: Sequence[StoredEvent],
    is_enough: Callable[[], bool],
) -> Generator[None, None, None]:
    """Fold events, and yield between two of them whenever it is enough for now.

    Between slices others may run: the place and the guard are left.

    Args:
        fold: The state.
        notes: What else the history says.
        history: The events that are not in them yet.
        is_enough: Tells whether to yield.

    Raises:
        NondeterminismError: The code cannot read or fold what is recorded.
        UnreadableEventError: A stored event is damaged or of an unknown kind.
    """
    rest, is_over = unbroken(fold.definition, history, after=notes.last_seq), False
    while not is_over:
        with fold.place, fold.guard:
            is_over = _fold_slice(fold, notes, rest, is_enough)
        fold.refuse_violation()
        if not is_over:
            yield


def _fold_slice(
    fold: Fold, notes: DeciderNotes, rest: Iterator[StoredEvent], is_enough: Callable[[], bool]
) -> bool:
    """Fold events until it is enough, or there are no more; return whether it is that."""
    for stored in rest:
        event = read_row(stored)
        if isinstance(event, EventsRemoved):
            fold.begin_behind(event)
            notes.recall(read_memory(event), event.upto)
            continue
        notes.last_seq = stored.seq
        notes.now_ms = stored.at_ms
        notes.digest.feed(stored.kind, stored.at_ms, stored.body)
        if isinstance(event, EventRecorded):
            fold.add(event, stored.seq)
        else:
            notes.note(event, stored.seq, is_replaying=True)
        if is_enough():
            return False
    notes.is_closing = fold.is_terminal()
    return True
