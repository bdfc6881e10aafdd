"""The rows a batch touches, held in memory while it is decided what becomes of them.

Loaded once at the beginning of a transaction, changed in order of submission, written once at its
end. So two operations on one instance in one batch see each other's effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.model.instances import NewInstance, Stamp, part_of
from perdure.model.jobs import JobEnd, JobKey, NewJob
from perdure.model.messages import Delivery, Message, digest_of
from perdure.model.turns import ChildStart, Hold, Turn, UniqueKey
from perdure.store.sql.commits.ended_rows import EndedState, load_ended
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack, unpack

RANK_START, RANK_MESSAGE, RANK_TIMER = 0, 1, 2
"""Of messages that are effective at the same time, the order in which they are applied."""

TurnPlace = tuple[str, int, int, int]
"""An instance, its incarnation and execution, and the number of a turn's first event."""

Change = Turn | NewInstance | Delivery | JobEnd | Hold
"""What is decided in memory, on loaded rows."""


class PendingMessage(msgspec.Struct):
    """A message that this batch puts into an inbox."""

    no: int
    effective_at_ms: int
    rank: int
    kind: str
    body: bytes
    execution: int = 0
    timer_key: str | None = None


class PendingJob(msgspec.Struct):
    """A job that this batch adds."""

    execution: int
    job: NewJob
    queue_no: int
    token: int
    worker_id: str | None
    visible_at_ms: int


class LiveState(msgspec.Struct, eq=False):
    """A live row as this batch leaves it. `incarnation` 0: unborn."""

    part: int
    instance_id: str
    stored: bool = False
    dirty: bool = False
    gone: bool = False
    is_due_unsure: bool = False
    """Whether `wake_at_ms` may be the time of a timer that is no longer there."""
    writer: str | None = None
    """The transaction that has written it last, if that is known: as long as it is the last, no
    other process has changed the row."""
    messages: list[PendingMessage] = msgspec.field(default_factory=list)
    jobs: list[PendingJob] = msgspec.field(default_factory=list)
    definition_no: int | None = None
    incarnation: int = 0
    execution: int = 0
    next_seq: int = 0
    wake_at_ms: int | None = None
    lease: int = 0
    lease_until_ms: int = 0
    home: str | None = None
    last_no: int = 0
    last_at_ms: int = 0
    last_commit: int = 0
    attempts: int = 0
    blocked_by: str | None = None

    @property
    def is_born(self) -> bool:
        """Return whether the instance was started."""
        return self.definition_no is not None

    def fits(self, stamp: Stamp) -> bool:
        """Return whether a stamp is the stored one."""
        incarnation, execution, next_seq, commit_id = stamp
        return (
            self.last_commit == commit_id
            and self.next_seq == next_seq
            and self.execution == execution
            and self.incarnation == incarnation
        )


class WideState(msgspec.Struct):
    """What this batch needs to know of a row of `instances`."""

    incarnation: int
    definition_no: int
    ended_here: bool = False
    """Ended by this very batch."""


class JobState(msgspec.Struct):
    """A job as this batch leaves it."""

    token: int
    attempt: int
    failures: bytes | None
    session: str | None
    gone: bool = False


class ReceiptState(NamedTuple):
    """What this batch needs to know of a message or input that has an id."""

    no: int | None
    """Its number in the inbox; None if it was never there."""
    is_decided: bool = False


