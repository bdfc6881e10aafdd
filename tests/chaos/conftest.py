import os
import random
import time

import pytest


@pytest.fixture
def chance() -> random.Random:
    """Random numbers; PERDURE_CHAOS_SEED repeats a run, as far as that depends on them."""
    seed = int(os.environ.get("PERDURE_CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"PERDURE_CHAOS_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)
