import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# What tests share is imported as `tests.engine...`, also by processes that are not pytest.
ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.engine.stage import Stage  # noqa: E402 - needs the path above


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
async def stage(url: str) -> AsyncIterator[Stage]:
    """Opens engines and clients on one store; looks over all they did when the test is done."""
    stage = Stage(url)
    try:
        yield stage
    finally:
        await stage.close()
    await stage.look_over()
