"""Rows of histories and inboxes read as events. One that cannot be read is named."""

from __future__ import annotations

from perdure.model.histories.events import Event, StoredEvent, read_event
from perdure.model.histories.unreadable import UnreadableEventError
from perdure.model.messages import Message


def read_row(stored: StoredEvent) -> Event:
    """Return the event of a row of a history.

    Raises:
        UnreadableEventError: As `read_event`; it names the row.
    """
    try:
        return read_event(stored.kind, stored.body)
    except UnreadableEventError as error:
        raise error.under(f"event {stored.seq}") from error.__cause__


def read_message(message: Message) -> Event:
    """Return the event that a message becomes.

    Raises:
        UnreadableEventError: As `read_event`; it names the message.
    """
    try:
        return read_event(message.kind, message.body)
    except UnreadableEventError as error:
        raise error.under(f"message {message.no} of the inbox") from error.__cause__
