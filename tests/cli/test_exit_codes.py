"""Every exit code, and the one line that comes with it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure.cli.exit_codes import ExitCode, exit_code_of
from perdure.errors import PerdureError, UsageError
from tests.cli.commands import Command, typed
from tests.cli.terminal import Terminal

TARGET = ["--target", "tests.cli.test_histories:OTHERWISE"]


@pytest.mark.parametrize(
    ("code", "args"),
    [
        (0, ["wait", "greet-1"]),
        (0, ["show", "fail-1"]),
        (1, ["wait", "fail-1"]),
        (1, ["signal", "greet-1", "approved"]),
        (1, ["restart", "wait-1"]),
        (1, ["diff", "wait-1", "greet-1"]),
        (2, ["list", "nonsense"]),
        (2, ["show"]),
        (2, ["wait", "wait-1", "--timeout", "soon"]),
        (3, ["show", "nobody"]),
        (3, ["history", "nobody"]),
        (3, ["wait", "nobody"]),
        (3, ["cancel", "nobody"]),
        (3, ["retry", "nobody"]),
        (3, ["projection", "show", "nothing"]),
        (3, ["replay", "pay-1", *TARGET]),
        (4, ["wait", "wait-1", "--timeout", "1ms"]),
        (5, ["wait", "cancelled-1"]),
        (5, ["wait", "terminated-1"]),
        (6, ["replay", "wait-1", *TARGET]),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_an_exit_code_tells_what_happened(shop: str, code: int, args: list[str]) -> None:
    done = typed(*args, store=shop)

    assert done.exit_code == code
    assert done.stderr or code == 0 or args[0] == "diff"


@pytest.mark.parametrize(
    "args",
    [
        ["list"],
        ["show", "a"],
        ["cancel", "a"],
        ["start", "greet"],
        ["db", "info"],
        ["sql", "select 1"],
        ["queues"],
        ["projection", "list"],
        ["job", "list", "--dead"],
        ["export", "a"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_a_store_that_is_not_there_is_said_and_not_made(args: list[str], folder: Path) -> None:
    done = typed(*args, store=f"sqlite:///{folder}/shop.db")

    assert done.exit_code == 7
    assert done.stdout == ""
    assert done.stderr.startswith("Error: there is no perdure store at ")
    assert "perdure migrate" in done.stderr
    assert list(folder.iterdir()) == []


def test_a_server_that_does_not_answer_has_the_same_code() -> None:
    done = typed("list", store="postgresql://me:hunter2@127.0.0.1:1/shop")

    assert done.exit_code == 7
    assert "hunter2" not in done.stderr


async def test_an_interrupted_command_says_so(shop: str, begin: Callable[..., Command]) -> None:
    command = begin("tail", "wait-1", "--store", shop)
    await command.says("signal awaited")

    command.send(signal.SIGINT)

    assert command.end() == 130
    assert "Traceback" not in command.said()


def test_every_error_has_an_exit_code_that_is_no_success() -> None:
    def subclasses(kind: type[PerdureError]) -> list[type[PerdureError]]:
        return [kind, *(below for one in kind.__subclasses__() for below in subclasses(one))]

    for kind in subclasses(PerdureError):
        code = exit_code_of(kind.__new__(kind))

        assert code in ExitCode
        assert code != ExitCode.GOOD
    assert exit_code_of(UsageError("x")) is ExitCode.USAGE


def test_every_exit_code_is_the_same_for_a_person_at_a_terminal(shop: str, folder: Path) -> None:
    nowhere = f"sqlite:///{folder}/nowhere.db"
    typed_in = {
        0: ["wait", "greet-1", "--store", shop],
        1: ["wait", "fail-1", "--store", shop],
        2: ["list", "nonsense", "--store", shop],
        3: ["show", "nobody", "--store", shop],
        4: ["wait", "wait-1", "--timeout", "1ms", "--store", shop],
        5: ["wait", "terminated-1", "--store", shop],
        6: ["replay", "wait-1", *TARGET, "--store", shop],
        7: ["list", "--store", nowhere],
        130: ["list", "prefix:wait-", "--watch", "--store", shop],
    }
    assert set(typed_in) == set(ExitCode)
    terminals = {code: Terminal(*args) for code, args in typed_in.items()}
    with ExitStack() as stack:
        for terminal in terminals.values():
            stack.enter_context(terminal)
        watching = terminals[130]
        watching.says("wait-1")
        watching.types("\x03")
        ended = {code: one.end() for code, one in terminals.items()}

    assert ended == {code: code for code in typed_in}
