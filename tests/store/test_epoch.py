"""A database that has gone back: its numbers mean what they meant, and memory is of one life."""

from __future__ import annotations

import psycopg
import pytest

from perdure.model.instances import DefinitionKey
from perdure.store.base import Store
from perdure.store.epoch import Epoch
from perdure.store.sql.definitions import number_of
from tests.contract.store_values import ORCHESTRATION, begun, claim, new_instance
from tests.postgres import Server


def test_a_life_is_new_when_the_database_is_not_the_one_that_was_met() -> None:
    epoch = Epoch()
    seen = []
    for identity in ("a", "a", "b", "b", None, "b"):
        epoch.meet(identity)
        seen.append(epoch.number)

    assert seen == [0, 0, 1, 1, 2, 2]


def test_the_number_of_a_definition_is_the_same_for_ever() -> None:
    """It is stored in every row: a process that makes another one runs other code."""
    key = DefinitionKey("orchestration", "ship", "1.0.0", 1)

    assert number_of(key) == 4294665259600707863
    assert len({number_of(key._replace(name=str(name))) for name in range(1_000)}) == 1_000


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def test_what_is_remembered_goes_with_the_life_of_the_database(
    store: Store, url: str, postgres: Server
) -> None:
    await begun(store)
    assert store.epoch.number == 0
    # What a crash does to it, and a standby that takes over.
    run(url, "TRUNCATE perdure.marks", "DELETE FROM perdure.definitions")
    for pid in postgres.backends(url):
        postgres.kill_backend(pid)

    assert await store.start([new_instance("after")]) == [None]

    assert store.epoch.number == 1
    [row] = await store.read_instances(["after"])
    assert row is not None
    assert row.name == ORCHESTRATION.name
    assert "after" in [one.instance_id for one in await claim(store)]


async def test_a_restored_dump_is_another_life_although_it_has_the_mark(
    store: Store, url: str, postgres: Server
) -> None:
    await begun(store)
    run(
        url,
        "CREATE TABLE public.kept AS SELECT * FROM perdure.marks",
        "ALTER SEQUENCE perdure.told OWNED BY NONE",
        "DROP TABLE perdure.marks",
        "CREATE UNLOGGED TABLE perdure.marks (part SMALLINT PRIMARY KEY, mark BIGINT NOT NULL)",
        "INSERT INTO perdure.marks SELECT part, mark FROM public.kept",
    )
    for pid in postgres.backends(url):
        postgres.kill_backend(pid)

    await store.start([new_instance("after")])

    assert store.epoch.number == 1
