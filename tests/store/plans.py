"""How much of PostgreSQL's tables a statement touches.

The plans are made while the tables are empty, and were found to be so by ANALYZE: what a new store
has. Then the tables are filled, and the same plans are used. That is the worst that happens to a
process that has just begun, and nothing must be slow then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import msgspec
import psycopg
from psycopg import sql

from perdure.store.postgres.connection import PACKAGE, statement
from perdure.store.postgres.functions import LOADS, WRITES
from perdure.store.sql.statement_files import files_of, text_of

NAMES = sorted(files_of(PACKAGE))

INSTANCES = 7_000
KEYS = 10
"""How many rows a statement is asked for."""
PAGES = 200
"""How many pages it may look at. Each table and each index of many rows has more, so one that is
read from end to end is noticed."""

NOW_MS = 1_000_000
UNTIL_MS = 2_000_000
PADDING = "-" * 170
"""Makes ids nearly as long as they may be, and so the indexes large."""

ONE = """(
    SELECT
        (n % 256)::smallint AS part, 'instance-' || n || {padding} AS id, n,
        'session-' || n || {padding} AS session, 'worker-' || n % 1000 AS worker
    FROM generate_series(1, {instances}) AS n
) AS one"""
"""No table of its own: its making could have plans forgotten."""
FILL = """
INSERT INTO perdure.definitions (kind, name, variant, behaviour)
SELECT CASE WHEN n < 8 THEN 'decider' ELSE 'activity' END, 'definition-' || n, '', 1
FROM generate_series(1, 10) AS n;
INSERT INTO perdure.workers SELECT 0, 'worker-' || n, 'host', 1, 1, 1, '[]', 'place', 1, 1, 0
FROM generate_series(1, 4) AS n;
INSERT INTO perdure.checkpoints VALUES (0, 'name', 0, 1, 0, 'w', 'running', NULL, 0, 1);
INSERT INTO perdure.live SELECT
    part, id, 1 + n % 5, n, 1, 3, n, n, {until_ms}, worker, 2, 1, 1, 0,
    CASE WHEN n % 500 = 0 THEN 'code' END FROM {one};
INSERT INTO perdure.instances SELECT
    part, id, n, 1, 1 + n % 5, CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'running' END, n, n, NULL,
    CASE WHEN n % 10 = 0 THEN 'instance-' || n - 1 || {padding} END, n - 1, 1, NULL, NULL, 'input',
    NULL FROM {one};
INSERT INTO perdure.history SELECT part, id, n, 1, seq, 'kind', 1, 'body'
FROM {one}, generate_series(1, 2) AS seq;
INSERT INTO perdure.inbox SELECT
    part, id, no, n, no, 1, 'kind', CASE no WHEN 2 THEN 'timer' || {padding} END, 'body'
FROM {one}, generate_series(1, 2) AS no;
INSERT INTO perdure.jobs SELECT
    part, id, n, 1, seq, 6 + n % 5, n, n, 'worker-1', 1, 0, 1,
    CASE seq WHEN 2 THEN 'session-' || n % 1400 || {padding} END, NULL, 'policy', 'input'
FROM {one}, generate_series(1, 2) AS seq;
INSERT INTO perdure.dead_jobs SELECT
    part, id, n, 1, 1, 6 + n % 5, 1, 0, 1, 1, NULL, NULL, 'policy', 'input' FROM {one};
INSERT INTO perdure.sessions SELECT part, session, worker, {until_ms}, 1 FROM {one};
INSERT INTO perdure.kv SELECT part, id, 'key', 1, 'value' FROM {one};
INSERT INTO perdure.reports SELECT part, id, 1, 1, 'value' FROM {one};
INSERT INTO perdure.perdure_streams SELECT
    part, id, 'stream' || {padding}, n, 1, NULL, n, 1, 1, 1, n, 1, '[1]' FROM {one};
