import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from tests.chaos.crashing import IN_MEMORY
from tests.chaos.sweeping import NewDatabase
from tests.postgres import Server


@pytest.fixture
def chance() -> random.Random:
    """Random numbers; PERDURE_CHAOS_SEED repeats a run, as far as that depends on them."""
    seed = int(os.environ.get("PERDURE_CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"PERDURE_CHAOS_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)


@pytest.fixture
def new_database_on_server(postgres: Server, postgres_template: str) -> NewDatabase:
    """Makes empty databases of PostgreSQL for the runs of a test."""

    @contextmanager
    def made() -> Iterator[str]:
        url = postgres.create_database(template=postgres_template)
        try:
            yield url
        finally:
            postgres.drop_database(url)

    return made


@pytest.fixture
def new_database(store_kind: str, request: pytest.FixtureRequest) -> NewDatabase:
    """Makes empty databases for the runs of a test: once of each kind of store."""
    if store_kind == "sqlite":
        return lambda: nullcontext(IN_MEMORY)
    made: NewDatabase = request.getfixturevalue("new_database_on_server")
    return made
