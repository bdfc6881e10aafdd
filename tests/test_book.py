"""The book is whole: pages have a place, links lead somewhere, programs do what their page says.

Nothing is built here: `make docs` does that, and is as strict about pages and links.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.each import each
from tests.named import ROOT
from tests.page_programs import RUNS_MAIN, going_on
from tools import book
from tools.make_public_names import MODULES, OBJECTS, members, public_names

DOCS = ROOT / "docs"
PAGES = book.pages()
WRITTEN = [ROOT / "README.md", *(file for file in PAGES.values() if file.suffix == ".md")]

NOT_GUIDES = ("decisions/", "examples/", "reference/")
MAKERS = (
    *book.PROJECT,
    "coverage.md",
    "findings.md",
    "mutants.md",
    "where-a-change-goes.md",
    "glossary.md",
)
CURES = DOCS / "reference/errors.md"
GUIDES = [
    CURES,
    *(f for page, f in PAGES.items() if page not in MAKERS and not page.startswith(NOT_GUIDES)),
]
"""Pages that tell what to do or why; of the reference the one that says so for each error."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PERDURE_STORE"}
"""Programs that name no store have one in their own folder."""

GO_ON = ("tutorial",)
"""Pages whose programs go on where the one before ended."""

BOOK = [DOCS / "index.md", *sorted(DOCS.glob("*/*.md"))]
"""Pages that show below each program what it prints; for the others see `test_docs.py`."""


# ------------------------------------------------------------------- pages and links


def test_every_page_is_in_the_list_of_contents_once() -> None:
    listed = book.listed_pages()

    assert sorted(PAGES.keys() - set(listed)) == [], "add the page to docs/book.toml"
    assert sorted(set(listed) - PAGES.keys()) == [], "there is no such page"
    assert len(listed) == len(set(listed))


@cache
def prose(file: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return book.FENCE.sub("", file.read_text(encoding="utf-8"))


@cache
def anchors(file: Path) -> frozenset[str]:
    """Return what links to a page may have behind a hash: its headings, as the site makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(file), re.MULTILINE)
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts)


@each(WRITTEN, name=lambda file: str(file.relative_to(ROOT)))
def test_every_link_and_anchor_of_a_page_leads_somewhere(file: Path) -> None:
    for target, anchor in book.LINK.findall(prose(file)):
        path = (file.parent / target).resolve()
        assert path.exists(), f"there is no {target}"
        assert not anchor or anchor[1:] in anchors(path), f"{target} has no heading for {anchor}"
    for anchor in re.findall(r"\]\(#([^)]*)\)", prose(file)):
        assert anchor in anchors(file), f"there is no heading for #{anchor}"


@each(PAGES, name=str)
def test_every_link_of_the_book_stays_in_it(page: str) -> None:
    file = PAGES[page]
    if file.suffix == ".md":
        book.for_book(file.read_text(encoding="utf-8"), str(file.relative_to(ROOT)))


def test_a_link_leads_to_the_same_page_in_the_book_as_in_the_repository() -> None:
    saga = Path("saga.py").with_suffix(".md")
    text = "[a](../operating.md#removal) [b](../../ARCHITECTURE.md) [c](../../examples/saga.py) [d](https://x.y)"

    assert book.for_book(text, "docs/how-to/errors.md") == (
        "[a](../operating.md#removal) [b](../ARCHITECTURE.md) "
        f"[c](../examples/{saga}) [d](https://x.y)"
    )


def test_a_link_to_a_folder_without_a_page_is_refused() -> None:
    with pytest.raises(AssertionError, match="links to docs/images, which is not in the book"):
        book.for_book("[pictures](images)", "docs/web.md")


@each(WRITTEN, name=lambda file: str(file.relative_to(ROOT)))
def test_lists_and_tables_are_written_so_that_every_reader_sees_them(file: Path) -> None:
    """Some want an empty line before a list or a table, and four spaces before a list in a list."""
    lines = prose(file).splitlines()
    for before, line in pairwise(lines):
        is_item = re.match(r"( *)(?:[-*]|\d+\.) ", line)
        is_inside = before.startswith((" ", "-", "*", "|")) or re.match(r"\d+\. ", before)
        begins = (is_item or line.startswith("|")) and before.strip() and not is_inside
        assert not begins, f"no empty line before: {line}"
        assert not is_item or len(is_item[1]) % 4 == 0, (
            f"four spaces before a list in a list: {line}"
        )


# ----------------------------------------------------------------------------- names


@cache
def words_of_guides() -> frozenset[str]:
    return frozenset(re.findall(r"\w+", "\n".join(file.read_text() for file in GUIDES)))


@each(MODULES)
def test_every_public_name_of_a_module_occurs_in_a_guide(module: str) -> None:
    missing = [name for name in public_names(module) if name not in words_of_guides()]

    assert missing == []


@each(OBJECTS, name=lambda kind: kind.__name__)
def test_everything_that_a_public_object_has_occurs_in_a_guide(kind: type) -> None:
    missing = [name for name in members(kind) if name not in words_of_guides()]

    assert missing == []


# -------------------------------------------------------------------------- programs


def programs_of(page: Path) -> list[tuple[str, str]]:
    """Return each program of a page, with what the page says that it prints."""
    found: list[tuple[str, str]] = []
    so_far: list[str] = []
    for kind, text in re.findall(
        r"^```(python|text)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        if kind == "python":
            so_far = [*so_far, text] if page.stem in GO_ON else [text]
            found.append((going_on(so_far), ""))
        elif found and not found[-1][1]:
            found[-1] = (found[-1][0], text)
    return found


def test_every_program_of_the_book_prints_what_its_page_says(tmp_path: Path) -> None:
    said: dict[Path, str] = {}
    for page in BOOK:
        for number, (program, printed) in enumerate(programs_of(page), start=1):
            folder = tmp_path / f"{page.parent.name}-{page.stem}-{number}"
            folder.mkdir()
            (folder / "program.py").write_text(program)
            said[folder] = printed

    command = [sys.executable, "-m", "tests.page_programs", *map(str, said)]
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=100
    )

    assert done.returncode == 0, done.stderr
    assert len(said) > 30
    for folder, printed in said.items():
        error = folder / "error.txt"
        assert not error.exists(), f"{folder.name}: {error.read_text()}"
        # Sorted: which of two activities is faster is not a promise.
        lines = (folder / "printed.txt").read_text().splitlines()
        assert sorted(lines) == sorted(printed.splitlines()), folder.name


@each(WRITTEN, name=lambda file: file.name)
def test_every_program_with_a_main_runs_it(file: Path) -> None:
    """Who copies one into a file and starts that sees something."""
    programs = re.findall(
        r"^```python\n(.*?)^```", file.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    silent = [one for one in programs if "def main()" in one and not RUNS_MAIN.search(one)]

    assert silent == []


def test_the_program_of_the_first_page_goes_on_after_it_was_killed(tmp_path: Path) -> None:
    program, _ = programs_of(DOCS / "start/install.md")[1]
    (tmp_path / "book.py").write_text(program)
    command = [sys.executable, "book.py"]

    with subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("page 2"):
                break
        process.send_signal(signal.SIGKILL)
    again, once_more = (
        subprocess.run(
            command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
        )
        for _ in range(2)
    )

    assert "page 1 read" not in again.stdout, again.stderr
    assert again.stdout.endswith("page 4 read\npage 5 read\n1500\n"), again.stderr
    assert once_more.stdout == "1500\n", once_more.stderr
