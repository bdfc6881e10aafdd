"""A child of `perdure dev`: the code, a worker with it, and the pages. See `dev` for its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from perdure.authoring.registry import Registry
from perdure.cli.interruptible import run_interruptibly
from perdure.cli.output import errors_as_lines, say
from perdure.cli.serving.dev import ChildSettings
from perdure.cli.serving.http_server import served
from perdure.cli.serving.worker import start_logging
from perdure.cli.targets import described, load_target
from perdure.client.engine import Engine
from perdure.lint.checker import check_files
from perdure.model.options import WorkerOptions
from perdure.store.urls import shown_url
from perdure.web.application import app

STOP_GRACE = timedelta(seconds=1)
"""How long running activities may go on at a reload. Those that take longer are given back, and run
again with the new code."""
MAX_LINE_BYTES = 64 * 1024


def main(file_no: int) -> None:
    """Import the code and say so; then wait for the word to work, and do so until told to stop."""
    os.set_inheritable(file_no, False)
    # Until there is a worker to stop in order, the parent's word is enough.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with socket.socket(fileno=file_no) as parent:
        lines = parent.makefile("rb", buffering=0)
        line = lines.readline(MAX_LINE_BYTES)
        if not line:
            return  # The parent is gone already.
        settings = msgspec.json.decode(line, type=ChildSettings)
        with errors_as_lines(settings.url):
            registry = load_target(settings.target)
            _say_findings(registry)
            start_logging()
            with suppress(ConnectionError):
                parent.sendall(f"{described(registry)}\n".encode())
            if lines.readline(MAX_LINE_BYTES):
                run_interruptibly(_work(settings, registry, parent))


def _say_findings(registry: Registry) -> None:
    """Say what `perdure check` finds in the files of the definitions that are in this folder."""
    written = [
        *(one.fn for one in registry.orchestrations.values()),
        *(one.cls for one in registry.deciders.values()),
    ]
    modules = {sys.modules.get(one.__module__) for one in written}
    files = sorted({Path(found) for one in modules if (found := getattr(one, "__file__", None))})
    here = Path.cwd()
    own = [file for file in files if file.is_relative_to(here)]
    for finding in check_files(own, roots=[here, here / "src"]).findings:
        say(f"perdure check: {finding.text}")


async def _work(settings: ChildSettings, registry: Registry, parent: socket.socket) -> None:
    engine = Engine(settings.url, registry, options=WorkerOptions(stop_grace=STOP_GRACE))
    told = asyncio.Event()

    def hear() -> None:
        if told.is_set():
            engine.hurry()
        told.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, hear)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(engine)
        if settings.listening is not None:
            pages = app(engine, key=settings.key, title=shown_url(settings.url))
            listening = socket.socket(fileno=settings.listening)
            await stack.enter_async_context(served(pages, [listening], drain_s=0))
        with suppress(ConnectionError):
            parent.sendall(b"works\n")
        # No other process would tell this one that its parent is gone.
        loop.add_reader(parent, hear)
        await told.wait()
        loop.remove_reader(parent)


if __name__ == "__main__":
    main(int(sys.argv[1]))
