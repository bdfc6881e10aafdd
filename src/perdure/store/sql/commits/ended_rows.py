"""How instances ended that are to be reset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from perdure.model.instances import part_of
from perdure.store.sql.connection import Connection


class EndedState(NamedTuple):
    """What a reset must know of an instance that has ended."""

    incarnation: int
    execution: int
    definition_no: int
    digest: bytes


def load_ended(connection: Connection, instance_ids: Iterable[str]) -> dict[str, EndedState]:
    """Return how instances ended, of those that have. Their rows are locked already."""
    ended = {}
    for instance_id in instance_ids:
        found = connection.run("load_ended", part=part_of(instance_id), instance_id=instance_id)
        for incarnation, execution, definition_no, digest in found:
            ended[instance_id] = EndedState(incarnation, execution, definition_no, bytes(digest))
    return ended
