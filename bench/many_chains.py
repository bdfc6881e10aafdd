"""How many activities a second do a hundred chains get through together?"""

from __future__ import annotations

from bench.chain import WARM_UP, add_one, chain
from bench.harness import Case, Measured, Meter, Setup, finish, in_flight

BUDGET_PER_S = 8_000
LENGTH = 20
ROUNDS = 5
"""One takes 0.2 s, which is too little to compare by."""


async def many_chains(setup: Setup) -> list[Measured]:
    """All chains at once, some times one after another."""
    chains = setup.size(100, quick=20)
    async with setup.engine([add_one, chain]) as engine:
        await in_flight(chains, chains, lambda: finish(engine, chain, WARM_UP // LENGTH))
        with Meter(engine._core.store) as meter:
            for _ in range(ROUNDS):
                await in_flight(chains, chains, lambda: finish(engine, chain, LENGTH))
    activities = ROUNDS * chains * LENGTH
    return [
        meter.measured(
            "100 chains of 20 activities",
            activities / meter.took_s,
            "activities/s",
            units=activities,
            per="activity",
            at_least=BUDGET_PER_S,
        )
    ]


CASES = (Case(name="many_chains", run=many_chains),)