class LoadedRows(msgspec.Struct):
    """Every stored row that a batch may read or change."""

    live: dict[str, LiveState] = msgspec.field(default_factory=dict)
    wide: dict[str, WideState] = msgspec.field(default_factory=dict)
    jobs: dict[JobKey, JobState] = msgspec.field(default_factory=dict)
    receipts: dict[tuple[str, str], ReceiptState] = msgspec.field(default_factory=dict)
    holders: dict[UniqueKey, str] = msgspec.field(default_factory=dict)
    """Which instance has a business key, of those that this batch asks for."""
    observed: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of the newest observed input, of instances of which more are observed."""
    busy: set[str] = msgspec.field(default_factory=set)
    """Instances that another transaction has locked, where locks are not waited for."""
    waiting: dict[str, dict[int, int]] = msgspec.field(default_factory=dict)
    """Numbers and ranks of the stored messages of instances that may vanish."""
    ended: dict[str, EndedState] = msgspec.field(default_factory=dict)
    """How instances ended that are to be reset."""
    taken: dict[TurnPlace, int] = msgspec.field(default_factory=dict)
    """What tells the stored messages that turns took without a lease from others."""
    accepted: set[int] = msgspec.field(default_factory=set)
    """Commit ids of this batch's turns, and of turns that were accepted at the places of those that
    come too late, or again."""
    remembered: tuple[str, ...] = ()
    """Instances whose rows were remembered and not loaded; also those that have ended since."""
    assumed_new: set[str] = msgspec.field(default_factory=set)
    """Instances that were not looked for: what is decided holds only if the batch starts them,
    because then inserting their rows shows whether they were there."""

    def has_taken(self, turn: Turn) -> bool:
        """Return whether the messages that a turn took are those that are stored. Where it has a
        lease, that tells: a database that has lost the messages has lost the claim that came
        after."""
        return not turn.taken or turn.taken == self.taken.get(place_of(turn))


def load(connection: Connection, changes: Sequence[Change], *, waits: bool = True) -> LoadedRows:
    """Load the rows that these changes touch: all at once, and then what turned out to be missing.

    The rows of live instances come first. Where others write at the same time, that locks them.

    Args:
        connection: In a transaction.
        changes: Of instances.
        waits: Whether to wait for the locks of others; otherwise see `LoadedRows.busy`.
    """
    wanted = WantedRows()
    for change in changes:
        wanted.add(change)
    rows = LoadedRows()
    look = "load_live" if not connection.locks else "lock_live" if waits else "try_live"
    asked = list(_asked(wanted, look))
    texts = connection.load([(name, pack(keys)) for name, keys, _ in asked])
    for (_, keys, keep), text in zip(asked, texts, strict=True):
        keep(rows, keys, unpack(text))
    missing = [
        (part_of(instance_id), instance_id)
        for instance_id in wanted.ids
        if instance_id not in rows.live and instance_id not in wanted.starts
    ]
    if connection.locks and not waits:
        missing = _put_off_locked(connection, rows, missing)
    if missing:
        [text] = connection.load([("load_instances", pack(missing))])
        _keep_wide(rows, missing, unpack(text))
    if connection.locks:
        _look_again(connection, rows, wanted, waits=waits)
    for turn in wanted.turns:
        if turn.taken and is_next(turn, rows):
            part = part_of(turn.instance_id)
            found = connection.run("read_inbox", part=part, instance_id=turn.instance_id)
            stored = [Message(*row) for row in found]
            rows.taken[place_of(turn)] = digest_of(stored, set(turn.consumed))
    if wanted.goes_back:
        rows.ended = load_ended(connection, [one for one in wanted.ids if one not in rows.live])
    late = [turn for turn in wanted.turns if not is_next(turn, rows)]
    if late:
        keys = [(part_of(turn.instance_id), *place_of(turn)) for turn in late]
        [text] = connection.load([("load_commits", pack(keys))])
        rows.accepted = {commit_id for _, commit_id in unpack(text)}
    return rows


def place_of(turn: Turn) -> TurnPlace:
    """Return where the first event of a turn goes."""
    if turn.rewound is not None:
        return turn.instance_id, turn.stamp.incarnation, turn.stamp.execution + 1, 1
    return (turn.instance_id, *turn.stamp.place)


def is_next(turn: Turn, rows: LoadedRows) -> bool:
    """Return whether a turn is the next one of its instance, as far as stamps tell."""
    row = rows.live.get(turn.instance_id)
    if turn.start is not None:
        return turn.instance_id not in rows.wide and (row is None or not row.is_born)
    return row is not None and row.fits(turn.stamp)


def _put_off_locked(
    connection: Connection, rows: LoadedRows, missing: list[tuple[int, str]]
) -> list[tuple[int, str]]:
    """Note which instances were not found because another transaction has locked them; return the
    rest.

    Their wide rows must not be locked: a transaction that has the live row may want the wide one
    next, and would wait for us, as we might for them.
    """
    if not missing:
        return []
    [text] = connection.load([("load_live", pack(missing))])
    rows.busy.update(missing[row[0]][1] for row in unpack(text))
    return [key for key in missing if key[1] not in rows.busy]


def _look_again(
    connection: Connection, rows: LoadedRows, wanted: WantedRows, *, waits: bool
) -> None:
    """Find the live rows that were not there to be locked, or were locked by another transaction.

    A wide row without a live one has ended, or was born between our two looks. What has neither is
    new; if another process makes it now, our insert will be refused.
    """
    if waits:
        unsure = [one for one in rows.wide if one not in rows.live]
    else:
        unsure = [
            one
            for one in wanted.ids
            if one not in rows.live
            and one not in rows.busy
            and (one in rows.wide or one not in wanted.starts)
        ]
    if not unsure:
        return
    keys = [(part_of(one), one) for one in unsure]
    [text] = connection.load([("lock_live" if waits else "load_live", pack(keys))])
    if waits:
        keep_live(rows, keys, unpack(text))
    else:
        rows.busy.update(unsure[row[0]] for row in unpack(text))


def ids_of(change: Change) -> Iterable[str]:
    """Return the instances that a change touches."""
    wanted = WantedRows()
    wanted.add(change)
    return wanted.ids


_Keep = Callable[[LoadedRows, Sequence[Any], list[Any]], None]


def _asked(wanted: WantedRows, look: str) -> Iterator[tuple[str, list[Any], _Keep]]:
    """Yield the statements to run, with their keys and what to do with their rows."""
    if wanted.ids:
        ids = [(part_of(instance_id), instance_id) for instance_id in wanted.ids]
        yield look, ids, keep_live
    if wanted.starts:
        starts = [(part_of(instance_id), instance_id) for instance_id in wanted.starts]
        yield "load_instances", starts, _keep_wide
    if wanted.jobs:
        yield "load_jobs", [(part_of(key.instance_id), *key) for key in wanted.jobs], _keep_jobs
    if wanted.receipts:
        receipts = [
            (part_of(instance_id), instance_id, one) for instance_id, one in wanted.receipts
        ]
        yield "load_receipts", receipts, _keep_receipts
    if wanted.unique_keys:
        unique = [(part_of(key.key or ""), *key) for key in wanted.unique_keys]
        yield "load_unique_keys", unique, _keep_holders
    if wanted.observed:
        yield "load_observed", [(part_of(one), one) for one in wanted.observed], _keep_observed
    if wanted.vanishing:
        yield "load_waiting", [(part_of(one), one) for one in wanted.vanishing], _keep_waiting


class WantedRows:
    """The keys of the rows that a batch may touch; dicts, to keep the order of submission."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.ids: dict[str, None] = {}
        self.starts: set[str] = set()
        self.has_taken = False
        """Whether a turn took messages without a lease."""
        self.replaces = False
        """Whether an instance takes the place of one that has ended."""
        self.goes_back = False
        """Whether an instance begins with events of another execution."""
        self.jobs: dict[JobKey, None] = {}
        self.receipts: dict[tuple[str, str], None] = {}
        self.unique_keys: dict[UniqueKey, None] = {}
        self.observed: dict[str, None] = {}
        self.vanishing: dict[str, None] = {}

    @property
    def is_plain(self) -> bool:
        """Return whether nothing is wanted but live rows, jobs, and that new ids are free."""
        return not (
            self.receipts
            or self.unique_keys
            or self.observed
            or self.vanishing
            or self.replaces
            or self.goes_back
            or self.has_taken
        )

    def add(self, change: Change) -> None:
        """Want the rows of one more change."""
        match change:
            case Turn():
                self._add_turn(change)
            case NewInstance():
                self._add_start(change)
            case Delivery():
                self._add_delivery(change)
            case JobEnd():
                self.jobs[change.key] = None
                self.ids[change.key.instance_id] = None
            case Hold():
                self.ids[change.instance_id] = None

    def _add_turn(self, turn: Turn) -> None:
        self.turns.append(turn)
        self.ids[turn.instance_id] = None
        if turn.start is not None:
            self._add_start(turn.start)
        for end in turn.job_ends:
            self.jobs[end.key] = None
        if not turn.is_plain:
            self._add_more(turn)

    def _add_more(self, turn: Turn) -> None:
        if turn.taken:
            self.has_taken = True
        if turn.rewound is not None:
            self.goes_back = True
        for buried in turn.jobs_buried:
            self.jobs[JobKey(turn.instance_id, *turn.stamp[:2], buried.seq)] = None
        for delivery in turn.deliveries:
            self._add_delivery(delivery)
        for child in turn.children:
            self._add_child(child)
        for items in turn.forwarded:
            self.ids[items.instance_id] = None
        self._add_decisions(turn)

    def _add_decisions(self, turn: Turn) -> None:
        for receipt in turn.receipts:
            self.receipts[turn.instance_id, receipt.input_id] = None
        for message_id in turn.arrived:
            self.receipts[turn.instance_id, message_id] = None
        if turn.vanishes:
            self.receipts[turn.instance_id, mark_of(turn)] = None
            self.vanishing[turn.instance_id] = None
        if turn.unique is not None and turn.unique.key is not None:
            self.unique_keys[turn.unique] = None
        for passed in turn.passed_keys:
            self.unique_keys[passed] = None
        if turn.observations:
            self.observed[turn.instance_id] = None

    def _add_start(self, start: NewInstance) -> None:
        self.ids[start.instance_id] = None
        self.starts.add(start.instance_id)
        if start.replaces:
            self.replaces = True
        if start.forked is not None:
            self.goes_back = True
        for message in start.messages:
            self._add_delivery(message)

    def _add_child(self, child: ChildStart) -> None:
        self._add_start(child.instance)
        for told in (child.if_taken, child.if_started):
            if told is not None:
                self._add_delivery(told)

    def _add_delivery(self, delivery: Delivery) -> None:
        self.ids[delivery.instance_id] = None
        for one in (delivery.message_id, delivery.call_id):
            if one is not None:
                self.receipts[delivery.instance_id, one] = None


