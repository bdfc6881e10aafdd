"""The beginning of an execution that was taken over from another one: by a reset, or a fork.

Within it ids and random numbers are those of the execution that drew them first, and the recorded
arguments of calls stand. Executions that began by themselves have none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.core.identity import ExecutionId
from perdure.core.orchestrations.mismatch import matches_kept
from perdure.core.orchestrations.pending import Ask
from perdure.model.histories.events import KvSet, Origin, Seed, StoredEvent, WentBack

if TYPE_CHECKING:
    from perdure.core.orchestrations.calls import OpenCalls
    from perdure.core.orchestrations.scope import ExecutionScope


class TakenOver:
    """How much of an execution was taken over, and from which ones."""

    __slots__ = ("_scope", "_seeds", "cut", "kept")

    def __init__(self, origin: Origin, scope: ExecutionScope) -> None:
        self.cut = origin.cut
        """How many of its events."""
        self.kept: list[int] = []
        """Numbers of the calls among these whose recorded input is another than the code's."""
        self._scope = scope
        self._seeds: list[tuple[int, ExecutionId]] = []
        scope.taken.update(origin.taken)
        if origin.seed is not None:
            self._reseed(origin.seed, 1)

    def matches(self, ask: Ask, recorded: StoredEvent) -> bool:
        """Return whether the code makes the call that is recorded, whatever its arguments are."""
        if recorded.seq > self.cut or not matches_kept(ask, recorded):
            return False
        self.kept.append(recorded.seq)
        if isinstance(ask.event, KvSet):
            assert self._scope.values is not None
            self._scope.values.apply(ask.event, self._scope.now_ms)
        return True

    def end(self, event: WentBack, seq: int, calls: OpenCalls) -> None:
        """From here on the execution is its own: its ids are, and what is open begins again."""
        # Not sooner: the code that is replayed up to here had another one, or none.
        self._scope.origin = Seed(*self._seeds[-1][1])
        self._reseed(event.seed, seq)
        self._scope.taken.update(event.taken)
        calls.reopen(event, self._scope.now_ms)

    def asked_by(self, seq: int, own: ExecutionId) -> ExecutionId:
        """Return the execution that has first asked for what is recorded as event number `seq`."""
        return next((by for since, by in reversed(self._seeds) if since <= seq), own)

    def _reseed(self, seed: Seed, seq: int) -> None:
        made_by = ExecutionId(seed.instance_id, seed.incarnation, seed.execution)
        self._seeds.append((seq, made_by))
        self._scope.reseed(made_by)
