"""Numbers and names that are never used again, and luck.

Everything that must not repeat comes from here: commit ids, leases, tokens, incarnations, ids of
messages. They come from the operating system, not from the generators of `random`, which user code
may seed, copy by forking, or replace. A repeated commit id would make a new turn look like an old
one that was sent again, and a repeated lease would let two workers do the same work (S48).
"""

from __future__ import annotations

from os import urandom
from sys import byteorder

from perdure.forks import after_fork

AT_ONCE = 512
"""Numbers that are drawn together: to ask the operating system lets other threads run, and a thread
that asks for every turn waits for them every time."""

_ALL_KEPT = int.from_bytes((2**63 - 1).to_bytes(8, byteorder) * AT_ONCE, byteorder)
_ALL_SET = int.from_bytes((1).to_bytes(8, byteorder) * AT_ONCE, byteorder)
"""Which bits of the numbers are left to luck, and which are set."""

_drawn: list[int] = []
"""Numbers that are not given out yet. To pop one is atomic."""

# A child has them too, and must not use what its parent uses.
after_fork(_drawn.clear)


def fresh_id() -> int:
    """Return a number for a commit, a lease or an incarnation: 63 bits, never 0."""
    try:
        return _drawn.pop()
    except IndexError:
        found = int.from_bytes(urandom(8 * AT_ONCE), byteorder)
    # All at once, as one large number.
    made = (found & _ALL_KEPT | _ALL_SET).to_bytes(8 * AT_ONCE, byteorder)
    first, *others = memoryview(made).cast("Q").tolist()
    _drawn.extend(others)
    return first


def fresh_name() -> str:
    """Return a name for a message, an input or an instance: 32 hexadecimal digits."""
    return f"{fresh_id():016x}{fresh_id():016x}"


def chance() -> float:
    """Return a number from 0 up to 1, for the jitter of pauses and for samples."""
    return (fresh_id() >> 10) / (1 << 53)
