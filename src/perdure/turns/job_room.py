"""What turns need of the room that runs jobs: a turn may take jobs on only if there are slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perdure.model.instances import DefinitionKey
from perdure.model.jobs import ClaimedJob, JobKey


class ReservedRoom(Protocol):
    """Room for the jobs of one turn, from its thought to the store's answer."""

    def takes(self, queue: DefinitionKey) -> bool:
        """Reserve room for one job, if its queue is served here and there is some."""
        ...

    def drop(self) -> None:
        """Give up all of it: the jobs run now, or will not come."""
        ...


class JobRoom(Protocol):
    """Runs jobs."""

    def reserve(self) -> ReservedRoom:
        """Return a reservation of nothing yet."""
        ...

    def run(self, job: ClaimedJob) -> None:
        """Run a job that is leased to this process."""
        ...

    def cancel(self, keys: Sequence[JobKey]) -> None:
        """Stop jobs that no instance waits for."""
        ...


class _Nothing:
    """Room for no job."""

    def takes(self, queue: DefinitionKey) -> bool:
        """Take none."""
        return False

    def drop(self) -> None:
        """Nothing was reserved."""


NOTHING: ReservedRoom = _Nothing()


class NoJobs:
    """In a process without a worker: jobs stay in their queues."""

    def reserve(self) -> ReservedRoom:
        """Reserve nothing."""
        return NOTHING

    def run(self, job: ClaimedJob) -> None:
        """Never called: no job is leased in a commit from here."""
        raise AssertionError("a process without a worker runs no jobs")

    def cancel(self, keys: Sequence[JobKey]) -> None:
        """None runs here."""
