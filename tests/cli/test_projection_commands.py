"""`perdure projection`: how readers stand, and steering them without a worker."""

from __future__ import annotations

import json

from tests.cli.commands import lines, typed


def status(shop: str) -> str:
    [row] = lines("projection", "list", store=shop)
    return row[1]


def test_a_projection_that_is_stuck_says_where_and_why(shop: str) -> None:
    [row] = lines("projection", "list", store=shop)
    shown = json.loads(typed("projection", "show", "sums", "--json", store=shop).stdout)

    assert row[:2] == ["sums", "stuck"]
    assert row[5] == "no"
    assert row[7] == (
        "handle failed at event Deposited of till:t-1 (1 attempts): ArithmeticError: seven is too "
        "much"
    )
    assert shown["stuck"]["error"] == "ArithmeticError"
    assert lines("projection", "show", "sums", "-o", "ids", store=shop) == [["sums"]]


def test_a_projection_is_paused_resumed_rebuilt_and_forgotten(shop: str) -> None:
    assert lines("projection", "resume", "sums", "--skip", store=shop) == [["sums", "resumed"]]
    assert status(shop) == "running"
    assert lines("projection", "pause", "sums", "--reason", "lunch", store=shop) == [
        ["sums", "paused"]
    ]
    assert lines("projection", "list", store=shop)[0][7] == "lunch"
    assert lines("projection", "rebuild", "sums", store=shop) == [["sums", "begins anew"]]
    assert status(shop) == "running"
    assert lines("projection", "forget", "sums", store=shop) == [["sums", "forgotten"]]
    assert lines("projection", "list", store=shop) == []


def test_what_cannot_be_done_is_refused(shop: str) -> None:
    typed("projection", "resume", "sums", "--skip", store=shop)

    again = typed("projection", "resume", "sums", "--skip", store=shop)
    unknown = typed("projection", "pause", "nothing", store=shop)

    assert again.exit_code == 2
    assert "is not stuck at an event" in again.stderr
    assert unknown.exit_code == 3
    assert "'nothing'" in unknown.stderr
