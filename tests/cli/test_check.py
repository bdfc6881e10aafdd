"""`perdure check`: the text of the code, and the live instances of a store before a deploy."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, Engine
from perdure.lint.findings import KINDS
from tests.cli.commands import typed
from tests.engine.stage import until

GOOD = """
import asyncio
from perdure import Signal, activity, orchestration

go = Signal("go", str)

@activity
async def charge(name: str) -> str:
    return name

@orchestration
async def order(name: str, rounds: int) -> str:
    for _ in range(rounds):
        await charge(name)
    return await go.receive()

@orchestration
async def other() -> str:
    return await go.receive()
"""

CHANGED = GOOD.replace(
    "        await charge(name)", "        await charge(name)\n        await charge('more')"
)
BAD = "import time\n" + GOOD.replace("return await go", "print(time.time())\n    return await go")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "checked_shop.py").write_text(GOOD)
    yield tmp_path
    sys.modules.pop("checked_shop", None)


def rewrite(folder: Path, text: str) -> None:
    """Put other code in the place of the module."""
    (folder / "checked_shop.py").write_text(text)
    sys.modules.pop("checked_shop", None)
    importlib.invalidate_caches()


@pytest.fixture
def store(folder: Path) -> str:
    """A store with live instances: three that went round once, one twice, one not at all."""
    url = f"sqlite:///{folder}/shop.db"

    async def fill() -> None:
        shop = importlib.import_module("checked_shop")
        async with Engine(url, [shop]) as engine:
            for number, rounds in enumerate([1, 1, 1, 2, 0]):
                await engine.start(f"o-{number}", shop.order, "book", rounds)
            await engine.start("x-1", shop.other)
            await (await engine.start("done", shop.other)).send(shop.go, "now")
            await until(lambda: rest(engine))

    async def rest(client: Client) -> bool:
        said = [await client.handle(f"o-{number}").explain() for number in range(5)]
        return all("signal 'go'" in one for one in said)

    asyncio.run(fill())
    return url


# --------------------------------------------------------------------------- the text


def test_code_that_can_be_replayed_is_good(folder: Path) -> None:
    for target in ("checked_shop.py", "checked_shop", "."):
        done = typed("check", target)

        assert (done.exit_code, done.stdout) == (0, ""), done.output
        assert done.stderr == "2 definitions in 1 file: 0 findings\n"


def test_a_finding_is_a_line_and_an_exit_code(folder: Path) -> None:
    rewrite(folder, BAD)

    done = typed("check", "checked_shop.py")

    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"checked_shop.py:{line}:11: clock: time.time() cannot be replayed: use context().now() "
        f"[orchestration {name}]"
        for line, name in ((16, "order"), (21, "other"))
    ]


def test_one_definition_can_be_named(folder: Path) -> None:
    rewrite(folder, BAD)

    assert typed("check", "checked_shop.py:other").stdout.count("\n") == 1


def test_findings_are_given_as_json_and_sarif(folder: Path) -> None:
    rewrite(folder, BAD)

    found = json.loads(typed("check", "-o", "json", "checked_shop.py").stdout)
    sarif = json.loads(typed("check", "-o", "sarif", "checked_shop.py").stdout)

    assert [(one["line"], one["kind"]) for one in found["findings"]] == [
        (16, "clock"),
        (21, "clock"),
    ]
    assert found["replays"] == []
    [run] = sarif["runs"]
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == list(KINDS)
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "checked_shop.py"
    assert place["region"] == {"startLine": 16, "startColumn": 11}


def test_what_is_not_there_is_said(folder: Path) -> None:
    done = typed("check", "nothing.here")

    assert done.exit_code == 2
    assert "nothing.here: there is no such file or folder, nor a module" in done.stderr


def test_the_hook_for_pre_commit_runs_the_command() -> None:
    hook = (Path(__file__).parent.parent.parent / ".pre-commit-hooks.yaml").read_text()

    assert "entry: perdure check\n" in hook
    assert "types: [python]\n" in hook


# -------------------------------------------------------------------------- the gate


def test_code_that_fits_every_live_instance_passes(store: str) -> None:
    done = typed("check", "checked_shop.py", "--store", store, "--per-shape", "2")

    assert done.exit_code == 0, done.output
    # Round once, twice or not at all: three ways. Of the first one two are replayed.
    assert "order: 5 live, 3 shapes, 4 replayed, all fit\n" in done.stderr
    assert "other: 1 live, 1 shape, 1 replayed, all fit\n" in done.stderr


def test_the_live_instances_are_named_that_would_not_fit(store: str, folder: Path) -> None:
    rewrite(folder, CHANGED)

    done = typed("check", "checked_shop", "--store", store, "--per-shape", "1")

    assert done.exit_code == 6
    said = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in sorted(said)] == ["o-0", "o-1", "o-2", "o-3"]
    assert said[0].startswith("o-")
    assert (
        "(order 1.0.0) does not fit: event 4: recorded signal awaited go, the code asks for "
        in (min(said))
    )
    assert "order: 5 live, 3 shapes, 5 replayed, 4 do not fit" in done.stderr
    assert "other: 1 live, 1 shape, 1 replayed, all fit" in done.stderr


def test_a_version_that_is_gone_is_named(store: str, folder: Path) -> None:
    rewrite(
        folder,
        GOOD.replace(
            "@orchestration\nasync def other", "@orchestration(version='2.0.0')\nasync def other"
        ),
    )

    done = typed("check", ".", "--store", store, "-o", "json")

    assert done.exit_code == 6
    [unfit] = json.loads(done.stdout)["replays"][1]["unfit"]
    assert unfit["instance_id"] == "x-1"
    assert "other@1.0.0" in unfit["problem"]


def test_so_many_are_looked_at_and_no_more(store: str) -> None:
    done = typed("check", "checked_shop.py", "--store", store, "--limit", "2")

    assert "order: 2 live, there are more" in done.stderr


def test_a_store_that_is_not_there_is_not_made(folder: Path) -> None:
    done = typed("check", "checked_shop.py", "--store", "sqlite:///none.db")

    assert done.exit_code == 7
    assert not (folder / "none.db").exists()


def test_a_name_that_is_not_there_is_refused(folder: Path) -> None:
    done = typed("check", "checked_shop.py:ordr")

    assert done.exit_code == 2
    assert "there is no orchestration or decider 'ordr' in checked_shop.py" in done.output
    assert typed("check", "checked_shop.py:order").exit_code == 0


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"# -*- coding: latin-1 -*-\n# \xe9\n"])
def test_a_file_is_read_in_the_encoding_that_python_reads_it_in(
    folder: Path, before: bytes
) -> None:
    (folder / "checked_shop.py").write_bytes(before + BAD.encode())

    done = typed("check", "checked_shop.py")

    assert "time.time()" in done.output
    assert "unreadable" not in done.output


def test_a_file_that_is_no_python_is_told(folder: Path) -> None:
    (folder / "checked_shop.py").write_bytes(GOOD.encode() + b"\0")

    done = typed("check", "checked_shop.py")

    assert done.exit_code == 1
    assert "unreadable" in done.output
