"""Numbers that are never used again."""

from __future__ import annotations

import random


def fresh_id() -> int:
    """Return a random number for a commit, a lease or an incarnation; never used again."""
    return random.getrandbits(63) | 1
