"""Lay the book out for Sphinx: pages of `docs`, and what is made of files outside it.

Pages are plain Markdown that is read in the repository as well, so their links name files there. In
the book the same links lead to pages: those of `docs` to themselves, the makers' pages of the
repository and the examples to pages that are made here. `docs/book.toml` lists the parts.

    python -m tools.book FOLDER
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CONTENTS = DOCS / "book.toml"
FIRST = "index.md"
"""The page that the book begins with, and that is in no part."""

PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")
"""Files outside `docs` that are pages of the book, under the same names."""

INDEXES = {"docs/decisions": "decisions/index.md", "examples": "examples/index.md"}
"""Folders of the repository that have a page of their own: a list."""

LISTED = {
    "decisions/": ("Decisions", "Why it is as it is, one page each."),
    "examples/": (
        "Examples",
        "Each is one file, runs by itself in a second or two, and shows one thing.",
    ),
}
"""How such a page begins."""

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
"""Where a link leads that stays in the repository, and its anchor."""

WIDE = "---\nhide-toc: true\n---\n"
"""Begins a page that needs the room beside it, for code beside code."""

FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
"""A block of code, in which nothing is a link."""


# ------------------------------------------------------------------- what is in the book


def pages() -> dict[str, Path]:
    """Return every page of the book that is not a list, and the file that it is made of."""
    found = {str(file.relative_to(DOCS)): file for file in sorted(DOCS.rglob("*.md"))}
    found |= {file: ROOT / file for file in PROJECT}
    examples = sorted((ROOT / "examples").glob("*.py"))
    return found | {f"examples/{file.stem}.md": file for file in examples}


def parts() -> dict[str, list[str]]:
    """Return the pages of each part, as the list of contents has them."""
    listed = tomllib.loads(CONTENTS.read_text(encoding="utf-8"))["parts"]
    return {part["title"]: part["pages"] for part in listed}


def listed_pages() -> list[str]:
    """Return every page that the list of contents leads to, folders taken apart."""
    names = [name for part in parts().values() for name in part]
    return [FIRST, *(page for name in names for page in (_inside(name) or [name]))]


def page_of(file: str) -> str | None:
    """Return the page of the book for a file or folder of the repository; None if it has none."""
    if file in PROJECT:
        return file
    if file in INDEXES:
        return INDEXES[file]
    path = PurePosixPath(file)
    if file.startswith("docs/") and path.suffix:  # a page or a picture; a folder is neither
        return file.removeprefix("docs/")
    return f"examples/{path.stem}.md" if path.match("examples/*.py") else None


def for_book(text: str, file: str) -> str:
    """Return the text of a file of the repository with links that lead where they do in the book.

    Args:
        text: Markdown.
        file: Which file it is; links are relative to it.
    """
    here = page_of(file)
    assert here is not None, f"{file} is no page of the book"

    def lead(match: re.Match[str]) -> str:
        target = os.path.normpath(f"{PurePosixPath(file).parent}/{match[1]}")
        page = page_of(target)
        assert page is not None, f"{file} links to {target}, which is not in the book"
        return os.path.relpath(page, PurePosixPath(here).parent) + (match[2] or "")

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(lead, part) for part in parts)


def laid_out() -> Iterator[tuple[str, str]]:
    """Return each page as Sphinx gets it, with its text."""
    for page, file in pages().items():
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".py":
            yield page, f"# {_title(file)}\n\n`examples/{file.name}`\n\n```python\n{text}```\n"
            continue
        text = for_book(text, file.relative_to(ROOT).as_posix())
        if page.startswith("coming-from/"):
            text = f"{WIDE}{text}"
        if page == FIRST:
            text += "".join(_tree(title, names) for title, names in parts().items())
        yield page, text
    for page in INDEXES.values():
        yield page, _index(page)


def _inside(folder: str) -> list[str]:
    """Return the pages of a folder; none if it is a page itself."""
    return [page for page in pages() if page.startswith(folder)] if folder.endswith("/") else []


def _title(file: Path) -> str:
    """Return how a page is headed; an example by what its docstring begins with."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return re.split(r"[:.]", text.removeprefix('"""'), maxsplit=1)[0]
    return text.partition("\n")[0].removeprefix("# ")


def _index(page: str) -> str:
    """Return the page that lists a folder."""
    folder = page.removesuffix(FIRST)
    found = pages()
    names = {name.removeprefix(folder): _title(found[name]) for name in _inside(folder)}
    head, text = LISTED[folder]
    lines = [f"- [{title}]({name})" for name, title in names.items()]
    return "\n".join([f"# {head}", "", text, "", *lines, ""]) + _tree("", list(names))


def _tree(title: str, names: list[str]) -> str:
    """Return what tells Sphinx which pages come below one."""
    below = [f"{name}index" if name.endswith("/") else name.removesuffix(".md") for name in names]
    caption = [f":caption: {title}"] if title else []
    return "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *below, "```", ""])


def main(folder: Path) -> None:
    """Write all pages and pictures into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for page, text in laid_out():
        file = folder / page
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "images", folder / "images")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
