"""`perdure history`, `export`, `diff` and `replay`: histories on the screen, in files, compared."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from perdure import activity, orchestration
from tests.cli import shop as definitions
from tests.cli.commands import lines, perdure, typed
from tests.cli.shop import say_hello

TARGET = ["--target", "tests.cli.shop"]


@activity(name="say_goodbye")
async def say_goodbye(name: str) -> str:
    return name


@orchestration(name="greet")
async def greet_otherwise(names: list[str]) -> list[str]:
    return [await say_hello(name) for name in names]


@orchestration(name="approve")
async def approve_otherwise(order: str) -> str:
    return await say_goodbye(order)


OTHERWISE = [greet_otherwise, approve_otherwise, say_goodbye, say_hello]


def test_a_history_is_printed_in_order_with_what_it_is_about(shop: str) -> None:
    rows = lines("history", "greet-1", store=shop)

    assert [row[0] for row in rows] == [str(n) for n in range(1, 7)]
    assert rows[0][2:5] == ["started", "greet", '{"names": ["Ada", "Grace"]}']
    assert rows[1][2:5] == ["activity scheduled", "say_hello", '{"name": "Ada"}']
    assert {row[3] for row in rows if row[2] == "activity completed"} == {"say_hello"}
    assert rows[-1][2:5] == ["completed", "", '["Hello, Ada!", "Hello, Grace!"]']


def test_a_part_of_a_history_is_printed(shop: str) -> None:
    rows = lines("history", "greet-1", "--after", "2", "--limit", "1", store=shop)
    full = typed("history", "greet-1", "--limit", "1", "--full", store=shop).stdout

    assert [row[0] for row in rows] == ["3"]
    assert json.loads(full)["data"]["name"] == "greet"
    done = typed("history", "greet-1", "--execution", "2", store=shop)
    assert done.exit_code == 2
    assert "has no execution 2" in done.stderr


def test_some_events_of_a_history_are_found(shop: str, tmp_path: Path) -> None:
    kinds = lines("history", "greet-1", "--kind", "activity completed", store=shop)
    names = lines("history", "greet-1", "--name", "say_hello", "--after", "2", store=shop)
    failures = lines("history", "fail-1", "--failures", store=shop)
    typed("export", "greet-1", "-o", str(tmp_path / "greet.jsonl"), store=shop)
    of_file = lines("history", str(tmp_path / "greet.jsonl"), "--kind", "activity_completed")
    refused = typed("history", "greet-1", "--kind", "activty", store=shop)

    assert {tuple(row[2:4]) for row in kinds} == {("activity completed", "say_hello")}
    assert kinds == of_file
    assert {row[3] for row in names} == {"say_hello"}
    assert [row[2] for row in failures][-1] == "failed"
    assert refused.exit_code == 2
    assert "did you mean 'activity'" in refused.stderr


def test_an_exported_history_is_the_same_elsewhere(shop: str, tmp_path: Path) -> None:
    file = tmp_path / "greet.jsonl"

    done = typed("export", "greet-1", "-o", str(file), store=shop)

    assert (done.exit_code, done.stderr) == (0, f"1 history in {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    nowhere = "sqlite:///nowhere/at-all.db"
    assert lines("history", str(file), store=nowhere) == lines("history", "greet-1", store=shop)
    assert lines("diff", str(file), str(file), store=nowhere) == []
    assert lines("diff", "greet-1", str(file), store=shop) == []
    assert lines("replay", str(file), *TARGET, store=nowhere)[0][5] == "fits"
    assert typed("export", "greet-1", "-o", str(file), store=shop).exit_code == 2


def test_an_export_takes_everything_below(shop: str) -> None:
    out = typed("export", "fulfil-1", "--children", "--all-executions", store=shop).stdout

    heads = [one for line in out.splitlines() if "perdure_history" in (one := json.loads(line))]
    assert [one["name"] for one in heads] == ["fulfil", "greet"]


def test_every_stored_history_fits_its_code(shop: str) -> None:
    rows = lines("replay", "--where", "before:2100-01-01", *TARGET, store=shop)

    assert {row[5] for row in rows} == {"fits"}
    assert len(rows) == len(definitions.IDS) + 1


def test_code_that_does_not_fit_is_shown_beside_what_was_recorded(shop: str) -> None:
    changed = ["--target", "tests.cli.test_histories:OTHERWISE"]

    done = typed("replay", "greet-1", "wait-1", *changed, store=shop)

    assert done.exit_code == 6
    assert "wait-1 no longer matches its history at event 2: " in done.stdout.splitlines()[1]
    assert "signal awaited approved" in done.stderr
    assert "activity scheduled say_goodbye" in done.stderr
    assert "0 of 2 fit" in done.stderr


def test_a_replay_needs_its_code(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_TARGET", raising=False)

    assert "replay needs the code" in typed("replay", "greet-1", store=shop).stderr
    other = typed("replay", "pay-1", "--target", "tests.cli.test_histories:OTHERWISE", store=shop)
    assert other.exit_code == 3
    assert "no orchestration named 'pay@1.0.0' is registered here" in other.stderr


def test_the_debugger_stops_where_the_users_code_begins(shop: str, tmp_path: Path) -> None:
    file = tmp_path / "greet.jsonl"
    typed("export", "greet-1", "-o", str(file), store=shop)

    done = perdure("replay", str(file), "--pdb", *TARGET, stdin="p names\ncontinue\n")

    assert done.returncode == 0, done.stderr
    assert "greet()" in done.stdout
    assert "['Ada', 'Grace']" in done.stdout
    assert done.stdout.endswith("fits\n")
    assert typed("replay", "greet-1", "wait-1", "--pdb", *TARGET, store=shop).exit_code == 2


def test_two_histories_are_compared_without_their_times(shop: str) -> None:
    done = typed("diff", "wait-1", "wait-2", store=shop)

    assert done.exit_code == 1
    [first, second] = [line.split("\t") for line in done.stdout.splitlines()]
    assert (first[0], second[0]) == ("!", "=")
    assert first[2] == 'started  approve  {"order": "wait-1"}'
    same = typed("diff", "wait-1", "wait-1", store=shop)
    assert (same.exit_code, same.stdout, same.stderr) == (0, "", "equal: 2 events\n")


def test_what_one_history_has_more_is_marked(shop: str) -> None:
    rows = json.loads(typed("diff", "greet-1", "wait-1", "--full", "--json", store=shop).stdout)

    assert [row["mark"] for row in rows][-4:] == ["<"] * 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no history in it"),
        ("nonsense", "line 1 is not what `perdure export` writes"),
        ('{"a": 1}', "line 1: a history is expected to begin here"),
        ('{"perdure_history": 9, "events": 0}', "it was written by a newer perdure (form 9"),
        ('{"perdure_history": 1, "events": 0}', "instance_id must be a str, got None"),
    ],
)
def test_a_file_of_something_else_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(text)

    done = typed("history", str(file))

    assert done.exit_code == 2
    assert str(file) in done.stderr
    assert problem in done.stderr


def test_a_file_that_is_cut_off_is_named(shop: str, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    out = typed("export", "greet-1", store=shop).stdout.splitlines(keepends=True)
    file.write_text("".join(out[:3]))
    moved = tmp_path / "y.jsonl"
    moved.write_text("".join([out[0], out[2], *out[1:]]))

    assert "the file ends before event 3" in typed("history", str(file)).stderr
    assert "event 1 is expected here, got 2" in typed("history", str(moved)).stderr
    assert typed("history", str(tmp_path / "none.jsonl")).exit_code == 2


def test_what_was_exported_is_imported_and_the_rest_is_said(shop: str, tmp_path: Path) -> None:
    file, other = tmp_path / "all.jsonl", f"sqlite:///{tmp_path}/other.db"
    assert typed("export", "greet-1", "wait-1", "-o", str(file), store=shop).exit_code == 0
    missing = typed("import", str(file), store=other)
    assert (missing.exit_code, "no perdure store" in missing.stderr) == (7, True)
    assert typed("migrate", store=other).exit_code == 0

    done = typed("import", str(file), store=other)

    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [(row[0], row[3]) for row in rows] == [("greet-1", "imported"), ("wait-1", "refused")]
    assert "has not ended" in rows[1][4]
    assert done.stderr == "1 of 2 are here\n"
    assert done.exit_code == 1
    assert lines("history", "greet-1", store=other) == lines("history", "greet-1", store=shop)
    assert typed("doctor", store=other).exit_code == 0
    wrong = typed("import", str(tmp_path / "nothing.jsonl"), store=other)
    assert (wrong.exit_code, "cannot be read" in wrong.stderr) == (2, True)
