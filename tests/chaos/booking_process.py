"""Processes that book an order in a transaction, and die at a chosen point of it.

Run as `python -m tests.chaos.booking_process`. It reads lines `DRIVER URL POINT`, makes a process
for each, and answers with a line: how that ended, and the points that it has passed. Points are
counted from 1: before each statement of ours in the transaction, after the function has written,
before and after the commit. With 0 the process lives.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from perdure import Engine
from perdure.store.postgres.within.async_transactions import AsyncTransactions
from perdure.store.postgres.within.borrowed import BorrowedAsyncpg, BorrowedPsycopg
from perdure.store.postgres.within.threaded_transactions import _ThreadTransaction
from perdure.store.sqlite.within import transactions
from tests.engine.booking import Shop, shop_with

INSTANCE, ORDER = "s", "o-1"


class Points:
    """Counts the points that are reached, and dies at one of them."""

    def __init__(self, dies_at: int) -> None:
        self.names: list[str] = []
        self._dies_at = dies_at

    def reach(self, name: str) -> None:
        """Die here, or go on."""
        self.names.append(name)
        if len(self.names) == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner: Any, method: str, name: Callable[..., str]) -> None:
        """Have a point before each call of a method."""
        call = getattr(owner, method)

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.reach(name(*args))
            return call(*args, **kwargs)

        setattr(owner, method, watched)


def watch_sqlite(points: Points) -> None:
    module: Any = transactions
    connect = module.connect_writer

    def connect_watched(*args: Any, **kwargs: Any) -> Any:
        connection = connect(*args, **kwargs)
        points.before(connection, "run", lambda name: name)
        return connection

    module.connect_writer = connect_watched


def watch_postgres(points: Points) -> None:
    points.before(BorrowedPsycopg, "_run", lambda _, text, *__: text.split()[0])
    points.before(BorrowedAsyncpg, "_fetch", lambda _, text, *__: text.split()[0])
    points.before(AsyncTransactions, "_commit", lambda *_: "commit")
    points.before(_ThreadTransaction, "_commit", lambda _: "commit")


async def book_one(driver: str, url: str, points: Points) -> None:
    shop = Shop(driver, url)
    if shop.is_sqlite:
        watch_sqlite(points)
    else:
        watch_postgres(points)
    book = shop.book(lambda connection, order: points.reach("written"))
    async with Engine(url, [book, shop_with(book)]) as engine:
        # After the commit, and before anybody in this process has heard of it.
        points.before(engine._serving.turns, "job_settled", lambda *_: "committed")
        handle = await engine.start(INSTANCE, shop_with(book), ORDER)
        await handle.result()


def run_process(driver: str, url: str, point: int) -> str:
    """Run a process; return how it ended and what it has passed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        points = Points(point)
        asyncio.run(book_one(driver, url, points))
        os.write(writer, " ".join(points.names).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        names = said.read()
    _, status = os.waitpid(pid, 0)
    return f"{os.waitstatus_to_exitcode(status)} {names}"


def main() -> None:
    # Made by a fork of one that has imported everything and has no threads: that is quick.
    for line in sys.stdin:
        driver, url, point = line.split()
        sys.stdout.write(run_process(driver, url, int(point)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
