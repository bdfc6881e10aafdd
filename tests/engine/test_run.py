"""`perdure.run` as people meet it: in a script of their own, killed and started again."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Client, Retry, Signal, activity, default_url, orchestration, run
from perdure.client.obstacles import Obstacles
from perdure.errors import AlreadyExistsError, InstanceFailedError
from tests.engine.stage import Stage, complaints, until, waits_for
from tests.sizes import WITHIN_S

SCRIPT = """
import asyncio
from perdure import activity, orchestration, run

@activity
async def say_hello(name: str) -> str:
    return f"Hello, {name}!"

@orchestration
async def greet_all(names: list[str]) -> list[str]:
    return await asyncio.gather(*(say_hello(name) for name in names))

if __name__ == "__main__":
    print(run(greet_all, ["Ada", "Grace"]))
"""

SLOW_SCRIPT = """
import os
from pathlib import Path
from perdure import Signal, activity, orchestration, run

HERE = Path(__file__).parent

@activity
def step(number: int) -> int:
    with open(HERE / "steps", "a") as steps:
        steps.write(f"{number}\\n")
    if number == 3 and not (HERE / "killed").exists():
        (HERE / "killed").touch()
        print("ready", flush=True)
        os.read(0, 1)  # until it is killed
    return number

@orchestration
async def steps(count: int) -> int:
    return sum([await step(number) for number in range(count)])

if __name__ == "__main__":
    print(run("steps-1", steps, 6))
"""


STAMPED = """
import time
from perdure import orchestration, run
@orchestration
async def stamped() -> float:
    return time.time()

if __name__ == "__main__":
    print(run("s-1", stamped))
"""


@activity
async def double(x: int) -> int:
    return 2 * x


@orchestration
async def doubled(x: int) -> int:
    return await double(x)


@orchestration
async def failing() -> None:
    raise LookupError("gone")


@pytest.fixture(autouse=True)
def store_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/run.db"
    monkeypatch.setenv("PERDURE_STORE", url)
    return url


def start(script: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
        cwd=script.parent,
    )


def test_the_first_program_of_the_readme_prints_its_greetings(tmp_path: Path) -> None:
    script = tmp_path / "greet.py"
    script.write_text(SCRIPT)

    out, err = start(script).communicate(timeout=WITHIN_S)

    assert (out, complaints(err)) == ("['Hello, Ada!', 'Hello, Grace!']\n", [])


def test_without_a_setting_the_store_is_a_file_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_STORE")
    script = tmp_path / "greet.py"
    script.write_text(SCRIPT)

    start(script).communicate(timeout=WITHIN_S)

    assert (tmp_path / "perdure.db").exists()


def test_the_default_store_is_the_one_that_is_set(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_url() == store_url

    monkeypatch.delenv("PERDURE_STORE")

    assert default_url() == "sqlite:///perdure.db"


def test_a_killed_run_goes_on_where_it_was_and_runs_no_step_twice(tmp_path: Path) -> None:
    script = tmp_path / "steps.py"
    script.write_text(SLOW_SCRIPT)
    process = start(script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()

    out, err = start(script).communicate(timeout=60)

    assert (out, complaints(err)) == ("15\n", [])
    steps = (tmp_path / "steps").read_text().split()
    assert steps == ["0", "1", "2", "3", "3", "4", "5"]

    again, _ = start(script).communicate(timeout=WITHIN_S)
    assert again == "15\n"
    assert (tmp_path / "steps").read_text().split() == steps


async def test_ctrl_c_gives_back_what_is_under_way(tmp_path: Path, store_url: str) -> None:
    script = tmp_path / "steps.py"
    script.write_text(SLOW_SCRIPT)
    process = start(script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    process.send_signal(signal.SIGINT)
    process.wait(WITHIN_S)  # before its input ends, with which the step would end too
    _, err = process.communicate()

    *_, last, advice = err.rstrip().splitlines()
    assert last == "KeyboardInterrupt"
    assert advice == (
        "what instance 'steps-1' has done is kept: run('steps-1', steps, ...) goes on with it"
    )
    async with Client(store_url) as client:
        [job] = await client._core.store.read_jobs("steps-1")
        assert (job.worker_id, job.token) == (None, 0)
    out, _ = start(script).communicate(timeout=WITHIN_S)
    assert out == "15\n"


def test_run_returns_the_result() -> None:
    assert run(doubled, 21) == 42


MODULES = {
    "charging": """
