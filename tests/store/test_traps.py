"""Traps others fell into that are a matter of the store alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.clock import ManualClock
from perdure.model.instances import Status
from perdure.store.base import Store
from perdure.store.migrate import read_migrations
from perdure.store.postgres.connection import PACKAGE as POSTGRES
from perdure.store.sqlite.database import PACKAGE as SQLITE
from tests.contract.store_values import (
    CONTINUED,
    LEASE_MS,
    accepted,
    begun,
    claim,
    claim_jobs,
    continuation,
    job,
    next_turn,
)

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""


@contextmanager
def locked_by_another(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another program holds the write lock until it is sent a line."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"locked\n"
        yield program


async def test_a_lease_begins_when_it_is_taken_and_not_when_it_was_asked_for(
    store: Store, clock: ManualClock, path: Path
) -> None:
    """A claim that waited longer for the lock than a lease lasts would be born expired."""
    await begun(store, jobs=(job(2),))
    with locked_by_another(path) as program:
        claiming = asyncio.create_task(claim_jobs(store))
        done, _ = await asyncio.wait([claiming], timeout=0.05)
        assert not done
        clock.advance(timedelta(milliseconds=LEASE_MS + 1))
        await asyncio.to_thread(program.communicate, b"\n")

    [claimed] = await claiming
    assert claimed.lease_until_ms == clock() + LEASE_MS
    assert await claim_jobs(store, "w2") == []


async def test_an_instance_between_two_executions_has_not_ended(store: Store) -> None:
    """Who deletes what has ended must not catch it there."""
    stamp = await begun(store)
    turn = next_turn("i", stamp, events=(CONTINUED,), continued=continuation())
    await accepted(store, turn)

    assert await store.admin.delete([("i", stamp.incarnation)]) is None

    [row] = await store.read_instances(["i"])
    assert row is not None
    assert row.status is Status.RUNNING
    assert len(await claim(store)) == 1


OUT: dict[str, dict[int, str]] = {
    SQLITE: {
        1: "46bfc9a1659fde6a0b02dbd6266d7eb7081d3cd4a2c0a664c002ccc785224669",
        2: "56dc3b8ca8ce02090e585806379ee41d4f4430a8c1ef1ed9c3e88ddb8bd00a32",
        3: "024516187b31cc2fc36d7ccb9a127035485605599d0126ac07fc3863c8e408aa",
    },
    POSTGRES: {
        1: "77712f6819a7b2aea0389b77b20ffb8ad0b74992f14cf124c45d815a4d1b4ef3",
        2: "b9006684ce7aa4c72f481bf0daa4d072e7161b01bf4dd3663634734e35d05eaa",
        3: "148c7365fff1c40ccb87acfa9827ab0dccca217a56005cd942e0baa8b18d4f48",
        4: "a80f198049023b8c0715078355a9003a6d8beca1baef48cb73ddffd285d509f3",
    },
}
"""What the migrations hash to. Only ever added to."""


@pytest.mark.parametrize("package", OUT)
def test_a_migration_that_is_out_is_never_edited(package: str) -> None:
    """Not even its comments: databases that have seen it would refuse to open."""
    found = {each.number: each.checksum for each in read_migrations(package)}

    assert {number: found.get(number) for number in OUT[package]} == OUT[package]


@pytest.mark.parametrize("package", OUT)
def test_whoever_adds_a_migration_writes_down_what_it_hashes_to(package: str) -> None:
    """It is frozen from its first day on, as stores of any commit are brought up to date (58)."""
    assert OUT[package].keys() == {each.number for each in read_migrations(package)}
