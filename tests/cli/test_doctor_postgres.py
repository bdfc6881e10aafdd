"""`perdure doctor` on PostgreSQL: what a server answers, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

import psycopg
import pytest
from psycopg import sql

from perdure.store.findings import Level
from perdure.store.postgres import examining
from perdure.store.postgres.connection import PACKAGE
from tests.cli.commands import perdure
from tests.postgres import SUPERUSER, Server

GOOD = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "track_counts": "on",
    "max_connections": "100",
    "superuser_reserved_connections": "3",
}


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    with Server() as server:
        yield server


def run_doctor(url: str) -> tuple[int, dict[str, list[str]]]:
    done = perdure("doctor", "--store", url)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows, done.stderr
    return done.returncode, {check: [level, *rest] for level, check, *rest in rows}


# ------------------------------------------------------------------ on real servers


def test_a_server_with_sound_settings_passes(durable: Server) -> None:
    url = durable.create_database()
    assert perdure("migrate", "--store", url).returncode == 0

    code, found = run_doctor(url)

    assert code == 0
    levels = {name: level for name, (level, *_) in found.items()}
    assert levels == {
        "PostgreSQL": "ok",
        "writable": "ok",
        "fsync": "ok",
        "synchronous_commit": "ok",
        "full_page_writes": "ok",
        "clock": "ok",
        "autovacuum": "ok",
        "old transactions": "warn",  # of others: the tests' role is no monitor
        "prepared transactions": "ok",
        "replication slots": "ok",
        "TLS": "ok",
        "connections": "ok",
        "dead rows": "ok",
        "schema": "ok",
        "workers": "warn",
        "parked": "ok",
        "blocked": "ok",
        "dead jobs": "ok",
        "projections": "ok",
        "schedules": "ok",
        "invariants": "ok",
    }


def test_a_server_that_loses_commits_fails(postgres_url: str) -> None:
    code, found = run_doctor(postgres_url)

    assert code == 1
    assert found["fsync"][:2] == ["fail", "off"]
    assert found["synchronous_commit"][:2] == ["fail", "off"]
    assert found["full_page_writes"][:2] == ["warn", "off"]
    assert found["autovacuum"][:2] == ["fail", "autovacuum is off"]


def test_a_database_that_only_reads_fails(durable: Server) -> None:
    url = durable.create_database()
    assert perdure("migrate", "--store", url).returncode == 0
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        change = "ALTER DATABASE {} SET default_transaction_read_only = on"
        connection.execute(sql.SQL(change).format(name))

    code, found = run_doctor(url)

    assert code == 1
    assert found["writable"][:2] == ["fail", "default_transaction_read_only is on"]
    assert found["invariants"][:2] == ["ok", "all hold in 0 instances with 0 events"]


def test_an_old_transaction_is_found_with_who_and_how_long(
    postgres: Server, postgres_url: str
) -> None:
    with (
        psycopg.connect(postgres_url, application_name="report") as old,
        psycopg.connect(postgres_url) as looking,
    ):
        old.execute("SELECT 1")
        # As if a minute had passed.
        text = read("old_transactions").replace("'1 minute'", "'0 seconds'")
        rows = looking.execute(text.encode()).fetchall()
        mine = [row for row in rows if row[0] == old.info.backend_pid]

    [(_, role, program, state, age_s)] = mine
    assert (role, program, state) == ("perdure", "report", "idle in transaction")
    assert 0 <= age_s < 60


@pytest.mark.parametrize("name", ["prepared_transactions", "slots"])
def test_what_most_servers_have_none_of_can_be_asked_for(postgres_url: str, name: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(read(name).encode()).fetchall() == []


def test_a_slot_that_nobody_reads_is_found(durable: Server) -> None:
    url = durable.url("postgres", role=SUPERUSER)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('forgotten', true)")
        rows = connection.execute(read("slots").encode()).fetchall()
        connection.execute("SELECT pg_drop_replication_slot('forgotten')")

    found = examining.look_at_slots(rows)
    assert found.level is Level.WARN
    assert found.found.startswith("forgotten, read by nobody, ")


def read(name: str) -> str:
    folder = resources.files(PACKAGE) / "examination"
    return (folder / f"{name}.sql").read_text(encoding="utf-8")


# ---------------------------------------------------------- what is made of answers


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("12.22", Level.FAIL),
        ("13.0", Level.OK),
        ("18.1 (Debian 18.1-1)", Level.OK),
        ("19beta1", Level.WARN),
    ],
)
def test_versions_that_perdure_is_not_made_for_are_found(version: str, level: Level) -> None:
    assert examining.look_at_version(version).level is level


def test_a_standby_fails() -> None:
    found = examining.look_at_role(True, "off")

    assert (found.level, found.advice) == (Level.FAIL, "give the address of the primary")


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("fsync", "off", Level.FAIL),
        ("synchronous_commit", "off", Level.FAIL),
        ("synchronous_commit", "local", Level.WARN),
        ("synchronous_commit", "remote_apply", Level.OK),
        ("full_page_writes", "off", Level.WARN),
    ],
)
def test_a_setting_that_risks_commits_is_found(name: str, value: str, level: Level) -> None:
    findings = examining.look_at_durability({**GOOD, name: value})

    assert {one.check: one.level for one in findings}[name] is level
    assert {one.level for one in findings if one.check != name} == {Level.OK}


@pytest.mark.parametrize(
    ("database_ms", "level", "text"),
    [
        (10_050, Level.OK, "within 100 ms"),
        (11_100, Level.OK, "within 1000 ms"),
        (13_100, Level.WARN, "3.0 s ahead of"),
        (7_500, Level.WARN, "2.5 s behind"),
    ],
)
def test_a_clock_that_is_wrong_is_found(database_ms: int, level: Level, text: str) -> None:
    """What the question itself took is no difference: the answer may be of any moment in it."""
    found = examining.look_at_clock(database_ms, between=(10_000, 10_100))

    assert found.level is level
    assert text in found.found


def test_old_transactions_are_listed_up_to_a_few() -> None:
    rows = [(n, "app", "", "idle in transaction", 60 * n + 4_000) for n in range(5)]

    found = examining.look_at_transactions(rows, True)

    assert found.level is Level.WARN
    assert found.found.startswith("process 0, app, idle in transaction, 1 h 6 min; process 1, ")
    assert found.found.endswith("; and 2 more")


def test_a_forgotten_prepared_transaction_is_found() -> None:
    found = examining.look_at_prepared([("tx-1", "app", 125)])

    assert (found.level, found.found) == (Level.WARN, "'tx-1' of app, 2 min 5 s")


@pytest.mark.parametrize(
    ("slot", "level"),
    [
        (("a", True, 10, 1 << 20), Level.OK),
        (("a", False, 10, 1 << 20), Level.WARN),
        (("a", True, 2_000_000, None), Level.WARN),
        (("a", True, None, 2 << 30), Level.WARN),
    ],
)
def test_a_slot_that_is_behind_is_found(slot: tuple[object, ...], level: Level) -> None:
    assert examining.look_at_slots([slot]).level is level


@pytest.mark.parametrize(
    ("dsn", "level"),
    [
        ("postgresql://127.0.0.1/shop", Level.OK),
        ("postgresql://localhost:5432/shop", Level.OK),
        ("postgresql://u@[::1]:5432/shop", Level.OK),
        ("postgresql:///shop?host=/var/run/postgresql", Level.OK),
        ("postgresql:///shop", Level.OK),
        ("postgresql://u:p@db.example/shop", Level.WARN),
        ("postgresql://u@10.0.0.1/shop?sslmode=require", Level.WARN),
        ("postgresql://localhost,db.example/shop", Level.WARN),
        ("postgresql:///shop?host=db.example", Level.WARN),
        ("postgresql://u@db.example/shop?sslmode=verify-full", Level.OK),
    ],
)
def test_a_remote_server_without_a_checked_certificate_is_warned_of(dsn: str, level: Level) -> None:
    found = examining.look_at_tls(dsn, [(True, "TLSv1.3")], default_mode="prefer")

    assert found.level is level
    assert "TLSv1.3" in found.found
    assert ":p@" not in found.found


@pytest.mark.parametrize(("used", "level"), [(10, Level.OK), (80, Level.WARN), (95, Level.WARN)])
def test_connections_that_run_out_are_found(used: int, level: Level) -> None:
    assert examining.look_at_connections(GOOD, used).level is level


@pytest.mark.parametrize(
    ("live", "dead", "level"),
    [(10, 20_000, Level.OK), (10, 30_000, Level.WARN), (50_000, 30_000, Level.OK)],
)
def test_tables_full_of_dead_rows_are_found(live: int, dead: int, level: Level) -> None:
    found = examining.look_at_dead_rows([("live", live, dead, None)], "shop")

    assert found.level is level


@pytest.mark.parametrize("name", ["autovacuum", "track_counts"])
def test_rows_that_nobody_cleans_up_are_found(name: str) -> None:
    [found] = examining.look_at_autovacuum({**GOOD, name: "off"})

    assert (found.level, found.found) == (Level.FAIL, f"{name} is off")
