"""`perdure doctor`: look at everything that matters for a store, and say what to do.

It never changes the tables. What needs them (the checker, counts, workers) is left out if they are
not up to date. What is stored is held against the invariants for a minute, or all of it if asked.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

import click

from perdure.checking.checkup import Checkup, check_slices
from perdure.cli.interruptible import run_interruptibly
from perdure.cli.output import printable
from perdure.client.client import Client
from perdure.errors import SchemaError, StoreError
from perdure.ids import fresh_id
from perdure.model.admin import PAGE_MAX, InstanceFilter
from perdure.model.instances import PARTS, Status
from perdure.store.base import Store
from perdure.store.contents import Sliced
from perdure.store.findings import Finding, Level, fail, ok, warn, worst
from perdure.store.opening import open_store
from perdure.store.upkeep import look_at_schema, upkeep_for
from perdure.store.urls import shown_url

SAMPLE_S = 60.0
"""For how long what is stored is held against the invariants, if not all of it is to be. A store
that needs longer is checked in part, another part each time."""

SILENT_AFTER_MS = 60_000
"""A worker gives a sign of life every 10 seconds."""

LISTED = 5
"""How many violations, workers and instances are named."""

NUMBERS = "docs/reference/invariants.md"
"""The page of the project that says what each number promises."""

UNREADABLE = "mend this first: workers cannot read it either"


Tell = Callable[[str], None]
"""Is told what is being looked at."""


def examine(
    url: str,
    *,
    is_thorough: bool,
    sample_s: float | None = None,
    tell: Tell = lambda progress: None,
) -> list[Finding]:
    """Look at a store.

    Args:
        url: Where it is.
        is_thorough: Look at everything, also if it takes long.
        sample_s: If not: for how long what is stored is held against the invariants; by default
            `SAMPLE_S`.
        tell: Is told what is being looked at, and how far that is.

    Raises:
        StoreError: It cannot be reached, or there is no store of ours.
    """
    upkeep = upkeep_for(url)
    migrations = upkeep.migrations()
    if migrations.is_new:
        raise SchemaError(
            f"there is no perdure store at {upkeep.shown} yet; run: perdure migrate, or start a "
            "worker"
        )
    tell("the database")
    findings = [*upkeep.examine(is_thorough=is_thorough), look_at_schema(migrations)]
    if migrations.missing:
        return findings
    for_s = None if is_thorough else SAMPLE_S if sample_s is None else sample_s
    return [*findings, *run_interruptibly(_look_inside(url, for_s, tell))]


async def _look_inside(url: str, for_s: float | None, tell: Tell) -> list[Finding]:
    store = open_store(url)
    try:
        await store.open()
    except StoreError as error:
        return [fail("open", str(error), UNREADABLE)]
    try:
        tell("workers, instances in trouble, dead jobs, projections, schedules")
        return [
            await _tried("workers", _look_at_workers(store)),
            await _tried("parked", _look_at_status(store, Status.PARKED)),
            await _tried("blocked", _look_at_status(store, Status.BLOCKED)),
            await _tried("dead jobs", _look_at_dead_jobs(store)),
            await _tried("projections", _look_at_readers(store)),
            await _tried("schedules", _look_at_schedules(url, store)),
            await _tried("invariants", _look_at_invariants(store, for_s, tell)),
        ]
    finally:
        await store.close()


async def _tried(check: str, look: Awaitable[Finding]) -> Finding:
    """Return what was found, or that it could not be looked at: the rest is worth knowing too."""
    try:
        return await look
    except StoreError as error:
        return fail(check, str(error), UNREADABLE)


async def _look_at_workers(store: Store) -> Finding:
    workers = await store.read_workers(seen_since_ms=0)
    now_ms = store.clock()
    alive = [one for one in workers if now_ms - one.seen_ms <= SILENT_AFTER_MS]
    silent = [
        f"{one.worker_id} (last seen {(now_ms - one.seen_ms) // 1000} s ago)"
        for one in workers
        if one not in alive
    ]
    found = f"{len(alive)} at work" + (f", {len(silent)} silent: {_listed(silent)}" * bool(silent))
    if not alive:
        return warn("workers", found, "nothing goes on without one: run perdure worker TARGET")
    if silent:
        return warn("workers", found, "they died or hang; what they held is taken over by others")
    return ok("workers", f"{found}: {_listed([one.worker_id for one in alive])}")


async def _look_at_status(store: Store, status: Status) -> Finding:
    wanted = InstanceFilter(statuses=(status,))
    count = await store.admin.count_instances(wanted)
    if not count:
        return ok(status.value, "none")
    rows = await store.admin.list_instances(wanted, limit=LISTED)
    found = f"{count}: {_listed([row.instance_id for row in rows], count)}"
    return warn(status.value, found, "see perdure explain ID, or client.handle(ID).explain()")


async def _look_at_dead_jobs(store: Store) -> Finding:
    jobs = await store.admin.read_dead_jobs(limit=PAGE_MAX)
    if not jobs:
        return ok("dead jobs", "none")
    count = f"{len(jobs)} or more" if len(jobs) == PAGE_MAX else str(len(jobs))
    names = sorted({job.queue.name for job in jobs})
    advice = "see perdure job list --dead; then perdure job retry KEY or perdure job forget KEY"
    return warn("dead jobs", f"{count}, of {_listed(names)}", advice)


async def _look_at_readers(store: Store) -> Finding:
    checkpoints = await store.feed.read_checkpoints()
    stuck = [one.name for one in checkpoints if one.status == "stuck"]
    if stuck:
        return warn(
            "projections",
            f"stuck: {_listed(stuck)}",
            "see perdure projection list, or client.projections()",
        )
    return ok("projections", f"{len(checkpoints)}, none stuck" if checkpoints else "none")


async def _look_at_schedules(url: str, store: Store) -> Finding:
    async with Client(url) as client:
        schedules = await client.schedules()
    workers = await store.read_workers(seen_since_ms=store.clock() - SILENT_AFTER_MS)
    declared = {one.name for row in workers for one in row.definitions if one.kind == "schedule"}
    orphans = [one.name for one in schedules if one.declared and one.name not in declared]
    if orphans and workers:
        return warn(
            "schedules",
            f"declared by code that no live worker has: {_listed(orphans)}",
            "they go on: start a worker with that code, or run perdure schedule delete NAME",
        )
    return ok("schedules", str(len(schedules)) if schedules else "none")


async def _look_at_invariants(store: Store, for_s: float | None, tell: Tell) -> Finding:
    assert isinstance(store, Sliced)
    with _no_collector():
        checkup = await check_slices(
            store,
            for_s=for_s,
            # Another sample each time, so that looks at a large store see different parts of it.
            first_part=fresh_id() % PARTS,
            tell=lambda so_far: tell(f"invariants: {seen_of(so_far)}"),
        )
    if not checkup.found and checkup.is_whole:
        return ok("invariants", f"all hold in {seen_of(checkup)}")
    if not checkup.found:
        return Finding(
            check="invariants",
            level=Level.OK,
            found=f"hold in a sample: {seen_of(checkup)}, all that {for_s:g} s were enough for",
            advice="run perdure doctor --deep to check all of it",
        )
    shown = [f"{one.invariant} {one.instance_id}: {one.problem}" for one in checkup.violations]
    return fail(
        "invariants",
        f"{checkup.found:,} broken in {seen_of(checkup)}: {_listed(shown, checkup.found)}",
        "rows were changed by hand or the database is damaged, or it is a fault of perdure: report "
        f"it with this output; the numbers are explained in {NUMBERS}",
    )


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the collector out: rows have no cycles, and it would go through them all the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def seen_of(checkup: Checkup) -> str:
    """Return how much was looked at, for people."""
    share = "" if checkup.is_whole else f" ({checkup.share:.0%} of the store)"
    return f"{checkup.instances:,} instances with {checkup.events:,} events{share}"


def _listed(items: list[str], count: int | None = None) -> str:
    more = (len(items) if count is None else count) - LISTED
    return ", ".join(items[:LISTED]) + (f" and {more} more" if more > 0 else "")


# ------------------------------------------------------------------- showing it


def progress_line() -> Tell:
    """Return who shows on a terminal what is being looked at, in one line that is written over."""
    if not sys.stderr.isatty():
        return lambda progress: None

    def tell(progress: str) -> None:
        click.echo(f"\r\x1b[Klooking at {printable(progress)}", err=True, nl=False)

    return tell


def end_progress() -> None:
    """Remove the line that told how far it is."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def show(url: str, findings: list[Finding], *, as_json: bool) -> None:
    """Write findings: JSON, a table on a terminal, or lines with tabs for a pipe."""
    if as_json:
        click.echo(_json(url, findings))
    elif sys.stdout.isatty():
        _show_table(url, findings)
    else:
        for line in _rows(findings):
            click.echo("\t".join(line))


def exit_code(findings: list[Finding]) -> int:
    """Return 1 if something fails."""
    return int(worst(findings) is Level.FAIL)


def _rows(findings: Iterable[Finding]) -> list[tuple[str, str, str, str]]:
    return [
        (one.level.value, one.check, printable(one.found), printable(one.advice))
        for one in findings
    ]


def _json(url: str, findings: list[Finding]) -> str:
    shown = [
        {"check": one.check, "level": one.level, "found": one.found, "advice": one.advice}
        for one in findings
    ]
    whole = {"store": shown_url(url), "level": worst(findings), "findings": shown}
    return json.dumps(whole, indent=2)


def _show_table(url: str, findings: list[Finding]) -> None:
    # Late: rich is needed on a terminal only.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = {"ok": "green", "skipped": "dim", "warn": "yellow", "fail": "bold red"}
    table = Table(title=f"store {shown_url(url)}", title_justify="left", box=None, padding=(0, 1))
    for heading in ("", "check", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for level, *cells in _rows(findings):
        table.add_row(Text(level, style=styles[level]), *map(Text, cells))
    Console().print(table)
