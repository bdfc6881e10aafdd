"""Mistakes with stores: URLs, paths, files."""

import os
from unittest import mock

from perdure.errors import SchemaError, StoreCorruptError, StoreUnavailableError, UsageError
from tests.mistakes.table import Ground, mistake
from tests.mistakes.untyped import BlockingClient, Client, Engine


@mistake(UsageError, "a store URL looks like", "got 'shop.db'", before="the same")
def a_path_instead_of_a_url(ground: Ground) -> None:
    Client("shop.db")


@mistake(
    UsageError,
    "a store URL is a text, sqlite:///relative.db",
    "got a PosixPath",
    before="AttributeError: 'PosixPath' object has no attribute 'partition'",
)
def a_path_of_pathlib_instead_of_a_url(ground: Ground) -> None:
    Client(ground.folder / "shop.db")


@mistake(
    UsageError, "a store URL is a text", "got a NoneType", before="AttributeError: 'NoneType' ..."
)
def a_variable_of_the_environment_that_is_not_set_as_a_url(ground: Ground) -> None:
    Client(os.environ.get("SHOP_STORE_THAT_NO_ONE_SETS"))


@mistake(UsageError, "a clock is a function that returns milliseconds", "got 5")
def a_number_as_a_clock(ground: Ground) -> None:
    Client("sqlite://:memory:", clock=5)


@mistake(
    StoreUnavailableError, "is not a file; give the path of a database file", before="the same"
)
async def a_folder_as_a_store(ground: Ground) -> None:
    async with Engine(f"sqlite:///{ground.folder}", []):
        pass


@mistake(UsageError, "two slashes", "three for a relative path and four", before="the same")
def a_slash_too_few(ground: Ground) -> None:
    Client("sqlite://shop.db")


@mistake(
    UsageError,
    "a store URL looks like",
    "+asyncpg is SQLAlchemy's, leave it out",
    before="a store URL looks like ...",
)
def the_url_of_sqlalchemy(ground: Ground) -> None:
    Client("postgresql+asyncpg://me@host/shop")


@mistake(UsageError, "unknown option timeout", "a SQLite store has none", before="the same")
def an_option_that_the_store_does_not_have(ground: Ground) -> None:
    Client("sqlite:///shop.db?timeout=5")


@mistake(
    SchemaError,
    "there is no perdure store at sqlite:///",
    "typo.db yet; is that the right place?",
    "Client(url, create=True)",
    before="a new, empty store",
)
async def a_path_that_is_misspelled(ground: Ground) -> None:
    async with Client(f"sqlite:///{ground.folder}/typo.db"):
        pass


@mistake(SchemaError, "there is no perdure store at", before="a new, empty store")
def a_path_that_is_misspelled_without_async(ground: Ground) -> None:
    with BlockingClient(f"sqlite:///{ground.folder}/typo.db"):
        pass


@mistake(StoreUnavailableError, "the directory", "does not exist", before="the same")
async def a_folder_that_there_is_not(ground: Ground) -> None:
    async with Engine(f"sqlite:///{ground.folder}/nowhere/shop.db", []):
        pass


@mistake(StoreCorruptError, "is not a database", before="the same")
async def a_file_that_is_no_database(ground: Ground) -> None:
    file = ground.folder / "notes.txt"
    file.write_text("milk, bread, butter\n" * 100)
    async with Engine(f"sqlite:///{file}", []):
        pass


@mistake(
    StoreUnavailableError, "cannot be reached", "postgresql://nobody@127.0.0.1:9", before="the same"
)
async def a_server_that_is_not_there(ground: Ground) -> None:
    async with Engine("postgresql://nobody@127.0.0.1:9/shop", []):
        pass


@mistake(UsageError, "needs asyncpg; run: pip install perdure[postgres]", before="the same")
def a_package_that_is_not_installed(ground: Ground) -> None:
    with mock.patch("perdure.store.opening.find_spec", return_value=None):
        Client("postgresql://me@host/shop")


@mistake(UsageError, "a SQLite store needs the file locks of Linux and macOS", "postgresql://")
def a_sqlite_store_on_windows(ground: Ground) -> None:
    with mock.patch("perdure.store.opening.find_spec", return_value=None):
        Client("sqlite:///shop.db")
