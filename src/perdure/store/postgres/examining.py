"""What an examination of a PostgreSQL server makes of its answers. Pure: rows in, findings out."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from perdure.store.findings import Finding, fail, ok, warn
from perdure.store.postgres.database import OLDEST_SERVER
from perdure.store.postgres.readers import READERS
from perdure.store.postgres.store import LANES

NEWEST_SERVER = 18
"""The newest version that perdure was made for."""

MAX_CLOCK_DIFFERENCE_MS = 1_000
CONNECTIONS_PER_PROCESS = len(LANES) + READERS + 1
"""Those that write, those that read, one that listens."""
MAX_USED = 0.8
"""Which part of the connections may be in use before it is said."""
MANY_DEAD_ROWS = 20_000
MANY_TRANSACTIONS = 1_000_000
"""How far behind the oldest transaction of a slot may be."""
MUCH_WAL_BYTES = 1 << 30
LISTED = 3
"""How many sessions, slots and so on are named."""
SAFE_SSLMODE = "verify-full"

SeenRows = Sequence[tuple[Any, ...]]


def look_at_version(text: str) -> Finding:
    """Look at the server's version: `15.18 (Debian 15.18-0)`."""
    found = re.match(r"\d+", text)
    major = int(found[0]) if found else 0
    if major < OLDEST_SERVER:
        return fail("PostgreSQL", text, f"upgrade the server: perdure needs {OLDEST_SERVER}")
    if major > NEWEST_SERVER:
        made_for = f"this perdure was made for {OLDEST_SERVER} to {NEWEST_SERVER}"
        return warn("PostgreSQL", text, f"{made_for}: look for a newer one")
    return ok("PostgreSQL", text)


def look_at_role(is_standby: bool, read_only: str) -> Finding:
    """Look at whether the server lets its clients write."""
    if is_standby:
        return fail("writable", "a standby, which only reads", "give the address of the primary")
    if read_only == "on":
        advice = "ALTER DATABASE ... SET default_transaction_read_only = off"
        return fail("writable", "default_transaction_read_only is on", advice)
    return ok("writable", "yes")


def look_at_durability(settings: Mapping[str, str]) -> list[Finding]:
    """Look at whether what was committed survives a crash of the server or the machine."""
    findings = []
    if settings["fsync"] == "on":
        findings.append(ok("fsync", "on"))
    else:
        risk = "a loss of power can destroy the database: ALTER SYSTEM SET fsync = on"
        findings.append(fail("fsync", settings["fsync"], risk))
    commit = settings["synchronous_commit"]
    if commit == "off":
        risk = "a crash loses what was acknowledged: ALTER SYSTEM SET synchronous_commit = on"
        findings.append(fail("synchronous_commit", commit, risk))
    elif commit == "local":
        risk = "a failover loses what the standby has not got yet: SET synchronous_commit = on"
        findings.append(warn("synchronous_commit", commit, risk))
    else:
        findings.append(ok("synchronous_commit", commit))
    if settings["full_page_writes"] == "on":
        findings.append(ok("full_page_writes", "on"))
    else:
        risk = (
            "a crash of the machine can tear pages, unless the file system prevents it: "
            "ALTER SYSTEM SET full_page_writes = on"
        )
        findings.append(warn("full_page_writes", settings["full_page_writes"], risk))
    return findings


def look_at_clock(database_ms: int, *, between: tuple[int, int]) -> Finding:
    """Look at how far this machine's clock is from the database's.

    Args:
        database_ms: What the database said.
        between: This machine's time before it was asked, and after it had answered.
    """
    before_ms, after_ms = between
    early_ms, late_ms = before_ms - database_ms, database_ms - after_ms
    difference_ms = max(early_ms, late_ms, 0)
    if difference_ms <= MAX_CLOCK_DIFFERENCE_MS:
        return ok(
            "clock", f"within {max(difference_ms, after_ms - before_ms)} ms of this machine's"
        )
    which = "behind" if early_ms > 0 else "ahead of"
    return warn(
        "clock",
        f"the database's is {difference_ms / 1000:.1f} s {which} this machine's",
        "leases and timers go by the database's clock, so nothing breaks, but times in logs do not "
        "fit: synchronise both with NTP",
    )


def look_at_autovacuum(settings: Mapping[str, str]) -> list[Finding]:
    """Look at whether rows that were removed are cleaned up."""
    off = [name for name in ("autovacuum", "track_counts") if settings[name] != "on"]
    if not off:
        return [ok("autovacuum", "on")]
    advice = "tables grow and become slow without end: ALTER SYSTEM SET {} = on"
    return [fail("autovacuum", f"{name} is off", advice.format(name)) for name in off]


