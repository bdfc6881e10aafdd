"""A water meter that is read for ever, and a tool that knows nothing of its code.

The meter is a decider that keeps its newest hundred events, so it does not grow. Every reading has
an id: kill the program while it reads, and run it again: no reading counts twice. At the end a tool
reads the newest events by the meter's name alone, as JSON and without its class: what an inspection
or an export needs.

    python examples/meters.py
    python examples/meters.py 0.05      # a reading takes a while: time to kill it
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Never

from perdure import Client, Decider, Decision, Engine, default_url

STORE = default_url()
READING_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
READINGS = 40


@dataclass(frozen=True)
class Read:
    """A reading of a meter."""

    meter: str
    liters: int


@dataclass(frozen=True)
class Flowed:
    """So much water came."""

    liters: int


class Meter(Decider[int, Read, Flowed, Never]):
    """Adds up liters."""

    name = "meter"
    keep_events = 100

    def initial(self) -> int:
        """Begin with nothing."""
        return 0

    def instance_id(self, input: Read, /) -> str:
        """Find the meter of a reading."""
        return input.meter

    def decide(self, state: int, input: Read, now: datetime, /) -> Decision[Read, Flowed, Never]:
        """Take every reading."""
        return Decision.accept(Flowed(input.liters))

    def evolve(self, state: int, event: Flowed, /) -> int:
        """Add it."""
        return state + event.liters


async def read_meters() -> None:
    """Give each reading under its own id."""
    async with Engine(STORE, [Meter]) as engine:
        for number in range(1, READINGS + 1):
            await engine.execute(Meter, Read("kitchen", number), input_id=f"reading-{number}")
            print(f"reading {number}", flush=True)
            await asyncio.sleep(READING_S)
        print(f"in all {await engine.state_json('meter', 'kitchen')} liters")


async def inspect() -> None:
    """Look at what is recorded, without the code."""
    async with Client(STORE) as client:
        for one in await client.events_json("meter", "kitchen", after=READINGS - 2):
            print(f"event {one.version}: {one.event}")


async def main() -> None:
    """Read, then inspect."""
    await read_meters()
    await inspect()


if __name__ == "__main__":
    asyncio.run(main())
