from collections.abc import Iterator

import pytest

from tests.core import harness


@pytest.fixture(autouse=True)
def _torn_down() -> Iterator[None]:
    """End what the test has left suspended: the collector must not run it later."""
    yield
    undead = [each for execution in harness.executions for each in execution.tear_down()]
    harness.executions.clear()
    assert undead == []
