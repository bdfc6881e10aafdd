"""Check the streams of instances: indexes, take-backs, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.checking.violations import Violation
from perdure.store.contents import Contents, SentRow


def check_streams(contents: Contents) -> Iterator[Violation]:
    """Check that readers by index see everything once (S61)."""
    for (instance_id, stream), rows in contents.streams.items():
        next_index = contents.stream_heads.get((instance_id, stream), 0)
        for problem in _indexes(rows, next_index):
            yield Violation("S61", instance_id, f"stream {stream!r}: {problem}")
        instance = contents.instances.get(instance_id)
        incarnations = {row.incarnation for row in rows if row.items}
        if instance is None or not incarnations <= {instance.incarnation}:
            yield Violation("S61", instance_id, f"stream {stream!r} is of another instance")
    for instance_id, stream in contents.stream_heads:
        if instance_id not in contents.instances:
            yield Violation("S61", instance_id, f"stream {stream!r} has no instance")


def _indexes(rows: Sequence[SentRow], next_index: int) -> Iterator[str]:
    before = 0
    for last_index, items, discards_from, _ in rows:
        if items:
            first = last_index - items + 1
            if first <= before:
                yield f"index {first} was given twice"
        elif discards_from is None or not before < discards_from < last_index:
            yield f"the take-back at {last_index} is of items that are there"
        before = last_index
    if before >= next_index:
        yield f"its last index is {before}, and its next one {next_index}"
