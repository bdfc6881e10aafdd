"""Write the PostgreSQL functions that run many statements in one call.

A commit is a dozen small statements. Sent one by one, each costs a trip to the server and back. So
they are also kept as one function, made of the very files in `store/postgres/sql`: one source, two
ways to run it. The functions are a part of a migration, between two lines that say so. Once that
was released, a changed statement needs a new migration with functions of the next number, so that
processes of the old version go on with theirs: name it here, with the two lines in it.

    python tools/make_functions.py            # write the functions into their migration
    python tools/make_functions.py --check    # exit 1 if it is not up to date
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from perdure.store.postgres.connection import PACKAGE
from perdure.store.postgres.functions import LOAD, LOADS, WRITE, WRITES
from perdure.store.sql.statement_files import text_of as file_text

FOLDER = Path(__file__).parent.parent / "src" / "perdure" / "store" / "postgres"
MIGRATION = FOLDER / "migrations" / "0001_start.sql"
BEGIN = "-- Made by tools/make_functions.py"
END = "-- End of what tools/make_functions.py has made.\n"

SETTINGS = """\
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp
"""
HEAD = f"""\
{BEGIN} from the files in sql/. Do not edit.
--
-- Plans are made once per session and go by index whatever the statistics say: they are old when a
-- table grows quickly.

-- Runs the statements that load what a batch touches, in the order in which they are given:
-- names[i] with the JSON keys packed[i]. The first takes the locks; each sees what was committed
-- before it began.
CREATE FUNCTION perdure.{LOAD}(names text[], packed jsonb[]) RETURNS text[]
{SETTINGS}AS $function$
#variable_conflict use_column
DECLARE
    these_rows jsonb;
    found_rows text[] := ARRAY[]::text[];
BEGIN
FOR place IN 1 .. cardinality(names) LOOP
these_rows := packed[place];
CASE names[place]
"""
MIDDLE = f"""\
ELSE RAISE EXCEPTION 'perdure has no statement %', names[place];
END CASE;
END LOOP;
RETURN found_rows;
END
$function$;

-- Runs the statements of a commit, in the order in which they are given: names[i] with the JSON
-- packed[i] and the bodies blobs[i].
CREATE FUNCTION perdure.{WRITE}(
    names text[], packed jsonb[], blobs bytea[], at_ms bigint
) RETURNS void
{SETTINGS}AS $function$
#variable_conflict use_column
DECLARE
    these_rows jsonb;
    these_bodies bytea;
BEGIN
FOR place IN 1 .. cardinality(names) LOOP
these_rows := packed[place];
these_bodies := blobs[place];
CASE names[place]
"""
TAIL = """\
ELSE RAISE EXCEPTION 'perdure has no statement %', names[place];
END CASE;
END LOOP;
END
$function$;
"""


def text_of(name: str) -> str:
    """Return a statement with the function's variables in place of its parameters."""
    text = file_text(PACKAGE, name)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    text = "\n".join(lines).strip()
    for parameter, variable in (
        (r":(?:rows|keys)::jsonb", "these_rows"),
        (r":bodies::bytea", "these_bodies"),
        (r":now_ms::bigint", "at_ms"),
    ):
        text = re.sub(parameter, variable, text)
    left = re.findall(r"(?<![:\w]):[a-z_]+", text)
    if left:
        raise SystemExit(f"{name}.sql has parameters that a function does not know: {left}")
    return text


def functions() -> str:
    """Return the functions."""
    loads = "".join(
        f"WHEN '{name}' THEN\nfound_rows := array_append(found_rows, (\n"
        f"{text_of(name).removesuffix(';')}\n)::text);\n"
        for name in LOADS
    )
    writes = "".join(f"WHEN '{name}' THEN\n{text_of(name)}\n" for name in WRITES)
    return HEAD + loads + MIDDLE + writes + TAIL


def migration(text: str) -> str:
    """Return a migration with the functions as they are to be."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(
            f"{MIGRATION.name} does not say where the functions are: {BEGIN!r}, {END!r}"
        )
    return before + functions() + END + after


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = MIGRATION.read_text(encoding="utf-8")
    made = migration(text)
    if not parser.parse_args().check:
        MIGRATION.write_text(made, encoding="utf-8")
        return 0
    if text == made:
        return 0
    sys.stderr.write(f"{MIGRATION.name} is old; run: python tools/make_functions.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
