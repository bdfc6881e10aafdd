"""Which jobs a worker can run, where their code runs, and what they call."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from perdure.authoring.activity import Activity
from perdure.authoring.registry import Registry
from perdure.errors import NotRegisteredError
from perdure.jobs.attempts import JobCode, activity_work
from perdure.jobs.processes import check_process_activity
from perdure.jobs.slots import SlotKind
from perdure.model.builtins import LONG
from perdure.model.instances import DefinitionKey


class Served:
    """The queues that a worker takes jobs of, and the code for them."""

    def __init__(
        self, registry: Registry, *, builtins: Mapping[str, JobCode], takes_any_tag: bool
    ) -> None:
        """Look through a registry.

        Args:
            registry: The user's activities.
            builtins: Our own, by name.
            takes_any_tag: Whether calls of known activities are taken whatever their tag.

        Raises:
            DefinitionError: An activity with `process=True` cannot be found by its name.
        """
        self._registry = registry
        self._builtins = builtins
        self._takes_any_tag = takes_any_tag
        self._works: dict[str, JobCode] = dict(builtins)
        self.kinds: dict[DefinitionKey, SlotKind] = {}
        """The queues to claim jobs of, each with where the code of its jobs runs."""
        for activity in registry.activities.values():
            if activity.process:
                check_process_activity(activity)
        self.serve(registry.queues())

    def serve(self, queues: Iterable[DefinitionKey]) -> None:
        """Claim jobs of these queues and no others."""
        self.kinds = {key: self._find_kind(key) for key in queues}

    def kind_of_new(self, queue: DefinitionKey) -> SlotKind | None:
        """Return where jobs of a queue run that claims do not know yet, if they are taken here.

        That is a tag that was never used before, at a worker that takes any.
        """
        is_taken = self._takes_any_tag and queue.kind == "activity"
        return self._find_kind(queue) if is_taken else None

    def kind_of(self, queue: DefinitionKey) -> SlotKind:
        """Return where the code of a job runs, also if its queue is not claimed."""
        return self.kinds.get(queue) or self._find_kind(queue)

    def work_of(self, name: str) -> JobCode:
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

    def _find_kind(self, queue: DefinitionKey) -> SlotKind:
        if queue.kind == "inline":
            return SlotKind.ASYNC
        if queue.name in self._builtins:
            return SlotKind.WAITING if queue.name in LONG else SlotKind.BUILTIN
        return _kind_of(self._registry.activities.get(queue.name))


def _kind_of(activity: Activity[..., Any] | None) -> SlotKind:
    if activity is None or activity.is_elsewhere:
        return SlotKind.ELSEWHERE
    if activity.process:
        return SlotKind.PROCESS
    return SlotKind.ASYNC if inspect.iscoroutinefunction(activity.fn) else SlotKind.THREADED
