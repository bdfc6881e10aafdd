"""Rows that are read by their keys, where they are asked for."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import RowError, StoreCorruptError, StoreError, StoreUnavailableError
from perdure.store.sqlite.connection import SqliteConnection
from perdure.store.sqlite.database import connect_writer
from perdure.store.sqlite.readers import SqliteReaders


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "a.db"
    connect_writer(str(file)).close()
    return file


@pytest.fixture
def readers(file: Path) -> Iterator[SqliteReaders]:
    made = SqliteReaders(str(file))
    yield made
    made.close()


def thread_of(_: SqliteConnection) -> str:
    return threading.current_thread().name


async def test_a_row_is_read_on_the_loop_that_asks(readers: SqliteReaders) -> None:
    assert await readers.read_row(thread_of) == threading.current_thread().name


async def test_who_reads_rows_without_end_lets_others_run(readers: SqliteReaders) -> None:
    async def reads_on() -> None:
        while True:
            await readers.read_row(thread_of)

    reading = asyncio.ensure_future(reads_on())
    for _ in range(100):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)

    assert reading.cancelled()


async def test_what_has_to_wait_is_read_on_a_thread(readers: SqliteReaders) -> None:
    asked: list[str] = []

    def is_locked_at_first(connection: SqliteConnection) -> int:
        asked.append(thread_of(connection))
        if len(asked) == 1:
            raise StoreUnavailableError("locked")
        return 7

    found = await readers.read_row(is_locked_at_first)

    assert found == 7
    assert [name.startswith("perdure-read") for name in asked] == [False, True]


async def test_a_loop_does_not_wait_for_the_row_of_another(readers: SqliteReaders) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def stays(_: SqliteConnection) -> bool:
        begun.set()
        return goes_on.wait(10)

    def other_loop() -> bool:
        return asyncio.run(readers.read_row(stays))

    other = asyncio.ensure_future(asyncio.to_thread(other_loop))
    await asyncio.to_thread(begun.wait)
    name = await readers.read_row(thread_of)
    goes_on.set()

    assert name.startswith("perdure-read")
    assert await other


async def test_a_text_that_cannot_be_stored_is_an_error_of_its_row(readers: SqliteReaders) -> None:
    def asks(_: SqliteConnection) -> None:
        "\ud800".encode()

    with pytest.raises(RowError):
        await readers.read_row(asks)


async def test_no_row_is_read_of_a_file_that_was_replaced(
    readers: SqliteReaders, file: Path
) -> None:
    os.rename(file, file.with_suffix(".old"))

    with pytest.raises(StoreCorruptError):
        await readers.read_row(thread_of)


async def test_no_row_is_read_after_the_end(readers: SqliteReaders) -> None:
    readers.close()

    with pytest.raises(StoreError, match="closed"):
        await readers.read_row(thread_of)
