from __future__ import annotations

import pytest

from perdure.model.histories.lineage import FIRST, Lineage, Parent, lineage_below

ROOT, MIDDLE = Parent("root", 1, 1, 2), Parent("middle", 2, 1, 3)


def test_a_child_of_a_root_is_the_first_of_its_line() -> None:
    assert lineage_below(None, None, is_cancelled=False, is_abandoned=False) == FIRST


def test_a_child_knows_who_waits_for_its_parent() -> None:
    grandchild = lineage_below(ROOT, None, is_cancelled=False, is_abandoned=False)
    below = lineage_below(MIDDLE, grandchild, is_cancelled=False, is_abandoned=False)

    assert grandchild == Lineage(2, (ROOT,))
    assert below == Lineage(3, (MIDDLE, ROOT))


@pytest.mark.parametrize(
    ("lineage", "is_cancelled", "is_abandoned"),
    [(None, True, False), (None, False, True), (Lineage(is_abandoned=True), False, False)],
)
def test_nobody_waits_for_what_cleans_up_or_is_abandoned(
    lineage: Lineage | None, is_cancelled: bool, is_abandoned: bool
) -> None:
    found = lineage_below(ROOT, lineage, is_cancelled=is_cancelled, is_abandoned=is_abandoned)

    assert (found.depth, found.above) == (2, ())
