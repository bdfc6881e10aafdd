"""PostgreSQL's statements are files that say what they do, mean the same as SQLite's, and search by
index whatever the statistics say."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib import resources
from pathlib import Path

import psycopg
import pytest

from perdure.clock import ManualClock
from perdure.store.epoch import Epoch
from perdure.store.postgres import lane, readers
from perdure.store.postgres.address import Address
from perdure.store.postgres.connection import PACKAGE, PostgresConnection, statement
from perdure.store.postgres.functions import LOADS, WRITES
from perdure.store.postgres.lane import Lane
from perdure.store.postgres.readers import PostgresReaders
from perdure.store.sql.statement_files import PARTS, files_of, text_of
from perdure.store.sqlite.database import PACKAGE as SQLITE
from tests.contract.store_values import new_instance
from tests.each import each
from tests.planted import plant_misfits
from tests.postgres import Server
from tests.store import plans
from tests.store.plans import NAMES, Plans

ROOT = Path(__file__).parent.parent.parent

NOT_HERE = {
    "insert_live",
    "read_application_id",
    "read_data_version",
    "read_files",
    "read_journal_mode",
    "read_synchronous",
    "set_query_only",
}
"""What only a file or its one writer needs, or asyncpg does itself."""
ONLY_HERE = {
    "attend",
    "claim_turns",
    "delete_arrivals",
    "find_arrivals",
    "find_claim",
    "forget_presence",
    "has_schema",
    "insert_arrivals",
    "load",
    "lock_departed",
    "lock_feed",
    "lock_instances",
    "lock_live",
    "lock_migrations",
    "mark_presence",
    "number_feed",
    "pin_path",
    "read_birth",
    "read_ended",
    "read_fate",
    "read_life",
    "read_mark",
    "read_now",
    "read_place",
    "read_presences",
    "read_server",
    "read_told",
    "read_remembered",
    "read_transaction_over",
    "read_xid",
    "refuse_unborn",
    "restore_path",
    "set_lock_timeout",
    "set_path",
    "take_arrivals",
    "tell",
    "try_instances",
    "try_live",
    "wait_for_claim",
    "write",
    "write_known",
}
"""What only several writers, a server, or users' transactions need."""
MAX_IN_FOLDER = 30
OTHER_PARAMS = {"count_tables": {"schema"}}

WHOLE = {
    "cut_sessions",
    "find_idle_sessions",
    "find_old_dead_jobs",
    "find_old_receipts",
    "find_old_stream_rows",
    "find_old_unborn",
    "find_stranded_jobs",
    "find_stranded_turns",
    "list_snapshots",
    "count_running",
    "queue_depths",
    "read_sessions",
    "totals",
    "find_torn_sessions",
    "read_all_feed",
}
"""Statements that read everything: for the checker, for people, and to find what is too old or was
written by a wrong clock. Each but two is run by readers only."""
SEARCHING = sorted({*NAMES} - WHOLE - {"claim_turns", "load", "write"})
INSERTING = ("insert_", "put_", "bury_", "refuse_")
IN_FUNCTIONS = [*LOADS, *sorted(WRITES, key=lambda name: name.startswith(INSERTING))]
READING = [
    name
    for name in SEARCHING
    if not re.search(
        r"INSERT|UPDATE|DELETE|FOR (?:KEY )?SHARE|number_feed|write_|notify|nextval|advisory"
        r"|claim_1|set_config",
        statement(name, "perdure")[0],
    )
]
"""What readers may run."""
CLAIMING = [
    "beat_jobs",
    "clear_starts",
    "find_arrivals",
    "find_blocked",
    "find_held_jobs",
    "find_held_turns",
    "find_jobs",
    "find_session_jobs",
    "find_sessions",
    "find_turns",
    "lease_jobs",
    "lease_turns",
    "load_sessions",
    "next_wake",
    "read_claimed_jobs",
    "read_visible",
    "release_turns",
    "renew_jobs",
    "renew_turns",
    "take_sessions",
]

LASTING = {"instances", "unique_keys"}
"""Tables that are empty once, when the store is new. The lane makes new plans soon after: see
`test_a_lane_forgets_the_plans_of_an_empty_store`."""

CODE = "\n".join(
    file.read_text(encoding="utf-8")
    for package in (PACKAGE, "perdure.store.sql", "perdure.store.within")
    for file in Path(str(resources.files(package))).rglob("*.py")
)


