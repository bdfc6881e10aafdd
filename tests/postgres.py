"""A real PostgreSQL for the tests.

A `Server` is made from nothing in a temporary folder, is reached by the loopback interface alone,
and leaves nothing behind however the tests end: a watchdog waits for the end of a pipe that the
tests hold, and ends the server when they are killed.

What the tests do, they do as an ordinary role that owns its databases. So nothing of perdure can
come to need a superuser.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.postgres_programs import (
    can_reach,
    find_programs,
    find_user,
    temporary_folder,
    version_of,
)

WITHIN_S = 60.0
"""How long the server may take to start or to stop; after a crash it recovers first."""

LOOK_EVERY_S = 0.005

KEPT = {"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}

SUPERUSER = "postgres"
ROLE = "perdure"

PORTS = range(15_000, 30_000)
"""Below the ports that systems give to clients: one that is connecting could be given the port of
a server that is down, meet itself there, and keep the server from coming back."""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "log_min_messages": "warning",
    "shared_buffers": "32MB",
}
HASTY = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}
"""For tests that do not crash the machine: nothing waits for the disk."""

MEMORY = Path("/dev/shm")
ROOM_IN_MEMORY = 1 << 30
"""Where the data of a hasty server is kept if there is so much room: a new database is three
hundred files, and a busy disk takes its time to make them."""

SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

WATCHDOG = """
while read -r pid; do last=$pid; done
if [ -n "$last" ] && kill -QUIT "$last"; then
    for _ in $(seq 50); do kill -0 "$last" || break; sleep 0.1; done
