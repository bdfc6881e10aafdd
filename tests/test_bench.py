"""The benchmarks run. How fast things are is not a question for a test."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parent.parent
MACHINERY = {"__init__", "__main__", "cases", "child", "harness", "machine", "report"}
"""Files of `bench` that ask no question of their own."""


def test_every_benchmark_gives_a_number(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, "-m", "bench", "--quick", "--repeat", "1", "--json", str(out)]

    done = subprocess.run(
        command,
        cwd=PROJECT,
        env={**os.environ, "BENCH_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    questions = {file.stem for file in (PROJECT / "bench").glob("*.py")} - MACHINERY
    assert {row["case"].split("/")[0] for row in rows} == questions
    assert [row["row"] for row in rows if not math.isfinite(row["median"])] == []
