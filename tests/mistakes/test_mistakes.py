"""Every mistake of the table is answered in words: none hangs, none is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

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
from tests.mistakes.table import MISTAKES, Mistake, answer_to

SUBJECTS = {
    module.__name__.rpartition(".")[2]
    for module in (
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
}
OURS = (AttributeError, AssertionError, KeyError, IndexError, NameError)
"""What nobody should see of us."""


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
async def test_every_mistake_is_answered_in_words(subject: str, tmp_path: Path) -> None:
    failures = []
    for number, one in enumerate(one for one in MISTAKES if one.subject == subject):
        folder = tmp_path / str(number)
        folder.mkdir()
        problem = await _problem_with(one, folder)
        if problem:
            failures.append(f"{one.title}: {problem}")
    assert not failures, "\n\n".join(failures)


async def _problem_with(one: Mistake, folder: Path) -> str:
    try:
        raised, said = await answer_to(one, folder)
    except AssertionError as error:
        return str(error)
    if one.error is None and raised is not None:
        return f"raised {raised!r}"
    if one.error is not None and not isinstance(raised, one.error):
        return f"raised {raised!r}, not {one.error.__name__}; said {said!r}"
    if isinstance(raised, OURS):
        return f"shows what is ours: {raised!r}"
    missing = [words for words in one.says if words not in said]
    return f"does not say {missing}, but {said!r}" if missing else ""
