"""The commands of `docs/operating.md` do what the page says."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Command, perdure
from tests.postgres import Server

PAGE = (Path(__file__).parents[2] / "docs/operating.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
DEFINITIONS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]


def test_the_page_shows_every_command() -> None:
    shown = set(re.findall(r"^perdure (\w+)", "".join(BLOCKS), re.MULTILINE))

    assert shown == {"worker", "migrate", "roles", "doctor"}


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0] for block in BLOCKS])
async def test_the_commands_of_the_page_succeed(
    block: str, folder: Path, postgres: Server, begin: Callable[..., Command]
) -> None:
    (folder / "shop.py").write_text(DEFINITIONS)
    url = postgres.create_database()
    # What comes before on the page.
    assert perdure("migrate", "--store", "sqlite:///shop.db", cwd=folder).returncode == 0

    for line in re.sub(r"postgresql://\S+", url, block).splitlines():
        program, *args = shlex.split(line.partition(" > ")[0])
        assert program == "perdure"
        if args[0] == "worker":
            worker = begin(*args)
            await worker.says(r"shop\.py: 1 orchestration, 1 activity   worker")
            worker.send(signal.SIGTERM)
            assert worker.end() == 0, worker.said()
        else:
            done = perdure(*args, cwd=folder)
            assert done.returncode == 0, done.stderr
            assert done.stdout
