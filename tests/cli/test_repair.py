"""`perdure reset` and `perdure fork`."""

from __future__ import annotations

import json

from tests.cli.commands import lines, typed


def status(shop: str, instance_id: str) -> str:
    [row] = lines("list", f"id:{instance_id}", store=shop)
    return row[2]


def test_an_instance_that_failed_is_reset(shop: str) -> None:
    done = typed("reset", "fail-1", "--reason", "mended", store=shop)

    assert (done.exit_code, status(shop, "fail-1")) == (0, "running")
    [row] = json.loads(typed("list", "id:fail-1", "--json", store=shop).stdout)
    assert row["reason"] == "reset to its start: mended"


def test_a_plan_says_what_would_be_done_and_does_nothing(shop: str) -> None:
    done = typed("reset", "fail-1", "--plan", store=shop)
    told = typed("reset", "fail-1", "--event", "1", "--plan", "--json", store=shop)

    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "fail-1, before what it failed at:"
    assert "whether the code fits is seen where the code is" in done.stdout
    assert json.loads(told.stdout)["instance_id"] == "fail-1"
    assert status(shop, "fail-1") == "failed"


def test_those_that_a_filter_finds_are_reset(shop: str) -> None:
    done = typed("reset", "--where", "status:failed", "--yes", store=shop)

    assert done.exit_code == 0
    assert typed("list", "status:failed", "--json", store=shop).stdout.strip() == "[]"


def test_a_fork_leaves_the_original_alone(shop: str) -> None:
    done = typed("fork", "fail-1", "fail-1-b", "--event", "1", store=shop)

    assert (done.exit_code, status(shop, "fail-1")) == (0, "failed")
    assert status(shop, "fail-1-b") == "running"
    assert "fail-1-b goes on from fail-1, at event 1" in done.stderr
    planned = typed("fork", "fail-1", "fail-1-c", "--plan", store=shop)
    assert planned.exit_code == 0
    assert typed("info", "fail-1-c", store=shop).exit_code != 0


def test_an_instance_is_moved_to_another_version(shop: str) -> None:
    planned = typed("reset", "fail-1", "--event", "1", "--version", "7.0.0", "--plan", store=shop)
    wrong = typed("reset", "fail-1", "--event", "1", "--version", "new", store=shop)
    forked = typed("fork", "fail-1", "fail-1-b", "--event", "1", "--version", "8.0.0", store=shop)
    done = typed("reset", "--where", "id:fail-1", "--version", "9.0.0", "--yes", store=shop)

    assert [one.exit_code for one in (planned, wrong, forked, done)] == [0, 2, 0, 0]
    assert "not a semantic version" in wrong.stderr
    rows = json.loads(typed("list", "id:fail-1", "--json", store=shop).stdout)
    forks = json.loads(typed("list", "id:fail-1-b", "--json", store=shop).stdout)
    assert (rows[0]["version"], forks[0]["version"]) == ("9.0.0", "8.0.0")


def test_a_point_that_is_none_is_refused(shop: str) -> None:
    both = typed("reset", "fail-1", "--before", "x", "--event", "2", store=shop)
    unknown = typed("reset", "fail-1", "--before", "x", store=shop)
    value = typed("reset", "fail-1", "--before", "x", "--returning", "1", store=shop)
    nowhere = typed("reset", "--where", "status:failed", "--plan", store=shop)

    assert "name one of them" in both.stderr
    assert "'x' was not called" in unknown.stderr
    assert "name it with after" in value.stderr
    assert "--plan is for instances that are named" in nowhere.stderr
    assert {done.exit_code for done in (both, unknown, value, nowhere)} == {2}