def look_at_transactions(rows: SeenRows, sees_others: bool) -> Finding:
    """Look at transactions that have been open for more than a minute."""
    check = "old transactions"
    if rows:
        who = [
            f"process {pid}, {role}{f' ({program})' if program else ''}, {state or 'state hidden'},"
            f" {_age(age_s)}"
            for pid, role, program, state, age_s in rows
        ]
        advice = "rows removed since cannot be cleaned up: SELECT pg_terminate_backend(PROCESS)"
        return warn(check, _listed(who), advice)
    if not sees_others:
        return warn(
            check,
            "none of this role; others' cannot be seen",
            "GRANT pg_read_all_stats to this role, or ask as another",
        )
    return ok(check, "none older than a minute")


def look_at_prepared(rows: SeenRows) -> Finding:
    """Look at two-phase commits that were not ended."""
    if rows:
        who = [f"{name!r} of {role}, {_age(age_s)}" for name, role, age_s in rows]
        advice = "rows removed since cannot be cleaned up: COMMIT PREPARED or ROLLBACK PREPARED"
        return warn("prepared transactions", _listed(who), advice)
    return ok("prepared transactions", "none older than a minute")


def look_at_slots(rows: SeenRows) -> Finding:
    """Look at replication slots that keep old rows or WAL."""
    behind = [
        f"{name}, {'read' if is_active else 'read by nobody'}, {age or 0:,} transactions and "
        f"{(wal_bytes or 0) >> 20:,} MiB of WAL behind"
        for name, is_active, age, wal_bytes in rows
        if not is_active or (age or 0) > MANY_TRANSACTIONS or (wal_bytes or 0) > MUCH_WAL_BYTES
    ]
    if behind:
        advice = (
            "old rows or WAL cannot be removed: start its reader, or "
            "SELECT pg_drop_replication_slot(NAME)"
        )
        return warn("replication slots", _listed(behind), advice)
    return ok("replication slots", f"{len(rows)}, none behind" if rows else "none")


def look_at_tls(dsn: str, rows: SeenRows, *, default_mode: str) -> Finding:
    """Look at how the connection is protected (SEC-27).

    Args:
        dsn: The URL as the driver gets it.
        rows: What the server says of this connection.
        default_mode: The `sslmode` where the URL names none.
    """
    options = dict(parse_qsl(urlsplit(dsn).query))
    mode = options.get("sslmode", default_mode)
    is_encrypted, version = rows[0] if rows else (False, None)
    found = f"sslmode {mode}, {version if is_encrypted else 'not encrypted'}"
    remote = [host for host in _hosts(dsn) if not _is_local(host)]
    if remote and mode != SAFE_SSLMODE:
        return warn(
            "TLS",
            f"{', '.join(remote)}: {found}",
            f"whoever is in between can read and change everything: add sslmode={SAFE_SSLMODE} "
            "(and sslrootcert=FILE) to the store URL",
        )
    return ok("TLS", found if remote else f"{found}, on this machine")


def look_at_connections(settings: Mapping[str, str], used: int) -> Finding:
    """Look at how many connections are left."""
    most = int(settings["max_connections"]) - int(settings["superuser_reserved_connections"])
    free = most - used
    found = f"{used} of {most} in use; a worker process takes {CONNECTIONS_PER_PROCESS}"
    if free < CONNECTIONS_PER_PROCESS or used > most * MAX_USED:
        advice = (
            "raise max_connections, or put a pooler in between and add pooler=transaction to the "
            "store URL"
        )
        return warn("connections", found, advice)
    return ok("connections", f"{found}: room for {free // CONNECTIONS_PER_PROCESS} more")


def look_at_dead_rows(rows: SeenRows, schema: str) -> Finding:
    """Look at rows that wait to be cleaned up in the tables that change most."""
    many = [
        f"{table}: {dead:,} beside {alive:,} live ones, cleaned up last {at or 'never'}"
        for table, alive, dead, at in rows
        if dead > MANY_DEAD_ROWS and dead > alive
    ]
    if many:
        tables = ", ".join(f"{schema}.{table}" for table, *_ in rows)
        advice = f"see old transactions and slots above, then: VACUUM {tables}"
        return warn("dead rows", _listed(many), advice)
    counts = ", ".join(f"{table} {dead:,}" for table, _, dead, _ in rows)
    return ok("dead rows", counts or "none")


def _listed(items: Sequence[str]) -> str:
    more = len(items) - LISTED
    return "; ".join(items[:LISTED]) + (f"; and {more} more" if more > 0 else "")


def _age(seconds: int) -> str:
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3_600} h {seconds % 3_600 // 60} min"


def _hosts(dsn: str) -> list[str]:
    """Return the hosts that a URL names, folders of sockets too; none for the usual socket."""
    parts = urlsplit(dsn)
    named = dict(parse_qsl(parts.query)).get("host")
    if named:
        return named.split(",")
    places = parts.netloc.rpartition("@")[2].split(",")
    hosts = (re.sub(r":\d*$", "", place).strip("[]") for place in places)
    return [unquote(host) for host in hosts if host]


def _is_local(host: str) -> bool:
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
