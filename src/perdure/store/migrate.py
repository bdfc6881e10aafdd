"""Bring a database's tables up to date.

Migrations are numbered files that only add. Each one runs in a transaction of its own together with
the row that records it, under the lock that keeps other processes out: two processes that start at
once do it once, and one that is killed in the middle leaves a whole number of migrations behind, so
the next start goes on from there.

A database that has seen another text of one was made by an unreleased version, and is refused
(decisions 37 and 58).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

from perdure.errors import SchemaError


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """Return what tells whether the file was changed after it had been applied."""
        return hashlib.sha256(self.script.encode()).hexdigest()


class Applied(NamedTuple):
    """A migration that a database has seen."""

    number: int
    name: str
    checksum: str


def no_store(where: str) -> SchemaError:
    """Return the error of who expects a store that is not there."""
    return SchemaError(
        f"there is no perdure store at {where} yet; is that the right place? A worker makes one "
        "when it starts, `perdure migrate` does, and so does Client(url, create=True)"
    )


def read_migrations(package: str) -> list[Migration]:
    """Return the migrations of a store in order: the files `migrations/NNNN_what.sql`."""
    folder = resources.files(package) / "migrations"
    found = []
    for file in folder.iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    found.sort()
    numbers = [migration.number for migration in found]
    assert numbers == list(range(1, len(found) + 1)), f"migrations are numbered {numbers}"
    return found


def missing(
    known: Sequence[Migration], applied: Sequence[Applied], *, where: str
) -> list[Migration]:
    """Return the migrations that are still to be applied to the store at `where`, in order.

    Raises:
        SchemaError: The database has seen migrations that this version does not know, or has seen
            another text of one that it knows.
    """
    seen = {step.number: step for step in applied}
    # First: an unreleased version may also have had more migrations than this one.
    for migration in known:
        step = seen.get(migration.number)
        if step is not None and step.checksum != migration.checksum:
            raise SchemaError(
                f"the store {where} was made by an unreleased version of perdure (its migration "
                f"{step.number}, {step.name}, is not the one of this version), and its tables are "
                "not brought up to date; finish what is in it with that version, or make a new "
                "store: another file, or another schema"
            )
    newest = max(seen, default=0)
    if newest > len(known):
        raise SchemaError(
            f"the store {where} was written by a newer perdure (its schema is {newest}, this "
            f"version knows {len(known)}); install that version, or use another store"
        )
    return [migration for migration in known if migration.number not in seen]
