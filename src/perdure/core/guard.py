"""Catch what cannot be replayed, at the call that does it.

A guard is on while a stretch of user code runs in its thread, and only there: `with guard:` sets
the thread's entry in a table, and every check begins by looking there. Two levels feed it. An audit
hook, always on, sees files, sockets, processes and threads. A call monitor sees clocks, random
numbers, uuids and what the audit events leave out (`call_monitor`; what they are, `forbidden`).

A call by an import, by logging, by a debugger and the like is let through: what they read does not
flow into the orchestration. Who called is found by walking the frames, when a call is suspect only.

Nothing is patched, imports are not touched, and importing this module installs nothing. What is
not seen: what the call monitor does not see, the order of a set of strings and the environment
(a worker reads the text for those when it opens: `lint/foreseeing`), and, without the call monitor,
`time.sleep` before Python 3.13 and threads before 3.12.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from threading import get_ident
from types import FrameType, TracebackType
from typing import NamedTuple

from perdure.authoring.deciders.pure import current_decider
from perdure.core.call_monitor import CallMonitor
from perdure.core.forbidden import (
    ADVICE_OF_MODULE,
    BYSTANDERS,
    BYSTANDERS_OF_CALLS,
    EVENT_FAMILIES,
    EVENTS,
    HARMLESS_EVENTS,
    IN_DECIDERS,
    NETWORK_PACKAGES,
    OUTSIDE,
    SLEEP,
    TRUSTED,
    Rule,
    is_ours,
)
from perdure.errors import NondeterminismError
from perdure.forks import after_fork

# The hooks of Python are process-wide and an audit hook can never be removed, so what tells turns
# from everything else has to be process-wide too: thread identity -> the guard that is on there.
_turns: dict[int, Guard] = {}


class Guard:
    """Watches the stretches of user code that run inside `with guard:`, in one thread at a time.

    A refused call raises `NondeterminismError` where it was made. User code may swallow that with
    `except Exception`, so the first one of a stretch is kept in `violation` until the next stretch
    begins: the execution looks there and fails the turn whatever the code made of it.

    Args:
        watch_calls: Also watch for clocks, random numbers and uuids.
        known_code_only: Watch for them in known code only (`call_monitor`): next to free from
            Python 3.12 on, and on 3.11 not at all. Otherwise a stretch of many small calls takes
            about three times as long (bench/guard_cost.py).

    Raises:
        UsageError: Other tools hold all of `sys.monitoring`.
    """

    __slots__ = ("_is_close", "_outer", "_previous", "_watch_calls", "violation")

    def __init__(self, *, watch_calls: bool, known_code_only: bool = False) -> None:
        install()
        if watch_calls:
            _monitor()
        self.violation: NondeterminismError | None = None
        self._watch_calls = watch_calls
        self._is_close = watch_calls and not known_code_only
        self._outer: list[Guard | None] = []
        self._previous: list[object] = []

    @property
    def watches_closely(self) -> bool:
        """Whether it looks at everything it can, at a price."""
        return self._is_close

    def __enter__(self) -> Guard:
        # The monitor is set first and unset last: it may fail, the rest cannot.
        if self._is_close:
            self._previous.append(_monitor().start())
        thread = get_ident()
        outer = self._outer
        if not outer:
            self.violation = None
        outer.append(_turns.get(thread))
        _turns[thread] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        outer = self._outer.pop()
        if outer is None:
            del _turns[get_ident()]
        else:
            _turns[get_ident()] = outer
        if self._is_close:
            _monitor().stop(self._previous.pop())


@cache
def install() -> None:
    """Add the audit hook to the process, once. It stays until the process ends."""
    # The child of a fork has none of our turns, and may give a new thread an old identity.
    after_fork(_turns.clear)
    sys.addaudithook(_on_audit)


# --- Level 1: audit events


_EVENT_CALLS = {"builtins.input": "input", "socket.__new__": "socket.socket"}
"""What an event is about, where its name is not that of a function."""


def _on_audit(event: str, args: tuple[object, ...]) -> None:
    if not _turns:  # Spares the lookup while no turn runs anywhere: this is called for everything.
        return
    guard = _turns.get(get_ident())
    if guard is None:
        return
    if event not in EVENTS and event.partition(".")[0] not in EVENT_FAMILIES:
        return
    if event in HARMLESS_EVENTS or (event == "open" and _is_harmless_open(args)):
        return
    advice = SLEEP if event == "time.sleep" else OUTSIDE
    _refuse(guard, sys._getframe(1), _EVENT_CALLS.get(event, event), advice, BYSTANDERS)


def _is_harmless_open(args: tuple[object, ...]) -> bool:
    """Return whether C code opens a file on Python's behalf, with no frame that would show it.

    Tracebacks printed by the interpreter read the source, `ZoneInfo` reads the time zone database.
    """
    path, mode = args[:2]
    if not isinstance(path, str) or mode not in ("r", "rb"):
        return False
    zoneinfo = sys.modules.get("zoneinfo")
    zones: tuple[str, ...] = zoneinfo.TZPATH if zoneinfo is not None else ()
    return path.endswith((".py", ".pyc")) or any(path.startswith(root) for root in zones)


# --- Level 2: calls


@cache
def _monitor() -> CallMonitor:
    return CallMonitor(_judge, _turns)


def look_at(definition: object) -> bool:
    """Look at the code behind a definition: a function, or a decider's class.

    Returns whether it must be watched closely in every turn. If not, a guard that watches known
    code sees the forbidden calls that it names, in itself or in what it reaches.
    """
    return _monitor().look_at(definition)


def _judge(rule: Rule, frame: FrameType) -> None:
    guard = _turns.get(get_ident())
    if guard is None or not guard._watch_calls:
        return
    if rule.is_harmless is None or not rule.is_harmless(frame):
        _refuse(guard, frame, rule.call, rule.advice, BYSTANDERS_OF_CALLS)


# --- Who called, and from where


def _refuse(
    guard: Guard, frame: FrameType, call: str, advice: str, bystanders: frozenset[str]
) -> None:
    sight = _look_around(frame, bystanders)
    if sight is None:
        return
    if sight.through is not None:
        call = _name_of(sight.through)
        advice = ADVICE_OF_MODULE.get(_module_of(sight.through).partition(".")[0], advice)
    if current_decider() is not None:
        advice = IN_DECIDERS.get(advice, advice)
    place = "an unknown place" if sight.user is None else _place_of(sight.user)
    error = NondeterminismError(
        f"{call}() at {place} cannot be replayed: {advice}", asked=f"{call}()", place=place
    )
    if guard.violation is None:
        guard.violation = error
    raise error


class _Sight(NamedTuple):
    user: FrameType | None
    """The user's frame to name: the innermost one, if possible not of an installed package."""
    through: FrameType | None
    """The function of the standard library or of a network package that the user called, if it
    was not the C function."""


