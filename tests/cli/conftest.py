from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Command
from tests.cli.shop import seed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run; the tests put their definitions there."""
    path = tmp_path / "folder"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def begin(folder: Path) -> Iterator[Callable[..., Command]]:
    """Starts commands that run until they are told to stop, and ends those that are left."""
    begun: list[Command] = []

    def start(*args: str) -> Command:
        begun.append(Command(folder, *args))
        return begun[-1]

    yield start
    for command in begun:
        command.kill()


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with one instance of every kind, for tests to copy."""
    folder = tmp_path_factory.mktemp("seeded")
    asyncio.run(seed(f"sqlite:///{folder}/shop.db"))
    return folder


@pytest.fixture
def shop(seeded: Path, folder: Path) -> str:
    """The URL of a store with one instance of every kind, and no worker."""
    for file in seeded.iterdir():
        shutil.copy(file, folder / file.name)
    return f"sqlite:///{folder}/shop.db"
