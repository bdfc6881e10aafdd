"""What docs/explanation/scaling.md says of the tables, as far as one PostgreSQL can tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

PAGE = (Path(__file__).parent.parent.parent / "docs/explanation/scaling.md").read_text()
[DDL] = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)

STAND_INS = """
CREATE TABLE spread (name regclass PRIMARY KEY, is_everywhere boolean NOT NULL);

-- Refuses what Citus refuses: a key that one shard alone could not check.
CREATE FUNCTION create_distributed_table(
    table_name regclass, distribution_column text,
    colocate_with regclass DEFAULT NULL, shard_count int DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
    place smallint := (
        SELECT attnum FROM pg_attribute
        WHERE attrelid = table_name AND attname = distribution_column AND attnotnull
    );
BEGIN
    IF place IS NULL THEN
        RAISE EXCEPTION '% has no column % that is never NULL', table_name, distribution_column;
    END IF;
    IF EXISTS (
        SELECT FROM pg_index
        WHERE indrelid = table_name AND indisunique AND NOT place = ANY (indkey::int2[])
    ) THEN
        RAISE EXCEPTION '% has a unique key without %', table_name, distribution_column;
    END IF;
    IF colocate_with IS NOT NULL AND NOT EXISTS (SELECT FROM spread WHERE name = colocate_with) THEN
        RAISE EXCEPTION '% is not spread yet', colocate_with;
    END IF;
    INSERT INTO spread VALUES (table_name, false);
END
$function$;

CREATE FUNCTION create_reference_table(table_name regclass) RETURNS void
LANGUAGE sql AS 'INSERT INTO spread VALUES (table_name, true)';
"""


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, options="-csearch_path=public") as connection:
        connection.execute(STAND_INS)
        yield connection
    connection.close()


def test_the_ddl_of_the_page_spreads_every_table_once(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(DDL.encode())

    left = connection.execute(
        "SELECT relname FROM pg_class LEFT JOIN spread ON spread.name = pg_class.oid"
        " WHERE relnamespace = 'perdure'::regnamespace AND relkind = 'r' AND name IS NULL"
    ).fetchall()
    assert left == [("marks",)], "each server has its own, and it is lost when it crashes"


def test_a_table_whose_key_has_no_part_would_be_refused(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute("CREATE TABLE wrong (part smallint NOT NULL, id text PRIMARY KEY)")

    with pytest.raises(psycopg.errors.RaiseException, match="has a unique key without part"):
        connection.execute("SELECT create_distributed_table('wrong', 'part')")


def test_the_parts_hash_to_shards_as_the_page_says(connection: psycopg.Connection[Any]) -> None:
    hashes = connection.execute(
        "SELECT hashint2(part::smallint) FROM generate_series(0, 255) AS part"
    ).fetchall()

    def parts_of(shards: int) -> list[int]:
        found = Counter((one + 2**31) // (2**32 // shards) for (one,) in hashes)
        return [found[shard] for shard in range(shards)]

    said = " ".join(PAGE.split())
    assert f"16 shards are {min(parts_of(16))} to {max(parts_of(16))} in each" in said
    assert f"in 32 shards {min(parts_of(32))} to {max(parts_of(32))}" in said
    assert f"256 shards leave {parts_of(256).count(0)} of them empty" in said
