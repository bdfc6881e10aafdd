"""`perdure worker --systemd` and `--code`: what systemd hears, and what is refused."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure import Engine
from perdure.authoring.registry import Registry
from perdure.cli.serving.systemd import Notifier
from perdure.cli.serving.worker import check_code
from perdure.errors import UsageError
from tests.cli.commands import Command, perdure
from tests.web.site import Account, memory_url, quick


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(str(tmp_path / "notify"))
    listening.settimeout(60)
    yield listening
    listening.close()


def test_systemd_hears_what_is_said(heard: socket.socket, tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})

    notifier.ready("1 orchestration")
    notifier.stopping()

    assert heard.recv(100) == b"READY=1\nSTATUS=1 orchestration"
    assert heard.recv(100) == b"STOPPING=1"


async def test_signs_of_life_are_given_where_they_are_asked_for(
    heard: socket.socket, tmp_path: Path
) -> None:
    asked = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000"})
    async with asked.alive():
        signs = [await asyncio.to_thread(heard.recv, 100) for _ in range(3)]
    assert signs == [b"WATCHDOG=1"] * 3


def test_a_reader_that_is_behind_holds_up_nothing(heard: socket.socket, tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})

    for _ in range(10_000):
        notifier.stopping()

    assert heard.recv(100) == b"STOPPING=1"


async def test_a_name_without_a_file_and_one_that_is_gone_stop_nothing() -> None:
    Notifier({"NOTIFY_SOCKET": "@perdure-nobody-listens"}).ready("")
    Notifier({"NOTIFY_SOCKET": "/nowhere/notify"}).ready("")


def test_without_systemd_it_is_refused(tmp_path: Path) -> None:
    refused = perdure("worker", "json", "--systemd", cwd=tmp_path, env={"NOTIFY_SOCKET": ""})

    assert refused.returncode == 2
    assert "a unit of systemd with Type=notify" in refused.stderr


PROGRAM = """
from perdure import orchestration

@orchestration
async def greet() -> str:
    return "hello"
"""


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_worker_says_when_it_works(
    heard: socket.socket,
    tmp_path: Path,
    folder: Path,
    begin: Callable[..., Command],
    monkeypatch: pytest.MonkeyPatch,
    processes: str,
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    (folder / "shop.py").write_text(PROGRAM)
    worker = begin(
        *("worker", "shop.py", "--store", "sqlite:///shop.db", "--systemd"),
        *("--processes", processes),
    )

    said = await asyncio.to_thread(heard.recv, 1000)

    assert said == (
        f"READY=1\nSTATUS=1 orchestration in {processes} of {processes} processes".encode()
    )
    worker.send(signal.SIGTERM)
    assert worker.end() == 0, worker.said()


async def test_the_code_that_an_instance_began_with_can_be_asked_for() -> None:
    registry = Registry([quick, Account])
    async with Engine(memory_url(), registry) as engine:
        handle = await engine.start("q-1", quick, "toys")
        code = (await handle.history())[0].data["code"]

    check_code(registry, code)
    check_code(registry, code[:4])
    with pytest.raises(UsageError, match=re.escape(f"quick 1.0.0: {code}")):
        check_code(registry, "none")
    with pytest.raises(UsageError, match="nothing was started"):
        check_code(registry, "")
