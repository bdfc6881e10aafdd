"""`perdure db`, `sql`, `migrate`, `roles` and `doctor`: the database itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from perdure.cli import migrate as migrating
from perdure.cli.commands.removal import prune_command
from perdure.cli.exit_codes import ExitCode
from perdure.cli.forms import Column, Listing, json_line, json_text
from perdure.cli.opening import ask, require_store
from perdure.cli.options import DURATION, database_option, form_options, store_option
from perdure.cli.output import errors_as_lines, printable, say
from perdure.client.remote.urls import is_remote
from perdure.store.read_only_query import QueryAnswer
from perdure.store.urls import shown_url

MAX_SQL_ROWS = 100_000

FACTS = Listing[tuple[str, Any]](
    columns=(Column("what", lambda one: one[0]), Column("value", lambda one: one[1])),
)

# ---------------------------------------------------------------------------- db


@click.group("db")
def db_command() -> None:
    """Look after the database."""


@db_command.command("info")
@form_options
@store_option
def show_info(form: str, url: str) -> None:
    """Show what is in the store: how many instances of each status, events, jobs.

    A server does not tell the migration and the size of its database.
    """
    facts: dict[str, Any] = {"store": shown_url(url)}
    if not is_remote(url):
        upkeep = require_store(url)
        migrations = upkeep.migrations()
        facts["migration"] = len(migrations.known) - len(migrations.missing)
        facts["size_bytes"] = upkeep.size_bytes()
    totals = ask(url, lambda client: client.metrics())
    counts = {name: getattr(totals, name) for name in totals.__struct_fields__}
    if form in ("json", "jsonl"):
        whole = facts | counts
        click.echo(json_text(whole) if form == "json" else json_line(whole))
        return
    by_status = counts.pop("instances")
    rows = [*facts.items(), *((f"instances {one}", by_status[one]) for one in sorted(by_status))]
    FACTS.show(form, [*rows, *counts.items()])


@db_command.command("size")
@form_options
@database_option
def show_size(form: str, url: str) -> None:
    """Print how many bytes the store takes, roughly."""
    size = require_store(url).size_bytes()
    if form in ("json", "jsonl"):
        click.echo(json_line({"size_bytes": size}))
    elif form in ("table", "wide"):
        click.echo(f"{size:,} bytes ({size / (1 << 20):,.1f} MiB)")
    else:
        click.echo(size)


@db_command.command("backup")
@click.argument("file", type=click.Path(dir_okay=False))
@form_options
@database_option
def backup(file: str, form: str, url: str) -> None:
    """Write a copy of an SQLite store to FILE, as it is at one moment, while workers go on.

    FILE is new, for its owner only, and there when it is whole. For PostgreSQL use pg_dump.
    """
    size = require_store(url).backup(file)
    if form in ("json", "jsonl"):
        click.echo(json_line({"file": file, "size_bytes": size}))
    else:
        click.echo(f"{printable(file)}\t{size}")


# --------------------------------------------------------------------------- sql


@click.command("sql")
@click.argument("statement")
@click.option("--timeout", type=DURATION, default="10s", show_default=True, help="How long.")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_SQL_ROWS),
    default=1_000,
    show_default=True,
    help="How many rows at most.",
)
@form_options
@database_option
def sql_command(statement: str, timeout: timedelta, limit: int, form: str, url: str) -> None:
    """Ask the database something: perdure sql "select status, count(*) from instances group by 1"

    The database itself lets it do nothing but read. The tables are described in ARCHITECTURE.md;
    they may change with every release, unlike the other commands.
    """
    upkeep = require_store(url)
    answer = upkeep.query(statement, within_s=timeout.total_seconds(), limit=limit)
    if answer.is_cut:
        say(f"the first {limit:,} rows are shown: --limit N for more")
    _listing_of(answer).show(form, answer.rows)


def _listing_of(answer: QueryAnswer) -> Listing[Sequence[Any]]:
    def column(place: int, name: str) -> Column[Sequence[Any]]:
        return Column(name, lambda row: _cell(row[place]))

    return Listing[Sequence[Any]](
        columns=[column(place, name) for place, name in enumerate(answer.columns)],
        json=lambda row: dict(zip(answer.columns, map(_json, row), strict=True)),
    )


def _cell(value: Any) -> str | None:
    found = _json(value)
    return None if found is None else json_line(found) if not isinstance(found, str) else found


def _json(value: Any) -> Any:
    """Return a value of the database as JSON has it."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.hex()
    return value if isinstance(value, int | float | str | None) else str(value)


# ----------------------------------------------------------------------- upkeep


@click.command("migrate")
@click.option("--schema", metavar="NAME", help="PostgreSQL: the schema of the tables.")
@click.option(
    "--print", "is_print", is_flag=True, help="Print the SQL of all migrations; do nothing."
)
@click.option(
    "--check", "is_check", is_flag=True, help="Exit with 1 if one is missing; do nothing."
)
@database_option
def migrate_command(url: str, schema: str | None, is_print: bool, is_check: bool) -> None:
    """Bring the tables of a store up to date.

    Workers and clients do it by themselves when they may. Where only an owner may change tables,
    run this, or what --print prints (with psql or sqlite3), before a new version is deployed.
    """
    if is_print and is_check:
        raise click.UsageError("--print and --check are two things: give one of them")
    url = migrating.url_with(url, schema)
    if is_print:
        click.echo(migrating.read_script(url), nl=False)
    elif is_check:
        missing = migrating.read_migrations(url).missing
        click.echo(f"missing: {migrating.described(missing)}" if missing else "up to date")
        sys.exit(ExitCode.FAILED if missing else ExitCode.GOOD)
    else:
        applied = migrating.migrate(url)
        click.echo(f"applied: {migrating.described(applied)}" if applied else "up to date")


db_command.add_command(migrate_command)
db_command.add_command(prune_command)


@click.command("roles")
@click.option(
    "--schema",
    metavar="NAME",
    default="perdure",
    show_default=True,
    help="The schema of the tables.",
)
def roles_command(schema: str) -> None:
    """Print SQL that makes roles for PostgreSQL: owner, worker and reader of a schema.

    Run it once with psql as a role that may create roles, before or after the first migration.
    """
    with errors_as_lines():
        click.echo(migrating.read_roles(schema), nl=False)


@click.command("doctor")
@click.option(
    "--deep", is_flag=True, help="Check all that is stored, however long that takes, not a sample."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_option
def doctor_command(url: str, deep: bool, as_json: bool) -> None:
    """Check the settings that matter, the tables and what is in them, and say what to do.

    What is stored is held against everything perdure promises, for a minute: that is all of a
    store of up to some hundred thousand instances, and a sample of a larger one, another one
    each time.

    Exits with 1 if something fails; a warning is none.
    """
    from perdure.cli import doctor  # late: brings the checker

    try:
        findings = doctor.examine(url, is_thorough=deep, tell=doctor.progress_line())
    finally:
        doctor.end_progress()
    doctor.show(url, findings, as_json=as_json)
    sys.exit(doctor.exit_code(findings))
