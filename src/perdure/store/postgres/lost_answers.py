"""Commits whose answer was lost with the connection.

A turn is run again: the history tells by its commit id whether it was accepted, whatever has become
of the server. Messages, ends of jobs and the rest leave no such trace. PostgreSQL knows how every
transaction has ended, by its id, which is told before the commit. So a lane that has not heard what
became of one asks, before anything is run again: what was committed is not done twice, and its
callers get the answers that they would have got.

That holds as long as the server has not crashed. After a crash it gives the ids of transactions
that were lost to others; a mark that a crash removes tells it. Where it is unknown (after a crash,
or when another server has taken over) the batch is run again. Ids of messages, stamps and leases
then keep it from counting twice; of what leaves none of these, both answers are made one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.errors import StoreError, StoreUnavailableError
from perdure.model.turns import Turn
from perdure.store.batching import LATER
from perdure.store.locked_turns import LockedTurn
from perdure.store.postgres.connection import PostgresConnection
from perdure.store.sql.commits.batch import Operation

NOTHING = object()
"""Stands for an answer that is not there."""


@dataclass(slots=True, frozen=True)
class _UnsureCommit:
    xid: str
    mark: str
    operations: Sequence[Any]
    results: Sequence[Any]


class LostAnswers:
    """What a lane has committed, perhaps, without hearing of it."""

    def __init__(self) -> None:
        self._unsure: _UnsureCommit | None = None
        # By the identity of the operation, which is kept so that nothing else gets that identity.
        self._answers: dict[int, tuple[Any, Any]] = {}
        self._unknown: dict[int, tuple[Any, Any]] = {}
        """What would have been answered by commits of which it will never be known."""

    @property
    def is_asking(self) -> bool:
        """Return whether it is not known yet what became of a commit."""
        return self._unsure is not None

    @property
    def untold(self) -> list[Any]:
        """The operations that were committed, or may have been, and whose callers wait."""
        unsure = () if self._unsure is None else self._unsure.operations
        return [*unsure, *(operation for operation, _ in self._answers.values())]

    def keep(
        self,
        xid: str | None,
        mark: str | None,
        operations: Sequence[Any],
        results: Sequence[Any],
    ) -> None:
        """A commit was sent, and the connection was lost before its answer came.

        Args:
            xid: The id of the transaction, if it is known.
            mark: What the server had as long as it did not crash, if it is known.
            operations: What was committed, perhaps.
            results: What would have been answered.
        """
        assert self._unsure is None, "found out before anything else is committed"
        if xid is None or mark is None:
            return
        pairs = zip(operations, results, strict=True)
        asked = [(one, result) for one, result in pairs if type(one) not in (Turn, LockedTurn)]
        if asked:
            self._unsure = _UnsureCommit(xid, mark, *zip(*asked, strict=True))

    def find_out(self, connection: PostgresConnection, mark: str | None) -> None:
        """Ask what became of the commit.

        Args:
            connection: Where.
            mark: What the server has now.

        Raises:
            StoreUnavailableError: That cannot be told yet.
        """
        if self._unsure is None:
            return
        if self._unsure.mark != mark:
            self._give_up()
            return
        try:
            [(fate,)] = connection.run("read_fate", xid=self._unsure.xid)
        except StoreUnavailableError:
            raise
        except StoreError:
            fate = None  # Of another server, which has not come so far yet.
        if fate == "in progress":
            # The server does not know that we are gone, or is writing it to its disk.
            raise StoreUnavailableError("a commit whose answer was lost is still under way")
        if fate is None:
            self._give_up()
            return
        unsure, self._unsure = self._unsure, None
        if fate == "committed":
            self.know(unsure.operations, self.joined(unsure.operations, unsure.results))

    def _give_up(self) -> None:
        """What became of the commit will never be known."""
        assert self._unsure is not None
        unsure, self._unsure = self._unsure, None
        for one, result in zip(unsure.operations, unsure.results, strict=True):
            if isinstance(one, Operation) and one.if_twice is not None and result is not LATER:
                self._unknown[id(one)] = (one, self._joined(one, result))

    def joined(self, operations: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Return what to answer operations that were run, some of them perhaps a second time."""
        if not self._unknown:
            return list(results)
        return [self._joined(one, result) for one, result in zip(operations, results, strict=True)]

    def _joined(self, operation: Any, result: Any) -> Any:
        if result is LATER or id(operation) not in self._unknown:
            return result
        _, first = self._unknown.pop(id(operation))
        return operation.if_twice(first, result)

    def know(self, operations: Sequence[Any], results: Sequence[Any]) -> None:
        """These were committed, and their callers were not told yet. What was put off was not: it
        is run with the others of its instance, in order."""
        for one, result in zip(operations, results, strict=True):
            if result is not LATER:
                self._answers[id(one)] = (one, result)

    def answer(self, operation: Any) -> Any:
        """Return what a commit of this operation would have answered, or `NOTHING`."""
        return self._answers.get(id(operation), (None, NOTHING))[1] if self._answers else NOTHING

    def forget(self, operations: Sequence[Any]) -> None:
        """These have their answers now."""
        for operation in operations if self._answers else ():
            self._answers.pop(id(operation), None)
