"""Runs programs of pages one after another in one process, each in a folder of its own.

    python -m tests.page_programs FOLDER...

A folder holds `program.py`. What it prints is left beside it in `printed.txt`, and the traceback in
`error.txt` if it fails. A process of its own for each would cost more than all of them do.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import runpy
import sys
import traceback
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

MAIN = """
if __name__ == "__main__":
    import asyncio

    outcome = asyncio.run(main())
    if outcome is not None:
        print(outcome)
"""
"""Runs a program that has a `main`, and prints what that returns."""


def run(folder: Path) -> None:
    """Run the program of a folder, and the tests that it defines."""
    os.chdir(folder)
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            names = runpy.run_path(str(folder / "program.py"), run_name="__main__")
            for name, test in names.items():
                if name.startswith("test_"):
                    outcome = test()
                    if inspect.iscoroutine(outcome):
                        asyncio.run(outcome)
    except BaseException:
        (folder / "error.txt").write_text(traceback.format_exc())
    (folder / "printed.txt").write_text(printed.getvalue())


if __name__ == "__main__":
    for given in sys.argv[1:]:
        run(Path(given).absolute())
