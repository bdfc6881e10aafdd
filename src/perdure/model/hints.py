"""What a commit may mean to other processes, by kind.

A hint says that looking may be worth it, and to whom: no one looks because of a kind that is not
theirs. It may be missing, come late or come twice; nothing depends on it but how soon a process
looks.
"""

from __future__ import annotations

from enum import IntFlag


class Hint(IntFlag):
    """Kinds of hints; a commit may give none, one or both."""

    NONE = 0
    WORK = 1
    """A worker may claim: an instance has a message or a date, a job waits."""
    NEWS = 2
    """A client that waits may read: an instance has ended, reported or kept something, an input was
    decided, events were recorded, jobs that run elsewhere are no longer wanted."""
    BOTH = 3


KINDS = (Hint.WORK, Hint.NEWS)
"""Each of them alone."""

HINTS = (Hint.NONE, Hint.WORK, Hint.NEWS, Hint.BOTH)
WITH_WORK = (Hint.WORK, Hint.BOTH)
WITH_NEWS = (Hint.NEWS, Hint.BOTH)
"""All, each at the place of its number, and those with each kind: for every commit, since the
operators of such a class are slow."""
