"""What the pages say is true: their programs run, their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import each
from tests.page_programs import going_on

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src/perdure"
PROSE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md")
PAGES = [ROOT / name for name in PROSE]
PAGES += sorted((ROOT / "docs").rglob("*.md"))

PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
FIRST_DECIDER = (ROOT / "docs/first-decider.md").read_text()
TESTS = "testing.md"
"""A page whose programs are tests: `tests/testing/test_testing_page.py` runs them."""
# Those of the first page and of the folders: see `test_book.py`.
GUIDES = sorted(
    page for page in (ROOT / "docs").glob("*.md") if page.name not in (TESTS, "index.md")
)
TUTORIALS = ("first-decider",)
"""Pages whose programs go on where the one before ended."""


def programs_of(page: Path) -> list[str]:
    programs = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    if page.stem not in TUTORIALS:
        return programs
    return [going_on(programs[: number + 1]) for number in range(len(programs))]


GUIDE_PROGRAMS = [
    (page.stem, number, program)
    for page in GUIDES
    for number, program in enumerate(programs_of(page), start=1)
]
PRINTED = {
    ("changing-code", 2): "['order-1 the old way', 'order-2 the new way']\n",
    ("first-decider", 4): re.findall(r"```text\n(.*?)```", FIRST_DECIDER, re.DOTALL)[0],
    ("first-decider", 5): (
        "Accepted(events=(Sold(name='Joan'),), state=Sold(name='Joan'), version=2, reply=None)\n"
        "Freed() -> Held(name='Joan'), by Hold from web\n"
    ),
    ("first-decider", 6): "0\n",
    ("own-transactions", 1): "['order-1 shipped', 'order-1', '1']\n",
    ("own-transactions", 2): "('seat 2 for Ada', [(1, None), (2, 'Ada')])\n",
    ("web", 1): "order-1: book packed\n",
    ("web", 2): "401 {'items': [], 'next': None} forbidden\n",
    ("operating", 1): "ship-2: 3 done, 3 deleted\n",
    ("operating", 2): "a book paid with 42\n",
}
"""What the programs of the guides print that have a `main`."""


def run_program(program: str, folder: Path) -> str:
    file = folder / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_program_of_the_readme_greets_everybody(tmp_path: Path) -> None:
    assert run_program(PROGRAMS[0], tmp_path) == "['Hello, Ada!', 'Hello, Grace!']\n"


def test_the_second_program_of_the_readme_charges_the_order(tmp_path: Path) -> None:
    assert run_program(PROGRAMS[1], tmp_path) == "receipt for order-42: 12900\n"


def test_the_third_program_of_the_readme_rejects_what_is_too_much(tmp_path: Path) -> None:
    assert run_program(PROGRAMS[2], tmp_path) == "Rejected(reason='only 20 left')\n"


@pytest.mark.parametrize(("page", "number", "program"), GUIDE_PROGRAMS)
def test_the_programs_of_the_guides_run(
    page: str, number: int, program: str, tmp_path: Path
) -> None:
    printed = run_program(program, tmp_path).splitlines()
    # Sorted: when exactly an effect runs beside the program is nobody's promise.
    assert sorted(printed) == sorted(PRINTED.get((page, number), "").splitlines())
    assert bool(printed) == ((page, number) in PRINTED)


def test_the_first_screen_of_the_readme_holds_program_and_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])

    assert PROGRAMS[0] in first_screen
    assert "make demo" in first_screen
    assert "make test" in first_screen


@each(PAGES)
def test_links_of_a_page_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@each(PAGES)
def test_files_named_on_a_page_exist(page: Path) -> None:
    """Paths in back quotes, relative to the project, to the package, or to the page."""
    for name in re.findall(
        r"`([a-z_]+(?:/[a-z_0-9]+)*/[a-z_0-9]+\.(?:py|sql|md))`", page.read_text()
    ):
        assert any((above / name).exists() for above in (ROOT, SRC, page.parent)), name


def test_the_examples_of_the_page_on_tests_are_tests() -> None:
    page = (ROOT / "tests/README.md").read_text()
    examples = re.findall(r"`(\w+/test_\w+\.py)`\)\.\n\n```python\n(.*?)```", page, re.DOTALL)

    assert len(examples) == 3
    for file, example in examples:
        assert example in (ROOT / "tests" / file).read_text(), file


def test_the_architecture_page_fits_its_limit() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 200


def test_the_architecture_page_names_every_table() -> None:
    tables = (ROOT / "ARCHITECTURE.md").read_text().partition("## Tables\n")[2]
    tables = tables.partition("\n## ")[0]
    schemas = [SRC / "store/sqlite/schema.sql", *(SRC / "store/postgres/migrations").glob("*.sql")]
    made = {
        name
        for schema in schemas
        for name in re.findall(r"^CREATE TABLE (?:perdure\.)?(\w+)", schema.read_text(), re.M)
    }

    assert len(made) > 20
    assert sorted(name for name in made if f"`{name}`" not in tables) == []


def test_decision_records_fit_one_page() -> None:
    for record in (ROOT / "docs/decisions").glob("*.md"):
        assert len(record.read_text().splitlines()) <= 60, record.name


def test_the_example_finishes_and_an_id_gives_the_recorded_result(tmp_path: Path) -> None:
    example = (ROOT / "examples/greet_all.py").read_text()

    for arguments in ([], ["greet-1"], ["greet-1"]):
        file = tmp_path / "greet_all.py"
        file.write_text(example)
        done = subprocess.run(
            [sys.executable, str(file), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert done.stdout == "['Hello, Ada!', 'Hello, Grace!']\n", done.stderr
