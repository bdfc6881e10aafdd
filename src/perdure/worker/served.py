"""Which jobs a worker can run, where their code runs, and what they call."""

from __future__ import annotations

import inspect
from typing import Any

from perdure.authoring.activity import Activity
from perdure.authoring.registry import Registry
from perdure.errors import NotRegisteredError
from perdure.model.instances import DefinitionKey
from perdure.worker.attempts import Work, activity_work
from perdure.worker.lanes import Kind
from perdure.worker.processes import check_process_activity


class Served:
    """The queues of a registry."""

    def __init__(self, registry: Registry) -> None:
        """Look through a registry.

        Raises:
            DefinitionError: An activity with `process=True` cannot be found by its name.
        """
        self._registry = registry
        self._works: dict[str, Work] = {}
        self.kinds: dict[DefinitionKey, Kind] = {}
        """The queues to claim jobs of, each with where the code of its jobs runs."""
        for activity in registry.activities.values():
            if activity.process:
                check_process_activity(activity)
        for key in registry.queues():
            if key.kind == "inline":
                self.kinds[key] = Kind.ASYNC
            elif key.kind == "activity":
                self.kinds[key] = _kind_of(registry.activities[key.name])

    def kind_of(self, queue: DefinitionKey) -> Kind:
        """Return where the code of a job runs, also if its queue is not claimed."""
        return self.kinds.get(queue) or _kind_of(self._registry.activities.get(queue.name))

    def work_of(self, name: str) -> Work:
        """Return what a job of an activity calls.

        Raises:
            NotRegisteredError: The activity is not here.
            DefinitionError: Its arguments or its result can never be stored.
        """
        work = self._works.get(name)
        if work is None:
            activity = self._registry.activity(name)
            if activity.is_elsewhere:
                raise NotRegisteredError("activity", name, known=list(self._registry.activities))
            work = self._works[name] = activity_work(activity)
        return work


def _kind_of(activity: Activity[..., Any] | None) -> Kind:
    if activity is None or activity.is_elsewhere:
        return Kind.ELSEWHERE
    if activity.process:
        return Kind.PROCESS
    return Kind.ASYNC if inspect.iscoroutinefunction(activity.fn) else Kind.THREADED
