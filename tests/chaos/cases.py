"""What the client does: start instances of every kind, disturb them, and know how each must end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from perdure import Accepted, Client, Handle, Status
from perdure.authoring.orchestration import Orchestration
from perdure.errors import (
    InstanceCancelledError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    StoreError,
    StoreUnavailableError,
)
from tests.chaos import accounts, workload

RESULT_WITHIN = timedelta(seconds=180)
"""Many times what it takes: on a busy machine leases of a second run out under who works, and what
was lost twice is run alone."""
TRIES = 40
"""How often a call is made again while the store cannot be had."""
TRY_AGAIN_S = 0.25
SENDERS = ("ada", "grace")
POISON_EVERY = 20
"""One of so many cases has a neighbour that the database refuses."""
NOTES = 3
"""How many signals each sender sends to one instance."""


@dataclass
class Book:
    """What the store acknowledged to the client, and what became of it."""

    started: dict[str, str] = field(default_factory=dict)
    """Instances by the kind of case."""
    sent: dict[str, list[str]] = field(default_factory=dict)
    """Signals by instance."""
    ended: int = 0
    """Cases that are over, well or not."""
    unavailable: int = 0
    """Calls that were told to come again later."""
    refused: int = 0
    """Inputs that the database did not take."""
    answers: Counter[str] = field(default_factory=Counter)
    """What its calls were told."""
    problems: list[str] = field(default_factory=list)


T = TypeVar("T")
Drive = Callable[["Cases", str, int], Awaitable[None]]


class Cases:
    """Runs cases against a store, and notes what does not end as it must."""

    def __init__(self, client: Client, chance: random.Random, *, poison: str | None = None) -> None:
        """Prepare.

        Args:
            client: Of the store.
            chance: Decides what is open.
            poison: An account that the database refuses, which is tried beside some cases.
        """
        self.book = Book()
        self._poison = poison
        self._client = client
        self._chance = chance

    async def run(self, number: int) -> None:
        """Run one case from its start to its end."""
        kind, drive = KINDS[number % len(KINDS)]
        instance_id = f"{kind}-{number}"
        try:
            if self._poison is not None and number % POISON_EVERY == 0:
                await asyncio.gather(
                    self.be_refused(self._poison, number), drive(self, instance_id, number)
                )
            else:
                await drive(self, instance_id, number)
        except Exception as error:
            self.book.problems.append(f"{instance_id}: {type(error).__name__}: {error}")
        finally:
            self.book.ended += 1

    async def surely(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call as a client does that tries again when the store could not be had."""
        for _ in range(TRIES):
            try:
                return await call()
            except StoreUnavailableError:
                self.book.unavailable += 1
                await asyncio.sleep(TRY_AGAIN_S)
        return await call()

    async def start(
        self, instance_id: str, orchestration: Orchestration[..., Any], *args: Any
    ) -> Handle[Any]:
        """Start an instance and note it."""
        handle = await self.surely(lambda: self._client.start(instance_id, orchestration, *args))
        self.book.started[instance_id] = orchestration.name
        return handle

    async def note(self, instance_id: str, value: str) -> None:
        """Send a signal, which is its own id."""
        handle = self._client.handle(instance_id)
        await self.surely(lambda: handle.send(workload.note, value, message_id=value))

    async def deposit(self, account: str, number: int) -> None:
        """Give an account an input with an id: every other one is decided here, and accepted."""
        given, input_id = accounts.Deposit(account, number), f"deposit {number}"
        if number % 2:
            send = self._client.send
            await self.surely(lambda: send(accounts.Account, given, input_id=input_id))
            return
        execute = self._client.execute
        outcome = await self.surely(lambda: execute(accounts.Account, given, input_id=input_id))
        if not isinstance(outcome, Accepted):
            self.book.problems.append(f"{account}: {input_id} came to {outcome}")

    async def be_refused(self, account: str, number: int) -> None:
        """Give an input that the database does not take."""
        given = accounts.Deposit(account, number)
        try:
            outcome = await self.surely(lambda: self._client.execute(accounts.Account, given))
        except StoreUnavailableError:
            raise
        except StoreError:
            self.book.refused += 1
        else:
            self.book.problems.append(f"{account}: is refused, and {number} came to {outcome}")

    async def expect(self, handle: Handle[Any], *outcomes: Any) -> None:
        """Wait for the end, and note it if it is none of these."""
        ended = await self.surely(lambda: outcome_of(handle))
        if ended not in outcomes:
            self.book.problems.append(
                f"{handle.instance_id} ended with {ended!r}, not {outcomes!r}"
            )

    async def moment(self) -> None:
        """Wait for a random moment."""
        await asyncio.sleep(self._chance.uniform(0, 0.3))


async def outcome_of(handle: Handle[Any]) -> Any:
    """Return how an instance ended: its result, or what is raised in place of one."""
    try:
        return await handle.result(timeout=RESULT_WITHIN)
    except InstanceFailedError as error:
        return f"{error.type_name}: {error.message}"
    except InstanceCancelledError:
        return Status.CANCELLED
    except InstanceTerminatedError:
        return Status.TERMINATED


# ----------------------------------------------------------------------- the cases


async def one(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.one, n)
    await cases.expect(handle, n + 1)


