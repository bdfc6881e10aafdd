"""One of the processes of `perdure worker --processes N`; see `fleet` for its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress

import msgspec

from perdure.authoring.registry import Registry
from perdure.cli.interruptible import run_interruptibly
from perdure.cli.output import UNUSABLE, errors_as_lines
from perdure.cli.serving.worker import WorkerSettings, serve, start_logging
from perdure.cli.targets import load_target

MAX_SETTINGS_BYTES = 64 * 1024


def main(file_no: int) -> None:
    """Do what the parent says until it tells this process to stop, or is gone."""
    os.set_inheritable(file_no, False)
    with socket.socket(fileno=file_no) as parent:
        line = parent.makefile("rb", buffering=0).readline(MAX_SETTINGS_BYTES)
        if not line:
            return  # The parent is gone already.
        settings = msgspec.json.decode(line, type=WorkerSettings)
        with errors_as_lines(settings.url, exit_code=UNUSABLE):
            registry = load_target(settings.target)
            start_logging()
            run_interruptibly(_serve(settings, registry, parent))


async def _serve(settings: WorkerSettings, registry: Registry, parent: socket.socket) -> None:
    def made(worker_id: str) -> None:
        with suppress(ConnectionError):
            parent.sendall(f"{worker_id}\n".encode())

    def started(_: str) -> None:
        with suppress(ConnectionError):
            parent.sendall(b"works\n")
        asyncio.get_running_loop().add_reader(parent, _parent_is_gone, parent)

    await serve(settings, registry, made=made, started=started)


def _parent_is_gone(parent: socket.socket) -> None:
    """Stop in order: no other process would tell this one to."""
    asyncio.get_running_loop().remove_reader(parent)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(int(sys.argv[1]))
