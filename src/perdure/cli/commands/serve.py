"""`perdure worker` and `perdure dev`: serve definitions."""

from __future__ import annotations

import sys
from typing import Any

import click

from perdure.cli.options import database_option
from perdure.cli.serving.worker_flags import said_flags, worker_flags
from perdure.cli.settings import read_setting
from perdure.errors import UsageError

MAX_PROCESSES = 512


@click.command("worker")
@click.argument("target", required=False)
@database_option
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
@click.option(
    "--http",
    metavar="ADDRESS",
    help="Answer /healthz, /readyz, /metrics and /demand there: :9090 for this machine alone, "
    "0.0.0.0:9090 for others too. Each of several processes has the next port.",
)
@click.option(
    "--http-tokens",
    metavar="FILE",
    help="Tokens that /metrics and /demand ask for, as hashes; with --http.",
)
@click.option(
    "--insecure-no-auth",
    is_flag=True,
    help="Tell /metrics and /demand to everybody who reaches --http.",
)
@click.option(
    "--code",
    metavar="DIGEST",
    help="Refuse to run any other code: how the digest begins that `perdure history` shows with "
    "the start of an instance, and a mismatch beside it. For a worker with the code of before.",
)
@click.option(
    "--systemd",
    "is_unit",
    is_flag=True,
    help="Tell systemd when it works and stops, and with WatchdogSec= that it lives: for a unit "
    "with Type=notify.",
)
@worker_flags
def worker_command(
    target: str | None,
    url: str,
    processes: int,
    name: str | None,
    tags: tuple[str, ...],
    concurrency: int | None,
    stop_grace_s: float | None,
    http: str | None,
    http_tokens: str | None,
    insecure_no_auth: bool,
    code: str | None,
    is_unit: bool,
    **flags: Any,
) -> None:
    """Run the definitions of TARGET until SIGTERM or Ctrl-C.

    TARGET is a module (shop.orders), a file (shop/orders.py), or a name in one of them
    (shop.orders:registry): a registry, a list of definitions, or a single one. Without it,
    $PERDURE_TARGET or target in [tool.perdure].

    A second signal grants running activities no more time: they are given back, and run again
    elsewhere.

    Lengths of time are written 500ms, 30s, 1h30m, 2d.
    """
    from perdure.cli.serving.worker import WorkerSettings, run_worker  # late: brings the engine

    others = said_flags(flags)
    if concurrency is not None and {"async_jobs", "threaded_jobs"} & others.keys():
        raise UsageError("--concurrency is --async-jobs and --threaded-jobs: give one")
    found = _chosen_target(target, "worker")
    if http is None and (http_tokens is not None or insecure_no_auth):
        raise UsageError("--http-tokens and --insecure-no-auth are about --http: give that too")
    settings = WorkerSettings(
        url=url,
        target=found,
        name=name,
        tags=tags,
        concurrency=concurrency,
        stop_grace_s=stop_grace_s,
        http=http,
        http_tokens=http_tokens,
        insecure_no_auth=insecure_no_auth,
        others=others,
    )
    sys.exit(run_worker(settings, processes, code=code, is_unit=is_unit))


@click.command("dev")
@click.argument("target", required=False)
@database_option
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8321,
    show_default=True,
    help="Of the pages; 0: any that is free.",
)
@click.option("--ui/--no-ui", "has_pages", default=True, help="Whether to serve the pages.")
@click.option("--reload/--no-reload", "reloads", default=True, help="Whether to watch the files.")
@click.option("--open", "opens", is_flag=True, help="Open the pages in a browser.")
def dev_command(
    target: str | None, url: str, port: int, has_pages: bool, reloads: bool, opens: bool
) -> None:
    """Run the definitions of TARGET with the web pages beside them, and anew when a file changes.

    TARGET is what `perdure worker` takes. Python files in its folder and below are watched. Code
    that cannot be imported is said, and the code from before goes on. Ctrl-C ends everything.
    """
    from perdure.cli.serving.dev import DevSettings, run_dev  # late: brings the parent alone

    settings = DevSettings(
        url=url,
        target=_chosen_target(target, "dev"),
        port=port,
        has_pages=has_pages,
        reloads=reloads,
        opens=opens,
    )
    sys.exit(run_dev(settings))


def _chosen_target(said: str | None, command: str) -> str:
    found = read_setting("target", said).value
    if not found:
        raise UsageError(
            f"which definitions? Name a module or file, as in perdure {command} shop.py, or set "
            "$PERDURE_TARGET or target in [tool.perdure]"
        )
    return found
