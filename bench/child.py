"""One run of one case, in a process of its own: `python -m bench.child CASE FOLDER full|quick`.

The database is made in the folder, and what was measured is left there as `report.json`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.cases import CASES
from bench.harness import Measured, Setup, StoreFacts

REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class Report:
    """What a child tells its parent."""

    measured: list[Measured]
    facts: list[StoreFacts]


def main() -> None:
    """Run the case and write its report."""
    name, folder, size = sys.argv[1:]
    logging.basicConfig(level=logging.WARNING)
    setup = Setup(folder=Path(folder), quick=size == "quick")
    measured = asyncio.run(CASES[name].run(setup))
    report = msgspec.json.encode(Report(measured, setup.facts))
    (setup.folder / REPORT).write_bytes(report)


if __name__ == "__main__":
    main()
