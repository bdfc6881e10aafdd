"""The made pages of the reference are as their tool makes them, and leave nothing out."""

from __future__ import annotations

import dataclasses
import functools

from perdure.store.postgres.address import Address
from tests.each import each
from tests.named import ROOT
from tools import make_reference


@functools.cache
def pages() -> dict[str, str]:
    return make_reference.pages()


@each(pages, name=str)
def test_a_page_of_the_reference_is_as_the_tool_makes_it(page: str) -> None:
    written = (make_reference.FOLDER / f"{page}.md").read_text(encoding="utf-8")

    assert written == pages()[page], "run: python -m tools.make_reference"


def test_every_option_has_a_meaning() -> None:
    rows = [line for line in pages()["options"].splitlines() if line.startswith("| `")]

    assert len(rows) > 80
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_page_of_urls_names_every_option_of_ours() -> None:
    page = (ROOT / "docs/reference/store-urls.md").read_text(encoding="utf-8")

    ours = {field.name for field in dataclasses.fields(Address)} - {"dsn"}
    assert [name for name in ours if f"| `{name}` |" not in page] == []
