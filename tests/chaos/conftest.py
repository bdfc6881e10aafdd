import os
import random
import sys
import time
from pathlib import Path

import pytest

# What tests share is imported as `tests.chaos...`, also by processes that are not pytest.
ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


@pytest.fixture
def chance() -> random.Random:
    """Random numbers; PERDURE_CHAOS_SEED repeats a run, as far as that depends on them."""
    seed = int(os.environ.get("PERDURE_CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"PERDURE_CHAOS_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)
