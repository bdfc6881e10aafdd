"""What users do wrong. Every message names the thing, the value, and what to do instead."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Engine, Signal, Worker, activity, context, inline, orchestration, run
from perdure.authoring.registry import Registry
from perdure.errors import (
    DefinitionError,
    InstanceFailedError,
    PayloadError,
    PerdureError,
    SchemaError,
    StoreCorruptError,
    StoreUnavailableError,
    UsageError,
)
from tests.engine.stage import Stage

go = Signal("go", str)


@dataclass
class Item:
    name: str
    price: int


@dataclass
class Order:
    items: list[Item]


@activity
async def charge(order: Order) -> int:
    return sum(item.price for item in order.items)


@orchestration
async def checkout(order: Order) -> int:
    return await charge(order)


@orchestration
async def waiting() -> str:
    return await go.receive()


# ------------------------------------------------------------------ the store


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "a store URL looks like sqlite:///"),
        ("shop.db", "got 'shop.db'"),
        ("mysql://host/db", "got 'mysql://host/db'"),
        ("sqlite://shop.db", "write three for a relative path"),
        ("sqlite:///shop.db?cache=1", "unknown option cache in the store URL"),
        ("sqlite:///shop.db?driver=apsw", "there is one driver, the standard library's"),
        ("postgresql://host/db?pooler=statement", "pooler='statement' is not known"),
        ("postgresql://host/db?schema=pg_shop", "names that begin with pg_ are PostgreSQL's own"),
        ("sqlite:///a%00b", "NUL"),
    ],
)
def test_a_wrong_store_url_is_refused_before_anything_is_opened(url: str, says: str) -> None:
    for make in (Client, lambda url: Engine(url, []), lambda url: Worker(url, [])):
        with pytest.raises(UsageError) as caught:
            make(url)
        assert says in str(caught.value)


async def opening(url: str) -> PerdureError:
    """Return the error that opening each door gives; it must be the same for all."""
    errors = []
    for door in (Client(url, create=True), Engine(url, [waiting])):
        with pytest.raises(PerdureError) as caught:
            await door.open()
        errors.append(caught.value)
        await door.close()
    with pytest.raises(PerdureError) as caught:
        async with Worker(url, [waiting]):
            pass
    errors.append(caught.value)
    assert len({(type(error), str(error)) for error in errors}) == 1
    return errors[0]


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    error = await opening(f"sqlite:///{tmp_path}/nowhere/shop.db")

    assert isinstance(error, StoreUnavailableError)
    assert f"{tmp_path}/nowhere" in str(error)


async def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    error = await opening(f"sqlite:///{tmp_path}")

    assert isinstance(error, StoreUnavailableError | StoreCorruptError)
    assert str(tmp_path) in str(error)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that nobody can write")
async def test_a_folder_that_cannot_be_written_is_named() -> None:
    error = await opening("sqlite:////proc/shop.db")

    assert isinstance(error, StoreUnavailableError)
    assert "/proc" in str(error)


@pytest.mark.parametrize("trouble", ["text", "other", "newer"])
async def test_an_error_of_the_store_names_the_whole_path(tmp_path: Path, trouble: str) -> None:
    file = tmp_path / "shop.db"
    match trouble:
        case "text":
            write_text_to(file)
        case "other":
            make_other_database(file)
        case _:
            await make_newer_store(file)

    assert str(file) in str(await opening(f"sqlite:///{file}"))


def write_text_to(file: Path) -> None:
    file.write_bytes(b"this is a text, and not a short one either. " * 100)


def make_other_database(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE customers (name TEXT)")
    database.close()


async def make_newer_store(file: Path) -> None:
    async with Client(f"sqlite:///{file}", create=True):
        pass
    with closing(sqlite3.connect(file)) as database, database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(migrations)")]
        database.execute(
            f"INSERT INTO migrations SELECT 9999, {', '.join(columns[1:])} FROM migrations "  # noqa: S608 - a test's own table
            f"ORDER BY {columns[0]} DESC LIMIT 1"
        )
    database.close()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    write_text_to(file)

    error = await opening(f"sqlite:///{file}")

    assert isinstance(error, StoreCorruptError)
    assert "shop.db is not an SQLite database; give another path" in str(error)


async def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    make_other_database(file)

    error = await opening(f"sqlite:///{file}")

    assert isinstance(error, StoreCorruptError)
    assert "not a perdure store; give another path" in str(error)
    with closing(sqlite3.connect(file)) as database, database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]
    database.close()


async def test_a_newer_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    await make_newer_store(file)

    error = await opening(f"sqlite:///{file}")

    assert isinstance(error, SchemaError)
    assert "its schema is 9999" in str(error)
    assert "install that version" in str(error)


# -------------------------------------------------------------- definitions


def test_two_definitions_of_one_name_are_refused_with_both_places() -> None:
    @activity(name="charge")
    async def another() -> None: ...

    with pytest.raises(DefinitionError) as caught:
        Engine("sqlite://:memory:", [charge, another])

    text = str(caught.value)
    assert "two activity definitions are named 'charge'" in text
    assert text.count("test_bad_input.py:") == 2
    assert "give one another name" in text


def test_the_same_definition_twice_is_fine() -> None:
    registry = Registry([charge, charge, checkout, checkout.with_options(if_exists="fail")])

    assert list(registry.activities) == [charge.name]
    assert list(registry.orchestrations) == [(checkout.name, checkout.version)]


@pytest.mark.parametrize("thing", [len, "text", 3, None, Item, Signal("s", int)])
def test_what_is_not_a_definition_is_refused(thing: Any) -> None:
    with pytest.raises(DefinitionError, match=r"@activity, @transaction or @orchestration"):
        Engine("sqlite://:memory:", [thing])


def test_a_method_as_activity_is_refused_with_the_way_out() -> None:
    with pytest.raises(DefinitionError, match=r"plain function, not a method.*resources="):

        class Shop:
            @activity
            async def charge(self, order: Order) -> None: ...

    with pytest.raises(DefinitionError, match="plain function, not a method"):

        class Other:
            @orchestration
            async def checkout(self, order: Order) -> None: ...


def test_an_orchestration_that_is_not_async_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"'plain' must be an async function"):

        @orchestration  # type: ignore[arg-type]  # the mistake under test
        def plain() -> int:
            return 1


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"version '2' of 'new' is not a semantic version"):

        @orchestration(name="new", version="2")
        async def new() -> None: ...


def test_a_context_without_its_type_is_refused() -> None:
    with pytest.raises(DefinitionError, match="annotate it as Context"):

        @orchestration
        async def ambiguous(ctx) -> None: ...  # type: ignore[no-untyped-def]  # the mistake


def test_an_async_activity_cannot_be_for_a_process() -> None:
    with pytest.raises(DefinitionError, match="process=True is for plain functions"):

        @activity(process=True)
        async def busy() -> None: ...


async def test_an_annotation_that_cannot_be_stored_is_refused_by_the_engine(stage: Stage) -> None:
    class Opaque: ...

    @orchestration
    async def odd(thing: Opaque) -> None: ...

    odd.fn.__annotations__["thing"] = Opaque

    with pytest.raises(DefinitionError, match=r"orchestration 'odd': .*Opaque cannot be stored"):
        await stage.engine([odd])


# ------------------------------------------------------------------- calls


def test_an_orchestration_called_outside_says_what_to_use() -> None:
    with pytest.raises(UsageError) as caught:
        checkout(Order([]))  # type: ignore[unused-coroutine]  # the mistake under test

    text = str(caught.value)
    for way in ("client.start(checkout, ...)", "run(checkout, ...)", "checkout.fn(...)"):
        assert way in text


def test_what_works_only_inside_says_so() -> None:
    with pytest.raises(UsageError, match="no orchestration runs here"):
        context()
    with pytest.raises(UsageError, match="only inside an orchestration"):
        inline(len, "x")  # type: ignore[unused-coroutine]  # the mistake under test
    with pytest.raises(UsageError, match=r"to send it use handle\.send"):
        go.receive()  # type: ignore[unused-coroutine]  # the mistake under test


async def test_wrong_arguments_are_refused_at_the_start_with_their_path(stage: Stage) -> None:
    engine = await stage.engine([charge, checkout])
    wrong: Any = Order([Item("a", 1), Item("b", "two")])  # type: ignore[arg-type]  # the mistake

    with pytest.raises(PayloadError) as caught:
        await engine.start("c", checkout, wrong)

    assert "items[1].price" in str(caught.value)
    assert "checkout" in str(caught.value)
    for args in ((), (Order([]), 2)):
        with pytest.raises(PerdureError, match="checkout"):
            await engine.start("c", checkout, *args)
    with pytest.raises(PerdureError, match="surprise"):
        await engine.start("c", checkout, Order([]), surprise=1)  # type: ignore[call-arg]  # the mistake
    with pytest.raises(PerdureError, match="no instance 'c'"):
        await engine.handle("c").info()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": object()}]}, "a"),
        ({"a": float("nan")}, "a"),
        ({"a": {1: "x"}}, "a"),
        ({"a": {"s"}}, "a"),
        ({"a": "\ud800"}, "a"),
        ({"a": 2**70}, "a"),
    ],
    ids=["object", "nan", "key", "set", "surrogate", "huge"],
)
async def test_values_that_cannot_be_stored_are_refused_with_their_path(
    stage: Stage, value: Any, path: str
) -> None:
    @orchestration
    async def free(data: Any) -> Any:
        return data

    engine = await stage.engine([free])

    try:
        handle = await engine.start("f", free, value)
    except PayloadError as error:
        assert path in str(error)  # noqa: PT017 - refusing is one of two good answers
    else:
        assert await handle.result() == value


async def test_a_result_that_cannot_be_stored_fails_the_instance(stage: Stage) -> None:
    @orchestration
    async def odd() -> int:
        return "text"  # type: ignore[return-value]  # the mistake under test

    engine = await stage.engine([odd])

    with pytest.raises(InstanceFailedError, match=r"PayloadError: result of odd.*int"):
        await (await engine.start(odd)).result()


async def test_starting_something_else_says_what_start_takes(stage: Stage) -> None:
    engine = await stage.engine([checkout])

    others: list[Any] = [len, "x", None, charge, 3]
    for wrong in others:
        with pytest.raises(UsageError, match="orchestration"):
            await engine.start("id", wrong)
        with pytest.raises(UsageError, match="orchestration"):
            await engine.start(wrong)


async def test_a_wrong_definition_for_a_handle_says_so(stage: Stage) -> None:
    engine = await stage.engine([checkout])

    with pytest.raises(UsageError, match="orchestration"):
        engine.handle("id", charge)  # type: ignore[call-overload]  # the mistake under test


def test_run_without_an_orchestration_says_so() -> None:
    with pytest.raises(UsageError, match="run takes an orchestration"):
        run("id")  # type: ignore[call-overload]  # the mistake under test
    with pytest.raises(UsageError, match="run takes an orchestration"):
        run(charge, Order([]))  # type: ignore[call-overload]  # the mistake under test


async def test_a_call_that_nobody_awaits_warns_with_its_place(stage: Stage) -> None:
    @orchestration
    async def forgetful() -> str:
        charge(Order([]))  # type: ignore[unused-coroutine]  # the mistake under test
        return "done"

    engine = await stage.engine([charge, forgetful])

    with pytest.warns(RuntimeWarning, match=r"call of 'charge' at test_bad_input\.py:\d+ in forg"):
        assert await (await engine.start(forgetful)).result() == "done"


async def test_blocking_things_of_asyncio_are_refused_with_the_way_out(stage: Stage) -> None:
    @orchestration
    async def threading() -> int:
        return await asyncio.to_thread(len, "x")

    @orchestration
    async def connecting() -> None:
        await asyncio.open_connection("localhost", 1)

    engine = await stage.engine([threading, connecting])

    for definition in (threading, connecting):
        with pytest.raises(InstanceFailedError, match=r"does not work inside an orchestration"):
            await (await engine.start(definition)).result()


async def test_an_unknown_instance_is_named_everywhere(stage: Stage) -> None:
    client = await stage.client()
    handle = client.handle("nobody")

    for ask in (handle.info, handle.result, handle.explain, handle.history, handle.terminate):
        with pytest.raises(PerdureError, match="no instance 'nobody'"):
            await ask()


async def test_a_buffered_signal_makes_no_instance(stage: Stage) -> None:
    stage.expect_log("signal 'go' is kept for instance 'unborn', which does not exist")
    client = await stage.client()
    handle = client.handle("unborn")
    await handle.send(go, "early")

    for ask in (handle.info, handle.result, handle.explain, handle.cancel, handle.terminate):
        with pytest.raises(PerdureError, match="no instance 'unborn'"):
            await ask()


async def test_a_client_that_is_closed_says_so(stage: Stage) -> None:
    client = await stage.client()
    handle = client.handle("x")
    await client.close()

    for ask in (handle.info, handle.result, handle.history, handle.explain, handle.cancel):
        with pytest.raises(UsageError, match="this Client is not open"):
            await ask()


async def test_a_value_that_is_too_large_is_refused_or_kept_whole(stage: Stage) -> None:
    @orchestration
    async def echo(text: str) -> int:
        return len(text)

    engine = await stage.engine([echo])

    with pytest.raises(PerdureError, match=r"2 MiB|2,097,152|limited"):
        await engine.start("big", echo, "x" * 3_000_000)
    assert await (await engine.start("fits", echo, "x" * 1_000_000)).result() == 1_000_000
