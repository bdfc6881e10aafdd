"""`perdure doctor` on SQLite, and what it says of any store."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import Engine, Retry, activity, orchestration
from perdure.cli import doctor
from perdure.cli.output import printable
from perdure.errors import ActivityError
from perdure.model.turns import WorkerRow
from perdure.store.base import Store
from perdure.store.findings import Finding, Level, fail
from perdure.store.migrate import Migration, read_migrations
from perdure.store.opening import open_store
from perdure.store.sqlite import upkeep
from perdure.store.sqlite.database import PACKAGE
from tests.cli.commands import PROGRAM, perdure
from tests.engine.stage import OPTIONS


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(0)))
async def break_down() -> None:
    raise ValueError("broken")


@orchestration
async def work(name: str) -> str:
    return name


@orchestration
async def attempt() -> None:
    with suppress(ActivityError):
        await break_down()


@pytest.fixture
def path(folder: Path) -> str:
    """A store with one instance that has ended."""
    path = f"{folder}/shop.db"

    async def fill() -> None:
        async with Engine(f"sqlite:///{path}", [work], options=OPTIONS) as engine:
            await (await engine.start("work-1", work, "order-1")).result()

    asyncio.run(fill())
    return path


def with_store(path: str, use: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        store = open_store(f"sqlite:///{path}")
        await store.open()
        await use(store)
        await store.close()

    asyncio.run(run())


def change(path: str, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def run_doctor(path: str, *args: str) -> subprocess.CompletedProcess[str]:
    return perdure("doctor", "--store", f"sqlite:///{path}", *args)


def lines(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """Return what was said, by check: level, found, advice."""
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {check: [level, *rest] for level, check, *rest in rows}


# -------------------------------------------------------------------- all is well


def test_a_sound_store_passes(path: str) -> None:
    done = run_doctor(path)

    assert done.returncode == 0, done.stdout
    found = lines(done)
    assert {name: level for name, (level, *_) in found.items() if name != "SQLite"} == {
        "durable commits": "ok",
        "WAL": "ok",
        "file": "ok",
        "file system": "ok",
        "integrity": "ok",
        "schema": "ok",
        "workers": "warn",
        "parked": "ok",
        "blocked": "ok",
        "dead jobs": "ok",
        "projections": "ok",
        "schedules": "ok",
        "invariants": "ok",
    }


def test_json_holds_the_same_as_the_lines(path: str) -> None:
    said = json.loads(run_doctor(path, "--json").stdout)

    assert said["store"] == f"sqlite:///{path}"
    assert said["level"] == "warn"
    rows = {one["check"]: [one["level"], one["found"], one["advice"]] for one in said["findings"]}
    assert rows == lines(run_doctor(path))


def test_a_terminal_gets_a_table(path: str) -> None:
    ours, theirs = pty.openpty()
    command = [*PROGRAM, "doctor", "--store", f"sqlite:///{path}"]
    done = subprocess.run(command, stdout=theirs, env={**os.environ, "COLUMNS": "200"}, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)

    assert done.returncode == 0
    assert "what to do" in shown
    assert "all hold" in shown
    assert "\x1b[32mok" in shown


def test_what_a_database_holds_cannot_move_the_cursor() -> None:
    assert printable("a\x1b[2Jb\x9bc\n") == "a\\x1b[2Jb\\x9bc\\n"


# -------------------------------------------------------------------- what is wrong


def test_a_broken_invariant_fails_with_its_number(path: str) -> None:
    change(path, "DELETE FROM history WHERE seq = 1")

    done = run_doctor(path)

    assert done.returncode == 1
    level, found, advice = lines(done)["invariants"]
    assert (level, "S1 work-1" in found, "report it" in advice) == ("fail", True, True)
    assert doctor.NUMBERS in advice


def test_the_page_that_explains_the_numbers_exists() -> None:
    assert (Path(__file__).parents[2] / doctor.NUMBERS).exists()


def test_a_damaged_file_fails_and_the_rest_is_still_looked_at(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 4)

    done = run_doctor(path)

    assert done.returncode == 1, done.stderr
    assert lines(done)["integrity"][0] == "fail"
    assert lines(done)["file system"][0] == "ok"


def test_migrations_that_are_missing_fail_and_are_not_made_up_for(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read_migrations(PACKAGE)
    more = Migration(len(known) + 1, "more", "CREATE TABLE more (x TEXT) STRICT;\n")
    monkeypatch.setattr(upkeep, "read_migrations", lambda package: [*known, more])

    for _ in range(2):
        found = doctor.examine(f"sqlite:///{path}", is_thorough=False)[-1]

        missing = f"1 of {more.number} migrations are missing: {more.number} more"
        assert found == fail("schema", missing, "run: perdure migrate")


def test_a_file_that_others_can_read_is_warned_of(path: str) -> None:
    os.chmod(path, 0o644)

    level, found, advice = lines(run_doctor(path))["file"]

    assert (level, found) == ("warn", f"{path}, mode 0644")
    assert f"chmod 600 {path}" in advice


def test_a_worker_that_went_silent_is_named(path: str) -> None:
    async def beat(store: Store) -> None:
        for worker_id, seen_ms in (("old", store.clock() - 90_000), ("new", store.clock())):
            await store.beat(WorkerRow(worker_id, "host", 1, 0, seen_ms, ()))

    with_store(path, beat)

    level, found, _ = lines(run_doctor(path))["workers"]

    assert level == "warn"
    assert found.startswith("1 at work, 1 silent: old (last seen 9")


def test_instances_in_trouble_and_dead_jobs_are_named(path: str) -> None:
    async def fail() -> None:
        async with Engine(f"sqlite:///{path}", [attempt, break_down], options=OPTIONS) as engine:
            await (await engine.start("attempt-1", attempt)).result()

    asyncio.run(fail())
    change(
        path,
        "UPDATE instances SET status = 'parked' WHERE instance_id = 'work-1'",
        "UPDATE instances SET status = 'blocked' WHERE instance_id = 'attempt-1'",
    )

    found = lines(run_doctor(path))

    assert found["parked"][:2] == ["warn", "1: work-1"]
    assert found["blocked"][:2] == ["warn", "1: attempt-1"]
    assert found["dead jobs"][:2] == ["warn", "1, of break_down"]
    assert "perdure job retry KEY" in found["dead jobs"][2]


# ------------------------------------------------------------- what takes too long


def test_a_large_store_is_checked_in_part_unless_all_is_asked_for(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SAMPLE_S", 0)
    monkeypatch.setattr(upkeep, "CHECK_UP_TO_BYTES", 1)

    def looked(*, is_thorough: bool) -> dict[str, Finding]:
        findings = doctor.examine(f"sqlite:///{path}", is_thorough=is_thorough)
        return {one.check: one for one in findings}

    quick, deep = looked(is_thorough=False), looked(is_thorough=True)
    assert (quick["integrity"].level, deep["integrity"].level) == (Level.SKIPPED, Level.OK)
    assert quick["invariants"].found.startswith("hold in a sample: 0 instances with 0 events (0% ")
    assert "--deep" in quick["invariants"].advice
    assert deep["invariants"].found == "all hold in 1 instances with 2 events"
    assert deep["invariants"].advice == ""


def test_what_is_looked_at_is_told(path: str) -> None:
    told: list[str] = []

    doctor.examine(f"sqlite:///{path}", is_thorough=False, tell=told.append)

    assert told[:2] == [
        "the database",
        "workers, instances in trouble, dead jobs, projections, schedules",
    ]
    assert told[-1] == "invariants: 1 instances with 2 events (100% of the store)"


# -------------------------------------------------------------------- single checks


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ((3, 37, 2), Level.FAIL),
        ((3, 44, 5), Level.WARN),
        ((3, 44, 6), Level.OK),
        ((3, 45, 0), Level.WARN),
        ((3, 50, 7), Level.OK),
        ((3, 51, 2), Level.WARN),
        ((3, 51, 3), Level.OK),
    ],
)
def test_an_old_library_is_found(version: tuple[int, ...], level: Level) -> None:
    assert upkeep.look_at_version(version).level is level


@pytest.mark.parametrize(("size", "level"), [(64 << 20, Level.OK), (65 << 20, Level.WARN)])
def test_a_long_wal_is_found(size: int, level: Level) -> None:
    assert upkeep.look_at_wal(size).level is level


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/shop.db", "ext4"),
        ("/mnt/shop.db", "nfs4"),
        ("/mnt/local/shop.db", "xfs"),
        ("/mnt/local2/shop.db", "nfs4"),
        ("/over/shop.db", "tmpfs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    mounts = [
        ("/", "ext4"),
        ("/mnt", "nfs4"),
        ("/mnt/local", "xfs"),
        ("/over", "ext4"),
        ("/over", "tmpfs"),
    ]

    assert upkeep.file_system(path, mounts) == kind
    assert upkeep.look_at_file_system("nfs4").level is Level.WARN
