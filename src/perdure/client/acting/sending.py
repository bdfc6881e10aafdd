"""Signals on their way to an instance, and what is on its way inside transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.authoring.signal import Signal
from perdure.codec import check_id
from perdure.errors import InvalidIdError, UsageError
from perdure.ids import fresh_name
from perdure.model.histories.events import SignalReceived, write_event
from perdure.model.messages import Delivery
from perdure.model.promises import SIGNAL_PREFIX
from perdure.model.updates import UPDATE_PREFIX
from perdure.store.within.borrowing import SentMessages

MAX_SENT = 10_000
"""Instances whose messages from transactions are waited for; of more, an order may be lost."""
MAX_OPEN = 20
"""Transactions that have sent to one instance: the last ones, of which some may still be open."""


class SentWithin:
    """Messages that a client has sent inside transactions of its user's.

    They are under way until the transaction is committed, and sometimes for a moment after. What
    the client sends directly must not overtake those that were committed before.
    """

    def __init__(self) -> None:
        self.under_way: dict[str, dict[SentMessages, None]] = {}
        """By instance, what may not have arrived there."""

    def note(self, instance_id: str, sent: SentMessages) -> None:
        """Something was sent to an instance."""
        # Both in order of use: what goes first was not used for the longest time.
        ours = self.under_way.pop(instance_id, {})
        ours.pop(sent, None)
        ours[sent] = None
        self.under_way[instance_id] = ours
        if len(ours) > MAX_OPEN:
            del ours[next(iter(ours))]
        if len(self.under_way) > MAX_SENT:
            del self.under_way[next(iter(self.under_way))]

    async def arrive(self, instance_ids: Iterable[str]) -> list[str]:
        """Let what was committed arrive; return the instances that may have got something."""
        found = [one for one in instance_ids if one in self.under_way]
        for instance_id in found:
            for sent in list(self.under_way.get(instance_id, ())):
                if await sent.arrive(instance_id):
                    self._forget(instance_id, sent)
        return found

    def _forget(self, instance_id: str, sent: SentMessages) -> None:
        ours = self.under_way.get(instance_id, {})
        ours.pop(sent, None)
        if not ours:
            self.under_way.pop(instance_id, None)


def signal_delivery(
    instance_id: str, signal: Signal[Any], value: object, *, message_id: str | None = None
) -> Delivery:
    """Return a signal as a message.

    Args:
        instance_id: For whom; kept for it if it was not started yet.
        signal: Its name and type.
        value: Checked and encoded at once.
        message_id: Sent again with the same id, the signal is delivered once.
    """
    if message_id is not None and str(message_id).startswith(UPDATE_PREFIX):
        raise InvalidIdError(
            "message id", message_id, f"begins with {UPDATE_PREFIX!r}, which is for updates"
        )
    raw = msgspec.Raw(signal_value(signal, value))
    if message_id is not None and str(message_id).startswith(SIGNAL_PREFIX):
        raise UsageError(
            f"message id {message_id!r}: those that begin with {SIGNAL_PREFIX!r} are of promises; "
            "give another"
        )
    kind, body = write_event(SignalReceived(name=signal.name, value=raw))
    return Delivery(
        instance_id=instance_id,
        kind=kind,
        body=body,
        # Always one: a delivery that is sent again after a fault must not count twice.
        message_id=fresh_name() if message_id is None else check_id("message id", message_id),
        if_absent="buffer",
    )


def signal_value(signal: Signal[Any], value: object) -> bytes:
    """Return the value of a signal as it is stored.

    Raises:
        UsageError: It is no signal.
        PayloadError: The value cannot be stored.
    """
    if not isinstance(signal, Signal):
        raise UsageError(f'{signal!r} is not a signal: make one with Signal("name", type)')
    return signal.codec.encode(value, f"signal {signal.name!r}")
