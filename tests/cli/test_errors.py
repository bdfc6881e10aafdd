"""What goes wrong at the command line is one clear line, an exit code, and never a password."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest
from click.testing import Result

from perdure.store.urls import hide_password, shown_url
from tests.cli.commands import perdure, typed
from tests.postgres import SUPERUSER, Server

SHOP = "from perdure import activity\n@activity\nasync def pack(): pass"
SECRET = "hunter2-not-for-you"


Done: TypeAlias = subprocess.CompletedProcess[str] | Result


def check_refused(done: Done, text: str, code: int = 7) -> None:
    found = done.exit_code if isinstance(done, Result) else done.returncode
    assert found == code, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert text in done.stderr
    assert SECRET not in done.stderr


def commands(url: str, folder: Path) -> list[Done]:
    """Run all that needs a store: those that only look in this process."""
    (folder / "shop.py").write_text(SHOP)
    return [
        typed("doctor", store=url),
        typed("migrate", store=url),
        perdure("worker", "shop.py", "--store", url, cwd=folder),
    ]


# --------------------------------------------------------------------- PostgreSQL


def test_a_host_that_does_not_answer_is_said(folder: Path) -> None:
    url = f"postgresql://u:{SECRET}@127.0.0.1:1/shop"
    as_processes = [perdure(name, "--store", url) for name in ("doctor", "migrate")]

    for done in [*as_processes, *commands(url, folder)]:
        check_refused(done, "postgresql://u@127.0.0.1:1/shop cannot be reached")


def test_what_hinders_several_processes_is_said_once(folder: Path) -> None:
    (folder / "shop.db").write_text("no database at all, but longer than a header" * 9)
    (folder / "shop.py").write_text(SHOP)

    done = perdure(
        "worker", "shop.py", "--store", "sqlite:///shop.db", "--processes", "2", cwd=folder
    )

    check_refused(done, "is not an SQLite database; give another path")


def test_a_wrong_password_is_said_and_not_shown(postgres: Server, folder: Path) -> None:
    with psycopg.connect(postgres.url("postgres", role=SUPERUSER), autocommit=True) as connection:
        connection.execute("CREATE ROLE locked LOGIN PASSWORD 'another'")
        [[place]] = connection.execute("SHOW hba_file").fetchall()
        file = Path(place)
        usual = file.read_text()
        file.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{usual}")
        connection.execute("SELECT pg_reload_conf()")
        url = postgres.url("postgres", role=f"locked:{SECRET}")

        refused = commands(url, folder)

        file.write_text(usual)
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("DROP ROLE locked")
    for done in refused:
        check_refused(done, "refuses the password")


def test_a_database_that_is_missing_is_said(postgres: Server, folder: Path) -> None:
    for done in commands(postgres.url("nowhere"), folder):
        check_refused(done, "has no such database; create it")


def test_a_schema_that_is_missing_is_said(postgres: Server) -> None:
    check_refused(
        typed("doctor", store=postgres.create_database()),
        "yet; run: perdure migrate, or start a worker",
    )


def test_a_newer_schema_is_said(postgres_url: str, folder: Path) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("INSERT INTO perdure.migrations VALUES (0, 99, 'later', 'x', 0)")

    for done in commands(postgres_url, folder):
        check_refused(done, "was written by a newer perdure (its schema is 99, this version knows")


def test_a_schema_of_somebody_else_is_said(postgres: Server, folder: Path) -> None:
    url = postgres.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA perdure")
        connection.execute("CREATE TABLE perdure.orders (id INT)")

    for done in commands(url, folder):
        check_refused(done, "has tables, but not perdure's")


# ------------------------------------------------------------------------- SQLite


def test_a_newer_file_is_said(folder: Path) -> None:
    url = f"sqlite:///{folder}/shop.db"
    assert typed("migrate", store=url).exit_code == 0
    with sqlite3.connect(f"{folder}/shop.db") as connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'later', 'x', 0)")
    connection.close()

    for done in commands(url, folder):
        check_refused(done, "was written by a newer perdure")


def test_a_file_of_somebody_else_is_said_and_left_alone(folder: Path) -> None:
    with sqlite3.connect(f"{folder}/shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INT)")
    connection.close()
    before = (folder / "shop.db").read_bytes()

    url = f"sqlite:///{folder}/shop.db"
    check_refused(typed("doctor", store=url), "not a perdure store")
    check_refused(typed("migrate", store=url), "not a perdure store")
    assert (folder / "shop.db").read_bytes() == before


def test_a_file_that_is_no_database_is_said(folder: Path) -> None:
    (folder / "shop.db").write_text("just a text, and long enough to be taken for a header" * 9)

    for done in commands(f"sqlite:///{folder}/shop.db", folder):
        check_refused(done, "is not an SQLite database; give another path")


def test_a_folder_that_is_missing_is_said(folder: Path) -> None:
    url = f"sqlite:///{folder}/nowhere/shop.db"

    check_refused(typed("migrate", store=url), "does not exist; create it")
    check_refused(typed("doctor", store=url), "there is no perdure store at")


# --------------------------------------------------------------------------- URLs


@pytest.mark.parametrize(
    "url",
    [
        f"postgres//u:{SECRET}@host/shop",
        f"mysql://u:{SECRET}@host/shop",
        f"u:{SECRET}@host",
        f"mysql://u:{SECRET}?x@host/shop",
        f"mysql://host/shop?user=u&password={SECRET}",
    ],
)
def test_a_url_that_is_none_is_said_without_its_password(url: str) -> None:
    check_refused(typed("doctor", store=url), "a store URL looks like", code=2)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("postgresql://host/shop", "postgresql://host/shop"),
        ("postgresql://u@host:5432/shop", "postgresql://u@host:5432/shop"),
        ("postgresql://u:p@host/shop?schema=x", "postgresql://u:***@host/shop?schema=x"),
        ("postgresql://u:p@q@host/shop", "postgresql://u:***@host/shop"),
        ("postgresql://h/s?password=p&schema=x", "postgresql://h/s?password=***&schema=x"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_a_password_is_found_in_whatever_form_it_is_said() -> None:
    url = "postgresql://u:se%20cret@host/shop"

    assert hide_password("bad: se cret, se%20cret", url) == "bad: ***, ***"


def test_the_store_is_that_of_the_environment_unless_one_is_given(folder: Path) -> None:
    env = {"PERDURE_STORE": f"sqlite:///{folder}/by-environment.db"}

    perdure("migrate", env=env, cwd=folder)
    perdure("migrate", "--store", f"sqlite:///{folder}/given.db", env=env, cwd=folder)
    perdure("migrate", cwd=folder, env={"PERDURE_STORE": "sqlite:///perdure.db"})

    names = {file.name for file in folder.iterdir() if file.suffix == ".db"}
    assert names == {"by-environment.db", "given.db", "perdure.db"}


def test_a_command_that_is_misspelled_is_told_which_one_is_meant() -> None:
    done = typed("lst")

    assert done.exit_code == 2
    assert "No such command 'lst'. Did you mean list?" in done.stderr
    assert "No such command 'frobnicate'." in typed("frobnicate").stderr


@pytest.mark.parametrize("command", [("ui",), ("demo",), ("dev", "shop.py")])
def test_a_port_that_there_is_not_is_refused(command: tuple[str, ...]) -> None:
    done = typed(*command, "--port", "99999")

    assert done.exit_code == 2
    assert "99999 is not in the range 0<=x<=65535" in done.stderr


# ---------------------------------------------------------------- what is not there


@pytest.mark.parametrize("words", [["show"], ["explain"], ["wait"], ["tree"], ["history"]])
def test_an_unknown_id_is_said_with_the_store_and_what_lists_them(
    shop: str, words: list[str]
) -> None:
    done = typed(*words, "nobody", store=shop)

    wanted = f"no instance 'nobody' in {shop}; perdure list shows what there is"
    check_refused(done, wanted, code=3)


def test_an_unknown_schedule_is_called_a_schedule(shop: str) -> None:
    for words in (["show"], ["pause"], ["trigger"], ["delete"]):
        check_refused(typed("schedule", *words, "nightly", store=shop), "no schedule", code=3)


def test_an_error_that_is_misspelled_is_guessed(shop: str) -> None:
    done = typed("explain", "InstanceHeldErro", store=shop)

    check_refused(done, "did you mean InstanceHeldError?", code=3)
