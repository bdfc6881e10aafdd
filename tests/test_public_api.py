"""The public door: few names, all of them explained."""

from __future__ import annotations

import pytest

import perdure
from tests.each import each

MAX_PUBLIC_NAMES = 33
"""Deciders brought eight: the classes that are written with (`Decider`, `Decision`), the outcomes
that callers match, what hooks are handed (`DeadEffect`, `EndedOrchestration`), `describe`. They are
the whole vocabulary of the second programming model. The last one is `transaction`: an activity
that is handed a connection has another signature than its callers see, which an option of
`activity` could not say to a type checker."""


def test_the_public_names_are_sorted_and_unique() -> None:
    assert perdure.__all__ == sorted(set(perdure.__all__))


def test_the_public_names_are_few() -> None:
    assert len(perdure.__all__) <= MAX_PUBLIC_NAMES


def test_an_unknown_name_is_refused() -> None:
    unknown = "workflow"

    with pytest.raises(AttributeError, match="no attribute 'workflow'"):
        getattr(perdure, unknown)


@each(perdure.__all__)
def test_a_public_name_can_be_imported_and_is_explained(name: str) -> None:
    doc = getattr(perdure, name).__doc__ or ""

    assert doc.strip()
    # What a dataclass makes up when there is none.
    assert not doc.startswith(f"{name}(")
