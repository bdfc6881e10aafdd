"""Numbers and names that are never used again, and luck.

Everything that must not repeat comes from here: commit ids, leases, tokens, incarnations, ids of
messages. They come from the operating system, not from the generators of `random`, which user code
may seed, copy by forking, or replace. A repeated commit id would make a new turn look like an old
one that was sent again, and a repeated lease would let two workers do the same work (S48).
"""

from __future__ import annotations

from os import urandom


def fresh_id() -> int:
    """Return a number for a commit, a lease or an incarnation: 63 bits, never 0."""
    return int.from_bytes(urandom(8)) >> 1 | 1


def fresh_name() -> str:
    """Return a name for a message, an input or an instance: 32 hexadecimal digits."""
    return urandom(16).hex()


def chance() -> float:
    """Return a number from 0 up to 1, for the jitter of pauses and for samples."""
    return int.from_bytes(urandom(7)) / (1 << 56)
