"""A sweep: the same script once undisturbed, which tells at which statements a process can die and
what is left in the end, and then once per point, to the same end. On any database.

Each run has a database of its own and one process after another, until one comes through. Whatever
comes of it, what callers were told is what is stored: see `World`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from tests.chaos.crashing import Life, World
from tests.chaos.statements import (
    StatementFault,
    StatementStore,
    life_on_statements,
    points_of,
)
from tests.sizes import IS_FULL, WITHIN_S

MAX_MISSED = 0.25
"""Which share of all points may not be reached: what shares a transaction depends on time."""

T = TypeVar("T")

NewDatabase: TypeAlias = Callable[[], AbstractContextManager[str]]
"""Gives the URL of an empty database, and drops it afterwards."""


class Undisturbed(NamedTuple, Generic[T]):
    """What a run without faults tells about the others."""

    points: list[StatementFault]
    left: T


@dataclass
class Sweep(Generic[T]):
    """Runs a script, however often."""

    new_database: NewDatabase
    new_world: Callable[[str], World]
    """Makes a world with the script on a database."""
    look_at: Callable[[World], Awaitable[T]]
    """Checks what is left in the end, and returns it."""
    missed: list[StatementFault] = field(default_factory=list)
    """Points that runs did not come to."""

    async def run_undisturbed(self) -> Undisturbed[T]:
        """Run it without a fault."""
        first, left = await self._run(None)
        return Undisturbed(points_of(first.statements), left)

    async def failures_at(self, points: Sequence[StatementFault], left: T) -> list[str]:
        """Run it once per point, and return those after which something was different."""
        wrong = []
        for point in points:
            try:
                first, found = await self._run(point)
            except (AssertionError, TimeoutError) as error:
                wrong.append(f"{point}: {error!r}")
                continue
            if not first.has_come:
                self.missed.append(point)
            if found != left:
                wrong.append(f"{point}: {found}")
        most = len(points) * MAX_MISSED if IS_FULL else len(points) - 1
        if len(self.missed) > most:
            wrong.append(f"not reached: {self.missed}")
        return wrong

    async def _run(self, fault: StatementFault | None) -> tuple[StatementStore, T]:
        with self.new_database() as url:
            async with asyncio.timeout(WITHIN_S), self.new_world(url) as world:
                first = await follow(world, fault)
                return first, await self.look_at(world)


async def follow(world: World, fault: StatementFault | None = None) -> StatementStore:
    """Let one process after another try until one comes through; return the store of the first."""
    life = first = life_on_statements(world, fault)
    while not await _is_through(life):
        life = life_on_statements(world)
    store: Any = first.store
    assert isinstance(store, StatementStore)
    return store


async def _is_through(life: Life) -> bool:
    try:
        return await life.run()
    finally:
        await life.end()
