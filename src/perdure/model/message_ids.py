"""Ids of messages that can be told from what they say: those of updates and promises."""

from __future__ import annotations

import msgspec

from perdure.model.histories.events import SignalReceived
from perdure.model.promises import SIGNAL_PREFIX
from perdure.model.updates import UPDATE_PREFIX, UpdateBody, receipt_id


def message_id_of(event: SignalReceived) -> str | None:
    """Return under which id an update or a kept promise was sent; None: it is an ordinary signal,
    or cannot be read."""
    if event.name.startswith(SIGNAL_PREFIX):
        return f"{SIGNAL_PREFIX}{event.name.rpartition('#')[2]}"
    if not event.name.startswith(UPDATE_PREFIX):
        return None
    try:
        return receipt_id(msgspec.json.decode(event.value, type=UpdateBody).id)
    except msgspec.MsgspecError:
        return None
