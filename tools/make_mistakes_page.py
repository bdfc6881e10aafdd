"""Write `docs/mistakes.md` from the table of mistakes in `tests/mistakes`.

Run it after a change of the table:

    python -m tools.make_mistakes_page
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.mistakes import (
    asking,
    beginning,
    calling,
    deciders,
    defining,
    differing,
    items,
    running,
    storing,
    trying,
)
from tests.mistakes.elsewhere import ELSEWHERE
from tests.mistakes.table import MISTAKES, Mistake

PAGE = Path(__file__).parent.parent / "docs" / "mistakes.md"

SUBJECTS = (
    beginning,
    running,
    calling,
    differing,
    items,
    defining,
    asking,
    storing,
    deciders,
    trying,
)

HEAD = """# Mistakes, and what they are told

Made by `python -m tools.make_mistakes_page` from the programs in `tests/mistakes`, which make each
of these mistakes and look for the words in the right column. None may hang, and none may be silent.
In the middle is what was said when the mistake was first tried; nothing, if it is a later idea.
`...` stands for what is left out.

A forgotten `await` before a method of a client is answered by Python itself: `'coroutine' object
has no attribute 'result'`, and `coroutine 'Client.start' was never awaited`. It is left at that.
Only an object of our own could say more, and then `client.start` would no longer be a coroutine
function, which web frameworks and task groups ask for. A type checker finds it before it runs.

What is said of Windows and macOS was tried on Linux, with what these systems lack taken away. It
was never run there.
"""


def make() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_lines()])


def _lines() -> Iterator[str]:
    for module in SUBJECTS:
        subject = module.__name__.rpartition(".")[2]
        yield f"## {_heading(module.__doc__ or '')}\n"
        yield from _table(
            (one.title, one.before, _answer(one)) for one in MISTAKES if one.subject == subject
        )
    yield "## What takes a process of its own\n"
    yield from _table((one.title, one.before, one.now) for one in ELSEWHERE)


def _heading(docstring: str) -> str:
    return docstring.removeprefix("Mistakes ").rstrip(".").capitalize()


def _answer(one: Mistake) -> str:
    said = " ... ".join(" ".join(words.split()) for words in one.says)
    return said if one.error is None else f"{one.error.__name__}: {said}"


def _table(rows: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    yield "| mistake | first | now |"
    yield "|---|---|---|"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(make())
