"""How the events of a history are listed."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.cli.forms import Column, Exact, Listing
from perdure.client.histories.event_texts import subject_of, value_of
from perdure.client.reading.info import HistoryEvent


def history_listing(names: Mapping[int, str]) -> Listing[HistoryEvent]:
    """Return how the events of a history are shown.

    Args:
        names: What its events are about, see `names_in`.
    """
    return Listing[HistoryEvent](
        columns=(
            Column("#", lambda one: one.seq),
            Column("when", lambda one: Exact(one.at)),
            Column("what", lambda one: one.kind.replace("_", " ")),
            Column("of", lambda one: subject_of(one, names)),
            Column("value", value_of),
            Column("answers", _answers, wide=True),
        ),
    )


def _answers(event: HistoryEvent) -> int | None:
    asked = event.data.get("schedule")
    return asked if isinstance(asked, int) else None
