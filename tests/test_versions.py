"""Semantic versions: their order, and ranges of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.limits import MAX_VERSION_CHARS
from perdure.model.versions import VersionRange, ascending, is_version, precedence

IN_ORDER = [
    "0.0.0-0",
    "0.0.0",
    "0.9.10",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.2.0",
    "1.10.0",
    "2.0.0",
    "10.0.0",
]

numbers = st.integers(0, 10**20)
words = st.from_regex(r"[0-9]*[A-Za-z-][0-9A-Za-z-]{0,5}", fullmatch=True)
marks = st.lists(numbers.map(str) | words, max_size=3).map(".".join)
made = st.builds(
    lambda a, b, c, pre: f"{a}.{b}.{c}-{pre}" if pre else f"{a}.{b}.{c}",
    numbers,
    numbers,
    numbers,
    marks,
)


@pytest.mark.parametrize(("lower", "higher"), list(itertools.pairwise(IN_ORDER)))
def test_versions_are_ordered_as_semver_says(lower: str, higher: str) -> None:
    assert precedence(lower) < precedence(higher)


def test_ascending_does_not_depend_on_the_order_given() -> None:
    assert ascending(reversed(IN_ORDER)) == IN_ORDER
    assert ascending(["1.0.0+b", "1.0.0+a"]) == ascending(["1.0.0+a", "1.0.0+b"])


def test_build_metadata_says_nothing_about_order() -> None:
    assert precedence("1.0.0+build.9") == precedence("1.0.0+a") == precedence("1.0.0")


@given(made)
def test_whatever_is_formed_by_the_rules_is_a_version(version: str) -> None:
    built = f"{version}+build"
    if len(built) <= MAX_VERSION_CHARS:
        assert is_version(version)
        assert precedence(version) == precedence(built)[:5]


@given(made, made)
def test_any_two_versions_can_be_compared(one: str, other: str) -> None:
    if max(len(one), len(other)) <= MAX_VERSION_CHARS:
        ranks = precedence(one), precedence(other)
        assert sum((ranks[0] < ranks[1], ranks[0] == ranks[1], ranks[0] > ranks[1])) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.0",
        "v1.0.0",
        "01.0.0",
        "1.0.0-",
        "1.0.0-a..b",
        "1.0.0-01",
        "1.0.0+",
        "1.0.0 ",
        "1.0.0\n",
        "1.0.0.0",
        "-1.0.0",
        "\u0661.0.0",
        "latest",
        "1.0.0-" + "x" * 200,
    ],
)
def test_other_texts_are_no_versions(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(ValueError, match="is not a semantic version"):
        precedence(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=1.2,<2", ["1.2.0", "1.99.0", "2.0.0-rc.1"], ["1.1.9", "1.2.0-rc.1", "2.0.0"]),
        ("==1.0.0", ["1.0.0", "1.0.0+build"], ["1.0.1", "1.0.0-rc.1"]),
        (" >= 1.0.0 , != 1.5.0 ", ["1.0.0", "1.5.1"], ["0.9.0", "1.5.0"]),
        (">1.0.0-rc.1", ["1.0.0-rc.2", "1.0.0"], ["1.0.0-rc.1", "1.0.0-alpha"]),
        ("<=3", ["3.0.0", "0.0.1"], ["3.0.1"]),
        (">2,<1", [], ["1.5.0", "3.0.0"]),
    ],
)
def test_a_range_holds_what_meets_all_its_conditions(
    text: str, inside: list[str], outside: list[str]
) -> None:
    found = VersionRange(text)

    assert [version for version in inside if version not in found] == []
    assert [version for version in outside if version in found] == []


@pytest.mark.parametrize(
    "text", ["", "1.0.0", ">=1.0.0,", "=>1", "~=1.0", ">=", ">=x", ">=1.0.0.0", ">1 <2", "^1.2"]
)
def test_a_text_that_is_no_range_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ValueError, match="version range") as caught:
        VersionRange(text)

    assert repr(text) in str(caught.value)
