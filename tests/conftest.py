"""For all tests. What they share is imported as `tests.…`: see `pythonpath` in pyproject.toml."""

import asyncio
import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from perdure.authoring import registry
from perdure.authoring.code_digest import code_beside
from perdure.clock import ManualClock
from perdure.store.base import Store
from perdure.store.opening import open_store
from tests.collector import kept_off
from tests.postgres import MEMORY, Server, has_room
from tests.sizes import IS_FULL

# A shell that runs us in the background has SIGINT ignored, and programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything imports it: it asserts for the tests that begin with it.
pytest.register_assert_rewrite("tests.contract.store_values")


# The files of tests are in memory where there is room: none of them outlives the machine, and a
# busy disk takes its time for each commit. pytest asks for this when the first one is made.
if has_room(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


# By default each run tries the same values, however long one takes: what is drawn anew may fail one
# run of a thousand, and then those who changed something else look for it.
settings.register_profile(
    "perdure", deadline=None, derandomize=not IS_FULL, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("perdure")


# Our server has no TLS, and to be asked for it a driver makes what it would need for it first, at
# each of some ten connections of a test.
os.environ.setdefault("PGSSLMODE", "disable")


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode, if need be apart from the sources: where Python is told to write none, each of
    the hundreds of programs that tests start would compile all that it imports."""
    cache: pytest.Cache | None = getattr(config, "cache", None)  # Pytest may be told to have none.
    if sys.dont_write_bytecode and cache is not None:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(cache.mkdir("bytecode"))
        for folder in (MEMORY, tempfile.gettempdir()):  # Of earlier runs: never asked for again.
            shutil.rmtree(f"{sys.pycache_prefix}{folder}", ignore_errors=True)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    with kept_off():
        return (yield from _compiled_once(session))


def _compiled_once(session: pytest.Session) -> Generator[None, object, object]:
    """Let the first process of a run compile the tests, and the others load what it wrote: that is
    two thirds of what it takes to collect them, and each process collects them all."""
    run = getattr(session.config, "workerinput", None)
    if run is None or _are_compiled():
        return (yield)
    path = Path(tempfile.gettempdir(), f"perdure-collected-{run['testrunuid']}")
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            path.unlink(missing_ok=True)


def _are_compiled() -> bool:
    """Return whether an earlier run has left what pytest makes of a test, by this folder."""
    compiled = Path(importlib.util.cache_from_source(__file__)).parent
    return any(compiled.glob("test_versions.*-pytest-*.pyc"))


@pytest.fixture(autouse=True, scope="session")
def _digest_of_the_tests() -> Iterator[None]:
    """Look once at what the tests are made of. Each worker that starts tells its code by all files
    of the package that its definitions are in: here a thousand, which stay as they are."""
    known: dict[str, str] = {}

    def remembered(written: Any) -> str:
        module = written.__module__ or ""  # Code that was executed in a namespace has none.
        if not module.startswith("tests."):
            return code_beside(written)
        if module not in known:
            known[module] = code_beside(written)
        return known[module]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "code_beside", remembered)
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory with 2 MB of room."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    options = ["-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(disk)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL that all tests of this process share. It does not wait for the disk."""
    with Server(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> str:
    """A database of that server that has all tables and no rows."""
    url = postgres.create_database()

    async def migrate() -> None:
        store = open_store(url)
        await store.open()
        await store.close()

    # In a thread, because the loop of a test may be running in this one.
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, migrate()).result()
    return url


@pytest.fixture
def postgres_url(postgres: Server, postgres_template: str) -> Iterator[str]:
    """A database of the test's own: with all tables, without rows."""
    url = postgres.create_database(template=postgres_template)
    yield url
    postgres.drop_database(url)


STORES = ("sqlite", "postgres")


def pytest_addoption(parser: pytest.Parser) -> None:
    """For `make quick`."""
    parser.addoption(
        "--one-store",
        action="store_true",
        help="run what runs on every kind of store on the first of them alone",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a store on every kind of store, or on SQLite alone if it is marked so."""
    if "store_kind" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("sqlite_only")
        is_one = only or metafunc.config.getoption("--one-store")
        metafunc.parametrize("store_kind", STORES[:1] if is_one else STORES)


@pytest.fixture
def store_url(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an empty store: once of each kind."""
    if store_kind == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def url(store_url: str) -> str:
    """Where the store is that a test works on. What is about one kind of store has its own."""
    return store_url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(url: str, clock: ManualClock) -> AsyncIterator[Store]:
    """An open and empty store, whose time is handed in."""
    store = open_store(url, clock=clock)
    await store.open()
    yield store
    await store.close()
