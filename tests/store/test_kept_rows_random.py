"""A writer that remembers decides and writes the same as one that remembers nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.errors import PerdureError
from perdure.model.histories.events import Failure
from perdure.model.instances import DefinitionKey, NewInstance, Stamp, Status
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.messages import Delivery
from perdure.model.turns import (
    NOBODY,
    ChildStart,
    Hold,
    JobClaim,
    KvChange,
    SessionClaim,
    Turn,
    TurnClaim,
    UniqueKey,
)
from perdure.store.counters import StoreCounters
from perdure.store.sql import claims, removal
from perdure.store.sql.commits import remembered_rows
from perdure.store.sql.commits.batch import Operation, Transaction
from perdure.store.sql.definitions import Definitions
from perdure.store.sql.sessions import SessionMarks
from perdure.store.sqlite.allowed_statements import own_tables
from perdure.store.sqlite.memory import MEMORY, MemoryLock
from perdure.store.sqlite.store import SqliteStore
from perdure.store.sqlite.writer import Writer
from tests.contract.store_values import (
    COMPLETED,
    CONTINUED,
    FED,
    LEASE_MS,
    ORCHESTRATION,
    ORDER,
    PLACED,
    QUEUE,
    SCHEDULED,
    STARTED,
    carried,
    continuation,
    first_turn,
    given,
    job,
    message,
    new_instance,
    next_turn,
    outcome,
    timer,
)

IDS = ["a", "b", "c", "d", "e"]
DECIDERS = ["d", "e"]
BATCHES = 200
STRUCTURE = {"S1", "S9", "leftover"}
"""What holds whatever the bodies of events are; here they are not those of a real instance."""


class _Forgetful(Writer):
    def execute(self, operations: Sequence[Any]) -> list[Any]:
        self._forget()
        return super().execute(operations)


class _SharedLock(MemoryLock):
    """One that knows of others: so rows are loaded where others have written."""

    is_shared = True


class Place:
    """A database with two writers, as two processes have them."""

    def __init__(
        self, path: Path, kind: type[Writer], clock: ManualClock, *, is_shared: bool = False
    ) -> None:
        self.path = path
        lock = _SharedLock if is_shared else MemoryLock
        self.counters = StoreCounters()
        self.writers = [
            kind(
                str(path),
                lock=lock(MEMORY),  # nobody else is there
                clock=clock,
                counters=counters,
                definitions=Definitions(),
            )
            for counters in (self.counters, StoreCounters())
        ]
        for one in self.writers:
            one.open()
            assert one._connection is not None
            one._connection.run_text("PRAGMA synchronous = OFF")

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        connection = self.writers[1]._connection
        assert connection is not None
        return connection.run_text(sql)

    def apply(self, operations: Sequence[Any], *, by: int) -> list[Any] | str:
        """Run operations as one transaction; return the results, or what went wrong."""
        try:
            return self.writers[by].execute(operations)
        except (PerdureError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table: sorted(self.read(f"SELECT * FROM {table}"), key=repr)  # noqa: S608 - a test
            for table in sorted(own_tables() - {"migrations", "demand", "perdure_settings"})
        }

    def close(self) -> None:
        for one in self.writers:
            one.close()


class Maker:
    """Makes operations that mostly fit what a database holds."""

    def __init__(self, random: Random, clock: ManualClock, place: Place) -> None:
        self._random = random
        self._clock = clock
        self._place = place
        self._last_key = 0
        self._sent: list[Any] = []
        self._tokens: dict[JobKey, int] = {}
        self.look()

    def look(self) -> None:
        """See what the database holds now."""
        live = self._place.read(
            "SELECT instance_id, incarnation, execution, next_seq, last_commit, lease, last_no "
            "FROM live"
        )
        self._live = {row[0]: row[1:] for row in live}
        held = self._place.read("SELECT instance_id FROM live WHERE blocked_by IS NOT NULL")
        self._held = [name for (name,) in held]
        self._wide = dict(self._place.read("SELECT instance_id, incarnation FROM instances"))
        self._jobs = self._place.read(
            "SELECT instance_id, incarnation, execution, seq, token FROM jobs"
        )
        self._inbox = self._place.read("SELECT instance_id, no, timer_key FROM inbox")
        self._tokens.update({JobKey(*row[:4]): row[4] for row in self._jobs if row[4]})

    def batch(self) -> list[Any]:
        """Return the operations of one transaction."""
        if self._is(0.06):
            return [self._work()]
        made = [self._change() for _ in range(self._random.choice([1, 1, 2, 2, 3, 5]))]
        self._sent = [*self._sent[-20:], *made]
        if self._is(0.02):
            made.append(self._work())
        return made

    def _is(self, chance: float) -> bool:
        return self._random.random() < chance

    def _number(self) -> int:
        return self._random.getrandbits(61) | 1

    def _change(self) -> Any:
        if self._sent and self._is(0.04):
            return self._random.choice(self._sent)
        instance_id = self._random.choice(IDS)
        if self._live.get(instance_id, (0,))[0] == 0 and self._is(0.6):
            return self._random.choice([self._first, self._first, self._message])(instance_id)
        makers: list[tuple[float, Callable[[str], Any]]] = [
            (0.66, self._next),
            (0.15, self._message),
            (0.12, self._end_of_job),
            (0.02, self._hold),
            (0.02, self._start),
            (0.03, self._first),
        ]
        [make] = self._random.choices([one for _, one in makers], [share for share, _ in makers])
        return make(instance_id)

    # ----------------------------------------------------------------- starts

    def _start(self, instance_id: str) -> NewInstance:
        fields: dict[str, Any] = {"incarnation": self._number(), "commit_id": self._number()}
        if self._is(0.1):
            fields["messages"] = (message(instance_id, "with the start"),)
        if instance_id not in self._live and self._is(0.5):
            fields["replaces"] = self._wide.get(instance_id)
        return new_instance(instance_id, definition=_definition(instance_id), **fields)

    def _first(self, instance_id: str) -> Turn:
        start = self._start(instance_id)
        return first_turn(start, **self._fields(instance_id, Stamp(start.incarnation, 1, 1), 0))

    # ------------------------------------------------------------------ turns

    def _next(self, instance_id: str) -> Turn:
        *found, lease, last_no = self._live.get(instance_id, (self._number(), 1, 2, 0, 0, 0))
        stamp = Stamp(*found)
        if self._is(0.07):
            wrong = stamp.next_seq + self._random.choice([-1, 1, 2])
            stamp = stamp._replace(next_seq=wrong)
        if self._is(0.03):
            stamp = stamp._replace(commit_id=self._number())
        fields = self._fields(instance_id, stamp, last_no)
        fields["lease"] = lease if self._is(0.9) else 0
        fields["seize"] = self._is(0.1)
        mine = [row for row in self._jobs if row[0] == instance_id and row[4]]
        if mine and self._is(0.5):
            *key, token = self._random.choice(mine)
            fields["job_ends"] = (JobEnd(key=JobKey(*key), token=token, kind="x", body=b"r"),)
        if self._is(0.06):
            fields["continued"] = continuation(
                "again", carried("unread"), definition=_definition(instance_id)
            )
            fields["events"] = (CONTINUED,)
        turn = next_turn(instance_id, stamp, **fields)
        # What the next one of this batch goes by.
        carried_no = 2 if turn.continued is not None else 0
        self._live[instance_id] = (*turn.next_stamp, 0, last_no + carried_no)
        return turn

    def _fields(self, instance_id: str, stamp: Stamp, last_no: int) -> dict[str, Any]:
        is_first = stamp.next_seq == 1
        events = tuple(self._random.choices([SCHEDULED, PLACED], k=self._random.randrange(4)))
        if is_first:
            events = (STARTED, *events)
        fields: dict[str, Any] = {
            "commit_id": self._number(),
            "now_ms": self._clock(),
            "worker_id": self._random.choice(["w1", "w1", "w2"]),
            "events": events,
            "seen_no": max(0, last_no - self._random.choice([0, 0, 0, 1])),
            "jobs_leased_until_ms": self._clock() + LEASE_MS,
        }
        self._add_jobs(fields, instance_id, stamp)
        self._add_messages(fields, instance_id)
        self._add_beside(fields, instance_id)
        if self._is(0.25 if is_first else 0.08):
            fields["outcome"] = outcome()
            fields["events"] = (*events, COMPLETED)
        return fields

    def _add_jobs(self, fields: dict[str, Any], instance_id: str, stamp: Stamp) -> None:
        seqs = range(stamp.next_seq + 1, stamp.next_seq + len(fields["events"]))
        fields["jobs"] = tuple(
            job(seq, leased=self._is(0.7), session="s" if self._is(0.1) else None)
            for seq in seqs
            if self._is(0.7)
        )
        there = [row[3] for row in self._jobs if row[0] == instance_id]
        if there and self._is(0.15):
            fields["jobs_gone"] = (self._random.choice(there),)

    def _add_messages(self, fields: dict[str, Any], instance_id: str) -> None:
        mine = [row for row in self._inbox if row[0] == instance_id]
        if mine and self._is(0.5):
            fields["consumed"] = tuple(row[1] for row in mine if row[2] is None)
        keys = [row[2] for row in mine if row[2] is not None]
        if keys and self._is(0.4):
            fields["timers_gone"] = (self._random.choice(keys),)
        if self._is(0.2):
            self._last_key += 1
            due_ms = self._clock() + self._random.choice([-5, 0, 5, 1000])
            fields["timers"] = (timer(self._last_key, due_ms),)
            fields["next_due_ms"] = due_ms
        if self._is(0.15):
            fields["deliveries"] = (self._message(self._random.choice(IDS)),)
        if self._is(0.15):
            free = [name for name in IDS if name not in self._live]
            child = self._start(self._random.choice(free if free and self._is(0.8) else IDS))
            answers = (message(instance_id, "no"), message(instance_id, "yes"))
            fields["children"] = (ChildStart(child, *answers),)

    def _add_beside(self, fields: dict[str, Any], instance_id: str) -> None:
        if self._is(0.1):
            fields["kv"] = (KvChange("k", self._random.choice([None, b"1"])),)
        if self._is(0.1):
            fields["report"] = b"1"
        if self._is(0.1) and fields["events"]:
            fields["feed"] = (FED,)
        if instance_id in DECIDERS and self._is(0.07):
            fields["unique"] = UniqueKey("scope", self._random.choice([None, "k1", "k2"]))
        if self._is(0.01):
            fields["receipts"] = (given("ok", f"{self._random.randrange(9)}"),)

    # -------------------------------------------------------------- the others

    def _message(self, instance_id: str) -> Delivery:
        fields: dict[str, Any] = {"if_absent": self._random.choice(["buffer", "drop"])}
        if self._is(0.2):
            fields["incarnation"] = self._wide.get(instance_id, 5)
        if self._is(0.1):
            fields["execution"] = self._random.choice([1, 2])
        if self._is(0.05):
            fields["message_id"] = f"{self._random.randrange(9)}"
        return message(instance_id, **fields)

    def _end_of_job(self, instance_id: str) -> JobEnd:
        del instance_id
        if not self._tokens:
            return JobEnd(key=JobKey("a", 1, 1, 2), token=3, kind="x")
        held = [(JobKey(*row[:4]), row[4]) for row in self._jobs if row[4]]
        some = held if held and self._is(0.6) else list(self._tokens.items())[-8:]
        key, token = self._random.choice(some)
        if self._is(0.1):
            token = self._random.choice([0, 7])
        if self._is(0.2):
            failure = Failure("E", "no") if self._is(0.5) else None
            return JobEnd(key=key, token=token, retry_at_ms=self._clock() + 5, failure=failure)
        return JobEnd(key=key, token=token, kind="x", body=b"result", is_dead=self._is(0.1))

    def _hold(self, instance_id: str) -> Hold:
        *found, lease, _ = self._live.get(instance_id, (1, 1, 1, 0, 0, 0))
        stamp = Stamp(*found)
        if self._is(0.5):
            return Hold(instance_id, stamp, lease, Status.PARKED, NOBODY, "parked")
        return Hold(instance_id, stamp, lease, Status.BLOCKED, "c1", "blocked")

    def _work(self) -> Operation:
        worker_id, token = self._random.choice(["w1", "w2"]), self._number()
        instance_id = self._random.choice(self._held or IDS)
        incarnation = self._wide.get(instance_id, 1)
        limit = self._random.choice([1, 1, 3])

        def claim_turns(t: Transaction) -> Any:
            numbers = [t.definitions.number(t.connection, key) for key in (ORCHESTRATION, ORDER)]
            serves = tuple((no, "c2") for no in numbers)
            claim = TurnClaim(worker_id, serves, limit, LEASE_MS, token)
            return claims.TurnClaiming(claim, claims.ask_ready).run(
                t.connection, now_ms=t.now_ms, offset=0
            )

        def claim_jobs(t: Transaction) -> Any:
            terms = SessionClaim(worker_id, LEASE_MS, (), 3)
            queue = t.definitions.number(t.connection, QUEUE)
            claim = JobClaim(worker_id, (queue,), limit, LEASE_MS, token, terms)
            return claims.JobClaiming(claim, SessionMarks()).run(
                t.connection, t.definitions, now_ms=t.now_ms, offset=0
            )

        def unpark(t: Transaction) -> Any:
            return claims.unpark(t.connection, instance_id, now_ms=t.now_ms)

        def delete(t: Transaction) -> Any:
            return removal.delete(t.connection, [(instance_id, incarnation)], force=True)

        kinds = [claim_turns, claim_jobs, unpark, delete]
        [kind] = self._random.choices(kinds, [0.4, 0.25, 0.25, 0.1])
        return Operation(kind)


def _definition(instance_id: str) -> DefinitionKey:
    return ORDER if instance_id in DECIDERS else ORCHESTRATION


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are taken for new again soon after one was not."""
    monkeypatch.setattr(remembered_rows, "MAX_PAUSE", 1)


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "beside others"])
@pytest.mark.parametrize("seed", range(30))
async def test_remembering_changes_nothing_but_the_number_of_statements(
    tmp_path: Path, seed: int, is_shared: bool, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, clock = Random(seed), ManualClock()
    if seed % 3 == 0:
        monkeypatch.setattr(remembered_rows, "MAX_REMEMBERED", 4)
    # Names of databases in memory are as good as files.
    folder = tmp_path if seed % 2 else Path(MEMORY)
    subject = Place(folder / "subject.db", Writer, clock, is_shared=is_shared)
    model = Place(folder / "model.db", _Forgetful, clock)
    maker = Maker(random, clock, model)
    at_once = 0
    for _ in range(BATCHES):
        operations = maker.batch()
        by = 1 if random.random() < 0.04 else 0
        before = subject.counters.statements

        answers = subject.apply(operations, by=by)

        assert answers == model.apply(operations, by=by)
        at_once += by == 0 and subject.counters.statements - before == 1
        clock.now_ms += random.choice([0, 1, 5, 100, LEASE_MS])
        maker.look()

    assert subject.tables() == model.tables()
    assert at_once > BATCHES / (40 if is_shared else 20)
    store = SqliteStore(str(subject.path), clock=clock)
    await store.open()
    for place in (subject, model):
        place.close()
    assert not [found for found in await check(store) if found.invariant in STRUCTURE]
    await store.close()
