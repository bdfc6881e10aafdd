"""Customers of the bank as a process: python -m tests.chaos.bank_client URL FOLDER NUMBER SEED.

Several calls at once until SIGTERM, each noted before it is made and when it is answered. Some give
up early, some are given an id and made again, by others too; before each one `random` is seeded, as
programs do that want to be repeated. Others may set its clock (`wrong_clock`).
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from perdure import Client
from perdure.clock import Clock
from perdure.errors import (
    InstanceNotFoundError,
    ResultTimeoutError,
    StoreError,
    StoreUnavailableError,
    UpdateRefusedError,
    UpdateUnansweredError,
    VersionConflictError,
)
from perdure.turns.direct.contention import Contention
from tests.chaos.bank import (
    POISON,
    SIGN,
    Account,
    Deposit,
    Input,
    Step,
    Transfer,
    Withdraw,
    errand,
    step_of,
)
from tests.chaos.pledges import kept, pledge, token_of
from tests.chaos.till import PREFIX as TILL_PREFIX
from tests.chaos.till import Move, move, till
from tests.chaos.told import Begun, StepTold, Telling, Told
from tests.chaos.wrong_clock import own_clock

AT_ONCE = 6
ACCOUNTS = tuple(f"a{number}" for number in range(8))
TILLS = ("t0", "t1")
RESULT_WITHIN = timedelta(seconds=60)
ASK_EVERY_S = 0.05
SHARED_EVERY = 12
"""After so many calls of each client there is another id that all of them use."""

MAY_BE_GONE = ("update", "result", "pledged", "keep")
"""What is asked of an instance that was there before."""

KINDS: dict[str, type[Deposit | Withdraw | Transfer]] = {
    "deposit": Deposit,
    "withdraw": Withdraw,
    "transfer": Transfer,
}
ASKED = ("deposit", "withdraw")
"""What a till can do."""
MOST = {"deposit": 10, "withdraw": 14, "transfer": 9}


class Customers:
    """Make calls, and note what they are told.

    Args:
        client: Of the store.
        telling: Where it is noted.
        name: Of this process.
        seed: Of the whole run; what is asked follows from it and the name.
    """

    def __init__(self, client: Client, telling: Telling, name: str, seed: str) -> None:
        self._client = client
        self._telling = telling
        self._name = name
        self._seed = seed
        self._chance = random.Random(f"{seed}:{name}")
        self._count = 0
        self._versions: dict[str, int] = {}
        self._doings: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._execute, 60),
            (self._send, 18),
            (self._run_errand, 7),
            (self._sit_beside_poison, 8),
            (self._use_shared_id, 10),
            (self._ask_till, 14),
            (self._keep_pledge, 4),
        ]

    async def go_on_until(self, told: asyncio.Event) -> None:
        """Make calls one after another."""
        doings, weights = zip(*self._doings, strict=True)
        while not told.is_set():
            [do] = self._chance.choices(doings, weights)
            random.seed(0)
            await do()

    async def ask_tills(self) -> None:
        """Ask tills for ever, with a pause: from a worker, which may have them in memory."""
        while True:
            random.seed(0)
            await self._ask_till()
            await asyncio.sleep(ASK_EVERY_S)

    # ---------------------------------------------------------------------- what is done

    async def _execute(self) -> None:
        begun = self._input("execute", self._chance)
        if self._chance.random() < 0.25:
            begun = msgspec.structs.replace(begun, input_id=f"id-{begun.mark}")
            await self.execute(begun)
            if self._chance.random() < 0.6:
                await self.execute(msgspec.structs.replace(begun, mark=self._mark()))
        else:
            await self.execute(begun)

    async def _send(self) -> None:
        await self.send(self._input("send", self._chance))

    async def _use_shared_id(self) -> None:
        """Give an input that others give at about the same time: everything follows from its id."""
        number = self._count // SHARED_EVERY
        chance = random.Random(f"{self._seed}:shared:{number}")
        begun = self._input("execute", chance)
        begun = msgspec.structs.replace(begun, input_id=f"shared-{number}")
        if self._chance.random() < 0.3:
            await self.send(msgspec.structs.replace(begun, how="send"))
        else:
            await self.execute(begun)

    async def _sit_beside_poison(self) -> None:
        """Have something decided that goes to the store with what it refuses."""
        poison = self._input("execute", self._chance, what="deposit")
        await asyncio.gather(
            self.execute(self._input("execute", self._chance)),
            self.execute(msgspec.structs.replace(poison, account=POISON)),
            self.execute(self._input("execute", self._chance)),
        )

    async def _run_errand(self) -> None:
        accounts = tuple(self._chance.choices(ACCOUNTS, k=3))
        begun = Begun(
            mark=self._mark(),
            client=self._name,
            how="start",
            what="errand",
            amount=self._chance.randint(1, 5),
            accounts=accounts,
        )
        self._telling.note(begun)
        mark = begun.mark
        call = self._client.start(mark, errand, mark, list(accounts), begun.amount)
        handle = await self._hear(
            begun, call, lambda _: Told(mark=mark, how="start", answer="started")
        )
        if handle is None:
            return
        waits = Begun(mark=mark, client=self._name, how="result", what="errand")
        self._telling.note(waits)
        await self._hear(
            waits,
            handle.result(timeout=RESULT_WITHIN),
            lambda steps: Told(
                mark=mark,
                how="result",
                answer="result",
                steps=tuple(StepTold(**vars(step)) for step in steps),
            ),
        )

    async def _ask_till(self) -> None:
        """Ask a till, at times under an id, and then once more."""
        begun = self._input("update", self._chance, what=self._chance.choice(ASKED))
        begun = msgspec.structs.replace(begun, account=self._chance.choice(TILLS))
        if self._chance.random() < 0.3:
            begun = msgspec.structs.replace(begun, input_id=f"id-{begun.mark}")
            await self.ask(begun)
            begun = msgspec.structs.replace(begun, mark=self._mark())
        await self.ask(begun)

    async def _keep_pledge(self) -> None:
        """Start what waits for a promise, and keep that twice at once."""
        mark = self._mark()
        begun = Begun(mark=mark, client=self._name, how="pledge", what="pledge")
        self._telling.note(begun)
        handle = await self._hear(
            begun,
            self._client.start(mark, pledge),
            lambda _: Told(mark=mark, how="pledge", answer="started"),
        )
        if handle is None:
            return
        try:
            token = await handle.wait_kv(token_of, timeout=RESULT_WITHIN)
        except (StoreUnavailableError, ResultTimeoutError, InstanceNotFoundError):
            return
        await asyncio.gather(
            self.keep(mark, token), self.keep(mark, token), self.keep(mark, token, rejects=True)
        )
        waits = Begun(mark=mark, client=self._name, how="pledged", what="pledge")
        self._telling.note(waits)
        await self._hear(
            waits,
            handle.result(timeout=RESULT_WITHIN),
            lambda first: Told(mark=mark, how="pledged", answer="result", recorded=first),
        )

    # --------------------------------------------------------------------------- calls

    async def ask(self, begun: Begun) -> None:
        """Ask a till, which begins with the first request."""
        begun = self._begin(begun)
        asked = move.with_options(timeout=RESULT_WITHIN)
        if begun.input_id:
            asked = asked.with_options(update_id=begun.input_id)
        given = Move(SIGN[begun.what] * begun.amount, begun.input_id or begun.mark)
        name = f"{TILL_PREFIX}{begun.account}"
        if begun.account in self._versions and self._chance.random() < 0.5:
            call = self._client.handle(name).update(asked, given)
        else:
            call = self._client.update_with_start(asked, given, name, till, 0, 0)

        def told(step: Step) -> Told:
            self._versions[begun.account] = step.version
            return Told(
                mark=begun.mark,
                how="update",
                answer="accepted",
                recorded=step.mark,
                version=step.version,
                balance=step.balance,
            )

        await self._hear(begun, call, told, patience=self._patience())

    async def keep(self, pledged: str, token: str, *, rejects: bool = False) -> None:
        """Keep a promise, or say that it is not kept."""
        mark = self._mark()
        begun = Begun(mark=mark, client=self._name, how="keep", what="pledge", account=pledged)
        self._telling.note(begun)
        if rejects:
            call = self._client.reject(token, mark)
        else:
            call = self._client.resolve(kept, token, mark)
        await self._hear(
            begun,
            call,
            lambda first: Told(mark=mark, how="keep", answer="accepted" if first else "rejected"),
            patience=self._patience(),
        )

    async def execute(self, begun: Begun) -> None:
        """Have an input decided."""
        expected = None
        if self._chance.random() < 0.05 and not begun.input_id:
            expected = self._versions.get(begun.account)
        begun = self._begin(begun)
        call = self._client.execute(
            Account,
            input_of(begun),
            input_id=begun.input_id or None,
            expected_version=expected,
        )

        def told(outcome: Any) -> Told:
            step = step_of(begun.mark, outcome)
            if step.answer not in ("accepted", "rejected"):
                return Told(mark=begun.mark, how="execute", answer="strange", why=step.answer)
            self._versions[begun.account] = step.version
            return Told(
                mark=begun.mark,
                how="execute",
                answer="accepted" if step.answer == "accepted" else "rejected",
                recorded=step.mark if step.answer == "accepted" else "",
                version=step.version,
                balance=step.balance,
            )

        await self._hear(begun, call, told, patience=self._patience())

    def _begin(self, begun: Begun) -> Begun:
        begun = msgspec.structs.replace(begun, at_ns=time.monotonic_ns())
        self._telling.note(begun)
        return begun

    async def send(self, begun: Begun) -> None:
        """Queue an input."""
        begun = self._begin(begun)
        call = self._client.send(Account, input_of(begun), input_id=begun.input_id or None)
        await self._hear(
            begun,
            call,
            lambda _: Told(mark=begun.mark, how="send", answer="sent"),
            patience=self._patience(),
        )

    async def _hear(
        self,
        begun: Begun,
        call: Awaitable[Any],
        told: Callable[[Any], Told],
        *,
        patience: AbstractAsyncContextManager[Any] | None = None,
    ) -> Any:
        """Note what a call is told; return what it returns, or None."""

        def fail(answer: Any, error: BaseException) -> None:
            why = f"{type(error).__name__}: {error}"[:300]
            self._telling.note(Told(mark=begun.mark, how=begun.how, answer=answer, why=why))

        try:
            async with patience or nullcontext():
                found = await call
        except (StoreUnavailableError, ResultTimeoutError, TimeoutError) as error:
            fail("unknown", error)
        except InstanceNotFoundError as error:
            # Of an instance whose start was told and lost when the database went back.
            fail("unknown" if begun.how in MAY_BE_GONE else "strange", error)
        except UpdateUnansweredError as error:
            fail("unanswered", error)
        except UpdateRefusedError:
            self._telling.note(Told(mark=begun.mark, how=begun.how, answer="rejected"))
        except (StoreError, VersionConflictError) as error:
            fail("refused", error)
        except Exception as error:
            fail("strange", error)
        else:
            self._telling.note(told(found))
            return found
        return None

    def _patience(self) -> AbstractAsyncContextManager[Any]:
        """Some give up before they are told anything."""
        if self._chance.random() < 0.06:
            return asyncio.timeout(self._chance.uniform(0.0005, 0.02))
        return nullcontext()

    # -------------------------------------------------------------------------- inputs

    def _mark(self) -> str:
        self._count += 1
        return f"{self._name}.{self._count}"

    def _input(self, how: Any, chance: random.Random, *, what: Any = None) -> Begun:
        what = what or chance.choice(tuple(KINDS))
        account = ACCOUNTS[0] if chance.random() < 0.3 else chance.choice(ACCOUNTS)
        return Begun(
            mark=self._mark(),
            client=self._name,
            how=how,
            what=what,
            account=account,
            amount=chance.randint(1, MOST[what]),
            to=chance.choice(ACCOUNTS) if what == "transfer" else "",
        )


def input_of(begun: Begun) -> Input:
    """Return the input of a call."""
    # Calls with one id give one input: so it has the id, and not the mark of one of the calls.
    given = (begun.account, begun.amount, begun.input_id or begun.mark)
    match begun.what:
        case "transfer":
            return Transfer(*given, begun.to)
        case "withdraw":
            return Withdraw(*given)
        case _:
            return Deposit(*given)


async def visit(url: str, folder: Path, name: str, seed: str) -> None:
    """Make calls until SIGTERM."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    client = await opened(url, own_clock(url, folder))
    async with client, asyncio.TaskGroup() as tasks:
        customers = Customers(client, Telling(folder / "told"), name, seed)
        for _ in range(AT_ONCE):
            tasks.create_task(customers.go_on_until(told))


async def opened(url: str, clock: Clock) -> Client:
    """Open a client; where the database is down just now, as often as it takes."""
    while True:
        try:
            return await Client(url, create=True, clock=clock).open()
        except StoreUnavailableError:
            await asyncio.sleep(0.1)


def force_way(name: str) -> None:
    """Have some processes look before each turn, and some decide under the lock. Which way is best
    is a guess; whatever it is, the answers must be right."""
    match int(name.removeprefix("c")) % 3:
        case 1:
            patch.object(Contention, "wants_lock", lambda *_: True).start()
        case 2:
            patch.object(Contention, "wants_look", new=True).start()


def main() -> None:
    """Run as a process."""
    url, folder, name, seed = sys.argv[1:]
    force_way(name)
    asyncio.run(visit(url, Path(folder), name, seed))


if __name__ == "__main__":
    main()
