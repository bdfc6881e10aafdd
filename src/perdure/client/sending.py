"""Signals on their way to an instance."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from perdure.authoring.signal import Signal
from perdure.errors import UsageError
from perdure.model.events import SignalReceived, write_event
from perdure.model.messages import Delivery


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
    if not isinstance(signal, Signal):
        raise UsageError(f'{signal!r} is not a signal: make one with Signal("name", type)')
    raw = msgspec.Raw(signal.codec.encode(value, f"signal {signal.name!r}"))
    kind, body = write_event(SignalReceived(name=signal.name, value=raw))
    return Delivery(
        instance_id=instance_id,
        kind=kind,
        body=body,
        # Always one: a delivery that is sent again after a fault must not count twice.
        message_id=message_id or uuid4().hex,
        if_absent="buffer",
    )
