"""Commands that look after what is stored, typed at a store and at a server before it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import Signal
from tests.cli.bank import TARGET, Place, opened_server, opened_store, rounds, seed
from tests.cli.commands import typed
from tests.engine.stage import until, waits_for

other = Signal("other", int)


@pytest.fixture(params=["sqlite", "postgres", "server"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    for name in ("PERDURE_TARGET", "PERDURE_TOKEN", "PERDURE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    url = f"sqlite:///{tmp_path}/bank.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    if request.param != "server":
        async with opened_store(url) as found:
            await seed(found.engine)
            yield found
        return
    async with opened_server(url) as (found, token):
        monkeypatch.setenv("PERDURE_TOKEN", token)
        await seed(found.engine)
        yield found


# ------------------------------------------------------------------------- inbox


async def test_a_message_that_is_not_taken_is_listed_and_dropped(place: Place) -> None:
    later = rounds.with_options(delay=timedelta(hours=1))
    await place.engine.start("later-1", later, 0)
    await place.engine.handle("later-1").send(other, 7)

    [_, row] = await place.lines("inbox", "list", "later-1")
    asked = await place.typed("inbox", "drop", "later-1", row[0])
    dropped = await place.lines("inbox", "drop", "later-1", row[0], "--yes")
    again = await place.typed("inbox", "drop", "later-1", row[0], "--yes")

    assert (row[1], json.loads(row[4])["value"]) == ("signal received", 7)
    assert (asked.exit_code, asked.stderr) == (
        2,
        f"Error: this would drop {row[0]} (signal received) from the inbox of later-1: give --yes "
        "if you mean it\n",
    )
    assert dropped == [["later-1", row[0], "dropped"]]
    assert again.exit_code == 3
    assert again.stderr == (
        f"Error: the inbox of 'later-1' has no message {row[0]}: it may have been taken "
        "meanwhile; perdure inbox list later-1 shows what is there\n"
    )
    assert len(await place.lines("inbox", "list", "later-1")) == 1


async def test_an_inbox_of_nobody_is_not_found(place: Place) -> None:
    for words in (["list", "nobody"], ["drop", "nobody", "1", "--yes"]):
        done = await place.typed("inbox", *words)
        assert (done.exit_code, "no instance 'nobody'" in done.stderr) == (3, True), done.stderr


# ------------------------------------------------------------------------ signal


async def test_a_signal_starts_what_is_not_there_and_is_sent_to_what_is(place: Place) -> None:
    words = ("signal", "new-1", "go", '"on"', "--start", "rounds", "--arg", "left=0")
    first = await place.lines(*words)
    ended = await place.typed("wait", "new-1", "--timeout", "20s")
    late = await place.typed(*words)
    anew = await place.lines(*words, "--if-exists", "restart")
    there = await place.lines(
        "signal", "rounds-1", "go", '"off"', "--start", "rounds", "--arg", "left=9"
    )

    assert first == [["new-1", "sent"]]
    assert (ended.exit_code, ended.stdout) == (0, '"on"\n')
    assert (late.exit_code, "'new-1' has ended" in late.stderr) == (1, True), late.stderr
    assert anew == [["new-1", "sent"]]
    assert there == [["rounds-1", "sent"]]
    assert await place.engine.handle("rounds-1").result() == "off"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "go", "--arg", "left=0"], "--arg is for --start: give both"),
        (["a", "go", "--if-exists", "restart"], "--if-exists is for --start: give both"),
        (["-", "go", "--start", "rounds"], "--start is for one instance that is named"),
        (["go", "--where", "name:x", "--start", "rounds"], "--start is for one instance"),
        (["a", "go", "--start", "rounds", "--message-id", "m"], "--message-id is not for --start"),
        (["a", "go", "--start", "rounds", "--arg", "left"], "must be NAME=VALUE"),
    ],
)
def test_what_cannot_start_with_a_signal_is_said(shop: str, words: list[str], said: str) -> None:
    done = typed("signal", *words, store=shop)

    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


# ---------------------------------------------------------------- what is stored


async def test_stats_say_how_much_an_instance_takes(place: Place) -> None:
    [row] = await place.lines("stats", "rounds-1")
    shown = json.loads((await place.typed("stats", "rounds-1", "--json")).stdout)
    found = await place.lines("stats", "--where", "name:rounds", "-o", "ids")
    missing = await place.typed("stats", "nobody")

    assert row[:3] == ["rounds-1", "4", "2"]
    assert shown[0]["instance_id"] == "rounds-1"
    assert shown[0]["executions"] == 4
    assert found == [["rounds-1"]]
    assert missing.exit_code == 3
    assert await place.lines("stats", "-", "-o", "ids", stdin="parent-1\tx\n") == [["parent-1"]]


async def test_sessions_are_listed_with_their_worker(place: Place) -> None:
    [row] = await place.lines("sessions")
    [shown] = json.loads((await place.typed("sessions", "--json")).stdout)

    assert row[0] == "desk-7"
    assert row[1] == shown["owner"]
    assert row[2] == ("yes" if shown["is_held"] else "no")


async def test_histories_of_earlier_executions_are_pruned(place: Place) -> None:
    async def executions() -> int:
        return (await place.engine.handle("rounds-1").stats()).executions

    asked = await place.typed("db", "prune", "rounds-1")
    late = await place.lines("db", "prune", "rounds-1", "--before", "1h", "--yes")
    some = await place.lines("db", "prune", "rounds-1", "--keep-last", "3", "--yes")
    rest = await place.lines("db", "prune", "--where", "name:rounds", "--yes")
    every = await place.lines("db", "prune", "--all", "--yes")

    assert (asked.exit_code, asked.stderr) == (
        2,
        "Error: this would remove the histories of earlier executions of rounds-1: give --yes if "
        "you mean it\n",
    )
    assert late == [["rounds-1", "0", "0"]]
    assert some == [["rounds-1", "1", "2"]]
    assert rest == [["name:rounds", "2", "4"]]
    assert every == [["all", "0", "0"]]
    assert await executions() == 1
    await place.engine.handle("rounds-1").terminate()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "say of which instances"),
        (["--where", "", "--yes"], 2, "--where is empty"),
        (["a", "--all", "--yes"], 2, "--all means every instance"),
        (["a", "--where", "name:x", "--yes"], 2, "give ids or --where, not both"),
        (["a", "--keep-last", "0", "--yes"], 2, "--keep-last"),
        (["--all", "--before", "soon", "--yes"], 2, "--before 'soon' is no point in time"),
        (["nobody", "--yes"], 3, "no instance 'nobody'"),
    ],
)
def test_what_cannot_be_pruned_is_said(shop: str, words: list[str], code: int, said: str) -> None:
    done = typed("db", "prune", *words, store=shop)

    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


async def test_instances_are_deleted_with_what_is_below(place: Place) -> None:
    children = await place.lines("list", "parent:parent-1", "-o", "ids")
    asked = await place.typed("delete", "parent-1")
    dry = await place.lines("delete", "parent-1", "--dry-run")
    running = await place.typed("delete", "rounds-1", children[0][0], "--yes")
    deleted = await place.lines("delete", "parent-1", "--yes")
    forced = await place.lines("delete", "rounds-1", "--force", "--yes")
    gone = await place.typed("delete", "parent-1", "--yes")

    assert (asked.exit_code, asked.stderr) == (
        2,
        "Error: this would delete, with all below, 1 instance (parent-1): give --yes if you mean "
        "it\n",
    )
    assert dry == [["parent-1", "would delete, with all below,"]]
    assert running.exit_code == 1
    assert "'rounds-1' has not ended (running)" in running.stderr
    assert "--force" in running.stderr
    assert "parent-1" in running.stderr
    assert deleted == [["parent-1", "deleted, with 1 below"]]
    assert forced == [["rounds-1", "deleted"]]
    assert gone.exit_code == 3
    assert await place.lines("list", "name:child") == []


async def test_what_ended_long_ago_is_deleted_together(place: Place) -> None:
    early = await place.typed("delete", "--before", "30d", "--yes")
    dry = await place.typed("delete", "--where", "name:parent", "--dry-run")
    both = await place.typed("delete", "parent-1", "--where", "name:parent")
    force = await place.typed("delete", "--before", "0s", "--force", "--yes")
    empty = await place.typed("delete", "--where", "", "--yes")
    deleted = await place.lines("delete", "--where", "name:parent", "--yes")

    assert (early.exit_code, early.stderr) == (0, "would delete 0 instances, with all below\n")
    assert dry.stderr == "would delete 1 instance, with all below\n"
    assert (both.exit_code, force.exit_code, empty.exit_code) == (2, 2, 2)
    assert deleted == [["deleted", "2"]]


# ---------------------------------------------------------------------- deciders


async def test_inputs_are_tried_and_nothing_is_written(place: Place) -> None:
    words = ("decider", "try", "account:a-1", "Pay")
    code = ("--target", TARGET)
    good = await place.typed(*words, '{"account": "a-1", "amount": 2}', *code)
    bad = await place.typed(*words, '{"account": "a-1", "amount": 0}', "--jsonl", *code)
    unfit = await place.typed(*words, '{"account": "a-1"}', *code)
    foreign = await place.typed(*words, '{"account": "a-2", "amount": 2}', *code)
    unknown = await place.typed("decider", "try", "account:a-1", "Pray", *code)
    bare = await place.typed(*words, '{"account": "a-1", "amount": 2}')

    assert good.exit_code == 0, good.stderr
    shown = json.loads(good.stdout)
    assert shown["outcome"]["outcome"] == "accepted"
    assert shown["outcome"]["state"] == {"amount": 7}
    assert shown["effects"] == []
    assert (bad.exit_code, json.loads(bad.stdout)["outcome"]["reason"]) == (1, "nothing to pay")
    assert (unfit.exit_code, "Pay: the value is no Pay: " in unfit.stderr) == (2, True), unfit
    assert foreign.exit_code == 2
    assert "for instance 'a-2', as it says itself, not a-1" in foreign.stderr
    assert unknown.exit_code == 2
    assert "got 'Pray', which is none of its inputs (Open, Pay)" in unknown.stderr
    if place.url.startswith("http"):
        assert bare.stdout == good.stdout
    else:
        assert (bare.exit_code, "an input is decided by code" in bare.stderr) == (2, True)
    assert len(await place.lines("decider", "events", "account:a-1")) == 2


async def test_a_key_names_its_holder(place: Place) -> None:
    found = await place.lines("decider", "key", "account", "DE1")
    shown = await place.typed("decider", "key", "account", "DE1", "--jsonl")
    free = await place.typed("decider", "key", "account", "DE2")
    misspelt = await place.typed("decider", "key", "acount", "DE1")

    assert found == [["account:a-1"]]
    assert json.loads(shown.stdout) == {"instance_id": "account:a-1"}
    assert (free.exit_code, free.stdout, free.stderr) == (
        3,
        "",
        "Error: no instance of account has the key 'DE2': it is free\n",
    )
    assert (misspelt.exit_code, "account" in misspelt.stderr) == (3, True), misspelt.stderr


async def test_observations_tell_what_each_input_came_to(place: Place) -> None:
    rows = await place.lines("decider", "observations", "account:a-1")
    later = await place.typed("decider", "observations", "account:a-1", "--after", "2", "--json")
    first = await place.typed("decider", "observations", "account:a-1", "--limit", "1")
    wrong = await place.typed("decider", "observations", "rounds-1")
    missing = await place.typed("decider", "observations", "account:nobody")

    assert [(row[2], row[4], row[5]) for row in rows] == [
        ("Open", "accepted", ""),
        ("Pay", "accepted", ""),
        ("Pay", "rejected", '"nothing to pay"'),
    ]
    [one] = json.loads(later.stdout)
    assert (one["no"], one["input_id"], one["rejection"]) == (3, "p-2", "nothing to pay")
    assert "those behind: --after 1" in first.stderr
    assert (wrong.exit_code, missing.exit_code) == (2, 3)


async def test_transitions_are_listed_and_drawn(place: Place) -> None:
    code = ("--target", TARGET)
    rows = await place.lines("decider", "transitions", "account:a-1", *code)
    drawn = await place.typed("decider", "transitions", "account:a-1", "-o", "mermaid", *code)
    bare = await place.typed("decider", "transitions", "account:a-1")
    wrong = await place.typed("decider", "transitions", "rounds-1", *code)

    assert rows == [["Balance", "Open", "Balance"], ["Balance", "Pay", "Balance"]]
    assert drawn.stdout.startswith("stateDiagram-v2\n")
    assert (bare.exit_code, wrong.exit_code) == (2, 2)
    assert "states are folded by code" in bare.stderr
    assert "not of a decider" in wrong.stderr


async def test_executions_are_listed(place: Place) -> None:
    rows = await place.lines("history", "rounds-1", "--executions")
    shown = json.loads((await place.typed("history", "rounds-1", "--executions", "--json")).stdout)
    wrong = await place.typed("history", "rounds-1", "--executions", "--after", "1")

    assert [(row[0], row[3], row[4]) for row in rows] == [
        *((str(number), "2", "continued as new") for number in (1, 2, 3)),
        ("4", "2", ""),
    ]
    assert shown[0]["ended_as"] == "continued_as_new"
    assert (wrong.exit_code, "--executions takes the ID" in wrong.stderr) == (2, True)


def test_a_decider_that_keeps_no_inputs_says_so(shop: str) -> None:
    done = typed("decider", "observations", "till:t-1", store=shop)

    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "no inputs are kept: the decider has no observe_inputs = True\n"


async def test_a_state_and_a_query_are_computed_by_the_server(place: Place) -> None:
    more = [] if place.url.startswith("http") else ["--target", TARGET]
    state = await place.typed("decider", "state", "account:a-1", "--jsonl", *more)
    answer = await place.typed("query", "adding-1", "seen", *more)
    folded = await place.typed("decider", "state", "account:a-1", "--at", "1", "--target", TARGET)

    assert (state.exit_code, state.stdout) == (0, '{"amount":5}\n'), state.stderr
    assert (answer.exit_code, answer.stdout) == (0, "[3]\n"), answer.stderr
    assert json.loads(folded.stdout) == {"amount": 0}


# ------------------------------------------------------------ all that there was


async def test_the_commands_that_there_were_do_the_same_on_a_server(
    place: Place, tmp_path: Path
) -> None:
    file = str(tmp_path / "out.jsonl")
    started = await place.lines("start", "rounds", "0", "--id", "r-2")
    await waits_for(place.engine.handle("r-2"), "signal 'go'")
    every = [
        ["list", "--all"],
        ["list", "waits:go"],
        ["list", "--count"],
        ["show", "rounds-1"],
        ["explain", "rounds-1"],
        ["history", "rounds-1", "--execution", "1"],
        ["tree", "parent-1"],
        ["tail", "parent-1"],
        ["wait", "parent-1"],
        ["kv", "adding-1", "total"],
        ["update", "adding-1", "add", "4"],
        ["job", "list", "rounds-1"],
        ["job", "list", "--dead"],
        ["queues"],
        ["workers"],
        ["schedule", "list"],
        ["projection", "list"],
        ["db", "info"],
        ["export", "rounds-1", "--all-executions", "-o", file],
        ["replay", "--where", "name:rounds", "--target", TARGET],
        ["replay", file, "--target", TARGET],
        ["reset", "parent-1", "--event", "1"],
        ["fork", "rounds-1", "r-3", "--event", "1"],
        ["signal", "--where", "name:rounds", "go", '"x"', "--yes"],
        ["wait", "rounds-1", "r-2"],
        ["restart", "r-2"],
        ["cancel", "r-2", "--reason", "enough"],
        ["terminate", "pinned-1"],
        ["decider", "execute", "account:a-1", "Pay", '{"account": "a-1", "amount": 1}'],
        ["decider", "send", "account:a-1", "Pay", '{"account": "a-1", "amount": 1}'],
    ]
    assert started == [["r-2"]]
    for words in every:
        done = await place.typed(*words)
        assert done.exit_code == 0, (words, done.stderr)
    await until(lambda: _has_version(place, 4))


async def _has_version(place: Place, version: int) -> bool:
    return len(await place.engine.events_json("account", "a-1")) == version


def test_what_works_on_the_database_itself_says_so(tmp_path: Path) -> None:
    for words in (
        ["db", "size"],
        ["db", "backup", str(tmp_path / "b.db")],
        ["sql", "select 1"],
        ["migrate"],
        ["migrate", "--check"],
        ["doctor"],
        ["import", "x.jsonl"],
        ["dev", "shop.py"],
        ["ui"],
        ["worker", TARGET],
    ):
        done = typed(*words, store="https://jobs.example.com")
        assert done.exit_code == 2, (words, done.stderr, done.exit_code)
        assert "works on the database itself" in done.stderr, (words, done.stderr)


async def test_a_token_that_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_TOKEN", raising=False)
    async with opened_server(f"sqlite:///{tmp_path}/bank.db") as (place, _):
        none = await place.typed("list")
        monkeypatch.setenv("PERDURE_TOKEN", "prd_wrong")
        wrong = await place.typed("list")

    assert (none.exit_code, wrong.exit_code) == (2, 2)
    assert "PERDURE_TOKEN" in none.stderr
    assert "PERDURE_TOKEN" in wrong.stderr
    assert "prd_wrong" not in wrong.stderr


def test_a_server_that_is_not_there_is_as_a_store_that_cannot_be_reached() -> None:
    done = typed("list", store="http://127.0.0.1:1")

    assert done.exit_code == 7
    assert done.stderr.startswith("Error: http://127.0.0.1:1 cannot be reached")