def params_of(text: str) -> set[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return set(re.findall(r"(?<![:\w]):([a-z_]+)", "\n".join(lines)))


# -------------------------------------------------------------------- the files


@each(NAMES)
def test_a_statement_is_alone_in_its_file_with_a_header(name: str) -> None:
    text = text_of(PACKAGE, name)
    code = [line for line in text.splitlines() if not line.lstrip().startswith("--")]

    assert text.startswith("-- ")
    assert "-- Params: " in text
    assert "Returns: " in text
    assert "\n".join(code).count(";") == 1
    assert text.endswith(";\n")
    assert max(map(len, text.splitlines())) <= 100


@each(NAMES)
def test_a_header_names_the_parameters_that_there_are(name: str) -> None:
    text = text_of(PACKAGE, name)
    head = " ".join(line[3:] for line in text.splitlines() if line.startswith("--"))
    told = head.partition("Params: ")[2].partition("Returns: ")[0]

    if "those of list_instances" in told:
        head_of_list = text_of(PACKAGE, "list_instances")
        told += head_of_list.partition("Params: ")[2].partition("Returns: ")[0]
    for param in params_of(text):
        assert re.search(rf"\b{param}\b", told), f"{name} does not tell of {param}"


@each(NAMES)
def test_a_statement_is_used(name: str) -> None:
    assert f'"{name}"' in CODE


@each(NAMES)
def test_tables_are_named_with_the_schema(name: str) -> None:
    """So nothing depends on the search_path, which a pooler or a user may change."""
    text, _ = statement(name, "perdure")
    tables = "arrivals|checkpoints|dead_jobs|definitions|feed|feed_counter|feed_new|history|inbox"
    tables += "|instances|jobs|kv|live|migrations|observations|receipts|reports|sessions|snapshots"
    tables += "|unique_keys|workers|perdure_settings|perdure_streams|perdure_stream_heads"

    assert not re.findall(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(?:{tables})\b", text)


def test_both_databases_have_the_same_statements() -> None:
    ours = set(files_of(SQLITE))

    assert ours - set(NAMES) == NOT_HERE
    assert set(NAMES) - ours == ONLY_HERE


def test_a_statement_is_in_the_same_folder_on_both_databases() -> None:
    here, there = (
        {name: Path(str(file)).parent.name for name, file in files_of(package).items()}
        for package in (PACKAGE, SQLITE)
    )

    assert {name: here[name] for name in {*here} & {*there}} == {
        name: there[name] for name in {*here} & {*there}
    }


def test_no_folder_has_more_statements_than_one_can_skim() -> None:
    folders = Counter(
        Path(str(file)).parent
        for package in (PACKAGE, SQLITE)
        for file in files_of(package).values()
    )

    assert max(folders.values()) <= MAX_IN_FOLDER


@each(sorted({*NAMES} - ONLY_HERE))
def test_a_statement_has_the_same_parameters_on_both_databases(name: str) -> None:
    here = params_of(text_of(PACKAGE, name))
    there = params_of(text_of(SQLITE, name))

    assert here ^ there == OTHER_PARAMS.get(name, set())


def test_no_statement_is_built_in_python() -> None:
    code = "\n".join(
        file.read_text(encoding="utf-8")
        for file in Path(str(resources.files(PACKAGE))).rglob("*.py")
    )

    # What people are told to run themselves is no statement of ours.
    advice = r"pg_drop_replication_slot\(NAME\)"
    assert not re.findall(rf'"(?:SELECT|INSERT INTO|UPDATE|DELETE FROM) (?!{advice})', code)


def test_the_functions_are_made_of_the_statements_as_they_are() -> None:
    checked = subprocess.run(
        [sys.executable, "tools/make_functions.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert checked.returncode == 0, checked.stderr


# ------------------------------------------------------------------ on a server


@pytest.fixture(scope="module")
def empty_url(postgres: Server, postgres_template: str) -> Iterator[str]:
    """A database whose tables were found to be empty."""
    url = postgres.create_database(template=postgres_template)
    plans.empty(url)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def url(postgres: Server, empty_url: str) -> Iterator[str]:
    """A copy of it for one test."""
    url = postgres.create_database(template=empty_url)
    yield url
    postgres.drop_database(url)


def too_many(looked_at: dict[str, Counter[str]], most: int = plans.PAGES) -> dict[str, list[str]]:
    """Return which statements looked at too much, and where most of it was."""
    return {
        name: [f"{table}: {count}" for table, count in pages.most_common(3)]
        for name, pages in looked_at.items()
        if pages.total() > most
    }


def test_a_server_understands_every_statement(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(lane.BEGIN.encode())
        for name in PARTS:
            connection.execute(statement(name, "perdure")[0].encode())
        for name in NAMES:
            connection.execute(f"PREPARE {name} AS {statement(name, 'perdure')[0]}".encode())
        connection.execute("ROLLBACK")


def test_every_operator_is_one_of_postgresqls_own_whatever_others_a_path_leads_to(
    url: str,
) -> None:
    """For an operator between types for which PostgreSQL has none, it takes the best that it finds
    in any schema. With the results of those that are planted no statement can be understood."""
    plant_misfits(url, "public")

    with psycopg.connect(url, autocommit=True) as connection:
        for name in NAMES:
            connection.execute(f"PREPARE {name} AS {statement(name, 'perdure')[0]}".encode())
            connection.execute(f"DEALLOCATE {name}".encode())


def test_each_table_and_index_that_is_searched_has_more_pages_than_a_search_may_see(
    url: str,
) -> None:
    """Or the tests below could not fail."""
    plans.fill(url)

    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT relname, pg_relation_size(oid) / 8192 FROM pg_class"
            " WHERE relnamespace = 'perdure'::regnamespace AND relkind = 'r' ORDER BY 2"
        ).fetchall()
    small = {name for name, pages in found if pages < plans.PAGES}
    few = {"migrations", "definitions", "workers", "checkpoints", "feed_counter", "marks"}
    few.add("perdure_settings")
    assert small == few


def test_a_statement_searches_by_index_whatever_the_statistics_say(url: str) -> None:
    """They say that all tables are empty."""
    with Plans(url, lane.BEGIN) as lanes:
        lanes.plan(SEARCHING)
        plans.fill(url)
        lanes.plan_again()

        assert too_many({name: lanes.pages(name) for name in SEARCHING}) == {}


def test_a_reader_searches_by_index_whatever_the_statistics_say(url: str) -> None:
    """Readers have settings of their own: what reads everything is theirs as well."""
    with Plans(url, readers.BEGIN) as reading:
        reading.plan(READING)
        plans.fill(url)
        reading.plan_again()

        assert too_many({name: reading.pages(name) for name in READING}) == {}


@pytest.mark.parametrize("begin", [lane.BEGIN, "BEGIN"], ids=["of a lane", "of a user"])
def test_a_commit_planned_for_empty_tables_is_quick_when_they_are_full(
    url: str, begin: str
) -> None:
    """Instances, messages and jobs come and go: an idle store has none, and may get many at once.
    The functions have their own settings, because a user's transaction has others."""
    with Plans(url, begin, in_functions=True) as functions:
        functions.plan(IN_FUNCTIONS)
        plans.fill(url)
        found = {name: functions.pages(name) for name in IN_FUNCTIONS}

    for pages in found.values():
        for table in [one for one in pages if one.startswith(tuple(LASTING))]:
            del pages[table]
    assert too_many(found) == {}


def test_a_claim_planned_for_empty_tables_is_quick_when_they_are_full(url: str) -> None:
    with Plans(url, lane.BEGIN) as lanes:
        lanes.plan(CLAIMING)
        plans.fill(url)

        assert too_many({name: lanes.pages(name) for name in CLAIMING}) == {}


def test_a_statement_that_reads_a_whole_table_is_noticed(url: str) -> None:
    with Plans(url, lane.BEGIN) as lanes:
        plans.fill(url)
        lanes.plan(["read_all_feed"])

        assert "read_all_feed" in too_many({"read_all_feed": lanes.pages("read_all_feed")})


def test_a_lane_forgets_the_plans_of_an_empty_store(url: str) -> None:
    """Before a table that has grown is walked through for every row."""
    address = Address.parse(url)
    connection = PostgresConnection(address)
    starting = Lane(address, clock=ManualClock(), epoch=Epoch(), stirred=lambda hints: None)
    starting.use(connection)
    keys = plans.values_of("load_instances")["keys"]

    for batch in range(30):
        starting.execute([new_instance(f"i-{batch}-{number}") for number in range(100)])
    connection.run_script(lane.BEGIN)
    before = plans.looked_at(lambda text: connection.run_own(text, ()))
    connection.load([("load_instances", keys)])
    pages = plans.looked_at(lambda text: connection.run_own(text, ())) - before
    starting.close()

    assert pages.total() <= 6 * plans.KEYS, pages


async def test_a_reader_forgets_the_plans_of_an_empty_store(url: str) -> None:
    """Whoever reads often gets a plan that is used again and again, until something changes."""
    times_s = [0.0]
    old = PostgresReaders(Address.parse(url), monotonic=lambda: times_s[-1])
    new = PostgresReaders(Address.parse(url))

    async def pages(using: PostgresReaders) -> dict[str, int]:
        return {name: await using.read(partial(_pages, name=name)) for name in READING}

    for _ in range(7):
        await pages(old)
    plans.fill(url)
    times_s.append(readers.PLANS_LAST_S)
    found, wanted = await pages(old), await pages(new)
    for one in (old, new):
        await asyncio.to_thread(one.close)

    # A few more are looked at by whoever plans.
    assert {
        name: f"{count}, by a new one {wanted[name]}"
        for name, count in found.items()
        if count > wanted[name] + 20
    } == {}


def _pages(connection: PostgresConnection, *, name: str) -> int:
    before = plans.looked_at(lambda text: connection.run_own(text, ()))
    connection.run(name, **plans.values_of(name))
    return (plans.looked_at(lambda text: connection.run_own(text, ())) - before).total()
