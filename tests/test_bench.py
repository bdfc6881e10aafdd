"""The benchmarks run. How fast things are is not a question for a test.

Some are dozens of processes, one after the other: on a busy machine that takes minutes.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cases import chosen
from bench.phases import phases_of

PROJECT = Path(__file__).parent.parent
WITHIN_S = 600

pytestmark = pytest.mark.timeout(WITHIN_S + 20)

MACHINERY = {
    *("__init__", "__main__", "cases", "child", "databases", "harness", "machine", "peers"),
    *("report", "servers", "anatomy", "anatomy_run", "anatomy_subjects", "disk", "phases"),
    *(
        "apart",
        "apart_program",
        "by_turns",
        "page_server",
        "page_visitors",
        "planting",
        "stopwatch",
        "tracer",
    ),
}
"""Files of `bench` that ask no question of their own."""

QUESTIONS = {file.stem for file in (PROJECT / "bench").glob("*.py")} - MACHINERY
ON_POSTGRES = {"postgres", "two_processes", "idle_fleet", "server_cost", "bloat"}
AT_SCALE = {"at_rest", "backlog"}


@pytest.mark.parametrize(
    "questions",
    [QUESTIONS - ON_POSTGRES - AT_SCALE, AT_SCALE, ON_POSTGRES],
    ids=["sqlite", "at scale", "postgresql"],
)
def test_every_benchmark_gives_a_number(questions: set[str], tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    options = ["--quick", "--repeat", "1", "--json", str(out)]

    done = subprocess.run(
        [sys.executable, "-m", "bench", *sorted(questions), *options],
        cwd=PROJECT,
        env={**os.environ, "BENCH_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert {row["case"].split("/")[0] for row in rows} == questions
    assert [row["row"] for row in rows if not math.isfinite(row["median"])] == []


def test_everything_is_run_when_nothing_is_asked_for() -> None:
    assert {case.name.split("/")[0] for case in chosen([])} == QUESTIONS


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_anatomy_meets_every_phase(store: str, tmp_path: Path) -> None:
    options = ["--store", store, "--subject", "activity", "--quick", "--repeat", "1"]

    done = subprocess.run(
        [sys.executable, "-m", "bench.anatomy", *options],
        cwd=PROJECT,
        env={**os.environ, "BENCH_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    of_one_activity = done.stdout.split("\n\n")[0]
    for phase in phases_of("sqlite" if store == "sqlite" else "postgresql"):
        assert f" {phase.name} " in of_one_activity
