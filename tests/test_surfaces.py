"""The page on what can be done from where has every method, and names only what exists."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from perdure import BlockingClient, Client, Handle
from perdure.client.blocking.client import BlockingHandle
from perdure.client.blocking.schedules import BlockingScheduleHandle
from perdure.client.deciders.schedules import ScheduleHandle
from perdure.telemetry import Metrics
from perdure.web.pages.routes import PAGES
from tests.each import each

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/surfaces.md"
OWNERS: dict[str, type] = {"client": Client, "handle": Handle, "schedule": ScheduleHandle}
TWINS: dict[str, type] = {
    "client": BlockingClient,
    "handle": BlockingHandle,
    "schedule": BlockingScheduleHandle,
}
COLUMNS = ["command", "HTTP", "page", "how to", "example", "metrics", "words"]
EXPLAINED = ("client/reading", "client/deciders")
"""Where the words of `explain` are written."""


def tables() -> dict[str, list[list[str]]]:
    """Return the rows of each table, by the heading above it; each as its cells."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            rows = found.setdefault(line[3:].replace("`", ""), [])
        elif line.startswith("| ") and not line.startswith(("| method", "| capability")):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def capabilities() -> list[list[str]]:
    return tables()["Capabilities"]


def methods_on_page() -> list[list[str]]:
    return [row for name, rows in tables().items() if name.startswith("Methods") for row in rows]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def public_methods() -> set[str]:
    return {
        f"{owner}.{name}"
        for owner, kind in OWNERS.items()
        for name in dir(kind)
        if not name.startswith("_") and not _is_field(kind, name)
    }


def _is_field(kind: type, name: str) -> bool:
    return inspect.ismemberdescriptor(getattr(kind, name))


def test_every_method_has_one_row() -> None:
    named = [codes(row[0])[0] for row in methods_on_page()]

    assert sorted(named) == sorted(public_methods())


def test_every_method_that_waits_has_a_blocking_twin() -> None:
    missing = [
        f"{owner}.{name}"
        for owner, kind in OWNERS.items()
        for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_") and not hasattr(TWINS[owner], name)
    ]

    assert missing == []


def test_every_cell_names_something_or_says_why_not() -> None:
    for row in [*methods_on_page(), *capabilities()]:
        for cell in row[1:]:
            assert codes(cell) or re.search(r'\]\(|"| ', cell), f"{row[0]}: {cell!r}"


def named_things() -> Iterator[tuple[str, str]]:
    """Return all that the page names, with what each is."""
    for row in methods_on_page():
        yield from (("command", one) for one in codes(row[1]))
        yield from (("HTTP", one) for one in codes(row[2]))
    for row in capabilities():
        yield from (("method", one) for one in codes(row[1]))
        for column, cell in zip(COLUMNS, row[2:], strict=True):
            things = re.findall(r"\]\(([^)]+)\)|`([^`]+)`|\"([^\"]+)\"", cell)
            yield from ((column, "".join(thing)) for thing in things if not cell.startswith("none"))


@each(lambda: sorted(set(named_things())))
def test_what_the_page_names_exists(thing: tuple[str, str]) -> None:
    kind, name = thing
    reference = ROOT / "docs/reference"
    match kind:
        case "method":
            assert name in public_methods()
        case "command":
            assert f"### `{name}`\n" in (reference / "cli.md").read_text()
        case "HTTP":
            assert f"| `{name}` |" in (reference / "http.md").read_text()
        case "page":
            assert name in {page.path for page in PAGES}
        case "how to":
            assert (reference / name).is_file()
        case "metrics":
            assert name in {family.name for family in Metrics().snapshot().families}
        case "words":
            sources = [
                file.read_text()
                for folder in EXPLAINED
                for file in (ROOT / "src/perdure" / folder).glob("*.py")
            ]
            assert any(name in source for source in sources)
        case "example":
            check_example(reference / name)


def check_example(example: Path) -> None:
    """It exists, and a test kills it in the middle, or crashes it at every commit."""
    assert example.resolve().is_file()
    killed = (ROOT / "tests/test_examples.py").read_text()
    crashed = (ROOT / "tests/testing/test_examples_in_trials.py").read_text()
    pattern = rf'kill_example_after\(\s*tmp_path, "[^"]*", "{example.stem}"'
    is_killed = re.search(pattern, killed) or f"crash_everywhere(test, [{example.stem}])" in crashed
    assert is_killed, f"no test kills {example.name}"


@each(capabilities)
def test_a_how_to_shows_what_it_is_named_for(row: list[str]) -> None:
    """Each method of a capability stands on its page or in its example."""
    pages = [
        (PAGE.parent / link).resolve().read_text()
        for cell in (row[5], row[6])
        for link in re.findall(r"\]\(([^)]+)\)", cell)
    ]
    for method in codes(row[1]):
        name = method.partition(".")[2]
        assert any(re.search(rf"\b{name}\b", page) for page in pages), method
