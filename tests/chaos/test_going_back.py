"""Programs made at random go back to every event of their histories, by a reset and by a fork, in a
real engine on each store: what is kept is kept, the end is the one of a copy that never went back,
each effect is counted, and what was told is what is stored.

`tests/core/test_going_back.py` shows the same of the core, without a store, for far more programs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from perdure.checking.invariants import check
from perdure.client.histories.resetting import ResetPlan
from perdure.core.orchestrations.execution import Execution, ExecutionId
from perdure.model.histories.events import StoredEvent
from perdure.repair import Point, at_event
from perdure.store.base import ExecutionKey
from perdure.store.contents import Contents
from tests.chaos.crashing import OPTIONS, World
from tests.chaos.everyday import stored_items
from tests.chaos.roaming import (
    DEFINITIONS,
    MAX_ROUNDS,
    Came,
    Herd,
    came_to,
    drawn_program,
    effects_not_as_recorded,
    has_time_limits,
    log_of,
    newest_key,
    origin_of,
    own_answers,
    roam,
    told_by,
)
from tests.chaos.sweeping import NewDatabase
from tests.core.harness import CODE, GUARD
from tests.core.wandering import Step, drawn, logs, received
from tests.sizes import IS_FULL

pytestmark = pytest.mark.timeout(1_800 if IS_FULL else 300)

PROGRAMS = 100 if IS_FULL else 3


@pytest.fixture(autouse=True)
def forget_logs() -> Iterator[None]:
    yield
    logs.clear()


@pytest.mark.parametrize("number", range(PROGRAMS))
async def test_going_back_to_any_event_comes_to_the_same_end(
    number: int, new_database: NewDatabase, chance: random.Random
) -> None:
    draw = random.Random(chance.getrandbits(32) + number)
    steps = drawn_program(draw)
    # In every other program each turn is a replay.
    options = replace(OPTIONS, hot_instances=OPTIONS.hot_instances if number % 2 else 0)
    # Its end compares what was told with what is stored, see `World`.
    with new_database() as url:
        async with World((), options, DEFINITIONS, url=url) as world:
            await Roaming(Herd(world, draw), draw, steps).run()


class Roaming:
    """One program, and its copies."""

    def __init__(self, herd: Herd, draw: random.Random, steps: list[Step]) -> None:
        self.herd = herd
        self.draw = draw
        self.steps = steps
        self.secret = b""
        self.in_time = not has_time_limits(steps)

    async def run(self) -> None:
        herd = self.herd
        async with herd.process():
            await herd.start("first", self.steps)
            await herd.drive()
            contents = await herd.contents()
            events = len(contents.histories[newest_key(contents, "first")])
            copies = [f"copy-{number}" for number in range(1, events + 1)]
            for copy in copies:
                await herd.start(copy, self.steps)
            # Half of the programs go back on their way.
            await herd.drive(self.draw.choice([self.draw.randint(1, 6), MAX_ROUNDS]))

        points = {copy: number for number, copy in enumerate(copies, 1)}
        branches = {f"branch-{number}": number for number in range(1, events + 1)}
        await self.go_back(points, branches, "first")
        # And again, from wherever they are by now.
        some = self.draw.sample(sorted({*points, *branches}), min(6, events))
        again = {copy: self.draw.randint(1, events) for copy in some}
        await self.go_back(again, {"branch-of-branch": again[some[0]]}, some[0])

    async def go_back(self, resets: dict[str, int], forks: dict[str, int], source: str) -> None:
        """Reset copies, fork from one, let all come to their ends, and look at what is stored."""
        herd = self.herd
        before = await herd.contents()
        sources: dict[str, ExecutionKey] = {}
        plans: dict[str, ResetPlan] = {}
        async with herd.process():
            for copy, branch in [(source, one) for one in forks] + [(copy, "") for copy in resets]:
                key = newest_key(before, copy)
                wanted = forks[branch] if branch else resets[copy]
                point = at_event(min(wanted, len(before.histories[key])))
                sources[branch or copy] = key
                plans[branch or copy] = await self.go(copy, point, branch)
            # Or the process dies, and another one finds what has gone back.
            if self.draw.random() < 0.5:
                await herd.drive()
        async with herd.process():
            await herd.drive()

        after = await herd.contents()
        items = await stored_items(herd.world.store, after)
        self.secret = await herd.world.store.admin.read_secret()
        assert await check(herd.world.store) == []
        assert effects_not_as_recorded(herd.world, after, in_time=self.in_time) == []
        for key, history in before.histories.items():
            if key in sources.values():
                assert after.histories[key] == history, f"{key} was changed"
        expected = came_to(before, "first")
        for copy, key in sources.items():
            self.check_copy(copy, before, key, after, expected)
            found = [json.loads(one.body) for one in items.get((copy, "words"), ()) if one.body]
            # A fork begins with an empty stream; what an instance sent behind the point is void.
            told = told_by(self.steps)
            assert found == (told[len(told) - len(found) :] if "branch" in copy else told)
            if before.instances[key.instance_id].status.is_terminal:
                self.check_plan(plans[copy], after.histories[newest_key(after, copy)])

    async def go(self, copy: str, point: Point, branch: str) -> ResetPlan:
        """Reset a copy, or branch off; return the plan that was made before."""
        plan = await self.herd.handle(copy).plan(point)
        assert plan.mismatch is None
        assert plan.checked
        assert plan.refused is None
        if branch:
            await self.herd.fork(copy, branch, point)
        else:
            await self.herd.handle(copy).reset(point, reason=f"back to {point.text}")
        return plan

    def check_copy(
        self, copy: str, before: Contents, source: ExecutionKey, after: Contents, expected: Came
    ) -> None:
        """What is kept is kept, and the end is that of the copy which never went back."""
        old, new = before.histories[source], after.histories[newest_key(after, copy)]
        origin = origin_of(new)
        assert origin is not None
        assert (origin.instance_id, origin.incarnation, origin.execution) == source
        cut = origin.cut
        assert new[1:cut] == old[1:cut]
        found, final = came_to(after, copy), log_of(after, copy)
        assert (found.kv, found.report) == (expected.kv, expected.report)
        if self.in_time:
            assert found.log == expected.log
        for name in ("news", "more", "asked"):
            assert received(final, name) == list(range(len(received(final, name))))
        kept = self.seen_in(source, old[:cut])
        assert final[: len(kept)] == kept
        assert not drawn(final[len(kept) :]) & drawn(self.seen_in(source, old))

    def check_plan(self, plan: ResetPlan, history: list[StoredEvent]) -> None:
        """What was foretold to run again has run again, and nothing else has."""
        if self.in_time:
            again = [name for name in plan.runs_again if name in ("say", "recite")]
            assert len(list(own_answers(history))) == len(again)

    def seen_in(self, key: ExecutionKey, history: list[StoredEvent]) -> list[object]:
        """What the code has seen up to there."""
        if not history:
            return []
        execution = Execution(roam, ExecutionId(*key), CODE, GUARD, secret=self.secret)
        execution.replay(history)
        execution.tear_down()
        return logs.pop()
