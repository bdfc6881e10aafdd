"""What a lane asks of the operations that it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perdure.model.turns import Turn, has_sent
from perdure.store.batching import LATER
from perdure.store.locked_turns import LockedTurn
from perdure.store.sql.commits.batch import Operation
from perdure.store.sql.commits.rows import ids_of


def is_told_the_time(operation: Any) -> bool:
    """Return whether the time comes with what an operation loads or looks for."""
    return type(operation) is not Operation or operation.look is not None


def is_known_by_id(operation: Any) -> bool:
    """Return whether an operation is recognised by its id when it is run again."""
    return type(operation) is Turn and not has_sent(operation)


def is_claim(operation: Any) -> bool:
    """Return whether an operation looks for something to lease."""
    return type(operation) is Operation and operation.look is not None


def is_quiet(operation: Any) -> bool:
    """Return whether what an operation did need not be asked about when its answer is lost."""
    if type(operation) is LockedTurn:
        return operation.turn is None
    return type(operation) is Operation and operation.is_quiet


def find_behind(first: Sequence[Any], results: Sequence[Any], second: Sequence[Any]) -> list[bool]:
    """Tell which operations must not overtake one that was put off."""
    put_off = {
        instance_id
        for one, result in zip(first, results, strict=True)
        if result is LATER
        for instance_id in _ids(one)
    }
    return [any(instance_id in put_off for instance_id in _ids(one)) for one in second]


def _ids(operation: Any) -> Iterable[str]:
    return () if type(operation) is Operation else ids_of(operation)