async def chain(cases: Cases, instance_id: str, n: int) -> None:
    length = 2 + n % 9
    handle = await cases.start(instance_id, workload.chain, n, length)
    await cases.expect(handle, n + length)


async def fan(cases: Cases, instance_id: str, n: int) -> None:
    width = 2 + n % 15
    handle = await cases.start(instance_id, workload.fan, n, width)
    await cases.expect(handle, sum(n + index + 1 for index in range(width)))


async def nap(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.nap, n)
    await cases.expect(handle, n + 1)


async def listen(cases: Cases, instance_id: str, n: int) -> None:
    """Two senders, one of them perhaps before the start; each repeats some of its signals."""

    async def send(sender: str) -> None:
        for index in range(NOTES):
            value = f"{sender} {index}"
            for _ in range(cases._chance.choice((1, 1, 2))):
                # The second one may come when the instance has heard everything and ended.
                try:
                    await cases.note(instance_id, value)
                except InstanceEndedError:
                    break
            cases.book.sent.setdefault(instance_id, []).append(value)
            await cases.moment()

    sending = [asyncio.create_task(send(sender)) for sender in SENDERS]
    await cases.moment()
    handle = await cases.start(instance_id, workload.listen, len(SENDERS) * NOTES)
    heard = await cases.surely(lambda: outcome_of(handle))
    await asyncio.gather(*sending)
    for sender in SENDERS:
        mine = [value for value in heard if value.startswith(sender)]
        if mine != [f"{sender} {index}" for index in range(NOTES)]:
            cases.book.problems.append(f"{instance_id} heard {heard}")


async def forking(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.forking, n)
    await cases.expect(handle, 2 * (n + 1))


async def failing(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.failing, n)
    await cases.expect(handle, f"ValueError: no {n + 1}")


async def family(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.family, n)
    await cases.expect(handle, [str(n + 1), str(n + 2), f"ValueError: no {n + 1}"])


async def retried(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.retried, n)
    await cases.expect(handle, [str(n + 1), "3 x never"])


async def hurried(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.hurried, n)
    await cases.expect(handle, ["DeadlineExceeded", "2 x TimeoutError", "block", "race 1"])


async def inlined(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.inlined, n)
    await cases.expect(handle, n + 2)


async def cancelled(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.guarded, n)
    await cases.moment()
    await cases.surely(lambda: handle.cancel("enough"))
    await cases.expect(handle, Status.CANCELLED)


async def perhaps_cancelled(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.chain, n, 4)
    await cases.moment()
    await cases.surely(lambda: handle.cancel("perhaps too late"))
    await cases.expect(handle, Status.CANCELLED, n + 4)


async def terminated(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.guarded, n)
    await cases.moment()
    await cases.surely(lambda: handle.terminate("at once"))
    await cases.expect(handle, Status.TERMINATED)


async def continued(cases: Cases, instance_id: str, n: int) -> None:
    """Signals come at any moment of any execution, and each is heard once and in order."""
    handle = await cases.start(instance_id, workload.generations, n, NOTES - 1, [])
    values = [f"note {index}" for index in range(NOTES)]
    for value in values:
        await cases.note(instance_id, value)
        cases.book.sent.setdefault(instance_id, []).append(value)
        await cases.moment()
    await cases.expect(handle, [*values, str(n + NOTES)])


async def reaching(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.reaching, n)
    await cases.expect(handle, ["one", "two", str(n + 1)])


async def bound(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.bound, n)
    await cases.expect(handle, n + 2)


async def account(cases: Cases, instance_id: str, n: int) -> None:
    """Inputs are decided here and queued by turns, some of them twice; each counts once."""
    deposits = 2 + n % 3
    for number in range(deposits):
        for _ in range(cases._chance.choice((1, 1, 2))):
            await cases.deposit(instance_id, number)
        await cases.moment()
    close = accounts.Close(instance_id)
    await cases.surely(lambda: cases._client.send(accounts.Account, close, input_id="close"))
    await account_ends(cases, instance_id, deposits)


async def account_ends(cases: Cases, instance_id: str, deposits: int) -> None:
    """Wait until an account has ended, and look at what it has recorded."""
    async with asyncio.timeout(RESULT_WITHIN.total_seconds()):
        # It has no event for those who wait elsewhere.
        while not await cases.surely(lambda: has_ended(cases._client, instance_id)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    events = await cases.surely(lambda: cases._client.events(accounts.Account, instance_id))
    noted = [event.event.what for event in events]
    cases.book.problems += accounts.problems_of_account(instance_id, noted, deposits)


async def has_ended(client: Client, instance_id: str) -> bool:
    try:
        return (await client.handle(f"account:{instance_id}").info()).status.is_terminal
    except InstanceNotFoundError:
        return False  # Its first input waits for its first turn.


async def teller(cases: Cases, instance_id: str, n: int) -> None:
    deposits = 2 + n % 3
    account = f"{instance_id}-account"
    handle = await cases.start(instance_id, accounts.teller, account, deposits)
    await cases.expect(handle, ["Accepted"] * ((deposits + 1) // 2))
    await account_ends(cases, account, deposits)


KINDS: list[tuple[str, Drive]] = [
    (drive.__name__, drive)
    for drive in (
        *(one, chain, fan, nap, listen, failing, family, retried, hurried, inlined),
        *(cancelled, perhaps_cancelled, terminated, continued, reaching, bound),
        *(account, teller, forking),
    )
]
