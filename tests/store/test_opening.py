from __future__ import annotations

import asyncio
import os
import re
import stat
from pathlib import Path
from traceback import format_exception_only

import pytest

from perdure.errors import StoreError, StoreUnavailableError, UsageError
from perdure.store.opening import open_store
from perdure.store.postgres.address import Address
from perdure.store.sqlite.store import SqliteStore


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite://", ":memory:"),
        ("sqlite://:memory:", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite://:memory:shop", ":memory:shop"),
        ("sqlite:///:memory:a%20b", ":memory:a b"),
        ("sqlite:////tmp/shop.db", "/tmp/shop.db"),
        ("sqlite:////tmp/a%20b%3F.db", "/tmp/a b?.db"),
        ("sqlite:///shop.db", os.path.abspath("shop.db")),
    ],
)
def test_a_url_names_a_file_or_memory(url: str, path: str) -> None:
    store = open_store(url)

    assert isinstance(store, SqliteStore)
    assert store.path == path


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("shop.db", "sqlite:///relative.db"),
        ("mysql://x", "sqlite:///relative.db"),
        ("sqlite:shop.db", "sqlite:///relative.db"),
        ("sqlite://shop.db", "three for a relative path"),
        ("sqlite:///shop.db?mode=ro", "unknown option mode"),
        ("sqlite:///shop.db?driver=apsw", r"one driver, the standard library's .* 3\.51\.3"),
        ("sqlite:///shop.db?driver=sqlite3", "leave it out"),
        ("sqlite:///a%00b", "NUL"),
        ("postgresql://localhost/x?pooler=odd", "pooler='odd' is not known"),
    ],
)
def test_a_wrong_url_is_told_what_is_right(url: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:s3cret@h/x",
        "POSTGRESQL://u:s3cret@h/x",
        "postgresql:u:s3cret@h/x",
        "postgresql:/u:s3cret@h/x",
        "postgresql://u:s3cret@[h/x",
        "postgresql://u:s3cret@h\u2100/x",
        "postgresql://u:s3cret@h:port/x",
        "postgresql://u:s3cret@h:99999/x",
        "postgresql://u:s3cret@h:1,i:x/x",
        "postgresql://u:s3/cret@h/x",
        "postgresql://u:s3?cret@h/x",
        "postgresql://u:s3#cret@h/x",
        "postgresql://u:12/s3cret@h/x",
        "postgresql://u:12#s3cret@h/x",
    ],
)
def test_a_url_that_cannot_be_read_is_told_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_store(url)

    assert not re.search("s3|cret|12", "".join(format_exception_only(raised.value)))
    assert raised.value.__cause__ is raised.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s%2Fe%3Fc%40r%23et@h:5432/x",
        "postgresql://[::1]:5432/x",
        "postgresql://[::1]/x",
        "postgresql://u@h:1,i:2/x",
        "postgresql:///x?host=/run/postgresql",
        "postgresql://h/x?user=me@example.com",
    ],
)
def test_a_url_of_postgresql_has_many_forms(url: str) -> None:
    assert getattr(open_store(url), "is_server", None)


def test_an_address_is_shown_without_its_password() -> None:
    assert "s3cret" not in repr(Address.parse("postgresql://u:s3cret@h/x?password=s3cret"))


async def test_a_file_is_made_for_its_owner_only(url: str, path: Path) -> None:
    store = open_store(url)
    await store.open()

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}

    await store.close()
    assert set(modes) == {"store.db", "store.db-lock", "store.db-wal", "store.db-shm"}
    assert set(modes.values()) == {0o600}


def test_a_symbolic_link_is_refused(url: str, path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere.db"))

    with pytest.raises(StoreUnavailableError, match="symbolic link"):
        asyncio.run(open_store(url).open())


async def test_a_directory_that_everybody_may_write_is_refused(url: str, path: Path) -> None:
    path.parent.chmod(0o777)

    with pytest.raises(StoreUnavailableError, match="chmod o-w"):
        await open_store(url).open()


async def test_a_sticky_directory_is_fine(url: str, path: Path) -> None:
    path.parent.chmod(0o1777)
    store = open_store(url)

    await store.open()
    await store.close()

    assert os.access(path, os.W_OK)


STRANGER = 12_345


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm", "-lock"])
def test_a_file_of_a_stranger_where_everybody_may_write_is_refused(
    url: str, path: Path, end: str
) -> None:
    """Whoever has made the WAL says what is in the database."""
    path.parent.chmod(0o1777)
    planted = Path(f"{path}{end}")
    planted.touch()
    os.chown(planted, STRANGER, STRANGER)

    with pytest.raises(StoreUnavailableError, match=f"{planted.name} belongs to another user"):
        asyncio.run(open_store(url).open())

    assert [file.name for file in path.parent.iterdir()] == [planted.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_fine_where_only_few_may_write(url: str, path: Path) -> None:
    path.touch()
    os.chown(path, STRANGER, STRANGER)

    async def open_and_close() -> None:
        store = open_store(url)
        await store.open()
        await store.close()

    asyncio.run(open_and_close())


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm", "-lock"])
def test_a_symbolic_link_beside_the_file_is_refused(url: str, path: Path, end: str) -> None:
    planted = Path(f"{path}{end}")
    planted.symlink_to(path.with_name("elsewhere"))

    with pytest.raises(StoreUnavailableError, match=f"{planted.name} is a symbolic link"):
        asyncio.run(open_store(url).open())

    assert not path.with_name("elsewhere").exists()


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="does not exist"):
        await open_store(f"sqlite:///{tmp_path}/missing/store.db").open()


async def test_a_directory_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="not a file"):
        await open_store(f"sqlite:///{tmp_path}").open()


async def test_a_store_is_opened_once(url: str) -> None:
    store = open_store(url)
    await store.open()

    with pytest.raises(StoreError, match="opened before"):
        await store.open()

    await store.close()
    await store.close()


async def test_a_closed_store_says_so(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()

    with pytest.raises(StoreError, match="closed"):
        await store.unpark("i")
    with pytest.raises(StoreError, match="closed"):
        await store.read_live("i")
