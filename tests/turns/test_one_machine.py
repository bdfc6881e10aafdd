"""The turn is one machine: its parts hold each other, and its instances change in one place."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.model.instances import Stamp
from perdure.turns import way
from perdure.turns.commits import CommitQueue
from perdure.turns.direct.direct_turns import DirectTurns
from perdure.turns.direct.direct_updates import DirectUpdates
from perdure.turns.direct.locked_turns import LockedTurns
from perdure.turns.hot import HotInstance
from perdure.turns.loading.catching_up import CatchingUp
from perdure.turns.surroundings import Surroundings
from perdure.turns.way import TurnWay
from tests.golden.decider_programs import Stock
from tests.golden.decider_worlds import new_execution

MACHINE = (TurnWay, CommitQueue, DirectTurns, DirectUpdates, LockedTurns, CatchingUp)
SRC = Path(inspect.getfile(way)).parents[1]


def callables_given(to: type) -> set[str]:
    """Return the functions that an object is given when it is made, by their names."""
    given = inspect.signature(to).parameters.values()
    return {one.name for one in given if "Callable" in str(one.annotation)}


def assignments_of(attribute: str) -> Iterator[Path]:
    """Yield the files that assign an attribute of that name, one for each time."""
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign | ast.AugAssign):
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr == attribute:
                    yield file


@pytest.mark.parametrize("part", MACHINE)
def test_the_parts_of_a_turn_s_machine_are_joined_by_no_callables(part: type) -> None:
    assert callables_given(part) == set()


def test_a_turn_s_machine_is_given_three_callables_from_outside() -> None:
    assert callables_given(Surroundings) == {"look", "continued", "unfit"}


def test_whether_an_instance_is_ahead_is_said_in_one_file() -> None:
    files = [file.relative_to(SRC).as_posix() for file in assignments_of("is_ahead")]

    assert files == ["turns/hot.py"] * 3  # when it is made, and by each of the two transitions


def test_an_instance_that_waits_for_an_answer_takes_nothing_more(hot: HotInstance) -> None:
    hot.run_ahead()

    with pytest.raises(AssertionError, match="takes nothing more"):
        hot.run_ahead()


def test_only_an_instance_that_waits_gets_an_answer(hot: HotInstance) -> None:
    hot.run_ahead()
    hot.become_idle()

    with pytest.raises(AssertionError, match="only what waits"):
        hot.become_idle()


@pytest.fixture
def hot() -> HotInstance:
    return HotInstance(new_execution(Stock, "s-1"), Stamp(1, 1, 1), seen_no=0)
