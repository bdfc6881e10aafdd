"""Definitions without a mistake, for those that are about something else."""

from perdure import Decider, Decision
from tests.mistakes.untyped import activity, orchestration


@activity
async def echo(x: int) -> int:
    return x


@orchestration
async def flow(x: int = 1) -> int:
    return await echo(x)  # type: ignore[no-any-return]  # it is one


class Counter(Decider[int, int, int, str]):
    """Counts."""

    name = "counter"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: int, /) -> str:
        return "c"

    def decide(self, state: int, input: int, now: object, /) -> Decision[int, int, str]:
        return Decision.accept(input)

    def evolve(self, state: int, event: int, /) -> int:
        return state + event
