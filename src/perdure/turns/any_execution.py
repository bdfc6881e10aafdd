"""What the worker asks of an execution, whether an orchestration's or a decider's."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

from perdure.authoring.registry import decider_key, orchestration_key
from perdure.core.identity import ExecutionId
from perdure.model.histories.events import Parent, StoredEvent
from perdure.model.instances import DefinitionKey


class AnyExecution(Protocol):
    """One execution of one instance in memory."""

    @property
    def id(self) -> ExecutionId:
        """Which execution it is."""
        ...

    @property
    def instance_id(self) -> str:
        """Whose it is."""
        ...

    @property
    def execution(self) -> int:
        """Its number, from 1."""
        ...

    @property
    def name(self) -> str:
        """Of its definition."""
        ...

    @property
    def version(self) -> str:
        """Of its definition, as recorded; empty for a decider."""
        ...

    @property
    def parent(self) -> Parent | None:
        """The call that it answers to."""
        ...

    @property
    def since_ms(self) -> int:
        """When the first execution of the instance started."""
        ...

    @property
    def started_by(self) -> str:
        """The instance that started it and does not wait for it."""
        ...

    @property
    def last_seq(self) -> int:
        """Number of its newest event."""
        ...

    @property
    def open(self) -> Mapping[int, Any]:
        """What it waits for, by the number of the event that asked for it."""
        ...

    def replay(self, history: Sequence[StoredEvent], /) -> None:
        """Come to where a history ends.

        Raises:
            NondeterminismError: The code does not fit it.
            UnreadableEventError: A stored event is damaged or of an unknown kind.
        """
        ...

    def replaying(
        self, history: Sequence[StoredEvent], /, is_enough: Callable[[], bool]
    ) -> Generator[None, None, None]:
        """The same, and yield whenever it is enough for now."""
        ...

    def tear_down(self) -> list[object]:
        """End it without a trace; return what would not end."""
        ...


def definition_key(execution: AnyExecution) -> DefinitionKey:
    """Return what instances like this one are claimed by."""
    if execution.version:
        return orchestration_key(execution.name, execution.version)
    return decider_key(execution.name)
