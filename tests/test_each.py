"""A test of many things goes on after a failure and tells of every one."""

from __future__ import annotations

import pytest

from tests.each import each


def failing(number: int) -> None:
    if number == 2:
        raise LookupError("no such thing")
    if number > 2:
        raise AssertionError("too many")


async def failing_later(number: int) -> None:
    failing(number)


def test_every_failure_is_told_with_its_thing() -> None:
    test = each([1, 2, 3, 4], name=lambda number: f"number {number}")(failing)

    with pytest.raises(pytest.fail.Exception) as failed:
        test()

    assert str(failed.value).splitlines() == [
        "3 of 4 failed",
        "number 2: LookupError: no such thing",
        "number 3: too many",
        "number 4: too many",
    ]


async def test_so_it_is_if_the_test_waits() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"(?s)3 of 4 failed\n2: .*4: too many"):
        await each([1, 2, 3, 4])(failing_later)()


def test_nothing_to_go_through_is_no_success() -> None:
    with pytest.raises(AssertionError, match="nothing to go through"):
        each([])


@pytest.fixture
def ten() -> int:
    return 10


@each([1, 2])
def test_fixtures_come_beside_the_thing(number: int, ten: int) -> None:
    assert number < ten


@pytest.mark.parametrize("word", ["a", "b"])
@each([1, 2])
async def test_so_do_cases(number: int, word: str) -> None:
    assert (number, word) in [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_what_takes_long_to_find_is_found_by_the_test_and_not_before() -> None:
    found: list[int] = []

    def find() -> list[int]:
        found.append(1)
        return found

    test = each(find)(lambda number: None)
    assert found == []
    test()
    assert found == [1]


def test_to_find_nothing_is_no_success() -> None:
    with pytest.raises(AssertionError, match="nothing to go through"):
        each(lambda: [])(failing)()
