"""`perdure wait`, `tail` and `watch`: until the end, whose exit code they have."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable

import pytest
from rich.console import Console

from perdure import Client
from perdure.cli.commands.follow import drawn_progress
from perdure.cli.output import warnings_as_lines
from perdure.client.reading.info import Json, Progress
from tests.cli.commands import Command, lines, perdure, typed
from tests.cli.shop import EVIL


def test_a_result_is_printed_and_the_outcome_is_the_exit_code(shop: str) -> None:
    one = typed("wait", "greet-1", store=shop)
    both = typed("wait", "greet-1", "fail-1", store=shop)

    assert (one.exit_code, one.stdout) == (0, '["Hello, Ada!","Hello, Grace!"]\n')
    assert json.loads(typed("wait", "greet-1", "--json", store=shop).stdout)[0] == "Hello, Ada!"
    assert both.exit_code == 1
    assert both.stdout == 'greet-1\t["Hello, Ada!","Hello, Grace!"]\n'
    assert both.stderr.startswith("Error: instance 'fail-1' failed: RuntimeError: no luck")
    by_line = typed("wait", "greet-1", "evil-1", "--jsonl", store=shop).stdout.splitlines()
    assert [json.loads(line)["instance_id"] for line in by_line] == ["greet-1", "evil-1"]


def test_what_is_held_is_said_on_a_line_while_it_is_waited_for(shop: str) -> None:
    done = perdure("wait", "parked-1", "--timeout", "1s", "--store", shop)
    warning, error = done.stderr.splitlines()

    assert done.returncode == 4
    assert warning.startswith("Warning: parked-1 (approve 1.0.0) is parked: a turn took too long")
    assert "perdure unpark" in warning
    assert not re.search(r"handle\.|result\(\)|RuntimeWarning", done.stderr)
    assert error.startswith("Error: ")


def test_a_warning_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_as_lines():
        warnings.simplefilter("always")
        warnings.warn(f"held: {EVIL}", RuntimeWarning, stacklevel=1)

    said = capsys.readouterr().err
    assert said.startswith("Warning: held: \\x1b[31mred")
    assert said.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("instance_id", "code", "last"),
    [
        ("greet-1", 0, "completed"),
        ("fail-1", 1, "failed"),
        ("cancelled-1", 5, "cancelled"),
        ("terminated-1", 5, "terminated"),
    ],
)
def test_a_tail_ends_with_the_instance(shop: str, instance_id: str, code: int, last: str) -> None:
    done = typed("tail", instance_id, store=shop)
    newest = typed("tail", instance_id, "--events", "1", "--jsonl", store=shop)

    assert done.exit_code == code
    assert done.stdout.splitlines()[-1].split("\t")[2] == last
    assert json.loads(newest.stdout)["kind"] == last


async def test_a_tail_prints_what_comes_until_the_end(
    shop: str, begin: Callable[..., Command]
) -> None:
    tail = begin("tail", "wait-1", "--store", shop)
    await tail.says("signal awaited")

    async with Client(shop) as client:
        await client.handle("wait-1").terminate("enough")

    await tail.says("terminated")
    assert tail.end() == 5


async def test_a_list_that_is_watched_tells_what_has_changed(
    shop: str, begin: Callable[..., Command]
) -> None:
    watched = begin("list", "--watch", "prefix:wait", "--jsonl", "--store", shop)
    await watched.says('"wait-1"')

    async with Client(shop) as client:
        await client.handle("wait-1").terminate("enough")

    await watched.says('"status":"terminated"')
    assert watched.said().count('"instance_id":"wait-2"') == 1


def test_what_never_ends_cannot_be_one_document(shop: str) -> None:
    done = typed("list", "--watch", "--json", store=shop)

    assert done.exit_code == 2
    assert "--watch never ends, which json cannot say: give --jsonl" in done.stderr


def test_watching_live_needs_a_terminal(shop: str) -> None:
    done = typed("watch", "greet-1", store=shop)

    assert done.exit_code == 2
    assert "watch needs a terminal; in a pipe use: perdure tail ID" in done.stderr


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([1, 4], "1 of 4"),
        (0.25, "25%"),
        ("half of it", '"half of it"'),
        ([5, 4], "[5, 4]"),
        (None, '"runs"'),
        (EVIL, "u001b[31mred"),
    ],
)
def test_a_running_activity_is_drawn_as_far_as_it_is(value: Json, shown: str) -> None:
    one = Progress(
        key="k", activity="[red]pack", tag=None, attempt=2, worker_id="w", value=value, at=None
    )
    console = Console(file=io.StringIO(), width=120, no_color=True)

    console.print(drawn_progress(one))

    text = console.file.getvalue()  # type: ignore[attr-defined]  # made above
    assert text.startswith("[red]pack (attempt 2)")
    assert shown in text
    assert "\x1b" not in text


# -------------------------------------------------------------------------- deciders


def test_the_events_of_a_decider_need_no_code(shop: str) -> None:
    rows = lines("decider", "events", "till:t-1", store=shop)

    assert [(row[0], *row[2:6]) for row in rows] == [
        ("1", "Deposited", '{"amount": 5}', "Deposit", "client"),
        ("2", "Deposited", '{"amount": 7}', "Deposit", "client"),
    ]
    assert typed("decider", "events", "greet-1", store=shop).exit_code == 2
    assert typed("decider", "events", "till:none", store=shop).exit_code == 3


def test_the_state_of_a_decider_is_folded_by_its_code(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ["--target", "tests.cli.shop"]
    now = typed("decider", "state", "till:t-1", *target, store=shop).stdout
    then = typed("decider", "state", "till:t-1", "--at", "1", *target, store=shop).stdout

    assert (json.loads(now), json.loads(then)) == ({"amount": 12}, {"amount": 5})
    monkeypatch.delenv("PERDURE_TARGET", raising=False)
    without = typed("decider", "state", "till:t-1", store=shop)
    assert without.exit_code == 2
    assert "a state is folded by code" in without.stderr
    other = ["--target", "tests.cli.test_histories:OTHERWISE"]
    assert typed("decider", "state", "till:t-1", *other, store=shop).exit_code == 3


def test_an_input_is_queued_for_a_worker(shop: str) -> None:
    value = '{"till": "t-1", "amount": 3}'

    assert lines("decider", "send", "till:t-1", "Deposit", value, store=shop) == [
        ["till:t-1", "sent"]
    ]
    late = typed("decider", "execute", "till:t-1", "Deposit", value, "--timeout", "1ms", store=shop)
    assert late.exit_code == 4
    assert typed("decider", "send", "t-1", "Deposit", value, store=shop).exit_code == 2
    assert typed("decider", "send", "shop:t-1", "Deposit", value, store=shop).exit_code == 3


def test_a_text_is_printed_as_it_is_when_that_is_asked_for(shop: str) -> None:
    plain, raw = typed("wait", "evil-1", store=shop), typed("wait", "evil-1", "--raw", store=shop)

    assert json.loads(plain.stdout) == EVIL
    assert "\x1b" not in plain.stdout
    assert raw.stdout == f"{EVIL}\n"
    several = typed("wait", "evil-1", "greet-1", "--raw", store=shop)
    assert (several.exit_code, "--raw is for one" in several.stderr) == (2, True)
    alone = typed("start", "greet", "[]", "--raw", store=shop)
    assert (alone.exit_code, "--raw is for --wait" in alone.stderr) == (2, True)


def test_show_goes_on_to_the_end_when_it_is_to_follow(shop: str) -> None:
    done = typed("show", "greet-1", "--follow", "--events", "2", store=shop)
    two = typed("show", "greet-1", "fail-1", "--follow", store=shop)
    table = typed("show", "greet-1", "--follow", "-o", "json", store=shop)

    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].split("\t")[2] == "completed"
    assert (two.exit_code, table.exit_code) == (2, 2)
    assert "--follow is for one instance, not for 2" in two.stderr
    assert "use -o jsonl" in table.stderr


async def test_show_follows_what_comes(shop: str, begin: Callable[..., Command]) -> None:
    shown = begin("show", "wait-1", "--follow", "--store", shop)
    await shown.says("signal awaited")

    async with Client(shop) as client:
        await client.handle("wait-1").terminate("enough")

    await shown.says("terminated")
    assert shown.end() == 5
    assert shown.said().count("signal awaited") == 1
