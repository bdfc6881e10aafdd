"""The loop of a command: Ctrl-C ends it between two steps, never within one.

`asyncio.run` hears Ctrl-C in the midst of whatever the loop does: a task that is cancelled while a
result is being handed to it leaves a traceback of asyncio's own on the screen, though nothing went
wrong. Here the loop hears it, as one more step.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_interruptibly(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work in a loop of its own; return what it returns.

    Raises:
        KeyboardInterrupt: Ctrl-C came; the work was cancelled and has ended. A second one does not
            wait for that.
    """
    is_interrupted = False

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupt() -> None:
            nonlocal is_interrupted
            is_interrupted = True
            loop.remove_signal_handler(signal.SIGINT)
            task.cancel()

        # On Windows asyncio's own way remains; a thread that is not the main one hears no signals.
        with suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(signal.SIGINT, interrupt)
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        work.close()  # Ctrl-C may have come before its first step.
