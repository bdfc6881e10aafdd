"""The hash over a history: equal digests mean equal events, byte for byte."""

from __future__ import annotations

from hashlib import blake2b

from perdure.model.histories.events import (
    Body,
    Started,
    StoredEvent,
    UnreadableEventError,
    read_event,
)


class Digest:
    """The hash over a history: equal digests mean equal events, byte for byte."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def feed(self, kind: str, at_ms: int, body: bytes) -> None:
        """Add the next event."""
        self._hash.update(b"%b\0%d\0%b\0" % (kind.encode(), at_ms, body))

    def copy(self) -> Digest:
        """Return one that goes on by itself."""
        other = Digest()
        other._hash = self._hash.copy()
        return other

    def value(self) -> bytes:
        """Return the hash of what was fed so far."""
        return self._hash.digest()


class ChainedDigest(Digest):
    """The hash over a decider's history. It can go on from a value that a snapshot has kept."""

    def __init__(self, value: bytes = b"") -> None:
        self._value = value

    def feed(self, kind: str, at_ms: int, body: bytes) -> None:
        """Add the next event."""
        data = b"%b%b\0%d\0%b\0" % (self._value, kind.encode(), at_ms, body)
        self._value = blake2b(data, digest_size=16).digest()

    def copy(self) -> Digest:
        """Return one that goes on by itself."""
        return ChainedDigest(self._value)

    def value(self) -> bytes:
        """Return the hash of what was fed so far."""
        return self._value


def digest_for(first: StoredEvent | Body | None) -> Digest:
    """Return the digest that belongs to a history with this first event, not fed yet.

    Of all that begin, a decider is the one whose start names no version for good.
    """
    if first is not None and first.kind == Started.kind:
        try:
            started = read_event(first.kind, first.body)
        except UnreadableEventError:
            return Digest()
        if isinstance(started, Started) and not started.version:
            return ChainedDigest()
    return Digest()
