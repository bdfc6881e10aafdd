"""One run of one case, in a process of its own: `python -m bench.child CASE FOLDER SIZE URL`.

The size is full or quick, the URL that of a new database. What was measured is left in the folder
as `report.json`. The process ends with the one that holds the other end of its stdin: a store whose
server is gone would wait for it for ever.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.cases import chosen
from bench.harness import Measured, Setup, StoreFacts

REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class Report:
    """What a child tells its parent."""

    measured: list[Measured]
    facts: list[StoreFacts]


def main() -> None:
    """Run the case that the command line names."""
    run(*sys.argv[1:])


def run(name: str, folder: str, size: str, url: str) -> None:
    """Run the case and write its report."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    logging.basicConfig(level=logging.WARNING)
    setup = Setup(folder=Path(folder), url=url, quick=size == "quick")
    [case] = [case for case in chosen([name]) if case.name == name]
    measured = asyncio.run(case.run(setup))
    report = msgspec.json.encode(Report(measured, setup.facts))
    (setup.folder / REPORT).write_bytes(report)


def end_with_parent() -> None:
    """Wait until nobody can write to stdin any more, which nobody does, then end at once."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
