"""`perdure start`, `signal`, `cancel`, `terminate`, `unpark`, `restart`, `retry`, `job`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.commands import lines, typed


def status(shop: str, instance_id: str) -> str:
    [row] = lines("list", f"id:{instance_id}", store=shop)
    return row[2]


def messages(shop: str, instance_id: str) -> list[tuple[str, Any]]:
    done = typed("explain", instance_id, "--json", store=shop)
    return [(one["kind"], one["data"]) for one in json.loads(done.stdout)["inbox"]]


# ------------------------------------------------------------------------- start


def test_an_instance_is_started_by_name_with_its_arguments(shop: str) -> None:
    done = typed("start", "greet", '["Ada"]', "--arg", "polite=true", "--id", "new-1", store=shop)

    assert (done.exit_code, done.stdout) == (0, "new-1\n")
    assert done.stderr == (
        "it waits: needs greet (any version), which no live worker has; run perdure worker TARGET\n"
    )
    [row] = json.loads(typed("list", "id:new-1", "--json", store=shop).stdout)
    assert row["input"] == {"0": ["Ada"], "polite": True}


def test_a_start_makes_an_id_where_none_is_given(shop: str) -> None:
    done = typed("start", "greet", "[]", "--json", store=shop)

    assert json.loads(done.stdout)["instance_id"].startswith("greet-")


def test_a_start_again_is_the_same_instance_unless_its_input_differs(shop: str) -> None:
    for _ in range(2):
        assert lines("start", "greet", "[]", "--id", "new-1", store=shop) == [["new-1"]]
    other = typed("start", "greet", "[1]", "--id", "new-1", store=shop)
    refused = typed("start", "greet", "[]", "--id", "new-1", "--if-exists", "fail", store=shop)

    assert (other.exit_code, refused.exit_code) == (1, 1)
    assert "Error: instance 'new-1'" in other.stderr


@pytest.mark.parametrize(
    "words", [["--delay", "2h"], ["--at", "2100-01-01T09:00"], ["--at", "2100-01-01"]]
)
def test_a_delayed_start_waits(shop: str, words: list[str]) -> None:
    typed("start", "echo", '"x"', "--id", "late", *words, "--version", "1.0.0", store=shop)

    [row] = [row for row in lines("queues", store=shop) if row[0] == "echo"]
    assert row[3:6] == ["0", "0", "1"]


def test_an_argument_may_be_in_a_file(shop: str, tmp_path: Any) -> None:
    file = tmp_path / "names.json"
    file.write_text('["Ada"]')

    assert lines("start", "greet", f"@{file}", "--id", "new-1", store=shop) == [["new-1"]]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["greet", "Ada"], "argument 1: 'Ada' is not JSON. A text is in double quotes"),
        (["greet", "NaN"], "argument 1: 'NaN' is not JSON"),
        (["greet", "@nowhere.json"], "argument 1: nowhere.json cannot be read"),
        (["greet", "--arg", "names"], "--arg 'names' must be NAME=VALUE"),
        (["greet", "--id", ""], "instance id"),
        (["greet", "--version", "latest"], "'latest'"),
        (["greet", "--delay", "soon"], "'soon' is not a length of time"),
        (["greet", "--at", "soon"], "--at 'soon' is no point in time"),
        (["greet", "--at", "2001-01-01"], "--at '2001-01-01' is past: write a time to come"),
        (["greet", "--at", "2h"], "--delay takes a length of time"),
        (["greet", "--at", "2100-01-01", "--delay", "2h"], "give --at or --delay, not both"),
        (["greet", "--timeout", "3s"], "--timeout is for --wait"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(shop: str, args: list[str], problem: str) -> None:
    done = typed("start", *args, store=shop)

    assert done.exit_code == 2
    assert problem in done.stderr


# ------------------------------------------------------------------------- others


def test_a_signal_goes_to_one_or_to_all_that_a_filter_finds(shop: str) -> None:
    assert lines("signal", "wait-1", "approved", "true", store=shop) == [["wait-1", "sent"]]
    done = typed(
        "signal", "--where", "name:approve status:running", "approved", "--yes", store=shop
    )

    assert done.stderr == "2 instances match\n2 of 2 done\n"
    assert messages(shop, "wait-1") == [
        ("signal_received", {"name": "approved", "value": True}),
        ("signal_received", {"name": "approved", "value": None}),
    ]
    assert len(messages(shop, "wait-2")) == 1


def test_a_signal_with_an_id_is_delivered_once(shop: str) -> None:
    for _ in range(2):
        typed("signal", "wait-1", "approved", "true", "--message-id", "m", store=shop)

    assert len(messages(shop, "wait-1")) == 1


def test_an_instance_is_terminated_with_a_reason(shop: str) -> None:
    assert lines("terminate", "wait-1", "--reason", "why not", store=shop) == [
        ["wait-1", "terminated"]
    ]
    assert status(shop, "wait-1") == "terminated"
    assert lines("terminate", "wait-1", store=shop) == [["wait-1", "had ended: terminated"]]


def test_a_cancel_asks_and_leaves_what_has_ended(shop: str) -> None:
    rows = lines("cancel", "wait-1", "greet-1", "--yes", store=shop)

    assert rows == [["wait-1", "asked to stop"], ["greet-1", "had ended: completed"]]
    assert [kind for kind, _ in messages(shop, "wait-1")] == ["cancel_requested"]


def test_a_filter_hits_only_whom_the_command_is_for(shop: str) -> None:
    parked = lines("unpark", "--where", "name:approve", "--yes", store=shop)
    ended = lines("restart", "--where", "name:approve", "--dry-run", store=shop)

    assert sorted(parked) == [["blocked-1", "unparked"], ["parked-1", "unparked"]]
    assert {row[0] for row in ended} == {"cancelled-1", "terminated-1"}
    assert status(shop, "parked-1") == "running"


def test_what_was_never_held_is_told_so(shop: str) -> None:
    assert lines("unpark", "wait-1", store=shop) == [["wait-1", "was neither parked nor blocked"]]


def test_an_ended_instance_is_restarted_and_a_live_one_is_not(shop: str) -> None:
    done = typed("restart", "fail-1", "wait-1", "--yes", store=shop)

    assert done.exit_code == 1
    assert done.stdout == "fail-1\trestarted\n"
    assert "wait-1" in done.stderr
    assert "1 of 2 done" in done.stderr
    assert status(shop, "fail-1") == "running"


def test_dead_jobs_are_put_back(shop: str) -> None:
    assert lines("retry", "pay-1", "wait-1", "--yes", store=shop) == [
        ["pay-1", "1 job put back"],
        ["wait-1", "had no dead job"],
    ]
    assert lines("job", "list", "--dead", store=shop) == []
    [job] = lines("job", "list", "pay-1", store=shop)
    assert job[1:3] == ["charge", "waiting"]


# ------------------------------------------------------------- several, and nobody


def test_several_are_not_hit_without_a_word_where_nobody_can_be_asked(shop: str) -> None:
    by_filter = typed("terminate", "--where", "name:approve", store=shop)
    by_ids = typed("terminate", "wait-1", "wait-2", store=shop)

    for done in (by_filter, by_ids):
        assert done.exit_code == 2
        assert done.stdout == ""
        assert "give --yes if you mean it" in done.stderr
    assert "this would terminate 4 instances (" in by_filter.stderr
    assert status(shop, "wait-1") == "running"


@pytest.mark.parametrize("where", ["", "  ", "roots:no"])
@pytest.mark.parametrize(
    "command", ["cancel", "terminate", "unpark", "restart", "retry", "signal", "explain", "export"]
)
def test_an_empty_filter_is_refused_before_any_store_is_looked_for(
    command: str, where: str
) -> None:
    args = ["approved"] if command == "signal" else []
    done = typed(command, *args, "--where", where, store="sqlite:///nowhere/at-all.db")

    assert done.exit_code == 2
    assert "--where is empty, which would mean every instance" in done.stderr


def test_a_bad_filter_word_is_said_before_any_store_is_looked_for() -> None:
    for args in (["list", "colour:red"], ["cancel", "--where", "colour:red"]):
        done = typed(*args, store="sqlite:///nowhere/at-all.db")

        assert done.exit_code == 2
        assert done.stderr.startswith("Error: there is no filter word 'colour:'")
        assert done.stderr.count("\n") == 1


def test_ids_and_a_filter_are_two_things(shop: str) -> None:
    done = typed("cancel", "wait-1", "--where", "name:approve", store=shop)

    assert (done.exit_code, done.stderr) == (2, "Error: give ids or --where, not both\n")


def test_a_dry_run_does_nothing(shop: str) -> None:
    done = typed("terminate", "--where", "name:approve", "--dry-run", store=shop)

    assert done.exit_code == 0
    assert done.stderr == "4 instances match\n"
    assert len(done.stdout.splitlines()) == 4
    assert status(shop, "wait-1") == "running"


def test_what_list_prints_can_be_acted_on(shop: str) -> None:
    listed = typed("list", "name:approve", "status:running", store=shop).stdout

    rows = lines("terminate", "-", "--yes", store=shop, stdin=listed)

    assert sorted(rows) == [["wait-1", "terminated"], ["wait-2", "terminated"]]
    assert typed("terminate", "-", store=shop, stdin="\n").exit_code == 2


# --------------------------------------------------------------------------- jobs


def test_a_dead_job_is_listed_shown_put_back_and_forgotten(shop: str) -> None:
    [[key, name, attempts, _, failure, *_]] = lines("job", "list", "--dead", store=shop)
    shown = json.loads(typed("job", "show", key, "--json", store=shop).stdout)

    assert (name, attempts) == ("charge", "2")
    assert failure == "ValueError: card declined for 12"
    assert shown["input"] == {"amount": 12}
    assert lines("job", "list", "--dead", "--activity", "other", store=shop) == []
    assert lines("job", "forget", key, store=shop) == [[key, "forgotten"]]
    assert typed("job", "show", key, store=shop).exit_code == 3
    assert typed("job", "retry", key, store=shop).exit_code == 2


@pytest.mark.parametrize(
    ("args", "kind"),
    [(["complete", '"paid"'], "activity_completed"), (["fail", "no way"], "activity_failed")],
)
def test_an_open_job_is_ended_by_hand(shop: str, args: list[str], kind: str) -> None:
    typed("retry", "pay-1", store=shop)
    [[key, *_]] = lines("job", "list", "pay-1", store=shop)

    assert lines("job", args[0], key, args[1], store=shop)[0][0] == key
    assert lines("job", "list", "pay-1", store=shop) == []


def test_jobs_of_nobody_are_refused(shop: str) -> None:
    done = typed("job", "list", store=shop)

    assert done.exit_code == 2
    assert "name the instances whose jobs to list, or give --dead" in done.stderr
    assert typed("job", "show", "nonsense", store=shop).exit_code == 2
