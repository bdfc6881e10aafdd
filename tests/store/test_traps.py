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

    assert await store.delete([("i", stamp.incarnation)]) is None

    [row] = await store.read_instances(["i"])
    assert row is not None
    assert row.status is Status.RUNNING
    assert len(await claim(store)) == 1


OUT = {
    SQLITE: {
        1: "0a4d8ccf114a98aed20ae303343a8ceb2f0bbff4fde05b7775c13726f982513d",
        2: "76f3a238cff1887d6889d60d930e6431f55a77caa4d43bf9311a3a24ab92c3c0",
        3: "c8641c3ec3d52c1bd699cde11155ab2b221da03aa56459b174f80e4d19961a94",
    },
    POSTGRES: {
        1: "0d2ebee55a5ec3832c80bc3b703a03a51afc8f57a87b721ed9fa7d3f82e4a5cf",
        2: "1b147b96162b6f14af69db6f6828ca5e5a8842113dbb6b2606b5585b2001a9ac",
    },
}
"""What the migrations hash to that databases have seen. Only ever added to."""


@pytest.mark.parametrize("package", OUT)
def test_a_migration_that_is_out_is_never_edited(package: str) -> None:
    """Not even its comments: databases that have seen it would refuse to open."""
    found = {each.number: each.checksum for each in read_migrations(package)}

    assert {number: found.get(number) for number in OUT[package]} == OUT[package]
