"""`perdure dev`: a worker, its pages, and both anew when the code changes."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]  # has no stubs
import pytest

from perdure.cli.serving.dev import watched_folder
from perdure.cli.serving.file_changes import FileChanges
from tests.cli.commands import Command, perdure, typed
from tests.cli.terminal import Terminal

PAGE = r"UI  (http://\S+)/\?k=(\w+)"

GREETING = """
from perdure import activity, orchestration

@activity
async def word() -> str:
    return "{word}"

@orchestration
async def greet() -> str:
    return await word()
"""


def write(folder: Path, word: str) -> Path:
    file = folder / "hello.py"
    file.write_text(GREETING.format(word=word))
    return file


def greeted(folder: Path) -> str:
    done = perdure("start", "greet", "--wait", "--timeout", "30s", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_changed_code_is_loaded_and_code_that_cannot_be_stops_nothing(
    begin: Callable[..., Command], folder: Path
) -> None:
    file = write(folder, "one")
    dev = begin("dev", "hello.py", "--port", "0")
    address, key = (await dev.says(PAGE)).groups()
    assert greeted(folder) == '"one"'

    write(folder, "two")
    await dev.says(r"hello.py changed: reloaded, 1 orchestration, 1 activity\n")
    assert greeted(folder) == '"two"'

    file.write_text("import nothing_of_that_name\n")
    await dev.says(r"(?s)No module named 'nothing_of_that_name'.*: the code from before goes on\n")
    assert greeted(folder) == '"two"'
    async with httpx.AsyncClient(base_url=address, follow_redirects=True) as browser:
        assert (await browser.get("/", params={"k": key})).status_code == 200

    write(folder, "three")
    await dev.says(r"(?s)goes on\n.*hello.py changed: reloaded")
    assert greeted(folder) == '"three"'
    dev.send(signal.SIGTERM)
    assert dev.end() == 0


async def test_code_that_cannot_be_replayed_is_said_when_it_is_loaded(
    begin: Callable[..., Command], folder: Path
) -> None:
    """The guard sees neither the environment nor the order of a set."""
    file = write(folder, "one")
    text = file.read_text().replace("return await word()", "return os.environ['REGION']")
    file.write_text(f"import os\n{text}")
    dev = begin("dev", "hello.py", "--port", "0")

    await dev.says(r"perdure check: \S*hello.py:\d+:\d+: environment: .*hand it in")
    await dev.says(PAGE)
    dev.send(signal.SIGTERM)
    assert dev.end() == 0


async def test_a_worker_that_dies_is_replaced_and_the_end_takes_all_along(
    begin: Callable[..., Command], folder: Path
) -> None:
    write(folder, "one")
    dev = begin("dev", "hello.py", "--port", "0")
    await dev.says(PAGE)
    [child] = psutil.Process(dev.process.pid).children()

    child.kill()

    await dev.says("the worker was ended by signal 9; another one starts")
    assert greeted(folder) == '"one"'
    [other] = psutil.Process(dev.process.pid).children()
    dev.process.kill()
    other.wait(30)


def test_a_person_needs_two_commands_and_ends_it_with_ctrl_c(folder: Path) -> None:
    with Terminal("new", "hello.py", cwd=folder) as terminal:
        assert terminal.end() == 0
    assert "Next: perdure dev hello.py" in terminal.text

    with Terminal("dev", "hello.py", "--port", "0", cwd=folder) as terminal:
        terminal.says("?k=")
        terminal.says("\n")
        found = re.search(PAGE, terminal.text)
        assert found, terminal.text
        with httpx.Client(base_url=found[1], follow_redirects=True) as browser:
            page = browser.get("/", params={"k": found[2]})
        children = psutil.Process(terminal.process.pid).children(recursive=True)
        cpu_s = sum(
            sum(one.cpu_times()[:2]) for one in (psutil.Process(terminal.process.pid), *children)
        )
        assert page.status_code == 200
        assert "hello.py: 1 orchestration, 1 activity   reload on" in terminal.text
        done = perdure("start", "greet_all", '["Ada"]', "--wait", "--timeout", "30s", cwd=folder)
        assert done.stdout == '["Hello, Ada!"]\n'

        terminal.types("\x03")

        assert terminal.end() == 0
    psutil.wait_procs(children, timeout=30)
    assert not any(child.is_running() for child in children)
    # The page is there within 2 s. What counts here is the work until then, whatever else runs.
    assert cpu_s < 2.0 * slowness()


def slowness() -> float:
    """Return how many times longer than usual this machine computes for the same now, or 1."""
    began_s = time.process_time()
    sum(number * number % 7 for number in range(1_000_000))
    return max(1.0, (time.process_time() - began_s) / 0.06)


def test_code_that_cannot_be_loaded_at_first_ends_it(folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")

    done = perdure("dev", "broken.py", "--port", "0", cwd=folder)

    assert done.returncode == 2
    assert "broken.py cannot be imported: ZeroDivisionError" in done.stderr
    assert typed("dev", "nowhere.py").exit_code == 2
    assert typed("dev", "nowhere.py", store="sqlite://:memory:").exit_code == 2
    gone = perdure("dev", "hello.py", "--store", "postgresql://127.0.0.1:1/x", cwd=folder)
    assert gone.returncode == 2


def test_a_store_that_is_not_there_is_said(folder: Path) -> None:
    write(folder, "one")

    gone = perdure(
        "dev", "hello.py", "--port", "0", "--store", "postgresql://127.0.0.1:1/x", cwd=folder
    )

    assert gone.returncode == 7, gone.stderr


async def test_a_change_is_seen_once_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    file = tmp_path / "package" / "module.py"
    changes = FileChanges(tmp_path)
    (tmp_path / ".hidden" / "module.py").touch()
    (tmp_path / "env" / "module.py").touch()
    (tmp_path / "notes.txt").touch()

    file.touch()
    assert await changes.next() == [file]
    file.write_text("x = 1")
    assert await changes.next() == [file]
    file.unlink()
    assert await changes.next() == [file]


def test_the_folder_of_the_outermost_package_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "__init__.py").touch()
    (tmp_path / "a" / "b" / "__init__.py").touch()

    assert watched_folder("a/b/c.py:registry") == tmp_path
    assert watched_folder("a.b.c") == tmp_path
