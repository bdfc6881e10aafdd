"""Where an execution comes from that began with the events of another one: a reset, or a fork.

They are part of histories: a new field has a default.
"""

from __future__ import annotations

import msgspec


class Seed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The execution whose ids and random numbers are in a part of a history."""

    instance_id: str
    incarnation: int
    execution: int


class Origin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The execution that another one was reset or forked from."""

    instance_id: str
    incarnation: int
    execution: int
    cut: int = 0
    """How many of its events the new one begins with."""
    seed: Seed | None = None
    """Where the ids in the first of these events come from; None: nothing was taken over."""
    digest: str = ""
    """Hash of the whole history that it departs from, in hexadecimal."""
    commit_id: int = 0
    """Of the commit that made it: a client that lost the answer to that finds it here."""
    reason: str = ""
    taken: tuple[str, ...] = ()
    """If it starts over: ids that were given to children before, see `WentBack.taken`."""


class RestartedChild(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A child that was open at a cut, and is started again under another id."""

    schedule: int
    instance_id: str