def _look_around(frame: FrameType | None, bystanders: frozenset[str]) -> _Sight | None:
    """Walk from a call out to the edge of the turn; None if the call is to be let through."""
    user: FrameType | None = None
    through: FrameType | None = None
    if frame is not None and is_ours(_module_of(frame)):
        return None
    while frame is not None:
        module = _module_of(frame)
        top = module.partition(".")[0]
        if top in TRUSTED or (user is None and top in bystanders):
            return None
        if module.startswith("perdure.core.") and user is not None:
            break  # The edge: the core runs the user's code, and who runs the core is not asked.
        if top in sys.stdlib_module_names or (top in NETWORK_PACKAGES and _is_installed(frame)):
            through = frame if user is None else through
        elif not is_ours(module) and _is_nearer_to_user(frame, user):
            user = frame
        frame = frame.f_back
    return _Sight(user, through)


def _is_nearer_to_user(frame: FrameType, known: FrameType | None) -> bool:
    path = frame.f_code.co_filename
    # The methods that dataclasses and attrs write have no line to look up.
    if path.startswith("<attrs generated") or (
        path == "<string>" and frame.f_code.co_name.startswith("__")
    ):
        return False
    return known is None or (_is_installed(known) and not _is_installed(frame))


def _is_installed(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return "site-packages" in path or "dist-packages" in path


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _place_of(frame: FrameType) -> str:
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"


def _name_of(frame: FrameType) -> str:
    """Name a function of a library the way users call it."""
    module = _module_of(frame)
    if module in ("genericpath", "posixpath"):
        module = "os.path"
    public = ".".join(part for part in module.split(".") if not part.startswith("_")) or module
    name = f"{public}.{frame.f_code.co_qualname}".removesuffix(".__init__")
    return name.replace("random.Random.", "random.")
