"""What TARGET may be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.cli.targets import described, load_target
from perdure.errors import UsageError
from tests.cli.commands import perdure

SHOP = """
from perdure import activity, orchestration
from perdure.authoring.registry import Registry

@activity
async def pack(order: str) -> str:
    return order

@orchestration
async def ship(order: str) -> str:
    return await pack(order)

everything = [ship, pack]
registry = Registry(everything)
number = 3
"""


@pytest.fixture(autouse=True)
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in the folder, and leave nothing imported behind."""
    (folder / "parcels.py").write_text(SHOP)
    (folder / "depot").mkdir()
    (folder / "depot/__init__.py").touch()
    (folder / "depot/orders.py").write_text("from depot.kinds import *")
    (folder / "depot/kinds.py").write_text(SHOP)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name, module in list(sys.modules.items()):
        if str(folder) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize(
    "target",
    [
        "parcels",
        "parcels.py",
        "./parcels.py",
        "parcels:registry",
        "parcels.py:everything",
        "depot.orders",
        "depot/orders.py",
    ],
)
def test_a_target_stands_for_its_definitions(target: str) -> None:
    assert described(load_target(target)) == "1 orchestration, 1 activity"


def test_a_single_definition_can_be_named() -> None:
    assert described(load_target("parcels:pack")) == "1 activity"


def test_a_file_of_a_package_is_imported_under_its_full_name() -> None:
    registry = load_target("depot/kinds.py")

    assert registry.activities["pack"].fn.__module__ == "depot.kinds"


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("nowhere", "there is no module 'nowhere' in"),
        ("depot.nowhere", "there is no module 'depot.nowhere' in"),
        ("nowhere.py", "there is no file nowhere.py"),
        ("no where", "'no where' is neither a module such as"),
        ("parcels:nothing", r"parcels:nothing: there is no 'nothing' \(definitions there: ship, "),
        ("parcels:number", "3 is not a definition"),
        ("depot", "depot has no definitions"),
    ],
)
def test_a_target_that_is_none_is_refused_with_what_was_looked_for(
    target: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        load_target(target)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all' "),
        ("x = 1\nraise ValueError('too late')", r"ValueError: too late \(.*broken.py:2\)"),
        ("def (", r"SyntaxError: invalid syntax \(.*broken.py:1\)"),
    ],
)
@pytest.mark.parametrize("target", ["broken", "broken.py"])
def test_a_module_that_cannot_be_imported_is_refused_with_the_place(
    target: str, source: str, problem: str
) -> None:
    Path("broken.py").write_text(source)

    with pytest.raises(UsageError, match=f"{target} cannot be imported: {problem}"):
        load_target(target)


def test_a_file_with_the_name_of_another_module_is_refused() -> None:
    Path("json.py").write_text(SHOP)

    with pytest.raises(UsageError, match=r"json is the name of .*give the file another one"):
        load_target("json.py")


def test_what_is_wrong_with_a_target_is_one_line(folder: Path) -> None:
    done = perdure("worker", "nowhere.py", cwd=folder)

    assert (done.returncode, done.stderr) == (2, "Error: there is no file nowhere.py\n")
