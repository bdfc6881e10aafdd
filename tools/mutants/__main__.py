"""Break what keeps promises, one line at a time, and see that the tests notice.

    python -m tools.mutants                all of them; docs/mutants.md tells what came of it
    python -m tools.mutants --only NAME    one, with the reason why its test failed
    python -m tools.mutants --jobs 4       so many at a time

First the same tests are run without any change: one that fails anyway would catch everything. Exits
with 1 if a mutant survives: then a test is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tools.mutants import GROUPS, MUTANTS
from tools.mutants.trying import ROOT, Verdict, check_tests, try_mutant

PAGE = ROOT / "docs/mutants.md"
JOBS = 2

HEAD = """# Mutants

Made by `make mutants`; do not edit. Each row is a line of the code that was broken on purpose, in a
copy, and the first test that failed because of it. The list is in `tools/mutants`. One that no test
notices makes the command fail.
"""


def page(verdicts: Sequence[Verdict]) -> str:
    """Return the page that tells what has caught each mutant."""
    caught_by = {verdict.mutant.name: verdict.caught_by for verdict in verdicts}
    parts = [HEAD]
    for title, mutants in GROUPS.items():
        rows = [f"| `{one.name}` | {one.breaks} | `{caught_by[one.name]}` |" for one in mutants]
        parts.append(f"\n## {title}\n\n| name | what is broken | caught by |\n|---|---|---|\n")
        parts.append("\n".join(rows) + "\n")
    return "".join(parts)


def tell(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Try mutants; return 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--only", metavar="NAME", action="append", choices=names)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS)
    arguments = parser.parse_args()
    mutants = [one for one in MUTANTS if arguments.only is None or one.name in arguments.only]
    trouble = check_tests(mutants)
    if trouble:
        tell(f"{trouble}\nThese tests fail without any mutant: mend them first.")
        return 1
    verdicts = []
    with ThreadPoolExecutor(arguments.jobs) as threads:
        for verdict in threads.map(try_mutant, mutants):
            verdicts.append(verdict)
            caught_by = verdict.caught_by or f"SURVIVES: {verdict.reason}"
            tell(f"{verdict.mutant.name:<38} {verdict.took_s:5.1f} s  {caught_by}")
            if arguments.only and verdict.caught_by:
                tell(f"    {verdict.reason}")
    survivors = [verdict for verdict in verdicts if not verdict.caught_by]
    tell(f"{len(verdicts) - len(survivors)} of {len(verdicts)} were caught")
    if arguments.only is None and not survivors:
        PAGE.write_text(page(verdicts), encoding="utf-8")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
