"""Settings come from flags, environment and `pyproject.toml`, in that order; `config` says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import lines, typed


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    for name in ("PERDURE_STORE", "PERDURE_TARGET", "PERDURE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    return folder


def settings(*args: str) -> dict[str, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in lines("config", *args)}


def test_without_any_word_the_defaults_count() -> None:
    assert settings() == {
        "store": ("sqlite:///perdure.db", "default"),
        "target": ("", "default"),
        "output": ("", "default"),
    }


def test_a_flag_counts_before_the_environment_and_that_before_the_file(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "pyproject.toml"
    file.write_text('[tool.perdure]\nstore = "sqlite:///shop.db"\ntarget = "shop/all.py:both"')
    source = f"{file} [tool.perdure]"

    assert settings()["store"] == (f"sqlite:///{here}/shop.db", source)
    assert settings()["target"] == (f"{here}/shop/all.py:both", source)
    monkeypatch.setenv("PERDURE_STORE", "sqlite:///by-environment.db")
    assert settings()["store"] == ("sqlite:///by-environment.db", "$PERDURE_STORE")
    assert settings("--store", "sqlite:///said.db")["store"] == ("sqlite:///said.db", "--store")


def test_the_file_of_a_folder_above_counts_below_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pyproject.toml").write_text('[tool.perdure]\nstore = "sqlite:///shop.db"')
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")

    assert settings()["store"][0] == f"sqlite:///{here}/shop.db"


def test_the_store_of_the_file_is_used(here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.perdure]\nstore = "sqlite:///shop.db"')

    assert typed("migrate").exit_code == 0
    assert typed("list").exit_code == 0
    assert (here / "shop.db").exists()


def test_the_output_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_OUTPUT", "json")

    assert json.loads(typed("config").stdout)[0]["name"] == "store"
    assert lines("config", "-o", "tsv")[0][0] == "store"


def test_a_password_is_not_shown() -> None:
    shown = settings("--store", "postgresql://me:hunter2@host/shop")["store"]

    assert shown == ("postgresql://me:***@host/shop", "--store")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.perdure", "cannot be read"),
        ("[tool]\nperdure = 3", "[tool.perdure] must be a table, got 3"),
        ("[tool.perdure]\nstor = 'x'", "has no setting 'stor'; known: store, target, output"),
        ("[tool.perdure]\nstore = 3", "store in [tool.perdure] must be a text"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(here: Path, text: str, problem: str) -> None:
    (here / "pyproject.toml").write_text(text)

    for command in ("config", "list"):
        done = typed(command)

        assert done.exit_code == 2
        assert str(here / "pyproject.toml") in done.stderr
        assert problem in done.stderr


def test_an_output_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_OUTPUT", "xml")

    done = typed("config")

    assert done.exit_code == 2
    assert "there is no output 'xml'; known: table, wide, tsv" in done.stderr


def test_two_forms_at_once_are_refused() -> None:
    done = typed("list", "--json", "-o", "csv")

    assert done.exit_code == 2
    assert "--output, --json and --jsonl: give one, not 2" in done.stderr
