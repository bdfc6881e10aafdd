"""Write the PostgreSQL functions that run many statements in one call.

A commit is a dozen small statements. Sent one by one, each costs a trip to the server and back. So
they are also kept as one function, made of the very files in `store/postgres/sql`: one source, two
ways to run it. The functions are a part of a migration, between two lines that say so. Once that
was released, a changed statement needs a new migration with functions of the next number, so that
processes of the old version go on with theirs: name it here, with the two lines in it. A claim is
three statements, and is made into one function in the same way.

    python tools/make_functions.py            # write the functions into their migration
    python tools/make_functions.py --check    # exit 1 if it is not up to date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from perdure.store.postgres.connection import PACKAGE
from perdure.store.postgres.functions import CLAIM, LOAD, LOADS, WRITE, WRITES
from perdure.store.sql.statement_files import text_of as file_text

FOLDER = Path(__file__).parent.parent / "src" / "perdure" / "store" / "postgres"
MIGRATION = FOLDER / "migrations" / "0001_start.sql"
CLAIMS = FOLDER / "migrations" / "0004_claims.sql"
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


CLAIM_HEAD = f"""\
{BEGIN} from the files in sql/. Do not edit.
--
-- Claims turns as one transaction, if there is nothing to choose: all that are ready fit into the
-- claim, and none of them is a suspect. Otherwise, or if the time that it is asked to go by is not
-- the database's, nothing is leased, and the claim is made in steps. Each statement sees what was
-- committed before it began: the messages are read after the rows were locked.
-- The lock is for a claim whose answer is lost: it is waited for until this is over.
-- It is called outside a transaction, so everything that a transaction sets is set here.
CREATE FUNCTION perdure.{CLAIM}(
    these_definitions jsonb,
    this_worker text,
    at_ms bigint,
    off_by_ms bigint,
    strange_ms bigint,
    lost_below bigint,
    at_most bigint,
    suspect_from bigint,
    this_lease bigint,
    lasts_ms bigint,
    most_messages bigint,
    most_bytes bigint
) RETURNS bytea
{SETTINGS}SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = '50ms'
AS $function$
#variable_conflict use_column
DECLARE
    told_ms bigint := floor(extract(EPOCH FROM clock_timestamp())::numeric * 1000::numeric)::bigint;
    candidates json;
    found_keys jsonb;
    found_count bigint;
    has_suspects boolean;
    leased_rows json;
    messages json := '[]'::json;
    bodies bytea;
BEGIN
IF abs(told_ms - at_ms) > off_by_ms THEN
    RETURN convert_to('[false]'::text, 'UTF8'::name) || '\\x00'::bytea;
END IF;
PERFORM pg_advisory_xact_lock(this_lease);
candidates := (
"""
CLAIM_MIDDLE = """
);
SELECT
    count(*),
    coalesce(bool_or((turn.value ->> 7)::bigint >= suspect_from), false),
    jsonb_agg(
        jsonb_build_array(turn.value -> 0, turn.value -> 1)
        ORDER BY each_definition.place, turn.place
    )
INTO found_count, has_suspects, found_keys
FROM jsonb_array_elements(candidates::jsonb) WITH ORDINALITY AS each_definition (value, place)
CROSS JOIN LATERAL jsonb_array_elements(each_definition.value)
    WITH ORDINALITY AS turn (value, place);
IF found_count > at_most OR has_suspects THEN
    RETURN convert_to('[false]'::text, 'UTF8'::name) || '\\x00'::bytea;
END IF;
IF found_count > 0 THEN
WITH leased AS (
"""
CLAIM_READ = """
)
SELECT json_agg(row_to_json(leased)) INTO leased_rows FROM leased;
SELECT visible.* INTO messages, bodies
FROM (
"""
CLAIM_TAIL = f"""
) AS visible;
END IF;
RETURN
    convert_to(
        json_build_array(
            true, candidates, coalesce(leased_rows, '[]'::json), messages
        )::text,
        'UTF8'::name
    )
    || '\\x00'::bytea
    || coalesce(bodies, ''::bytea);
END
$function$;
{END}"""

OF_COMMIT = {
    r":(?:rows|keys)::jsonb": "these_rows",
    r":bodies::bytea": "these_bodies",
    r":now_ms::bigint": "at_ms",
}
OF_CLAIM = {
    ":definitions::jsonb": "these_definitions",
    ":worker_id::text": "this_worker",
    ":now_ms::bigint": "at_ms",
    ":home_ms::bigint": "strange_ms",
    ":losses_below::bigint": "lost_below",
    ":limit::bigint": "at_most",
    ":keys::jsonb": "found_keys",
    ":lease::bigint": "this_lease",
    ":until_ms::bigint": "lasts_ms",
    ":max_messages::bigint": "most_messages",
    ":max_bytes::bigint": "most_bytes",
}
"""The variables of functions, by the parameters of statements for which they stand."""


def text_of(name: str, variables: Mapping[str, str] = OF_COMMIT) -> str:
    """Return a statement with the function's variables in place of its parameters."""
    text = file_text(PACKAGE, name)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    text = "\n".join(lines).strip()
    for parameter, variable in variables.items():
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


def claim() -> str:
    """Return the function of a claim."""
    find, lease, read = (
        text_of(name, OF_CLAIM).removesuffix(";")
        for name in ("find_turns", "lease_turns", "read_visible")
    )
    return CLAIM_HEAD + find + CLAIM_MIDDLE + lease + CLAIM_READ + read + CLAIM_TAIL


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
    checks = parser.parse_args().check
    texts = {MIGRATION: migration(MIGRATION.read_text(encoding="utf-8")), CLAIMS: claim()}
    for file, made in texts.items():
        if not checks:
            file.write_text(made, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != made:
            sys.stderr.write(f"{file.name} is old; run: python tools/make_functions.py\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
