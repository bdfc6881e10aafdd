from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Command


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