fi
rm -rf -- "$@"
"""
"""Reads the id of each server process that is started, an empty line when it has ended. When the
tests close the pipe or die, what still runs is ended and the folders are removed."""


class Server:
    """A PostgreSQL server of our own.

    Args:
        durable: Whether what was committed survives a crash of the machine. Tests that crash the
            server need it; others are faster without.
        settings: In place of ours.
        beside: Where its folder is made if its user can reach that; else where the system says.
    """

    def __init__(
        self,
        *,
        durable: bool = True,
        settings: Mapping[str, str] = MappingProxyType({}),
        beside: Path | None = None,
    ) -> None:
        self._durable = durable
        self._settings = settings
        self._user = find_user()
        is_reached = beside is not None and can_reach(self._user, beside.resolve())
        self.folder = self._new_folder(str(beside) if is_reached else temporary_folder(self._user))
        in_memory = not durable and has_room(MEMORY)
        self._data = self._new_folder(str(MEMORY)) if in_memory else self.folder / "data"
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "watchdog", self.folder, self._data],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what interrupts the tests must not end it
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: psycopg.Connection[Any] | None = None
        self._numbers = itertools.count(1)
        self.port = 0
        try:
            self._make()
            self.start()
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------- the server

    @property
    def version(self) -> tuple[int, ...]:
        """The version: (15, 18)."""
        return version_of(self._programs)

    @property
    def data(self) -> Path:
        """The folder of its data and configuration."""
        return self._data

    @property
    def is_running(self) -> bool:
        """Whether the server process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, on the port that it always has, and wait until it answers."""
        assert not self.is_running, "it runs already"
        self.port = self.port or _free_port()
        settings = {
            "port": self.port,
            "unix_socket_directories": self.folder,
            **(SETTINGS if self._durable else SETTINGS | HASTY),
            **self._settings,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user(),
            )
        self._tell_watchdog(self._process.pid)
        self.await_answer()

    def await_answer(self) -> None:
        """Wait until the server takes connections: it starts, or recovers from a crash."""
        deadline = time.monotonic() + WITHIN_S
        while self.is_running and time.monotonic() < deadline:
            try:
                self._admin_connection().execute("SELECT 1")
            except psycopg.OperationalError:
                self._forget_admin()
                time.sleep(LOOK_EVERY_S)
            else:
                return
        raise AssertionError(f"PostgreSQL did not start:\n{self.log()}")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server: in order, or as a crash would. Every connection is lost."""
        if self._process is None:
            return
        self._forget_admin()
        if self._process.poll() is None:
            self._process.send_signal(SIGNALS[mode])
        try:
            self._process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"PostgreSQL did not stop:\n{self.log()}") from None
        finally:
            self._process = None
            self._tell_watchdog(None)

    def close(self) -> None:
        """Stop the server for good and remove everything."""
        try:
            self.stop("immediate")
        finally:
            self._watchdog.communicate(timeout=WITHIN_S)

    def log(self) -> str:
        """Return the end of what the server has logged."""
        file = self.folder / "log"
        return file.read_text(errors="replace")[-4000:] if file.exists() else ""

    # ---------------------------------------------------------- the databases

    def url(self, database: str, *, role: str = ROLE) -> str:
        """Return the URL of a database."""
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def create_database(self, *, template: str | None = None) -> str:
        """Return the URL of a new database: empty, or a copy of the one at another URL."""
        name = f"test_{next(self._numbers)}"
        if template is not None:
            how = "" if self._durable or self.version < (15,) else " STRATEGY file_copy"
            text = "CREATE DATABASE {} OWNER {} TEMPLATE {}" + how
            self._run(text, name, ROLE, _name_in(template))
        elif self._has_icu:
            # A language, as most databases have one: what must be compared byte by byte says so.
            self._run(
                "CREATE DATABASE {} OWNER {} TEMPLATE template0"
                " LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'",
                name,
                ROLE,
            )
        else:
            self._run("CREATE DATABASE {} OWNER {}", name, ROLE)
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, whoever is still connected."""
        # A process goes a little later than its connection, and DROP would look again in 100 ms.
        deadline = time.monotonic() + 0.1
        while self.backends(url) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
        self._run("DROP DATABASE {} WITH (FORCE)", _name_in(url))

    def backends(self, url: str) -> list[int]:
        """Return the processes that serve the connections to a database."""
        with self._admin_connection().cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s"
                " AND backend_type = 'client backend' ORDER BY pid",
                [_name_in(url)],
            )
            return [pid for (pid,) in cursor]

    def kill_backend(self, pid: int, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process that serves one connection, unless it has ended since it was listed.

        SIGTERM ends this connection, in the middle of whatever it does. After SIGKILL the server
        ends all others too and recovers, as after a crash.
        """
        with suppress(ProcessLookupError):
            os.kill(pid, how)

    # -------------------------------------------------------------- helpers

    def _new_folder(self, above: str | None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="perdure-postgres-", dir=above))
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        return folder

    def _finds_icu(self) -> bool:
        """Return whether a database can have a language of ICU: since 15, if built with it."""
        found = self._admin_connection().execute(
            "SELECT FROM pg_collation WHERE collname = 'en-US-x-icu'"
        )
        return self.version >= (15,) and found.rowcount > 0

    def _make(self) -> None:
        self._programs = find_programs(self._user, self.folder)
        options = ["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-sync"]
        made = subprocess.run(
            [self._programs / "initdb", "-D", self._data, "-U", SUPERUSER, *options],
            check=False,
            capture_output=True,
            text=True,
            **self._as_user(),
        )
        assert made.returncode == 0, f"initdb failed:\n{made.stdout}{made.stderr}"

    def _prepare(self) -> None:
        self._run("CREATE ROLE {} LOGIN", ROLE)
        self._has_icu = self._finds_icu()

    def _as_user(self) -> dict[str, Any]:
        """Return how a program of PostgreSQL is run."""
        # Nothing of the environment that PostgreSQL would heed (PGPORT, LANG, TZ and others).
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        how: dict[str, Any] = {"cwd": self.folder, "env": kept | {"LC_ALL": "C"}}
        if self._user is not None:
            how |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        return how

    def _tell_watchdog(self, pid: int | None) -> None:
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.write(b"%s\n" % (b"" if pid is None else str(pid).encode()))
        self._watchdog.stdin.flush()

    def _admin_connection(self) -> psycopg.Connection[Any]:
        if self._admin is None or self._admin.closed:
            url = self.url("postgres", role=SUPERUSER)
            self._admin = psycopg.connect(url, autocommit=True)
        return self._admin

    def _forget_admin(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _run(self, text: str, *names: str) -> None:
        statement = sql.SQL(text).format(*map(sql.Identifier, names))
        self._admin_connection().execute(statement)


class Standby(Server):
    """A server that only reads: a copy of another one that never hears of it again.

    Args:
        primary: What is copied; it stands still meanwhile.
    """

    def __init__(self, primary: Server) -> None:
        self._primary = primary
        super().__init__(durable=True, settings=primary._settings)

    def _make(self) -> None:
        self._programs = self._primary._programs
        self._primary.stop()
        try:
            command = ["cp", "-a", str(self._primary.data), str(self._data)]
            subprocess.run(command, check=True, **self._as_user())
        finally:
            self._primary.start()
        (self._data / "standby.signal").touch()

    def _prepare(self) -> None:
        """Do nothing: all roles are there, and none can be made."""


def has_room(folder: Path) -> bool:
    """Return whether tests may fill a folder that is in memory."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM_IN_MEMORY


def _name_in(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _free_port() -> int:
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LookupError("no port is free")
