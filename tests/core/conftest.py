import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# What tests share is imported as `tests.core...`, also by processes that are not pytest.
ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.core import harness  # noqa: E402 - needs the path above


@pytest.fixture(autouse=True)
def _torn_down() -> Iterator[None]:
    """End what the test has left suspended: the collector must not run it later."""
    yield
    undead = [each for execution in harness.executions for each in execution.tear_down()]
    harness.executions.clear()
    assert undead == []
