"""What a trial finds wrong with code that it has run: told once, by the next call that can fail."""

from __future__ import annotations

from perdure.errors import NondeterminismError


class Findings:
    """Why code could not be replayed, by instance."""

    def __init__(self) -> None:
        self._found: dict[str, NondeterminismError] = {}

    def add(self, instance_id: str, error: NondeterminismError) -> None:
        """Keep the first finding about an instance."""
        self._found.setdefault(instance_id, error)

    def take(self) -> list[NondeterminismError]:
        """Return what was not told yet."""
        found, self._found = self._found, {}
        return [_named(instance_id, error) for instance_id, error in found.items()]

    def refuse(self) -> None:
        """Raise what was not told yet.

        Raises:
            NondeterminismError: There is something; the others are in its notes.
        """
        found = self.take()
        if found:
            first, *others = found
            for other in others:
                first.add_note(f"and {other}")
            raise first


def _named(instance_id: str, error: NondeterminismError) -> NondeterminismError:
    return NondeterminismError(
        f"instance {instance_id!r}: {error}",
        seq=error.seq,
        recorded=error.recorded,
        asked=error.asked,
        place=error.place,
    )
