"""A store as one worker sees it that may die: from then on nothing of it reaches the database.

It stands before the trial's store. It counts what is under way, so that the trial knows when a
worker is at rest, and lets the worker die at a chosen commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from perdure.store.base import Store
from perdure.store.observing import OPERATIONS, PARTS

COMMITS = frozenset({"commit", "commit_locked"})
"""The operations that commit turns."""


class Moment(Enum):
    """When a worker dies, seen from one of its commits."""

    BEFORE = "before commit"
    """It never reaches the store."""
    AFTER = "after commit"
    """It is stored, and the worker never hears of that."""
    HEARD = "after the receipt of commit"
    """The worker hears of it, and dies before it has done anything else."""


class CrashPoint(NamedTuple):
    """Where a worker dies."""

    moment: Moment
    commit: int
    """Which commit of all workers of a trial, from 1."""

    def __str__(self) -> str:
        return f"{self.moment.value} {self.commit}"


class CommitCount:
    """The commits of all workers of a trial, and at which of them one dies."""

    def __init__(self, crash_at: CrashPoint | None = None) -> None:
        self.commits = 0
        self.crash_at = crash_at
        self.has_struck = False

    def next(self) -> Moment | None:
        """Count one more commit; tell when its worker dies, if it does."""
        self.commits += 1
        point = self.crash_at
        if point is None or self.has_struck or point.commit != self.commits:
            return None
        self.has_struck = True
        return point.moment


class MortalStore:
    """Has what the store has, as long as its worker lives."""

    def __init__(self, store: Store, count: CommitCount) -> None:
        self.living = store
        """The store itself, for those who live on."""
        self._count = count
        self.died = asyncio.Event()
        """Set when the worker is dead."""
        self.asked = 0
        """How many operations there were."""
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def is_quiet(self) -> bool:
        """Whether no operation is under way."""
        return self._quiet.is_set()

    async def wait_quiet(self) -> None:
        """Wait until no operation is under way."""
        await self._quiet.wait()

    def die(self) -> None:
        """Let nothing more through."""
        self.died.set()

    async def open(self) -> None:
        """Do nothing: the trial has opened the store."""

    async def close(self) -> None:
        """Do nothing: the trial closes it."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.living, name)
        if name in PARTS:
            value = MortalPart(value, self.watched)
        elif name in OPERATIONS:
            value = self._watched_commit(value) if name in COMMITS else self.watched(value)
        else:
            return value
        setattr(self, name, value)
        return value

    def watched(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return an operation as the worker sees it."""

        @wraps(call)
        async def later(*args: Any, **kwargs: Any) -> Any:
            self._live_or_die()
            return await self._counted(call(*args, **kwargs))

        @wraps(call)
        def at_once(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            return _never() if self.died.is_set() else self._counted(call(*args, **kwargs))

        return later if iscoroutinefunction(call) else at_once

    def _watched_commit(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(call)
        def commit(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            if self.died.is_set():
                return _never()
            moment = self._count.next()
            if moment is Moment.BEFORE:
                self.die()
                return _never()
            return self._counted(call(*args, **kwargs), dies=moment)

        return commit

    async def _counted(self, answer: Awaitable[Any], *, dies: Moment | None = None) -> Any:
        self.asked += 1
        self._under_way += 1
        self._quiet.clear()
        try:
            found = await answer
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()
        if dies is Moment.AFTER:
            self.die()
        self._live_or_die()
        if dies is Moment.HEARD:
            # Behind what the worker does with the receipt in this pass of the loop.
            asyncio.get_running_loop().call_soon(self.die)
        return found

    def _live_or_die(self) -> None:
        if self.died.is_set():
            # The caller belongs to a process that is no more.
            raise asyncio.CancelledError


class MortalPart:
    """Has what a part of the store has, as long as the worker lives."""

    def __init__(
        self,
        living: object,
        watched: Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]],
    ) -> None:
        self._living = living
        self._watched = watched

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._living, name)
        if name in OPERATIONS:
            value = self._watched(value)
            setattr(self, name, value)
        return value


def _never() -> Awaitable[Any]:
    """Return an answer that never comes: its caller is dead."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.cancel()
    return future
