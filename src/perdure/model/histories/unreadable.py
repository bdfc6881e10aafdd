"""What is raised for stored bytes that cannot be read, with the place of the row."""

from __future__ import annotations


class UnreadableEventError(Exception):
    """Stored bytes are not an event this version can read. The instance is parked, not failed."""

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem
        self.place = place
        """Whose row it is, as far as that is known."""

    def under(self, place: str) -> UnreadableEventError:
        """Return the same with a wider place before the one that is known."""
        return UnreadableEventError(self.problem, f"{place}, {self.place}" if self.place else place)

    def of(self, instance_id: str, execution: int) -> UnreadableEventError:
        """Return the same of an instance's row."""
        return self.under(f"instance {instance_id!r}, execution {execution}")
