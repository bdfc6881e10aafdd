"""Servers that cannot be had or are not what they should be: a clear error, or a quiet recovery."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from socket import socket
from typing import Any, TypeAlias

import asyncpg
import psycopg
import pytest

from perdure.checking.invariants import check
from perdure.clock import ManualClock
from perdure.errors import (
    SchemaError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    UsageError,
)
from perdure.model.hints import Hint
from perdure.model.turns import TurnStatus
from perdure.store.base import Store
from perdure.store.opening import open_store
from perdure.store.postgres import database, faults
from perdure.store.postgres import store as store_module
from tests import rows
from tests.contract.store_values import (
    SCHEDULED,
    begun,
    message,
    next_turn,
)
from tests.engine.stage import until
from tests.postgres import ROLE, SUPERUSER, Server, Standby
from tests.wire import Proxy

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests may stop and configure."""
    with Server(durable=True) as server:
        yield server


def as_superuser(server: Server, *statements: str) -> None:
    with psycopg.connect(server.url("postgres", role=SUPERUSER), autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement.encode())


async def open_and_close(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()


async def refused(url: str, error: type[StoreError], match: str) -> float:
    """Open a store that cannot be opened; return how long that took."""
    began_s = time.monotonic()
    with pytest.raises(error, match=match) as raised:
        await open_and_close(url)
    assert "secret" not in str(raised.value)
    return time.monotonic() - began_s


# ---------------------------------------------------------------- who cannot be reached


async def test_a_port_where_nobody_listens_is_told() -> None:
    with closing(socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        await refused(
            f"postgresql://perdure:secret@127.0.0.1:{port}/x",
            StoreUnavailableError,
            f"perdure@127.0.0.1:{port}/x cannot be reached",
        )


async def test_a_host_without_an_address_is_told() -> None:
    await refused("postgresql://host.invalid/x", StoreUnavailableError, "cannot be reached")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.store.postgres.connection.CONNECT_WITHIN_S", 0.3)


async def test_a_host_that_takes_no_packet_is_given_up(impatient: None) -> None:
    """An address that is kept for documentation: some networks say so, others say nothing."""
    took_s = await refused(
        "postgresql://192.0.2.1/x", StoreUnavailableError, "cannot be reached|did not answer"
    )

    assert took_s < 5


async def test_a_host_that_takes_the_call_and_says_nothing_is_given_up(impatient: None) -> None:
    with closing(socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]

        took_s = await refused(
            f"postgresql://127.0.0.1:{port}/x", StoreUnavailableError, "did not answer in time"
        )

    assert took_s < 5


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("sslmode=perhaps", "sslmode"),
        ("sslmode=verify-full&sslrootcert=/nowhere/root.crt", "root"),
        ("pooler=statement", "pooler='statement' is not known"),
        ("schema=", "must have 1 to 63 bytes"),
        ("schema=pg_mine", "PostgreSQL's own"),
        ("schema=%24function%24", "a name with a dollar sign"),
        ("schema=a%0Ab", "a name with a dollar sign, a line break"),
        ("schema=%00", "cannot be printed"),
    ],
)
async def test_an_option_that_means_nothing_is_a_mistake_of_the_caller(
    postgres_url: str, option: str, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        await open_and_close(f"{postgres_url}?{option}")


async def test_a_port_that_only_the_driver_sees_is_a_mistake_of_the_caller_too() -> None:
    with pytest.raises(UsageError, match="'odd'"):
        await open_and_close("postgresql:///x?host=127.0.0.1:odd")


def test_a_certificate_that_is_refused_is_trouble_of_the_server_and_not_of_a_value() -> None:
    refused = ssl.SSLCertVerificationError("certificate has expired")

    assert type(faults.ours("db", refused)) is StoreUnavailableError


def test_a_server_without_disk_space_is_a_full_store() -> None:
    full = faults.from_server("db", "53100", "could not extend file")
    crowded = faults.from_server("db", "53300", "too many clients")

    assert type(full) is StoreFullError
    assert type(crowded) is StoreUnavailableError


async def test_a_server_without_tls_is_told_to_who_insists(postgres_url: str) -> None:
    await refused(f"{postgres_url}?sslmode=require", StoreUnavailableError, "SSL|TLS")


async def test_a_server_without_tls_is_used_by_who_asks_for_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE")

    await open_and_close(postgres_url)


async def test_a_store_that_is_closed_at_once_ends_without_a_word(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its threads are doing just then; an error in one of them would fail the test."""
    for number in range(20):
        store = open_store(postgres_url)
        await store.open()
        if number % 2:
            await store.deliver([message(if_absent="buffer")])
        await store.close()

    assert caplog.records == []


async def test_what_the_driver_cannot_use_for_a_while_is_waited_for(
    store: Store, raw: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a certificate that is just being replaced. An error in a thread fails the test."""
    await begun(store)
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "nonsense")
    await raw.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    delivering = asyncio.ensure_future(store.deliver([message()]))
    await until(lambda: is_told("cannot be used", store))
    with pytest.raises(StoreUnavailableError, match="cannot be used"):
        await store.read_live("i")
    monkeypatch.delenv("PGTARGETSESSIONATTRS")

    assert await delivering == ["delivered"]


async def test_an_opening_that_is_cancelled_leaves_neither_threads_nor_connections(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, released = threading.Event(), threading.Event()

    def prepare_slowly(*args: Any, **settings: Any) -> None:
        database.prepare(*args, **settings)
        entered.set()
        assert released.wait(20)

    monkeypatch.setattr(store_module, "prepare", prepare_slowly)
    url = server.create_database()
    opening = asyncio.ensure_future(open_store(url).open())
    await until(entered.is_set)

    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    released.set()

    await until(lambda: not is_connected(url))
    assert not any(one.name.startswith("perdure-") for one in threading.enumerate())


async def test_an_opening_that_has_failed_can_be_tried_again(server: Server) -> None:
    store = open_store(server.url("late"))
    with pytest.raises(StoreUnavailableError, match="create it"):
        await store.open()
    as_superuser(server, f"CREATE DATABASE late OWNER {ROLE}")

    await store.open()
    await begun(store)
    await store.close()


def is_connected(url: str) -> bool:
    """Return whether anybody else is."""
    found = rows.run(
        url,
        "SELECT 1 FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    return bool(found)


# ------------------------------------------------------------------- who is not let in


@pytest.fixture(scope="module")
def locked_url(server: Server) -> str:
    """A database for a role whose password is asked for."""
    hba = server.data / "pg_hba.conf"
    hba.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")
    as_superuser(
        server, "CREATE ROLE locked LOGIN PASSWORD 'right secret'", "SELECT pg_reload_conf()"
    )
    return server.create_database().replace(f"{ROLE}@", "locked:PASSWORD@")


@pytest.mark.parametrize("password", ["wrong%20secret", ""])
async def test_a_wrong_password_is_told_without_it(locked_url: str, password: str) -> None:
    url = locked_url.replace("PASSWORD", password)

    await refused(url, StoreUnavailableError, "refuses the password|password")


async def test_a_right_password_is_taken_in_whatever_letters(
    locked_url: str, server: Server
) -> None:
    database = locked_url.rpartition("/")[2]
    as_superuser(server, f"GRANT CREATE ON DATABASE {database} TO locked")

    await open_and_close(locked_url.replace("PASSWORD", "right%20secret"))


async def test_an_unknown_role_is_told(server: Server) -> None:
    url = server.url("postgres", role="nobody")

    await refused(url, StoreUnavailableError, "refuses this user")


async def test_a_missing_database_is_told(server: Server) -> None:
    await refused(server.url("nowhere"), StoreUnavailableError, "has no such database; create it")


async def test_who_may_make_no_schema_is_told_what_to_do(server: Server) -> None:
    as_superuser(server, "CREATE ROLE guest LOGIN")
    url = server.create_database().replace(f"{ROLE}@", "guest@")

    await refused(url, StoreError, "does not let this user do that; see: perdure roles")


async def test_who_may_not_use_the_schema_is_told_what_to_do(server: Server) -> None:
    as_superuser(server, "CREATE ROLE stranger LOGIN")
    url = server.create_database()
    await open_and_close(url)

    await refused(
        url.replace(f"{ROLE}@", "stranger@"),
        StoreError,
        "does not let this user do that; see: perdure roles",
    )


async def test_a_schema_of_somebody_else_is_left_alone(server: Server) -> None:
    url = server.create_database()
    rows.run(url, "CREATE SCHEMA perdure")
    rows.run(url, "CREATE TABLE perdure.live (mine INT)")

    await refused(url, SchemaError, r"has tables, but not perdure's; give another one")
    await open_and_close(f"{url}?schema=other")

    assert rows.run(url, "SELECT count(*) FROM perdure.live") == [(0,)]


# ----------------------------------------------------------------- the wrong sort of server


async def test_an_old_server_is_told(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "OLDEST_SERVER", 99)

    await refused(postgres_url, StoreError, r"is PostgreSQL \d+; perdure needs 99 or newer")


async def test_a_schema_of_a_newer_release_is_left_alone(postgres_url: str) -> None:
    rows.run(
        postgres_url,
        "INSERT INTO migrations (migration_no, name, checksum, applied_ms)"
        " SELECT 999, 'later', checksum, 0 FROM migrations LIMIT 1",
    )

    await refused(postgres_url, SchemaError, "newer")


async def test_a_standby_is_told(server: Server) -> None:
    """With tables and without: neither can be written there."""
    migrated, empty = server.create_database(), server.create_database()
    await open_and_close(migrated)
    with await asyncio.to_thread(Standby, server) as standby:
        name = migrated.rpartition("/")[2]
        await refused(
            standby.url(empty.rpartition("/")[2]), StoreUnavailableError, "it is a standby"
        )
        await refused(standby.url(name), StoreUnavailableError, "it is a standby")


async def test_a_standby_that_takes_over_is_waited_for(server: Server, clock: ManualClock) -> None:
    url = server.create_database()
    async with Proxy(url) as proxy:
        store = open_store(proxy.url, clock=clock)
        await store.open()
        stamp = await begun(store)
        with await asyncio.to_thread(Standby, server) as standby:
            proxy.lead_to(standby.url(url.rpartition("/")[2]))
            turn = next_turn("i", stamp, events=(SCHEDULED,))
            committing = asyncio.ensure_future(store.commit([turn]))
            await until(lambda: is_told("it is a standby", store))
            found = await store.read_live("i")
            as_superuser(standby, "SELECT pg_promote()")

            [receipt] = await committing
            await store.close()

    assert found is not None
    assert receipt.status is TurnStatus.ACCEPTED


async def test_a_server_that_says_goodbye_and_does_not_hang_up_is_left(
    server: Server, clock: ManualClock
) -> None:
    """What it says comes before the line is closed; until then the driver only tells that it is in
    the middle of something."""
    url = server.create_database()
    other = open_store(url, clock=clock)
    async with Proxy(url) as proxy:
        store = open_store(proxy.url, clock=clock)
        await store.open()
        stamp = await begun(store, report=b"0")
        await until(lambda: has_notified(url))
        proxy.keeps_open = True
        rows.run(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        await until(lambda: proxy.left_open == proxy.count_open())
        await other.open()
        await until(lambda: other.change_count(Hint.NEWS) == 1)  # It listens.

        found = await store.read_live("i")
        [receipt] = await store.commit([next_turn("i", stamp, report=b"1")])
        await until(lambda: other.change_count(Hint.NEWS) > 1)
        await store.close()
    await other.close()

    assert found is not None
    assert receipt.status is TurnStatus.ACCEPTED


def has_notified(url: str) -> bool:
    """Return whether a store has told others of its commits and rests now."""
    return bool(
        rows.run(
            url,
            "SELECT 1 FROM pg_stat_activity WHERE position('pg_notify' IN query) > 0"
            " AND state = 'idle' AND datname = current_database()"
            " AND pid <> pg_backend_pid()",
        )
    )


async def is_told(what: str, store: Store) -> bool:
    """Return whether that is what a caller without patience hears."""
    with pytest.raises(StoreUnavailableError) as raised:
        await store.deliver([message(text="impatient")], patience_s=0.05)
    return what in str(raised.value)


# ---------------------------------------------------------------------- not enough room


async def test_a_server_without_a_free_connection_is_told_at_opening(server: Server) -> None:
    url = server.create_database()
    as_superuser(server, f"ALTER DATABASE {url.rpartition('/')[2]} CONNECTION LIMIT 1")
    raw = await asyncpg.connect(url)

    await refused(url, StoreUnavailableError, "has no connection left; raise max_connections")
    await raw.close()


async def test_a_free_connection_is_waited_for(server: Server, clock: ManualClock) -> None:
    url = server.create_database()
    name = url.rpartition("/")[2]
    store = open_store(url, clock=clock)
    await store.open()
    as_superuser(server, f"ALTER DATABASE {name} CONNECTION LIMIT 0")
    for pid in server.backends(url):
        server.kill_backend(pid)

    delivering = asyncio.ensure_future(store.deliver([message(if_absent="buffer")]))
    with pytest.raises(StoreUnavailableError, match="has no connection left"):
        await store.deliver([message(text="impatient", if_absent="buffer")], patience_s=0.1)
    as_superuser(server, f"ALTER DATABASE {name} CONNECTION LIMIT -1")

    assert await delivering == ["buffered"]
    assert [one.body for one in await store.read_inbox("i")] == [b"hello"]
    await store.close()


# ------------------------------------------------------------------------------ restarts


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_is_restarted_under_load_loses_and_doubles_nothing(
    server: Server, mode: Any
) -> None:
    store = open_store(server.create_database())
    await store.open()
    answered: list[str] = []
    # After a crash nobody can tell what became of a commit: only an id keeps a message single then.
    message_id = "m" if mode == "immediate" else None

    async def one(number: int) -> None:
        instance_id = f"i{number}"
        stamp = await begun(store, instance_id)
        await store.deliver([message(instance_id, f"{number}", message_id=message_id)])
        [receipt] = await store.commit([next_turn(instance_id, stamp, events=(SCHEDULED,))])
        assert receipt.status is TurnStatus.ACCEPTED
        answered.append(instance_id)

    async def restart() -> None:
        await until(lambda: len(answered) > 20)
        await asyncio.to_thread(server.stop, mode)
        await asyncio.to_thread(server.start)

    restarting = asyncio.ensure_future(restart())
    number = 0
    while not restarting.done():
        await asyncio.gather(*(one(number + index) for index in range(20)))
        number += 20
    await restarting

    assert len(answered) == number
    for instance_id in answered:
        assert len(await store.read_inbox(instance_id)) == 1
    assert [one for one in await check(store) if one.invariant != "S5"] == []
    await store.close()