INSERT INTO perdure.perdure_stream_heads SELECT part, id, 'stream' || {padding}, n FROM {one};
INSERT INTO perdure.receipts SELECT part, id, 'message', 1, 1, NULL FROM {one};
INSERT INTO perdure.unique_keys SELECT part, 'scope', 'key-' || n || {padding}, id, n FROM {one};
INSERT INTO perdure.snapshots SELECT part, id, n, 1, 1, 1, 1, 1, 'body' FROM {one};
INSERT INTO perdure.observations SELECT part, id, no, 1, 'tag', 'accepted', '', 'input', NULL
FROM {one}, generate_series(1, 2) AS no;
INSERT INTO perdure.feed SELECT part, n, id, n, 1, 1, 1, 'tag', 1, '', '' FROM {one};
INSERT INTO perdure.feed_new SELECT part, -n, id, n, 1, 2, 1, 'tag', 2, '', '' FROM {one};
INSERT INTO perdure.arrivals SELECT part, -n, id, 1, 'body' FROM {one};
UPDATE perdure.feed_counter SET pos = {instances};
"""

ANYTHING: Mapping[str, Any] = {
    "smallint": 1,
    "integer": 1,
    "bigint": 1,
    "text": "text",
    "boolean": True,
    "bytea": b"\0\0\0",
    "jsonb": None,
}
"""Values of parameters, by their type; others are among `SCALARS`."""
SCALARS: Mapping[str, Any] = {
    "now_ms": NOW_MS,
    "home_ms": NOW_MS - 200,
    "losses_below": 2,
    "until_ms": UNTIL_MS,
    "before_ms": 10 * NOW_MS,
    "ended_before_ms": None,
    "worker_id": "worker-1",
    "owner": "worker-1",
    "limit": KEYS,
    "max_events": KEYS,
    "max_messages": KEYS,
    "max_sessions": KEYS,
    "places": KEYS,
    "max_bytes": 1_000_000,
    "upto": KEYS,
    "migration_no": 99,
    "force": False,
    "roots_only": False,
    "table_name": "perdure.migrations",
    "timeout": "1s",
    "looks": KEYS,
    "few": 1_000,
    "among_children": None,
    "among_tagged": None,
    "among_ids": None,
    "ids_end": None,
    "among_living": None,
    "id_prefix": None,
    "parent_id": None,
    "tag": None,
    "status": "failed",
    "xid": "1",
}
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "write_known": {"names": [], "rows": [], "bodies": []},
    "count_tables": {"schema": "perdure"},
    "has_schema": {"schema": "perdure"},
    "find_arrivals": {"key": 1, "after": -(1 << 40)},
    "tell": {"schema": "perdure"},
    "lock_migrations": {"key": 1},
    "attend": {"key": 1},
    "forget_presence": {"key": 1},
    "lock_departed": {"key": 1},
    "mark_presence": {"key": 1},
    "restore_path": {"path": "public"},
    "find_sessions": {"after": ""},
    "read_observations": {"after": 0},
    "read_feed": {"after": 0},
}
"""Where a name means something else."""


def values_of(name: str) -> dict[str, Any]:
    """Return parameters for a statement: ten keys or rows of the shape that its header tells."""
    text = text_of(PACKAGE, name)
    head = " ".join(line[3:] for line in text.splitlines() if line.startswith("--"))
    told = re.search(r"Params: (.*?)\.? Returns: ", head)
    assert told, f"{name} does not tell its parameters"
    shapes: dict[str, str] = dict(
        re.findall(r"(\w+),? \(?JSON (\[\[.*?\], \.\.\.\]|\[.*?, \.\.\.\])", told[1])
    )
    casts = dict(re.findall(r"(?<![:\w]):([a-z_]+)::(\w+)", text))
    one = _columns(name, 0)
    found = {param: ANYTHING[cast] for param, cast in casts.items() if cast in ANYTHING}
    found |= {param: value for param, value in one.items() if param in casts}
    found |= {param: value for param, value in SCALARS.items() if param in casts}
    found |= OTHERS.get(name, {})
    for param, shape in shapes.items():
        rows = [_row(name, shape, number) for number in range(KEYS)]
        found[param] = msgspec.json.encode(rows).decode()
    return {param: found[param] for param in statement(name, "perdure")[1]}


def _columns(name: str, number: int) -> dict[str, Any]:
    """Return the values of one row's columns; a new row's if the statement inserts."""
    is_new = name.startswith("insert_") or name == "refuse_unborn"
    n = 509 + 600 * number
    instance_id = f"{'new' if is_new else 'instance'}-{n}{PADDING}"
    return {
        "part": n % 256,
        "instance_id": instance_id,
        "incarnation": n,
        "execution": 1,
        "seq": 1,
        "no": -n if name == "delete_arrivals" else 1,
        "message_id": "message",
        "timer_key": f"timer{PADDING}",
        "scope": "scope",
        "key": f"{'new' if is_new else 'key'}-{n}{PADDING}" if "unique" in name else "key",
        "session": f"session-{n % 1400 if name.startswith('find_') else n}{PADDING}",
        "stream": f"stream{PADDING}",
        "after_index": 0,
        "items": 1,
        "before_next": 1,
        "last_index": n,
        "owner": f"worker-{n % 1000}",
        "until_ms": UNTIL_MS,
        "token": n,
        "definition_no": 99 if name == "intern" else 1 + number,
        "queue_no": 6 + n % 5,
        "code": "other code",
        "whether it is ours": False,
        "losses_below": 2,
        "after_seq": 0,
        "next_seq": 2,
        "last_seq": 2,
        "status": "failed",
        "parent_id": None,
        "worker_id": "worker-1",
        "start_by_ms": None,
        "xid": "1",
        **dict.fromkeys(("kind", "tag", "outcome", "input_id", "cause", "correlation"), "text"),
        **{"name": "text", "variant": "", "behaviour": 1},
        **dict.fromkeys(("at_ms", "made_ms", "created_ms", "updated_ms", "effective_at_ms"), 1),
        **dict.fromkeys(("visible_at_ms", "parent_incarnation", "attempt", "rest_ms"), 1),
        **dict.fromkeys(("last_commit", "commit_id"), 1),
        **dict.fromkeys(("rank", "schema", "version", "turns"), 1),
        **dict.fromkeys(("wake_at_ms", "lease"), n),
    }


def _row(name: str, shape: str, number: int) -> Any:
    """Return one row as a header describes it: `[[part, no, a_begin, a_length], ...]`."""
    columns = _columns(name, number)
    if name == "put_live":
        # Every other row is there.
        is_stored, n = number % 2, columns["incarnation"]
        instance_id = columns["instance_id"] if is_stored else f"new-{n}{PADDING}"
        rest = [1, n, 1, 3, NOW_MS, 0, 0, None, 2, 1, 1, 0, None]
        return [columns["part"], instance_id, *rest, is_stored]
    if not shape.startswith("[["):
        return columns[shape.strip("[]").removesuffix(", ...")]
    row: list[Any] = []
    for piece in shape[2:].partition("]")[0].split(", "):
        if piece == "...":
            break  # What follows is not read.
        word = piece if piece in columns else piece.partition(" as ")[0]
        is_place = word.endswith(("_begin", "_length"))
        assert is_place or word in columns, f"{name}: {piece}"
        row.append(1 if is_place else columns[word])
    return row


class Plans:
    """Statements that one connection has planned.

    Args:
        url: A database with our tables.
        begin: Begins a transaction as whoever runs these statements does it.
        in_functions: Whether they are run by the functions that are made of them.
    """

    def __init__(self, url: str, begin: str, *, in_functions: bool = False) -> None:
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self._begin = begin
        self._in_functions = in_functions
        self._calls: dict[str, sql.Composed] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def plan(self, names: list[str], *, times: int = 1) -> None:
        """Have statements planned, and leave the tables as they are.

        From the sixth time on PostgreSQL may use the same plan again without being told to.
        """
        for name in names:
            self._prepare(name)
        for name in names * times:
            if self._in_functions:
                # There is no other way. What inserts comes last, as it leaves traces.
                self.pages(name)
                continue
            self.connection.execute(self._begin.encode())
            self.connection.execute(sql.SQL("EXPLAIN ") + self._calls[name])
            self.connection.execute("ROLLBACK")

    def plan_again(self) -> None:
        """Have all statements planned anew, when they are next used."""
        self.connection.execute("DISCARD PLANS")

    def _prepare(self, name: str) -> None:
        values = values_of(name)
        if self._in_functions:
            self._calls[name] = _call(name, values)
            return
        text, _ = statement(name, "perdure")
        self.connection.execute(f"PREPARE {name} AS {text}".encode())
        given = sql.SQL(", ").join(map(sql.Literal, values.values()))
        self._calls[name] = sql.SQL("EXECUTE {}{}").format(
            sql.Identifier(name), sql.SQL("({})").format(given) if values else sql.SQL("")
        )

    def pages(self, name: str) -> Counter[str]:
        """Run a statement and undo it; return how many pages of which tables and indexes it looked
        at."""

        def read(text: str) -> list[tuple[Any, ...]]:
            return self.connection.execute(text.encode()).fetchall()

        self.connection.execute(self._begin.encode())
        try:
            before = looked_at(read)
            self.connection.execute(self._calls[name])
            return looked_at(read) - before
        finally:
            self.connection.execute("ROLLBACK")


def looked_at(read: Callable[[str], Iterable[tuple[Any, ...]]]) -> Counter[str]:
    """Return how many pages of each table and index a connection has looked at in its transaction,
    those that it looked at again too; ask twice and take the difference.

    Args:
        read: Runs a statement on that connection.
    """
    return Counter(
        dict(
            read(
                "SELECT relname::text, pg_stat_get_xact_blocks_fetched(oid) FROM pg_class"
                " WHERE relnamespace = 'perdure'::regnamespace AND relkind IN ('r', 'i')"
            )
        )
    )


def _call(name: str, values: dict[str, Any]) -> sql.Composed:
    rows = values["keys"] if "keys" in values else values["rows"]
    if name in LOADS:
        return sql.SQL("SELECT perdure.load_1(ARRAY[{}], ARRAY[{}::jsonb])").format(name, rows)
    assert name in WRITES
    return sql.SQL("SELECT perdure.write_1(ARRAY[{}], ARRAY[{}::jsonb], ARRAY[{}], {})").format(
        name, rows, values.get("bodies", b""), NOW_MS
    )


def empty(url: str) -> None:
    """Let the server know that all tables are empty."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def fill(url: str) -> None:
    """Give every table many rows. Nobody counts them afterwards."""
    sizes = {"padding": sql.Literal(PADDING), "instances": sql.Literal(INSTANCES)}
    text = sql.SQL(FILL).format(
        one=sql.SQL(ONE).format(**sizes), until_ms=sql.Literal(UNTIL_MS), **sizes
    )
    with psycopg.connect(url) as connection:
        connection.execute(text)
