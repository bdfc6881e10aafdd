"""Keep what inputs came to that changed nothing, without a turn.

An outcome that is stored never changes, so of two that come the first one counts. It is kept only
on the state that it was decided on: a database that has gone back meanwhile may have another one.
An input that waits in the inbox under the same id goes, and with it the lease of a worker that may
have taken it.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.model.feeds import Observation
from perdure.model.instances import Stamp, part_of
from perdure.model.turns import InputReceipt, NewObservation
from perdure.store.sql.commits.batch import Transaction
from perdure.store.sql.commits.changes import ObservationRow
from perdure.store.sql.commits.decision_rows import insert_observations, put_outcomes
from perdure.store.sql.connection import Connection
from perdure.store.sql.locking import lock_instances
from perdure.store.sql.packing import Bulk, pack, unpack
from perdure.store.sql.questions.reading import read_lives
from perdure.store.sql.repair import drop_message


class SettledInputs:
    """Inputs of one instance, with what they came to. Written once, however often it is tried."""

    def __init__(
        self,
        instance_id: str,
        receipts: Sequence[InputReceipt],
        observations: Sequence[NewObservation],
        stamp: Stamp | None = None,
    ) -> None:
        self._instance_id = instance_id
        self._part = part_of(instance_id)
        self._receipts = receipts
        self._observations = observations
        self._stamp = stamp
        self._written: list[Observation] = []
        """What an earlier try wrote, of which it is not known whether it took effect."""

    def write(self, transaction: Transaction) -> list[bytes] | None:
        """Keep everything and return the outcome that counts for each receipt; None: the instance
        is not as it was when they were decided, and nothing was kept."""
        connection, now_ms = transaction.connection, transaction.now_ms
        # A turn that decides one of them at the same time is through, or will find the outcome.
        lock_instances(connection, [self._instance_id])
        if self._stamp is not None and not self._fits(connection, self._stamp):
            return None
        bulk = Bulk(connection, alone=True)
        stored = self._stored(connection)
        outcomes: dict[str, bytes] = {}
        for input_id, outcome, _ in self._receipts:
            no, earlier = stored.get(input_id, (None, None))
            if earlier is None and input_id not in outcomes and no is not None:
                drop_message(connection, self._instance_id, no, now_ms=now_ms)
            outcomes.setdefault(input_id, outcome if earlier is None else earlier)
        fresh = {
            (self._part, self._instance_id, input_id): outcome
            for input_id, outcome in outcomes.items()
            if stored.get(input_id, (None, None))[1] is None
        }
        put_outcomes(bulk, fresh, now_ms=now_ms)
        decided = {input_id for input_id, (_, earlier) in stored.items() if earlier is not None}
        self._observe(bulk, decided, now_ms=now_ms)
        return [outcomes[receipt.input_id] for receipt in self._receipts]

    def _fits(self, connection: Connection, stamp: Stamp) -> bool:
        [live] = read_lives(connection, [self._instance_id])
        is_there = live is not None and live.definition_no is not None
        # Without a commit: decided for an instance that was not there.
        return live is not None and live.stamp == stamp if stamp.commit_id else not is_there

    def _stored(self, connection: Connection) -> dict[str, tuple[int | None, bytes | None]]:
        ids = pack([receipt.input_id for receipt in self._receipts])
        rows = connection.run(
            "read_outcomes", part=self._part, instance_id=self._instance_id, ids=ids
        )
        return {input_id: (no, outcome) for input_id, no, outcome in rows}

    def _observe(self, bulk: Bulk, decided: set[str], *, now_ms: int) -> None:
        """Keep what was observed, but not of inputs that were decided before."""
        if self._is_written(bulk.connection):
            return
        seen = [one for one in self._observations if one.input_id not in decided]
        if not seen:
            return
        last = _load_observed(bulk.connection, self._instance_id)
        rows = [
            ObservationRow(self._part, self._instance_id, no, now_ms, one)
            for no, one in enumerate(seen, start=last + 1)
        ]
        insert_observations(bulk, rows)
        self._written = [
            Observation(
                row.no, now_ms, one.tag, one.input, one.outcome, one.rejection, one.input_id
            )
            for row, one in zip(rows, seen, strict=True)
        ]

    def _is_written(self, connection: Connection) -> bool:
        if not self._written:
            return False
        rows = connection.run(
            "read_observations",
            part=self._part,
            instance_id=self._instance_id,
            after=self._written[0].no - 1,
            limit=len(self._written),
        )
        return [Observation(*row) for row in rows] == self._written


def _load_observed(connection: Connection, instance_id: str) -> int:
    """Return the number of the newest observed input of an instance; 0 if there is none."""
    keys = pack([(part_of(instance_id), instance_id)])
    [(text,)] = connection.run("load_observed", keys=keys)
    return next((int(no) for _, no in unpack(text)), 0)
