"""The pytest plugin, in runs of pytest of its own: as a project sees it that has perdure."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from perdure.testing import Trial, plugin

SHOP = """
import asyncio
from perdure import activity, orchestration

@activity
async def charge(amount: int) -> int:
    return amount

@orchestration
async def buy(amount: int) -> int:
    await asyncio.sleep(86_400)
    return await charge(amount)
"""

TESTS = """
import asyncio
from datetime import timedelta
import pytest
from shop import buy, charge

PERDURE = [buy, charge]

async def buys(trial):
    trial.fake(charge).returns(7)
    handle = await trial.start("a", buy, 1)
    await trial.advance(timedelta(days=1))
    assert await handle.result() == 7

async def test_by_the_plugin_itself(trial):
    await buys(trial)

@pytest.mark.asyncio
async def test_by_pytest_asyncio(trial):
    await buys(trial)

@pytest.mark.anyio
async def test_by_anyio(trial, anyio_backend):
    await buys(trial)

def test_that_is_not_async(trial):
    async def main():
        async with trial:
            await buys(trial)
    asyncio.run(main())

@pytest.mark.crash_everywhere(max_runs=4)
async def test_that_crashes(trial):
    await buys(trial)

class TestOther:
    @pytest.fixture
    def definitions(self):
        return [charge]

    async def test_with_definitions_of_a_fixture(self, trial):
        with pytest.raises(Exception, match="cannot move: .*buy"):
            await (await trial.start("a", buy, 1)).result()

@pytest.mark.xfail(strict=True)
async def test_that_fails(trial):
    assert (await trial.start("a", buy, 1)) is None
"""

CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore",
            *arguments,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_async_tests_have_a_trial_whatever_runs_them(project: Path) -> None:
    (project / "test_shop.py").write_text(TESTS)
    (project / "conftest.py").write_text(CONFTEST)

    assert "6 passed, 1 xfailed" in run_pytest(project)


THROUGH_A_FIXTURE = """
import pytest
import pytest_asyncio
from shop import buy, charge

PERDURE = [buy, charge]

@pytest.fixture
def paying(trial):
    trial.fake(charge).returns(7)
    return trial

async def test_that_has_it_from_a_fixture(paying):
    handle = await paying.start("a", buy, 1)
    await paying.advance(86_400)
    assert await handle.result() == 7

@pytest_asyncio.fixture
async def begun(trial):
    await trial.open()
    return await trial.start("a", buy, 1)

@pytest.mark.asyncio
async def test_that_was_begun_by_a_fixture(begun, trial):
    await trial.advance(86_400)
    assert await begun.result() == 1
"""


def test_a_fixture_may_stand_between_a_test_and_its_trial(project: Path) -> None:
    (project / "test_shop.py").write_text(THROUGH_A_FIXTURE)

    assert "2 passed" in run_pytest(project)


WRONG_MARKERS = """
import pytest
from shop import buy, charge

PERDURE = [buy, charge]

@pytest.fixture
def other(trial):
    return trial

@pytest.mark.crash_everywhere
async def test_of_a_trial_that_was_there_before(other): pass

@pytest.mark.crash_everywhere(10)
async def test_by_position(trial): pass

@pytest.mark.crash_everywhere(runs=10)
async def test_of_another_name(trial): pass

@pytest.mark.crash_everywhere
def test_that_is_not_async(trial): pass
"""


def test_a_marker_that_cannot_work_is_told(project: Path) -> None:
    (project / "test_shop.py").write_text(WRONG_MARKERS)

    said = run_pytest(project)

    assert "let test_of_a_trial_that_was_there_before itself take trial" in said
    assert "takes max_runs= and seed=, got 10: @pytest.mark.crash_everywhere(max_runs=100)" in said
    assert "takes max_runs= and seed=, got runs" in said
    assert "crash_everywhere is for async tests of a trial" in said
    assert "passed" not in said


async def history() -> str:
    """Return a history of the project's orchestration, as lines."""
    names: dict[str, Any] = {}
    exec(SHOP, names)
    async with Trial([names["buy"], names["charge"]]) as trial:
        handle = await trial.start("a-1", names["buy"], 3)
        await trial.advance(timedelta(days=1))
        return "\n".join(map(json.dumps, await handle.export()))


async def test_seeds_histories_and_many_processes_go_together(project: Path) -> None:
    (project / "test_shop.py").write_text(TESTS.partition("@pytest.mark.asyncio")[0])
    recorded = project / "recorded"
    recorded.mkdir()
    good = await history()
    (recorded / "good.jsonl").write_text(good)
    (recorded / "bad.jsonl").write_text(good.replace("charge", "refund"))
    (recorded / "notes.txt").write_text("")

    wanted = ["-n", "2", "--perdure-seeds", "2", "--replay-histories", "recorded"]
    said = await asyncio.to_thread(run_pytest, project, *wanted, "--replay-target", "shop.py")

    assert "1 failed, 3 passed" in said, said
    assert re.search(r"activity scheduled refund .* activity scheduled charge", said), said


def test_a_project_that_does_not_use_it_pays_for_nothing(project: Path) -> None:
    """Nothing of perdure is loaded but the plugin and the packages that it stands in; and what is
    missing is said once it is used."""
    (project / "test_first.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    print(sorted(name for name in sys.modules if name.startswith('perdure')))\n"
    )
    (project / "test_then.py").write_text("async def test_it(trial): pass\n")

    said = run_pytest(project, "-s")

    assert "['perdure', 'perdure.testing', 'perdure.testing.plugin']" in said
    assert "write PERDURE = [...] in test_then" in said


def test_a_folder_of_histories_that_is_not_there_is_named() -> None:
    class Config:
        """What the plugin asks for."""

        addinivalue_line = staticmethod(lambda *_: None)
        getoption = staticmethod(lambda _: "nowhere")

    with pytest.raises(pytest.UsageError, match="there is no folder nowhere"):
        plugin.pytest_configure(cast(pytest.Config, Config))
