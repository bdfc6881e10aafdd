"""`perdure db` and `perdure sql`: the database lets a person's own SQL do nothing but read."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest

from tests.cli.commands import lines, typed
from tests.cli.shop import IDS, seed
from tests.postgres import Server

SLOW = {
    "sqlite": "with recursive c(n) as (select 1 union all select n + 1 from c)"
    " select max(n) from c",
    "postgres": "select pg_sleep(60)",
}
WRITES = [
    "delete from instances",
    "update instances set name = 'x'",
    "insert into kv select * from kv",
    "drop table history",
    "create table mine (a int)",
]
WRITES_OF = {
    "sqlite": [
        "pragma query_only = 0",
        "pragma journal_mode = delete",
        "attach 'other.db' as other",
        "begin immediate",
        "vacuum",
    ],
    "postgres": [
        "create temp table mine (a int)",
        "select setval('perdure.none', 1)",
        "with gone as (delete from instances returning 1) select * from gone",
        "copy instances to '/dev/null'",
    ],
}


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        url: str = request.getfixturevalue("shop")
        return url
    server: Server = request.getfixturevalue("postgres")
    template: str = request.getfixturevalue("seeded_database")
    return server.create_database(template=template)


@pytest.fixture(scope="session")
def seeded_database(postgres: Server) -> str:
    url = postgres.create_database()
    asyncio.run(seed(url))
    return url


def test_a_question_is_answered_in_every_form(store: str) -> None:
    text = "select status, count(*) as n from instances group by status order by status"

    rows = lines("sql", text, store=store)
    found = json.loads(typed("sql", text, "--json", store=store).stdout)

    assert ["parked", "1"] in rows
    assert {"status": "parked", "n": 1} in found
    assert typed("sql", text, "-o", "csv", store=store).stdout.startswith("status,n\nblocked,1\n")


def test_values_of_every_kind_are_shown(store: str) -> None:
    [row] = json.loads(
        typed("sql", "select null as a, 1.5 as b, 'x' as c", "--json", store=store).stdout
    )

    assert row["a"] is None
    assert str(row["b"]) == "1.5"
    assert row["c"] == "x"
    [body] = lines("sql", "select body from history where kind = 'terminated'", store=store)
    assert json.loads(body[0]) == {"reason": "enough"}


def test_rows_are_cut_where_it_was_asked_to(store: str) -> None:
    done = typed("sql", "select instance_id from instances", "--limit", "2", store=store)

    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "the first 2 rows are shown: --limit N for more\n"


def test_nothing_can_be_written(store: str, kind: str) -> None:
    before = typed("db", "info", "--json", store=store).stdout
    for text in [*WRITES, *WRITES_OF[kind], "select 1; delete from instances"]:
        done = typed("sql", text, store=store)

        assert done.exit_code == 2, text
        assert done.stderr.startswith("Error: the database refuses the statement: "), text
    after = typed("db", "info", "--json", store=store).stdout

    assert _without_size(after) == _without_size(before)


def _without_size(text: str) -> dict[str, object]:
    facts: dict[str, object] = json.loads(text)
    del facts["size_bytes"]
    return facts


def test_the_secret_is_not_read_with_sql(store: str) -> None:
    for text in (
        "SELECT secret FROM perdure_settings",
        "WITH all_of_it AS (SELECT * FROM perdure_settings) SELECT count(*) FROM all_of_it",
        "SELECT (SELECT length(secret) FROM perdure_settings AS s)",
    ):
        done = typed("sql", text, store=store)
        assert done.exit_code == 2, text
        assert "prohibited" in done.stderr


def test_a_question_that_takes_too_long_is_stopped(store: str, kind: str) -> None:
    done = typed("sql", SLOW[kind], "--timeout", "50ms", store=store)

    assert done.exit_code == 2
    assert "the statement took longer than 0.05 s and was stopped" in done.stderr


def test_a_mistake_is_said(store: str) -> None:
    done = typed("sql", "selekt 1", store=store)

    assert done.exit_code == 2
    assert "syntax error" in done.stderr


def test_what_is_in_the_store_is_counted(store: str, kind: str) -> None:
    folder = files("perdure.store").joinpath(kind, "migrations")
    newest = max(int(one.name[:4]) for one in folder.iterdir() if one.name.endswith(".sql"))
    facts = {row[0]: row[1] for row in lines("db", "info", store=store)}
    [[size]] = lines("db", "size", store=store)

    assert facts["migration"] == str(newest)
    assert facts["instances parked"] == "1"
    assert facts["dead_jobs"] == "1"
    assert int(size) > 10_000
    assert "bytes" in typed("db", "size", "-o", "table", store=store).stdout


def test_what_has_ended_long_ago_is_deleted_when_it_is_meant(store: str) -> None:
    ended = {"greet-1", "fail-1", "evil-1", "cancelled-1", "terminated-1"}
    soon = ["--before", "2100-01-01"]

    asked = typed("delete", *soon, store=store)
    dry = typed("delete", *soon, "--dry-run", store=store)
    alive = typed("delete", "--where", "status:running", "--yes", store=store)
    one = typed("delete", *soon, "--where", "name:fail", "--yes", store=store)
    early = typed("delete", "--before", "30d", "--yes", store=store)

    assert asked.exit_code == 2
    assert (
        "this would delete 5 instances, with all below: give --yes if you mean it" in asked.stderr
    )
    assert dry.stderr == "would delete 5 instances, with all below\n"
    assert (alive.exit_code, alive.stderr) == (0, "would delete 0 instances, with all below\n")
    assert one.stdout == "deleted\t1\n"
    assert early.stderr == "would delete 0 instances, with all below\n"
    assert lines("delete", *soon, "--yes", store=store) == [["deleted", "4"]]
    left = {row[0] for row in lines("list", "roots:yes", store=store)}
    assert left == IDS.keys() - ended
    assert typed("delete", "--before", "soon", "--yes", store=store).exit_code == 2


def test_a_store_is_migrated_by_either_name(folder: Path) -> None:
    url = f"sqlite:///{folder}/new.db"

    [[applied]] = lines("db", "migrate", store=url)
    assert applied.startswith("applied: 1 start, ")
    assert lines("migrate", store=url) == [["up to date"]]


def test_looking_works_on_postgresql_as_on_a_file(postgres: Server, seeded_database: str) -> None:
    url = postgres.create_database(template=seeded_database)

    assert lines("list", "status:parked", "-o", "ids", store=url) == [["parked-1"]]
    assert lines("unpark", "parked-1", store=url) == [["parked-1", "unparked"]]
    assert lines("terminate", "wait-1", store=url) == [["wait-1", "terminated"]]
    assert typed("wait", "wait-1", store=url).exit_code == 5
    assert "cannot move" in lines("explain", "wait-2", store=url)[0][0]
    rows = lines("replay", "greet-1", "till:t-1", "--target", "tests.cli.shop", store=url)
    assert [row[5] for row in rows] == ["fits", "fits"]


def test_a_backup_is_a_store_of_its_own(shop: str, folder: Path) -> None:
    copy = folder / "copy.db"

    [[name, size]] = lines("db", "backup", str(copy), store=shop)
    again = typed("db", "backup", str(copy), store=shop)

    assert (name, int(size)) == (str(copy), copy.stat().st_size)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not list(folder.glob("*.part"))
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert lines("list", "--all", "-o", "ids", store=f"sqlite:///{copy}") == lines(
        "list", "--all", "-o", "ids", store=shop
    )


def test_a_backup_that_cannot_be_written_leaves_nothing(shop: str, folder: Path) -> None:
    nowhere = typed("db", "backup", str(folder / "none" / "copy.db"), store=shop)
    (folder / "copy.db.part").write_text("of one that was killed")
    broken_off = typed("db", "backup", str(folder / "copy.db"), store=shop)

    assert nowhere.exit_code == 7
    assert "cannot write" in nowhere.stderr
    assert broken_off.exit_code == 2
    assert "copy.db.part is there already, of a backup that was broken off" in broken_off.stderr
    assert not (folder / "copy.db").exists()


def test_a_backup_is_of_one_moment_while_others_write(shop: str, folder: Path) -> None:
    """A writer has begun and not committed: none of it is in the copy, and neither waits."""
    writing = sqlite3.connect(folder / "shop.db", isolation_level=None)
    writing.execute("begin immediate")
    writing.execute("delete from instances")

    [[_, size]] = lines("db", "backup", str(folder / "copy.db"), store=shop)
    writing.execute("rollback")
    writing.close()

    with sqlite3.connect(folder / "copy.db") as copy:
        [(count,)] = copy.execute("select count(*) from instances")
    copy.close()
    assert count >= len(IDS)
    assert int(size) > 0


def test_postgresql_is_backed_up_by_its_own_programs(
    postgres: Server, seeded_database: str
) -> None:
    url = postgres.create_database(template=seeded_database)

    refused = typed("db", "backup", "copy.sql", store=url)

    assert refused.exit_code == 2
    assert "pg_dump --schema=perdure --file=copy.sql" in refused.stderr
