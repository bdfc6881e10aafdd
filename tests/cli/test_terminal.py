"""The command as a person sees it: in a terminal, and in a real pipe."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.cli.commands import ENDS_WITHIN_S, PROGRAM, lines, perdure
from tests.cli.terminal import Terminal


def test_a_list_is_a_table_in_a_terminal(shop: str) -> None:
    with Terminal("list", "--store", shop) as terminal:
        assert terminal.end() == 0

    [heading] = [line for line in terminal.text.splitlines() if line.startswith("instance")]
    assert heading.split() == ["instance", "name", "status", "now", "started", "took"]
    [parked] = [line for line in terminal.text.splitlines() if line.startswith("parked-1")]
    assert "a turn took too long" in parked
    assert "ago" in parked or "now" in parked
    assert "\x1b[1;33mparked" in terminal.raw


def test_no_color_is_respected(shop: str) -> None:
    with Terminal("list", "--store", shop, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0

    assert "parked-1" in terminal.text
    assert "\x1b[1;33m" not in terminal.raw
    assert "\x1b[36m" not in terminal.raw


def test_a_payload_cannot_reach_the_terminal_with_its_codes(shop: str) -> None:
    for args in (["list", "id:evil-1"], ["show", "evil-1"], ["tail", "evil-1"], ["tree", "evil-1"]):
        with Terminal(*args, "--store", shop, env={"NO_COLOR": "1"}) as terminal:
            assert terminal.end() == 0

        assert "[31mred" in terminal.text, args
        assert "\x1b[31m" not in terminal.raw, args
        assert "\x07" not in terminal.raw, args


def test_show_has_the_answer_first(shop: str) -> None:
    with Terminal("show", "pay-1", "--store", shop) as terminal:
        assert terminal.end() == 0

    first, *rest = terminal.text.split("\n\n")
    assert "cannot move" in first
    assert rest[-1].startswith("newest ")


def test_several_are_hit_only_if_the_person_says_yes(shop: str) -> None:
    args = ["terminate", "--where", "prefix:wait-", "--store", shop]
    with Terminal(*args) as terminal:
        terminal.says("? [y/N]: ")
        assert "2 instances match\nterminate 2 instances (wait-" in terminal.text
        terminal.types("n\n")
        assert terminal.end() == 1
    assert "nothing was done" in terminal.text
    with Terminal(*args) as terminal:
        terminal.says("[y/N]: ")
        terminal.types("y\n")
        assert terminal.end() == 0
    assert "2 of 2 done" in terminal.text
    assert {row[2] for row in lines("list", "prefix:wait-", store=shop)} == {"terminated"}


def test_a_question_that_is_interrupted_does_nothing(shop: str) -> None:
    with Terminal("terminate", "--where", "prefix:wait-", "--store", shop) as terminal:
        terminal.says("[y/N]: ")
        terminal.process.send_signal(signal.SIGINT)
        # Python looks for signals before it reads and after, and not in between.
        terminal.types("\n")
        assert terminal.end() == 130
    assert {row[2] for row in lines("list", "prefix:wait-", store=shop)} == {"running"}


def test_a_tree_is_watched_live_until_its_end(shop: str) -> None:
    with Terminal("watch", "fulfil-1", "greet-1", "--store", shop) as terminal:
        terminal.says("greet  completed")
        assert lines("terminate", "fulfil-1", store=shop) == [["fulfil-1", "terminated"]]
        assert terminal.end() == 5

    assert "fulfil  terminated" in terminal.text


def test_a_list_is_drawn_again_until_it_is_interrupted(shop: str) -> None:
    with Terminal("list", "prefix:wait-", "--watch", "--store", shop) as terminal:
        terminal.says("wait-1")
        lines("terminate", "wait-1", store=shop)
        terminal.says("terminated")
        terminal.process.send_signal(signal.SIGINT)

        assert terminal.end() == 130


def test_what_one_command_prints_another_reads(shop: str) -> None:
    listed = perdure("list", "prefix:wait-", "-o", "ids", "--store", shop)

    done = perdure("terminate", "-", "--yes", "--store", shop, stdin=listed.stdout)

    assert (done.returncode, done.stderr) == (0, "2 of 2 done\n")
    assert sorted(done.stdout.splitlines()) == ["wait-1\tterminated", "wait-2\tterminated"]


def test_a_reader_that_has_seen_enough_is_no_failure(shop: str, folder: Path) -> None:
    reader, writer = os.pipe()
    command = subprocess.Popen(
        [*PROGRAM, "list", "--watch", "--store", shop],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert os.read(reader, 1)
    os.close(reader)
    # What is new has to be written, and nobody reads it.
    lines("terminate", "wait-1", store=shop)

    _, errors = command.communicate(timeout=ENDS_WITHIN_S)

    assert (command.returncode, errors) == (0, "")
