"""Several worker processes under one parent: `perdure worker --processes N`.

Each is a fresh interpreter in a process group of its own, so Ctrl-C reaches the parent alone, which
passes it on. A socket leads from the parent to each: it carries the settings there (so no password
is among the arguments) and the worker's id back, and a process whose parent is gone sees its end
and stops. What one held that dies goes to others at once, since the parent knows that it is dead;
and it is replaced, after a pause that grows if that happens again and again.

What stops them: the first SIGTERM or SIGINT asks them to stop, the second to hurry, the third kills
them, as does time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from perdure.cli.output import UNUSABLE, say

BACK_OFF_S = (0.5, 2.0, 5.0, 15.0, 30.0)
"""Pauses before a process that died is replaced; the last one for all later deaths."""

SOUND_AFTER_S = 60.0
"""A process that lived so long did not die of its start: the pauses begin anew."""

STOPPING = "stopping: running activities may go on for a while; a second signal hurries"

MODULE = "perdure.cli.serving.worker_process"


class Fleet:
    """The parent of some worker processes."""

    def __init__(
        self,
        settings: Sequence[bytes],
        *,
        stop_within_s: float,
        started: Callable[[Sequence[str]], None],
        died: Callable[[str], Awaitable[None]],
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            settings: What each process is told: one line of JSON.
            stop_within_s: How long they may take to stop before they are killed.
            started: Hears the ids of the workers when all of them have begun to work.
            died: Hears the id of a worker whose process has died, before that is replaced.
        """
        self._stop_within_s = stop_within_s
        self._started = started
        self._died = died
        self._members = [FleetMember(line) for line in settings]
        self._told = asyncio.Event()
        self._signals = 0
        self._is_unusable = False

    async def run(self) -> int:
        """Keep the processes running until told to stop.

        Returns:
            The exit code: 0 if all that were there to be told have stopped in order, 1 if one has
            not, 2 if none could start.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._hear)
        async with asyncio.TaskGroup() as tasks:
            for member in self._members:
                tasks.create_task(self._keep(member))
            headline = tasks.create_task(self._headline())
            await self._told.wait()
            headline.cancel()
            self._send(signal.SIGTERM)
            deadline = loop.call_later(self._stop_within_s, self._send, signal.SIGKILL)
        deadline.cancel()
        if self._is_unusable:
            return UNUSABLE
        return int(not all(member.has_ended_well() for member in self._members))

    def _hear(self) -> None:
        self._signals += 1
        match self._signals:
            case 1:
                say(STOPPING)
                self._told.set()
            case 2:
                say("hurrying: running activities are given back")
                self._send(signal.SIGTERM)
            case _:
                say("killing: what ran is taken over by others")
                self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for member in self._members:
            member.send(number)

    def _is_any_ready(self) -> bool:
        return any(member.is_ready.is_set() for member in self._members)

    async def _headline(self) -> None:
        for member in self._members:
            await member.is_ready.wait()
        self._started([member.worker_id for member in self._members])

    async def _keep(self, member: FleetMember) -> None:
        """Run a process, and another one whenever it ends before its time."""
        deaths = 0
        while not self._told.is_set():
            began_s = time.monotonic()
            await member.live(was_replaced=deaths > 0)
            if member.has_died():
                await self._died(member.worker_id)
            if self._told.is_set():
                return
            if member.exit_code == UNUSABLE and not self._is_any_ready():
                # It has said why, and no worker runs that would be disturbed.
                self._is_unusable = True
                self._told.set()
                return
            deaths = 0 if time.monotonic() - began_s >= SOUND_AFTER_S else deaths
            pause_s = BACK_OFF_S[min(deaths, len(BACK_OFF_S) - 1)]
            deaths += 1
            say(f"{member.described()} {member.ending()}; another one starts in {pause_s:g} s")
            member.exit_code = 0
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._told.wait()


class FleetMember:
    """One place of the fleet, and the process that fills it at the moment."""

    def __init__(self, settings: bytes) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._pid = 0
        self._trouble = ""
        self._signal: signal.Signals | None = None
        self._is_working = False
        self._was_over = False
        """Whether its last process had ended by itself when the fleet was told to stop."""
        self.worker_id = ""
        """Known before the worker takes anything."""
        self.is_ready = asyncio.Event()
        """Set when a process of this place has begun to work for the first time."""
        self.exit_code = 0

    async def live(self, *, was_replaced: bool) -> None:
        """Start a process and wait for its end."""
        self.worker_id, self._pid, self._is_working = "", 0, False
        try:
            ours, self._process = await _start()
        except OSError as error:
            # The system has none to give now, or the interpreter is just being replaced.
            self.exit_code, self._trouble = 1, str(error)
            return
        self._pid, self._trouble = self._process.pid, ""
        self._was_over = False
        if self._signal is not None:
            # It came while the process was being made.
            self.send(self._signal)
        try:
            await self._introduce(ours, was_replaced=was_replaced)
            self.exit_code = await self._process.wait()
        finally:
            self._process = None
            ours.close()

    async def _introduce(self, ours: socket.socket, *, was_replaced: bool) -> None:
        """Tell a process what to do; hear which worker it is, and then that it works."""
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        said = b""
        with suppress(ConnectionError):
            await loop.sock_sendall(ours, self._settings + b"\n")
            while said.count(b"\n") < 2 and (part := await loop.sock_recv(ours, 1024)):
                said += part
                first, is_whole, _ = said.partition(b"\n")
                self.worker_id = first.decode() if is_whole else ""
        if said.count(b"\n") == 2:
            self._is_working = True
            if was_replaced:
                say(f"{self.described()} works in its place")
            self.is_ready.set()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, or as soon as there is one."""
        if self._signal is None:
            self._was_over = self._process is None or _is_over(self._pid)
        self._signal = number
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def has_ended_well(self) -> bool:
        """Return whether its last process stopped in order, was stopped before it worked, or had
        ended before: that is no matter of how the fleet stops."""
        was_early = self.exit_code == -signal.SIGTERM and not self._is_working
        return self.exit_code == 0 or was_early or self._was_over

    def has_died(self) -> bool:
        """Return whether its last process may have left something that it held."""
        return bool(self.worker_id) and self.exit_code not in (0, UNUSABLE)

    def described(self) -> str:
        """Return which process this is, for people."""
        if not self._pid:
            return "a process"
        return f"process {self._pid}" + (f", worker {self.worker_id}" if self.worker_id else "")

    def ending(self) -> str:
        """Return how the process ended."""
        if self._trouble:
            return f"could not be started ({self._trouble})"
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        try:
            name = signal.Signals(-self.exit_code).name
        except ValueError:
            name = f"signal {-self.exit_code}"
        return f"was ended by {name}"


def _is_over(pid: int) -> bool:
    """Return whether a child has ended, also if its parent has not been told yet."""
    if not hasattr(os, "waitid"):
        return False  # Not every system lets us ask; then it is known a moment later.
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


async def _start() -> tuple[socket.socket, asyncio.subprocess.Process]:
    """Start a process; return it, and the socket that leads to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        except BaseException:
            ours.close()
            raise
    return ours, process
