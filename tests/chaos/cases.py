"""What the client does: start instances of every kind, disturb them, and know how each must end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure import Client, Handle, Status
from perdure.authoring.orchestration import Orchestration
from perdure.errors import (
    InstanceCancelledError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceTerminatedError,
)
from tests.chaos import workload

RESULT_WITHIN = timedelta(seconds=60)
SENDERS = ("ada", "grace")
NOTES = 3
"""How many signals each sender sends to one instance."""


@dataclass
class Book:
    """What the store acknowledged to the client, and what became of it."""

    started: dict[str, str] = field(default_factory=dict)
    """Instances by the kind of case."""
    sent: dict[str, list[str]] = field(default_factory=dict)
    """Signals by instance."""
    problems: list[str] = field(default_factory=list)


Drive = Callable[["Cases", str, int], Awaitable[None]]


class Cases:
    """Runs cases against a store, and notes what does not end as it must."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self.book = Book()
        self._client = client
        self._chance = chance

    async def run(self, number: int) -> None:
        """Run one case from its start to its end."""
        kind, drive = KINDS[number % len(KINDS)]
        instance_id = f"{kind}-{number}"
        try:
            await drive(self, instance_id, number)
        except Exception as error:
            self.book.problems.append(f"{instance_id}: {type(error).__name__}: {error}")

    async def start(
        self, instance_id: str, orchestration: Orchestration[..., Any], *args: Any
    ) -> Handle[Any]:
        """Start an instance and note it."""
        handle = await self._client.start(instance_id, orchestration, *args)
        self.book.started[instance_id] = orchestration.name
        return handle

    async def expect(self, handle: Handle[Any], *outcomes: Any) -> None:
        """Wait for the end, and note it if it is none of these."""
        ended = await outcome_of(handle)
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
        handle = cases._client.handle(instance_id)
        for index in range(NOTES):
            value = f"{sender} {index}"
            for _ in range(cases._chance.choice((1, 1, 2))):
                # The second one may come when the instance has heard everything and ended.
                try:
                    await handle.send(workload.note, value, message_id=value)
                except InstanceEndedError:
                    break
            cases.book.sent.setdefault(instance_id, []).append(value)
            await cases.moment()

    sending = [asyncio.create_task(send(sender)) for sender in SENDERS]
    await cases.moment()
    handle = await cases.start(instance_id, workload.listen, len(SENDERS) * NOTES)
    heard = await outcome_of(handle)
    await asyncio.gather(*sending)
    for sender in SENDERS:
        mine = [value for value in heard if value.startswith(sender)]
        if mine != [f"{sender} {index}" for index in range(NOTES)]:
            cases.book.problems.append(f"{instance_id} heard {heard}")


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
    await handle.cancel("enough")
    await cases.expect(handle, Status.CANCELLED)


async def perhaps_cancelled(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.chain, n, 4)
    await cases.moment()
    await handle.cancel("perhaps too late")
    await cases.expect(handle, Status.CANCELLED, n + 4)


async def terminated(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.guarded, n)
    await cases.moment()
    await handle.terminate("at once")
    await cases.expect(handle, Status.TERMINATED)


async def continued(cases: Cases, instance_id: str, n: int) -> None:
    """Signals come at any moment of any execution, and each is heard once and in order."""
    handle = await cases.start(instance_id, workload.generations, n, NOTES - 1, [])
    values = [f"note {index}" for index in range(NOTES)]
    for value in values:
        await handle.send(workload.note, value, message_id=value)
        cases.book.sent.setdefault(instance_id, []).append(value)
        await cases.moment()
    await cases.expect(handle, [*values, str(n + NOTES)])


async def reaching(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.reaching, n)
    await cases.expect(handle, ["one", "two", str(n + 1)])


async def bound(cases: Cases, instance_id: str, n: int) -> None:
    handle = await cases.start(instance_id, workload.bound, n)
    await cases.expect(handle, n + 2)


KINDS: list[tuple[str, Drive]] = [
    (drive.__name__, drive)
    for drive in (
        *(one, chain, fan, nap, listen, failing, family, retried, hurried, inlined),
        *(cancelled, perhaps_cancelled, terminated, continued, reaching, bound),
    )
]
