"""`perdure update`, `query`, `kv`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import Result

from perdure import Engine, Key, Query, Signal, Update, orchestration
from tests.cli.commands import typed

add = Update("add", int, str)
total = Key("total", int)
close = Signal("close", None)
taken = Query("taken", list[int])


@orchestration
async def adding() -> None:
    values: list[int] = []
    taken.answer_with(lambda: values)
    async for request in add:
        if request.value < 0:
            request.refuse("less than nothing")
        else:
            values.append(request.value)
            total.set(total.get(0) + request.value)
            request.answer(f"{total.get(0)} in all")


async def _asked(url: str) -> None:
    async with Engine(url, [adding]) as engine:
        handle = await engine.start("a", adding)
        await handle.update(add, 3, update_id="u-1")
        await asyncio.gather(handle.update(add, -1, update_id="u-2"), return_exceptions=True)
        await engine.start("ended", adding)
        await engine.handle("ended").terminate()


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    asyncio.run(_asked(url))
    return url


def test_an_update_prints_its_answer(store: str) -> None:
    """It was given before, so that no worker is needed."""
    done = typed("update", "a", "add", "3", "--update-id", "u-1", store=store)
    raw = typed("update", "a", "add", "3", "--update-id", "u-1", "--raw", store=store)

    assert (done.exit_code, done.stdout) == (0, '"3 in all"\n')
    assert raw.stdout == "3 in all\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["a", "add", "-1", "--update-id", "u-2"], 1, "less than nothing"),
        (["a", "add", "4", "--update-id", "u-1"], 1, "was given to instance 'a' before"),
        (["a", "add", "1", "--timeout", "0s"], 4, "no answer to update 'add'"),
        (["nowhere", "add", "1"], 3, "no instance 'nowhere'"),
        (["ended", "add", "1"], 1, "has ended"),
        (["a", "add", "{"], 2, "value of update add"),
    ],
    ids=["refused", "other", "late", "nowhere", "ended", "no JSON"],
)
def test_what_is_no_answer_is_an_error(store: str, words: list[str], code: int, said: str) -> None:
    options = [one for one in words if one.startswith("--")]
    first = words.index(options[0]) if options else len(words)
    done = typed("update", "--store", store, *words[first:], "--", *words[:first])

    assert done.exit_code == code, done.stderr
    assert said in done.stderr


async def _serving(url: str, *words: str) -> Result:
    """Run a command beside a worker."""
    async with Engine(url, [adding]):
        return await asyncio.to_thread(typed, *words, store=url)


def test_an_update_starts_what_is_not_there(store: str) -> None:
    words = (
        "update",
        "new",
        "add",
        "4",
        "--update-id",
        "u",
        "--start",
        "adding",
        "--timeout",
        "20s",
    )
    first = asyncio.run(_serving(store, *words))
    again = typed(*words, store=store)
    wrong = typed("update", "a", "add", "4", "--arg", "x=1", store=store)

    assert (first.exit_code, first.stdout) == (0, '"4 in all"\n'), first.stderr
    assert again.stdout == first.stdout
    assert (wrong.exit_code, "--arg is for --start" in wrong.stderr) == (2, True)


def test_a_value_is_waited_for(store: str) -> None:
    late = typed("kv", "a", "nothing", "--wait", "--timeout", "0s", store=store)
    ended = typed("kv", "ended", "nothing", "--wait", store=store)

    assert typed("kv", "a", "total", "--wait", store=store).stdout == "3\n"
    assert (late.exit_code, "value under key 'nothing'" in late.stderr) == (4, True)
    assert (ended.exit_code, ended.stdout) == (0, "null\n")
    assert typed("kv", "a", "--wait", store=store).exit_code == 2
    assert typed("kv", "a", "total", "--timeout", "1s", store=store).exit_code == 2


def test_values_are_printed_one_or_all(store: str) -> None:
    assert typed("kv", "a", "total", store=store).stdout == "3\n"
    assert typed("kv", "a", store=store).stdout == '{"total":3}\n'
    missing = typed("kv", "a", "nothing", store=store)
    assert missing.stdout == "null\n"
    assert missing.stderr == "'a' keeps nothing under 'nothing'; its keys: total\n"
    assert typed("kv", "nowhere", store=store).exit_code == 3


CODE = ("--target", f"{__file__}:adding")


def test_a_query_is_computed_here_from_the_code(store: str) -> None:
    now = typed("query", "a", "taken", *CODE, store=store)
    before = typed("query", "a", "taken", "--at", "1", "--json", *CODE, store=store)

    assert (now.exit_code, now.stdout) == (0, "[3]\n")
    assert before.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["a", "taken"], 2, "a query is computed by code: name"),
        (["a", "other", *CODE], 2, "answer query 'other'"),
        (["nowhere", "taken", *CODE], 3, "no instance 'nowhere'"),
        (["a", "taken", "--at", "99", *CODE], 2, "has no event 99"),
    ],
    ids=["no code", "other", "nowhere", "no such event"],
)
def test_what_cannot_be_computed_is_an_error(
    store: str, words: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_TARGET", raising=False)
    done = typed("query", *words, store=store)

    assert done.exit_code == code, done.stderr
    assert said in done.stderr
