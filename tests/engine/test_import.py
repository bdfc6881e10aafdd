"""`import perdure` is quick and loads no driver, no command line, no optional package."""

from __future__ import annotations

import json
import subprocess
import sys

MAX_IMPORT_MS = 100
RUNS = 5

UNWANTED = {
    "asyncpg",
    "attr",
    "attrs",
    "click",
    "jinja2",
    "pydantic",
    "rich",
    "sqlite3",
    "starlette",
    "uvicorn",
}

EVERYTHING = "import perdure; [getattr(perdure, name) for name in perdure.__all__]"


def milliseconds_of(program: str) -> float:
    """Return how long a program computes, whatever else the machine does meanwhile."""
    timed = f"import time; t = time.process_time(); {program}; print(time.process_time() - t)"
    done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1000


def modules_after(program: str) -> set[str]:
    listing = f"{program}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout)
    return {name.partition(".")[0] for name in found}


def test_importing_perdure_takes_less_than_a_tenth_of_a_second() -> None:
    quickest = min(milliseconds_of("import perdure") for _ in range(RUNS))

    assert quickest < MAX_IMPORT_MS


def test_importing_perdure_loads_nothing_it_does_not_need_yet() -> None:
    before = modules_after("pass")

    assert modules_after("import perdure") & UNWANTED - before == set()
    assert modules_after(EVERYTHING) & UNWANTED - before == set()


def test_a_store_loads_its_own_driver_only() -> None:
    make = "from perdure import Engine; e = Engine('sqlite://:memory:', [])"
    use = "import asyncio; asyncio.run(e.__aenter__())"

    assert modules_after(f"{make}; {use}") & UNWANTED == {"sqlite3"}
