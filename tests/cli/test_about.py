"""Help that loads nothing, completion, versions, a first program, and every flag of a worker."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import click
import msgspec
import pytest

from perdure.cli.main import COMMANDS, ListedGroup, cli
from perdure.cli.serving.worker import WorkerSettings
from perdure.cli.serving.worker_flags import RETAIN, WORKER_FLAGS, said_flags
from perdure.errors import UsageError
from perdure.model.worker_options import Retention, WorkerOptions
from tests.cli.commands import lines, perdure, typed
from tests.each import each

HEAVY = {"asyncio", "msgspec", "rich", "sqlite3", "asyncpg", "tomllib", "pdb"}


def printed_and_loaded(*args: str, env: dict[str, str] | None = None) -> tuple[str, set[str]]:
    """Return what a command has printed, and what it has loaded when it ends."""
    program = (
        "import atexit, sys; from perdure.cli.main import cli\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"cli({list(args)!r}, prog_name='perdure')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
    )
    return done.stdout, set(done.stderr.split())


def test_help_loads_the_list_of_commands_and_nothing_else() -> None:
    """How long it takes depends on the machine; what it takes long for does not."""
    _, loaded = printed_and_loaded("--help")

    assert {name for name in loaded if name.startswith("perdure")} == {
        "perdure",
        "perdure.cli",
        "perdure.cli.main",
    }
    assert loaded & HEAVY == set()


def test_completion_of_commands_loads_nothing_else_either() -> None:
    words = {"_PERDURE_COMPLETE": "bash_complete", "COMP_WORDS": "perdure re", "COMP_CWORD": "1"}

    printed, loaded = printed_and_loaded(env=words)

    assert {name for name in loaded if name.startswith("perdure.cli.")} == {"perdure.cli.main"}
    assert loaded & HEAVY == set()
    assert printed.split() == ["plain,restart", "plain,reset", "plain,retry", "plain,replay"]


@each(COMMANDS)
def test_a_command_says_in_the_list_what_it_says_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    done = typed(name, "--help")

    assert command is not None
    assert command.name == name
    assert command.help
    assert done.exit_code == 0
    assert "Usage: " in done.stdout


def test_a_command_that_is_none_is_refused() -> None:
    done = typed("lists")

    assert done.exit_code == 2
    assert "No such command 'lists'" in done.stderr
    assert isinstance(cli, ListedGroup)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str) -> None:
    assert "_PERDURE_COMPLETE" in typed("completion", shell).stdout


def test_versions_are_printed() -> None:
    rows = {row[0]: row[1] for row in lines("version")}

    assert {"perdure", "python", "SQLite"} <= rows.keys()
    assert typed("--version").stdout == f"perdure {rows['perdure']}\n"


# --------------------------------------------------------------------------- new


def test_the_first_program_runs_and_is_never_written_over_another(folder: Path) -> None:
    made = perdure("new", "hello.py", cwd=folder)
    again = perdure("new", "hello.py", cwd=folder)
    ran = subprocess.run(
        [sys.executable, "hello.py"], cwd=folder, capture_output=True, text=True, check=True
    )

    assert (made.returncode, made.stdout) == (0, "hello.py\n")
    assert "perdure dev hello.py" in made.stderr
    assert ran.stdout == "['Hello, Ada!', 'Hello, Grace!']\n"
    assert again.returncode == 2
    assert "hello.py exists; name another file" in again.stderr


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("decider", "Accepted(events=(Withdrawn(amount=80),), state=20"),
        ("agent", "what is known of 'the order 42'"),
    ],
)
def test_a_first_program_of_every_kind_runs_and_passes_the_check(
    template: str, says: str, folder: Path
) -> None:
    made = perdure("new", "first.py", "--template", template, cwd=folder)
    ran = subprocess.run(
        [sys.executable, "first.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    checked = perdure("check", "first.py", cwd=folder)

    assert made.returncode == 0, made.stderr
    assert says in ran.stdout
    assert checked.returncode == 0, checked.stdout


def test_the_first_web_application_starts_and_shows_its_pages(folder: Path) -> None:
    made = perdure("new", "first.py", "--template", "web", cwd=folder)
    program = """
from starlette.testclient import TestClient
import first
with TestClient(first.app, base_url="http://127.0.0.1") as http:
    print(http.post("/orders/o-1").status_code, http.get("/orders/o-1").json())
    print(http.get("/perdure/").status_code, http.get(f"/perdure/?k={first.KEY}").status_code)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )

    assert "python first.py" in made.stderr
    assert ran.stdout == "202 {'result': 'o-1 packed'}\n401 200\n"


@pytest.mark.parametrize("name", ["hello", "hello.txt", "he-llo.py", "nowhere/hello.py"])
def test_a_file_that_could_not_be_imported_is_not_written(name: str, folder: Path) -> None:
    done = typed("new", str(folder / name))

    assert done.exit_code == 2
    assert list(folder.iterdir()) == []


# ------------------------------------------------------------------------- worker


def test_every_option_of_a_worker_has_a_flag() -> None:
    options = {one.name for one in fields(WorkerOptions)} - {"retention"}
    retention = {RETAIN + one.name for one in fields(Retention)}

    # Those have flags of another name or form.
    assert WORKER_FLAGS.keys() == options - {"name", "tags", "stop_grace"} | retention


def test_the_flags_of_a_worker_become_its_options() -> None:
    said = said_flags(
        {
            "lease_for": timedelta(seconds=5),
            "poll_max": timedelta(milliseconds=500),
            "claim_batch": 7,
            "shadow_rate": 0.5,
            "watch_calls": "always",
            "versions": ("checkout=>=1.2,<2",),
            "behaviours": "1-2",
            "retain_ended": timedelta(days=30),
            "retain_executions": 3,
            "poll_min": None,
            "prefer": (),
        }
    )

    settings = WorkerSettings(url="", target="", others=said)
    # As they reach the processes of a fleet.
    options = msgspec.json.decode(msgspec.json.encode(settings), type=WorkerSettings).options()

    assert options == WorkerOptions(
        lease_for=timedelta(seconds=5),
        poll_max=timedelta(milliseconds=500),
        claim_batch=7,
        shadow_rate=0.5,
        watch_calls="always",
        versions={"checkout": ">=1.2,<2"},
        behaviours=(1, 2),
        retention=Retention(ended=timedelta(days=30), executions=3),
    )


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--lease-for", "50ms"], "lease_for must be at least 100 ms, got 0:00:00.050000"),
        (["--lease-for", "long"], "'long' is not a length of time"),
        (["--versions", "checkout"], "--versions 'checkout' must be NAME=VALUE"),
        (["--behaviours", "x"], "--behaviours 'x' must be a number or two with a dash"),
        (["--concurrency", "3", "--async-jobs", "2"], "--concurrency is --async-jobs and"),
        (["--watch-calls", "perhaps"], "'perhaps' is not one of"),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(args: list[str], problem: str, folder: Path) -> None:
    done = typed("worker", "tests.cli.shop", *args, store=f"sqlite:///{folder}/shop.db")

    assert done.exit_code == 2
    assert problem in done.stderr
    assert list(folder.iterdir()) == []


def test_a_worker_without_definitions_says_where_to_name_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PERDURE_TARGET", raising=False)

    done = typed("worker")

    assert done.exit_code == 2
    assert "which definitions? Name a module or file" in done.stderr
    with pytest.raises(UsageError):
        WorkerSettings(url="", target="", others={"claim_batch": 0}).options()