def keep_live(rows: LoadedRows, keys: Sequence[Any], found: list[Any]) -> None:
    """Keep live rows as statements return them: the place of the key, and the columns."""
    for values in found:
        row = LiveState(*keys[values[0]])
        row.stored = True
        (
            _,
            row.definition_no,
            row.incarnation,
            row.execution,
            row.next_seq,
            row.wake_at_ms,
            row.lease,
            row.lease_until_ms,
            row.home,
            row.last_no,
            row.last_at_ms,
            row.last_commit,
            row.attempts,
            row.blocked_by,
        ) = values
        rows.live[row.instance_id] = row


def _keep_wide(rows: LoadedRows, keys: Sequence[Any], found: list[Any]) -> None:
    for key, *values in found:
        rows.wide[keys[key][1]] = WideState(*values)


def _keep_jobs(rows: LoadedRows, keys: Sequence[Any], found: list[Any]) -> None:
    for key, token, attempt, failures, session in found:
        kept = None if failures is None else bytes.fromhex(failures)
        rows.jobs[JobKey(*keys[key][1:])] = JobState(token, attempt, kept, session)


def _keep_receipts(rows: LoadedRows, keys: Sequence[Any], found: list[Any]) -> None:
    for key, no, is_decided in found:
        _, instance_id, message_id = keys[key]
        rows.receipts[instance_id, message_id] = ReceiptState(no, bool(is_decided))


def _keep_holders(rows: LoadedRows, keys: Sequence[Any], found: list[Any]) -> None:
    rows.holders = {UniqueKey(*keys[key][1:]): holder for key, holder in found}


def _keep_observed(rows: LoadedRows, keys: Sequence[Any], found: list[Any]) -> None:
    rows.observed = {keys[key][1]: no for key, no in found}


def _keep_waiting(rows: LoadedRows, keys: Sequence[Any], found: list[Any]) -> None:
    for key, no, rank in found:
        rows.waiting.setdefault(keys[key][1], {})[no] = rank


def load_holders(connection: Connection, keys: Sequence[UniqueKey]) -> dict[UniqueKey, str]:
    """Return which instances have business keys."""
    packed = pack([(part_of(key.key or ""), *key) for key in keys])
    [(text,)] = connection.run("load_unique_keys", keys=packed)
    return {keys[key]: holder for key, holder in unpack(text)}


def mark_of(turn: Turn) -> str:
    """Return the id of the receipt that tells of an instance's vanishing, which leaves no row."""
    return f"vanished:{turn.commit_id}"
