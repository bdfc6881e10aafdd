"""The `perdure` command.

Every command is declared here and done elsewhere: what it needs is imported when it is run, so that
help and completion stay quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TypeVar

import click

from perdure.cli.output import errors_as_lines

MAX_PROCESSES = 512

F = TypeVar("F", bound=Callable[..., object])


def _store_option(command: F) -> F:
    return click.option(
        "--store",
        "url",
        metavar="URL",
        default=lambda: os.environ.get("PERDURE_STORE", "sqlite:///perdure.db"),
        help="Where the store is: sqlite:///shop.db or postgresql://user@host/database."
        "  [default: $PERDURE_STORE, or sqlite:///perdure.db]",
    )(command)


@click.group()
@click.version_option(package_name="perdure", message="perdure %(version)s")
def cli() -> None:
    """Durable execution for Python."""


@cli.command()
@click.option("--seconds", default=1.0, show_default=True, help="How long each activity takes.")
def demo(seconds: float) -> None:
    """Run an order, kill its worker in the middle, start it again: the order goes on."""
    # Late: the demo brings the whole engine and, on a terminal, rich.
    from perdure.cli.demo import run_demo

    if seconds < 0.05:
        raise click.BadParameter(f"must be at least 0.05, got {seconds:g}", param_hint="--seconds")
    with errors_as_lines():
        report = run_demo(seconds)
    if report.repeated:
        sys.exit(1)


@cli.command()
@click.argument("target")
@_store_option
@click.option(
    "--processes",
    default=1,
    show_default=True,
    type=click.IntRange(1, MAX_PROCESSES),
    help="How many worker processes; one that dies is replaced.",
)
@click.option(
    "--name",
    help="A lasting name for the worker, so that its sessions are still its own after a restart."
    " Several processes get a number behind it.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    help="Take activity calls with this tag, and none without it; may be given several times."
    "  [default: untagged calls and the tags of the target's own activities]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="How many async and how many threaded activities may run at the same time in a process."
    "  [default: 1000 and 32]",
)
@click.option(
    "--stop-grace",
    "stop_grace_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long running activities may go on after SIGTERM or Ctrl-C.  [default: 10]",
)
def worker(
    target: str,
    url: str,
    processes: int,
    name: str | None,
    tags: tuple[str, ...],
    concurrency: int | None,
    stop_grace_s: float | None,
) -> None:
    """Run the definitions of TARGET until SIGTERM or Ctrl-C.

    TARGET is a module (shop.orders), a file (shop/orders.py), or a name in one of them
    (shop.orders:registry): a registry, a list of definitions, or a single one.

    A second signal grants running activities no more time: they are given back, and run again
    elsewhere.
    """
    from perdure.cli.worker import WorkerSettings, run_worker  # late: brings the engine

    settings = WorkerSettings(
        url=url,
        target=target,
        name=name,
        tags=tags,
        concurrency=concurrency,
        stop_grace_s=stop_grace_s,
    )
    with errors_as_lines(url):
        sys.exit(run_worker(settings, processes))


@cli.command()
@_store_option
@click.option("--schema", metavar="NAME", help="PostgreSQL: the schema of the tables.")
@click.option(
    "--print", "is_print", is_flag=True, help="Print the SQL of all migrations; do nothing."
)
@click.option(
    "--check", "is_check", is_flag=True, help="Exit with 1 if one is missing; do nothing."
)
def migrate(url: str, schema: str | None, is_print: bool, is_check: bool) -> None:
    """Bring the tables of a store up to date.

    Workers and clients do it by themselves when they may. Where only an owner may change tables,
    run this, or what --print prints (with psql or sqlite3), before a new version is deployed.
    """
    from perdure.cli import migrate as job  # late: brings the store

    if is_print and is_check:
        raise click.UsageError("--print and --check are two things: give one of them")
    with errors_as_lines(url):
        url = job.url_with(url, schema)
        if is_print:
            click.echo(job.read_script(url), nl=False)
        elif is_check:
            missing = job.read_migrations(url).missing
            click.echo(f"missing: {job.described(missing)}" if missing else "up to date")
            sys.exit(1 if missing else 0)
        else:
            applied = job.migrate(url)
            click.echo(f"applied: {job.described(applied)}" if applied else "up to date")


@cli.command()
@click.option("--schema", metavar="NAME", default="perdure", show_default=True)
def roles(schema: str) -> None:
    """Print SQL that makes roles for PostgreSQL: owner, worker and reader of a schema.

    Run it once with psql as somebody who may create roles, before or after the first migration.
    """
    from perdure.cli.migrate import read_roles  # late: brings the store

    with errors_as_lines():
        click.echo(read_roles(schema), nl=False)


@cli.command()
@_store_option
@click.option("--deep", is_flag=True, help="Also check what takes long or much memory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(url: str, deep: bool, as_json: bool) -> None:
    """Check the settings that matter, the tables and what is in them, and say what to do.

    Exits with 1 if something fails; a warning is none.
    """
    from perdure.cli import doctor as job  # late: brings the store

    with errors_as_lines(url):
        findings = job.examine(url, is_thorough=deep)
    job.show(url, findings, as_json=as_json)
    sys.exit(job.exit_code(findings))


@cli.command()
@_store_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on.")
@click.option("--port", default=8321, show_default=True, help="0: any that is free.")
@click.option("--read-only", is_flag=True, help="Show, and change nothing.")
@click.option(
    "--tokens", "tokens_file", metavar="FILE", help="Tokens that programs may show, as hashes."
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which it may be asked for, besides its address.",
)
@click.option(
    "--insecure-no-auth", is_flag=True, help="Let everybody who reaches it do everything."
)
def ui(
    url: str,
    host: str,
    port: int,
    read_only: bool,
    tokens_file: str | None,
    allow_hosts: tuple[str, ...],
    insecure_no_auth: bool,
) -> None:
    """Serve the web pages and the HTTP API of a store, to this machine unless told otherwise.

    It prints an address with a key in it; the first visit turns the key into a cookie.
    """
    with errors_as_lines(url):
        from perdure.cli.ui import UiSettings, run_ui  # late: brings the web

        settings = UiSettings(
            url=url,
            host=host,
            port=port,
            read_only=read_only,
            tokens_file=tokens_file,
            allow_hosts=allow_hosts,
            insecure_no_auth=insecure_no_auth,
        )
        sys.exit(run_ui(settings))
