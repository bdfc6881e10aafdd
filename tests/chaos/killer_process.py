"""A worker that one of its jobs or turns kills: python -m tests.chaos.killer_process URL.

It works on the store of a URL until it dies of itself, or until SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Never

from perdure import Decider, Decision, Engine, WorkerOptions, activity

KILLER = "killer"
LEASE = timedelta(seconds=1)
OPTIONS = WorkerOptions(
    lease_for=LEASE,
    session_lease=LEASE,
    poll_max=timedelta(milliseconds=100),
    stop_grace=timedelta(milliseconds=100),
    max_attempts=3,
)
DIED = 9
"""How a process exits that was killed from within."""


@dataclass(frozen=True)
class Ask:
    id: str


@dataclass(frozen=True)
class Asked: ...


@activity
async def act(id: str) -> None:
    if id == KILLER:
        os._exit(DIED)


class Acting(Decider[int, Ask, Asked, Never]):
    """Asks for an effect; one of them kills."""

    name = "acting"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Ask, /) -> str:
        return input.id

    def decide(self, state: int, input: Ask, now: datetime, /) -> Decision[Ask, Asked, Never]:
        return Decision.accept(Asked()).effect(act, input.id)

    def evolve(self, state: int, event: Asked, /) -> int:
        return state + 1


class Thinking(Decider[int, Ask, Asked, Never]):
    """Only decides; one of them kills."""

    name = "thinking"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Ask, /) -> str:
        return input.id

    def decide(self, state: int, input: Ask, now: datetime, /) -> Decision[Ask, Asked, Never]:
        if input.id == KILLER:
            os._exit(DIED)
        return Decision.accept(Asked())

    def evolve(self, state: int, event: Asked, /) -> int:
        return state + 1


async def work(url: str) -> None:
    """Serve until SIGTERM, or death."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with Engine(url, [Acting, Thinking, act], options=OPTIONS):
        await told.wait()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