from perdure import activity

@activity
async def charge(amount: int) -> int:
    return amount
""",
    "shipping": """
from perdure import activity, orchestration

@activity
def pack(item: str) -> str:
    return f"packed {item}"

@activity
def by_table(item: str) -> str:
    return f"labelled {item}"

STEPS = {"label": by_table}

async def helped(item: str) -> str:
    return await STEPS["label"](await pack(item))

@orchestration
async def ship(item: str) -> str:
    return await helped(item)
""",
    "ordering": """
import charging
from perdure import orchestration
from shipping import ship

@orchestration
async def order(item: str) -> str:
    paid = await charging.charge(5)
    return f"{await ship(item)} for {paid}"
""",
}


def test_run_serves_what_its_code_calls_wherever_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Activities of an imported module, a child, and what that calls by a helper and a table."""
    for name, source in MODULES.items():
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))

    ordering = importlib.import_module("ordering")

    assert run(ordering.order, "book") == "labelled packed book for 5"


def test_a_run_of_mended_code_goes_on_with_what_an_earlier_one_blocked(tmp_path: Path) -> None:
    script = tmp_path / "stamped.py"
    script.write_text(STAMPED)
    out, err = start(script).communicate(timeout=WITHIN_S)
    assert out == ""
    assert "time.time() at stamped.py:6 in stamped cannot be replayed" in err
    assert "run() with the instance id 's-1' goes on with it" in err

    script.write_text(STAMPED.replace("time.time()", "1.5"))
    out, err = start(script).communicate(timeout=WITHIN_S)

    assert (out, complaints(err)) == ("1.5\n", [])


def test_run_with_an_id_twice_returns_the_recorded_result() -> None:
    assert run("d-1", doubled, 21) == 42
    assert run("d-1", doubled, 21) == 42

    with pytest.raises(AlreadyExistsError, match="with another input"):
        run("d-1", doubled, 1)


def test_run_takes_keywords() -> None:
    assert run(doubled, x=4) == 8


def test_run_raises_what_the_result_would() -> None:
    with pytest.raises(InstanceFailedError, match="LookupError: gone"):
        run(failing)


async def test_run_works_where_a_loop_runs_already() -> None:
    """As in a notebook. It holds that loop up, which is what a blocking call does."""
    assert run(doubled, 21) == 42
    assert await asyncio.to_thread(run, doubled, 4) == 8


async def test_a_run_that_waits_for_what_may_not_come_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PERDURE_STORE", f"sqlite:///{tmp_path}/run.db")
    monkeypatch.setattr("perdure.client.obstacles.TELL_AFTER_S", 0)
    go = Signal("go", int)

    @orchestration
    async def waits() -> int:
        return await go.receive()

    running = asyncio.create_task(asyncio.to_thread(run, "w-1", waits))
    await until(lambda: "run() goes on waiting" in caplog.text)
    async with Client(default_url()) as client:
        await client.handle("w-1").send(go, 7)

    async with asyncio.timeout(WITHIN_S):
        assert await running == 7
    assert "w-1 (waits 1.0.0) waits for signal 'go'" in caplog.text


async def test_a_run_whose_activity_fails_again_and_again_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage.expect_log("run.. goes on waiting")
    monkeypatch.setattr("perdure.client.obstacles.TELL_AFTER_S", 0)

    @activity(retry=Retry(max_attempts=None, first_delay=3600))
    async def flaky() -> None:
        raise ValueError("a text of the user")

    @orchestration
    async def waits() -> None:
        await flaky()

    engine = await stage.engine([waits, flaky])
    handle = await engine.start("w-1", waits)
    await waits_for(handle, "attempt 1 failed: ValueError: a text of the user")

    await Obstacles(engine)._tell(handle)

    assert "w-1 (waits 1.0.0) waits for activity 'flaky'" in caplog.text
    assert "(attempt 1 failed, next one" in caplog.text
    assert "a text of the user" not in caplog.text
