"""Runs programs of pages one after another in one process, each in a folder of its own.

    python -m tests.page_programs FOLDER...

A folder holds `program.py`. What it prints is left beside it in `printed.txt`, and the traceback in
`error.txt` if it fails. A process of its own for each would cost more than all of them do.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from perdure.testing import Trial

RUNS_MAIN = re.compile(
    r'\n\nif __name__ == "__main__":\n    (print\()?asyncio\.run\(main\(\)\)\)?\n$', re.MULTILINE
)
"""How a program of a page ends that has a `main`, so that it does something when it is copied."""


def going_on(programs: Iterable[str]) -> str:
    """Return programs of a page as one file: of several `main`s only the last one runs."""
    *earlier, last = programs
    return "\n\n".join([*(RUNS_MAIN.sub("", program) for program in earlier), last])


def run(folder: Path) -> None:
    """Run the program of a folder, and the tests that it defines."""
    os.chdir(folder)
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            names = runpy.run_path(str(folder / "program.py"), run_name="__main__")
            for name, test in names.items():
                if name.startswith("test_"):
                    _run_test(test, names)
    except BaseException:
        (folder / "error.txt").write_text(traceback.format_exc())
    (folder / "printed.txt").write_text(printed.getvalue())


def _run_test(test: Callable[..., Any], names: dict[str, Any]) -> None:
    """Run a test as pytest does; the fixture `trial` is the one that it knows."""

    async def in_trial() -> None:
        async with Trial(names["PERDURE"]) as trial:
            await test(trial)

    if "trial" in inspect.signature(test).parameters:
        asyncio.run(in_trial())
    else:
        test()


if __name__ == "__main__":
    for given in sys.argv[1:]:
        run(Path(given).absolute())
