"""Who is above a child: its parent, and those who wait for the parent in turn."""

from __future__ import annotations

import msgspec


class Parent(msgspec.Struct, frozen=True, gc=False):
    """The call that a child answers to."""

    instance_id: str
    incarnation: int
    execution: int
    seq: int


class Lineage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a child is in its tree, as far as its parent alone does not say it."""

    depth: int = 1
    """How many instances are above it."""
    above: tuple[Parent, ...] = ()
    """Who waits for its parent, who waits for that one, and so on. It ends at one that was being
    cancelled when it started the next, since that is part of its cleaning up, and at one that
    no instance above it may take along when it ends."""
    is_abandoned: bool = False
    """Whether it outlives its parent (`on_parent_close="abandon"`)."""


FIRST = Lineage()
"""Of a child whose parent is no child itself; not put on record."""


def lineage_below(
    parent: Parent | None, lineage: Lineage | None, *, is_cancelled: bool, is_abandoned: bool
) -> Lineage:
    """Return the lineage of a child that an instance starts.

    Args:
        parent: Of the instance.
        lineage: Of the instance.
        is_cancelled: Whether the instance was asked to stop.
        is_abandoned: Whether the child is to outlive it.
    """
    if parent is None:
        return Lineage(is_abandoned=is_abandoned)
    own = lineage or FIRST
    is_cut = is_cancelled or is_abandoned or own.is_abandoned
    above = () if is_cut else (parent, *own.above)
    return Lineage(own.depth + 1, above, is_abandoned)
