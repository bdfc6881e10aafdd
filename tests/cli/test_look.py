"""`perdure list`, `show`, `explain`, `tree`, `queues`, `workers`: where things stand."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.cli.mermaid import gantt
from perdure.client.reading.info import HistoryEvent, InstanceInfo
from perdure.model.instances import Status
from tests.cli.commands import lines, typed
from tests.cli.shop import IDS


def said(*args: str, store: str) -> Any:
    return json.loads(typed(*args, "--json", store=store).stdout)


def test_every_instance_is_listed_newest_first_with_its_status(shop: str) -> None:
    rows = lines("list", store=shop)

    assert {row[0]: row[2] for row in rows if "/" not in row[0]} == IDS
    started = [row[4] for row in rows]
    assert started == sorted(started, reverse=True)


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["status:failed"], {"fail-1"}),
        (["status:parked,blocked"], {"parked-1", "blocked-1"}),
        (["name:approve", "status:running"], {"wait-1", "wait-2"}),
        (["prefix:till:"], {"till:t-1"}),
        (["id:wait-1,pay-1"], {"wait-1", "pay-1"}),
        (["name:greet", "roots:yes"], {"greet-1"}),
        (["before:2020-01-01"], set()),
        (["--where", "name:approve status:running prefix:wait"], {"wait-1", "wait-2"}),
    ],
)
def test_a_filter_finds_what_it_says(shop: str, words: list[str], ids: set[str]) -> None:
    assert {row[0] for row in lines("list", *words, store=shop)} == ids


def test_a_list_is_cut_where_it_was_asked_to_and_says_so(shop: str) -> None:
    done = typed("list", "--limit", "3", store=shop)

    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "the newest 3 are shown: --limit N or --all for more\n"
    assert len(lines("list", "--all", store=shop)) == len(IDS) + 1
    assert lines("list", "--count", "status:parked", store=shop) == [["1"]]


@pytest.mark.parametrize("form", ["table", "wide"])
def test_a_table_in_a_pipe_has_a_line_for_each_whatever_a_terminal_would_be(
    shop: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)

    head, row = typed("list", "id:fail-1", "-o", form, store=shop).stdout.splitlines()

    assert head.split()[:2] == ["instance", "name"]
    assert row.split()[:3] == ["fail-1", "fail", "failed"]
    assert ("execution" in head.split()) == (form == "wide")


def test_json_has_every_field_and_jsonl_a_line_each(shop: str) -> None:
    [info] = said("list", "id:fail-1", store=shop)
    by_line = typed("list", "id:fail-1", "--jsonl", store=shop).stdout

    assert json.loads(by_line) == info
    assert by_line.count("\n") == 1
    assert info["status"] == "failed"
    assert info["input"] == {"text": info["output"]["message"]}
    assert info["created_at"].endswith("Z")


def test_csv_has_headings_and_ids_are_bare(shop: str) -> None:
    csv = typed("list", "id:greet-1", "-o", "csv", store=shop).stdout.splitlines()

    assert csv[0].startswith("instance,name,status,now,started")
    assert csv[1].startswith("greet-1,greet,completed")
    assert lines("list", "status:failed", "-o", "ids", store=shop) == [["fail-1"]]


def test_nothing_found_prints_nothing(shop: str) -> None:
    assert typed("list", "name:nothing", store=shop).stdout == ""
    assert said("list", "name:nothing", store=shop) == []


def test_show_says_what_an_instance_waits_for_and_what_was_recorded(shop: str) -> None:
    rows = lines("show", "wait-1", store=shop)
    shown = said("show", "wait-1", store=shop)

    facts = {row[0]: row[1] for row in rows}
    assert facts["instance"] == "wait-1"
    assert facts["name"] == "approve 1.0.0"
    assert "cannot move: unclaimed: needs approve 1.0.0" in facts["explanation"]
    assert facts["input"] == '{"order": "wait-1"}'
    assert [row[2] for row in rows[-2:]] == ["started", "signal awaited"]
    assert shown["instance"]["status"] == "running"
    assert [event["kind"] for event in shown["events"]] == ["started", "signal_awaited"]
    assert said("show", "greet-1", "--events", "1", store=shop)["events"][0]["kind"] == "completed"


def test_a_history_is_shown_as_a_chart_of_mermaid(shop: str) -> None:
    chart = typed("show", "fulfil-1", "-o", "mermaid", store=shop).stdout.splitlines()

    assert chart[0] == "gantt"
    assert chart[1] == "    title fulfil-1 (fulfil) running"
    assert "    section child" in chart
    [child] = [line for line in chart if "greet" in line]
    assert re.fullmatch(r"    greet[^:]* :done, e\d+, \d{13}, \d{13}", child)
    assert typed("list", "-o", "mermaid", store=shop).exit_code == 2


def test_a_name_cannot_end_its_line_in_a_chart() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    data = {"name": "pay:done, x\n%%{init}%% click a call alert()#;"}
    info = InstanceInfo(
        instance_id="a:b\nsection c",
        kind="orchestration",
        name="n",
        version="1",
        status=Status.RUNNING,
        execution=1,
        created_at=at,
        updated_at=at,
        ended_at=None,
        parent_id=None,
        input=None,
        output=None,
        reason=None,
    )
    event = HistoryEvent(seq=2, kind="activity_scheduled", at=at, data=data)

    chart = gantt(info, [event], now=at).splitlines()

    assert chart[1] == "    title a b section c (n) running"
    assert len(chart) == 6
    assert chart[5].count(":") == 1
    assert not re.search(r"[%#;{}]", chart[5])


def test_queues_are_listed_by_name(shop: str) -> None:
    typed("start", "approve", '"x"', "--id", "new", store=shop)

    assert [row[0] for row in lines("queues", "approve", store=shop)] == ["approve"]
    none = typed("queues", "nothing", store=shop)
    assert (none.stdout, none.exit_code) == ("", 0)
    assert "nothing waits or is served under nothing" in none.stderr


def test_show_takes_ids_from_standard_input(shop: str) -> None:
    done = typed("show", "-", "-o", "ids", store=shop, stdin="wait-1\tapprove\n\nfail-1\n")

    assert done.stdout.splitlines() == ["wait-1", "fail-1"]


def test_explain_is_a_sentence_with_the_command_that_helps(shop: str) -> None:
    [[parked]] = lines("explain", "parked-1", store=shop)
    [[pay]] = lines("explain", "pay-1", store=shop)
    evidence = said("explain", "pay-1", store=shop)

    assert "is parked: a turn took too long" in parked
    assert parked.endswith("(perdure unpark parked-1).")
    assert pay.endswith("see client.dead_jobs() (perdure job list --dead pay-1).")
    assert [job["activity"] for job in evidence["dead_jobs"]] == ["charge"]
    assert evidence["explanation"] == pay


def test_explain_takes_a_filter(shop: str) -> None:
    assert len(lines("explain", "--where", "status:parked,blocked", store=shop)) == 2


def test_a_tree_shows_who_started_whom(shop: str) -> None:
    rows = lines("tree", "fulfil-1", store=shop)
    tree = said("tree", "fulfil-1", store=shop)

    assert [row[1:5] for row in rows] == [
        ["0", "", "fulfil", "running"],
        ["1", "child", "greet", "completed"],
    ]
    assert [child["info"]["name"] for child in tree["children"]] == ["greet"]


def test_what_waits_for_nobody_is_named(shop: str) -> None:
    unclaimed = {row[0]: row[8] for row in lines("queues", store=shop)}

    assert unclaimed == {}
    assert lines("workers", store=shop) == []
    typed("start", "approve", '"x"', "--id", "new", store=shop)
    assert {row[0]: row[8] for row in lines("queues", store=shop)} == {
        "approve": "needs approve (any version)"
    }


def test_payloads_reach_no_terminal_with_control_characters(shop: str) -> None:
    for args in (
        ["list"],
        ["list", "-o", "csv"],
        ["list", "--json"],
        ["show", "evil-1"],
        ["show", "evil-1", "--json"],
        ["show", "fail-1"],
        ["explain", "fail-1"],
        ["history", "evil-1"],
        ["history", "evil-1", "--full"],
        ["tree", "evil-1"],
        ["tail", "evil-1"],
        ["wait", "evil-1"],
        ["wait", "fail-1"],
        ["diff", "evil-1", "fail-1"],
        ["export", "evil-1"],
        ["sql", "select input from instances"],
    ):
        done = typed(*args, store=shop)
        text = done.stdout + done.stderr

        assert text, args
        assert {one for one in text if not one.isprintable()} <= {"\n", "\t"}, args
