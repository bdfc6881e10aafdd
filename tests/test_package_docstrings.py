"""A package whose docstring lists what lies in it lists all of that, and nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import perdure
from tests.each import each

SRC = Path(perdure.__file__).parent


def listed(package: Path) -> list[str]:
    """Return the names at the head of lines that say what they are; those of folders end in `/`."""
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    return re.findall(r"^(\w+/?) {2,}\S", said, re.MULTILINE)


def things_in(package: Path) -> list[str]:
    """Return its modules and folders, as a docstring names them."""
    modules = [file.stem for file in package.glob("*.py") if file.stem != "__init__"]
    folders = [f"{one.name}/" for one in package.iterdir() if one.is_dir() and one.name[:1] != "_"]
    return [*modules, *folders]


LISTING = [file.parent for file in SRC.rglob("__init__.py") if listed(file.parent)]


def test_packages_of_the_store_list_what_they_hold() -> None:
    names = {package.relative_to(SRC).as_posix() for package in LISTING}

    assert names >= {"store/sql", "store/sqlite", "store/postgres", "store/within"}


@each(sorted(LISTING))
def test_a_package_lists_all_that_lies_in_it_and_nothing_else(package: Path) -> None:
    assert sorted(listed(package)) == sorted(things_in(package))
