"""Other processes of a benchmark: they are told one thing after another, and answer with numbers.

A word is a line on stdin, the answer a line of JSON on stdout. A process whose stdin is closed
ends, so none outlives the one that started it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import msgspec

from bench.harness import counts_of
from bench.machine import PROJECT
from perdure.store.base import Store

WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Spent:
    """What a process has used so far, or between two moments."""

    transactions: int = 0
    statements: int = 0
    rows: int = 0
    cpu_s: float = 0.0
    calls: int = 0
    """What it has done, where that is not told beforehand."""
    p99_ms: float = 0.0
    """How long its calls took; of several processes, of the slowest."""

    @classmethod
    def by(cls, *stores: Store) -> Spent:
        """Return what this process has used, with these stores."""
        counts = [counts_of(store) for store in stores]
        return cls(
            transactions=sum(count.transactions for count in counts),
            statements=sum(count.statements for count in counts),
            rows=sum(count.rows for count in counts),
            cpu_s=time.process_time(),
        )

    def plus(self, other: Spent, sign: int = 1) -> Spent:
        """Return both together."""
        return Spent(
            self.transactions + sign * other.transactions,
            self.statements + sign * other.statements,
            self.rows + sign * other.rows,
            self.cpu_s + sign * other.cpu_s,
            self.calls + sign * other.calls,
            max(self.p99_ms, other.p99_ms),
        )

    def minus(self, other: Spent) -> Spent:
        """Return what was used since the other was read."""
        return self.plus(other, sign=-1)


@dataclass(frozen=True, slots=True)
class Peer:
    """One other process."""

    process: asyncio.subprocess.Process

    async def ask(self, word: str) -> Spent:
        """Tell it something, and wait for what it answers."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{word}\n".encode())
        async with asyncio.timeout(WITHIN_S):
            line = await stdout.readline()
        if not line:
            raise RuntimeError("another process of the benchmark is gone; the error is on stderr")
        return msgspec.json.decode(line, type=Spent)


@asynccontextmanager
async def peers(count: int, module: str, *arguments: str) -> AsyncIterator[list[Peer]]:
    """Run a module in several processes, each of which calls `answer`."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_peer(module, *arguments)) for _ in range(count)]


async def ask_all(some: Sequence[Peer], word: str) -> Spent:
    """Tell all of them the same at the same time, and return what they used together."""
    total = Spent()
    for spent in await asyncio.gather(*(peer.ask(word) for peer in some)):
        total = total.plus(spent)
    return total


async def answer(handle: Callable[[str], Awaitable[Spent]]) -> None:
    """Answer one word after another, until stdin is closed. Called by the other process."""
    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        print(msgspec.json.encode(await handle(word)).decode(), flush=True)


@asynccontextmanager
async def _peer(module: str, *arguments: str) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=PROJECT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Peer(process)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(WITHIN_S):
            await process.wait()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
