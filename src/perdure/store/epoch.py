"""Which life of a database a process remembers.

A database can go back: a standby that was behind takes over, a backup is put in its place, a server
that does not wait for its disk crashes. What a process remembers of it is then the memory of
another past. Stamps, leases and commit ids keep that from being written (S7, S45); this tells that
it happened, so that nothing of the old life is kept (S47).
"""

from __future__ import annotations

import threading


class Epoch:
    """Counts the lives of a database, as far as its connections tell."""

    def __init__(self) -> None:
        self.number = 0
        """Differs from what it was before whenever the database may have gone back."""
        self._identity: str | None = None
        self._lock = threading.Lock()

    def meet(self, identity: str | None) -> None:
        """A connection was made, before anything is written by it.

        Args:
            identity: What stays the same as long as the database cannot have gone back; None: that
                cannot be told.
        """
        with self._lock:
            if self._identity is not None and identity != self._identity:
                self.number += 1
            self._identity = identity
