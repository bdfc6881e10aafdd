"""Catch what cannot be replayed, at the call that does it.

A guard is on while a stretch of user code runs in its thread, and only there: `with guard:` sets
the thread's entry in a table, and every check begins by looking there. Two levels feed it. An audit
hook, always on, sees files, sockets, processes and threads. A call monitor, on request, sees every
call of a C function and so clocks, random numbers, uuids and what the audit events leave out:
`sys.monitoring` from Python 3.12, `sys.setprofile` on 3.11. All of Python's clocks and sources of
randomness are C functions in the end, so nothing else has to be known.

A call by an import, by logging, by a debugger and the like is let through: what they read does not
flow into the orchestration. Who called is found by walking the frames, when a call is suspect only.

Nothing is patched, imports are not touched, and importing this module installs nothing. What is
not seen: a clock that C code reads by itself (`map(time.time, ...)`, `functools.partial`, a C
extension such as numpy), the order of a set of strings, the environment, and, without the call
monitor, `time.sleep` before Python 3.13 and threads before 3.12.
"""

from __future__ import annotations

import _random
import _thread
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from datetime import date
from functools import cache, partial
from opcode import opmap
from threading import get_ident
from types import BuiltinFunctionType, FrameType, MethodDescriptorType, ModuleType, TracebackType
from typing import NamedTuple

from perdure.authoring.pure import current_decider
from perdure.errors import NondeterminismError, UsageError

CLOCK = "use context().now()"
RANDOM = "use context().random"
UUID = "use context().uuid()"
IDENTITY = "use context().instance_id"
SLEEP = "use await asyncio.sleep(...)"
OUTSIDE = "do it in an activity, or await inline(...)"

_IN_DECIDERS = {
    CLOCK: "use the `now` that decide is given",
    RANDOM: "draw it where the input is made, or in an effect that returns an input",
    UUID: "make it where the input is made, or in an effect that returns an input",
    IDENTITY: "hand it in with the input",
    SLEEP: "use .timer(key, after=..., input=...)",
    OUTSIDE: "do it in an activity, as .effect(activity, ...)",
}
"""What to write instead in a decider, which has no context."""

SET_PROFILE_ATTEMPTS = 1_000

# The hooks of Python are process-wide and an audit hook can never be removed, so what tells turns
# from everything else has to be process-wide too: thread identity -> the guard that is on there.
_turns: dict[int, Guard] = {}


class Guard:
    """Watches the stretches of user code that run inside `with guard:`, in one thread at a time.

    A refused call raises `NondeterminismError` where it was made. User code may swallow that with
    `except Exception`, so the first one of a stretch is kept in `violation` until the next stretch
    begins: whoever runs the stretch looks there and fails the turn whatever the code made of it.

    Args:
        watch_calls: Also watch calls of C functions: clocks, random numbers, uuids. A stretch of
            many small calls then takes about three times as long (bench/guard_cost.py).

    Raises:
        UsageError: Other tools hold all of `sys.monitoring`.
    """

    __slots__ = ("_outer", "_profilers", "_watch_calls", "violation")

    def __init__(self, *, watch_calls: bool) -> None:
        install()
        if watch_calls:
            _prepare_monitor()
        self.violation: NondeterminismError | None = None
        self._watch_calls = watch_calls
        self._outer: list[Guard | None] = []
        self._profilers: list[object] = []

    @property
    def watches_calls(self) -> bool:
        """Whether it watches closely, at a price."""
        return self._watch_calls

    def __enter__(self) -> Guard:
        # The monitor is set first and unset last: it may fail, the rest cannot.
        if self._watch_calls:
            self._profilers.append(_start_monitor())
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
        if self._watch_calls:
            _stop_monitor(self._profilers.pop())


@cache
def install() -> None:
    """Add the audit hook to the process, once. It stays until the process ends."""
    # The child of a fork has none of our turns, and may give a new thread an old identity.
    os.register_at_fork(after_in_child=_turns.clear)
    sys.addaudithook(_on_audit)


# --- Level 1: audit events


_EVENT_FAMILIES = frozenset(
    {"glob", "os", "pathlib", "shutil", "tempfile", "sqlite3"}  # files
    | {"socket", "http", "urllib", "ftplib", "imaplib", "nntplib", "poplib", "smtplib", "telnetlib"}
    | {"subprocess", "pty", "webbrowser"}  # processes
)
_EVENTS = frozenset(
    {"open", "fcntl.flock", "fcntl.lockf", "builtins.input", "time.sleep"}
    | {"_thread.start_new_thread", "_thread.start_joinable_thread"}
)
_HARMLESS_EVENTS = frozenset({"os.add_dll_directory", "os.putenv", "os.unsetenv"})

_EVENT_CALLS = {"builtins.input": "input", "socket.__new__": "socket.socket"}
"""What an event is about, where its name is not that of a function."""


def _on_audit(event: str, args: tuple[object, ...]) -> None:
    if not _turns:  # Spares the lookup while no turn runs anywhere: this is called for everything.
        return
    guard = _turns.get(get_ident())
    if guard is None:
        return
    if event not in _EVENTS and event.partition(".")[0] not in _EVENT_FAMILIES:
        return
    if event in _HARMLESS_EVENTS or (event == "open" and _is_harmless_open(args)):
        return
    advice = SLEEP if event == "time.sleep" else OUTSIDE
    _refuse(guard, sys._getframe(1), _EVENT_CALLS.get(event, event), advice, _BYSTANDERS)


def _is_harmless_open(args: tuple[object, ...]) -> bool:
    """Tell whether C code opens a file on Python's behalf, with no frame that would show it.

    Tracebacks printed by the interpreter read the source, `ZoneInfo` reads the time zone database.
    """
    path, mode = args[:2]
    if not isinstance(path, str) or mode not in ("r", "rb"):
        return False
    zoneinfo = sys.modules.get("zoneinfo")
    zones: tuple[str, ...] = zoneinfo.TZPATH if zoneinfo is not None else ()
    return path.endswith((".py", ".pyc")) or any(path.startswith(root) for root in zones)


# --- Level 2: calls of C functions


class _Rule(NamedTuple):
    call: str
    advice: str
    is_harmless: Callable[[FrameType], bool] | None = None
    """Judges by the frame that makes the call, where the same function may be fine."""


def _suspect(function: object, first: object) -> _Rule | None:
    """Return the rule for a call of `function`; `first` is its first argument, where known.

    Runs for every call of a C function in a turn. It must not run user code, so it compares types
    and identities and never asks an object for its class, hash or equality: those of C functions,
    unlike those of what they are bound to, look at pointers only.
    """
    kind = type(function)
    if kind is BuiltinFunctionType:
        rule = _RULES.get(function)
        if rule is not None:
            return rule
        owner: object = function.__self__  # type: ignore[attr-defined] # kind says it has one
        if type(owner) is ModuleType:
            return None
    elif kind is MethodDescriptorType:
        owner = first
    else:
        return None
    if issubclass(type(owner), (_random.Random, type)):
        return _suspect_method(owner, function.__name__)  # type: ignore[attr-defined] # as above
    return None


def _suspect_method(owner: object, name: str) -> _Rule | None:
    if isinstance(owner, type):
        if name in ("now", "utcnow", "today") and issubclass(owner, date):
            return _Rule(f"{owner.__qualname__}.{name}", CLOCK)
        return None
    if name in ("random", "getrandbits", "seed") and owner is random._inst:
        return _Rule(f"random.{name}", RANDOM)
    if name == "seed":
        return _Rule("random.Random", RANDOM, _is_seeded)
    return None


def _is_seeded(frame: FrameType) -> bool:
    # Random() and seed() both end in Random.seed(None), which calls the C method we were told of.
    return frame.f_code is not _SEED_CODE or frame.f_locals.get("a") is not None


_SEED_CODE = random.Random.seed.__code__


def _has_arguments(least: int, frame: FrameType) -> bool:
    """Tell whether the call a frame is making passes at least that many arguments.

    Neither kind of monitor shows them; the instruction does. An unpacked call is given the benefit
    of the doubt.
    """
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] != opmap["CALL"] or code[at + 1] >= least


def _make_rules() -> dict[object, _Rule]:
    rules: dict[object, _Rule] = {time.sleep: _Rule("time.sleep", SLEEP)}

    def add(module: ModuleType, names: str, advice: str, explicit_from: int | None = None) -> None:
        harmless = None if explicit_from is None else partial(_has_arguments, explicit_from)
        for name in names.split():
            function = getattr(module, name, None)  # Not every system has every function.
            if function is not None:
                rules[function] = _Rule(f"{module.__name__}.{name}", advice, harmless)

    add(time, "time monotonic perf_counter process_time thread_time clock_gettime", CLOCK)
    add(time, "time_ns monotonic_ns perf_counter_ns process_time_ns thread_time_ns", CLOCK)
    add(time, "clock_gettime_ns", CLOCK)
    add(time, "localtime gmtime ctime asctime", CLOCK, explicit_from=1)
    add(time, "strftime", CLOCK, explicit_from=2)
    add(os, "urandom getrandom", RANDOM)
    add(os, "getpid", IDENTITY)
    add(os, "stat lstat access readlink statvfs", OUTSIDE)
    add(_thread, "start_new_thread start_joinable_thread", OUTSIDE)
    # Absent where the system has no libuuid; uuid1 then reads a clock that is watched anyway.
    add(uuid, "_generate_time_safe", UUID)
    return rules


_RULES = _make_rules()


def _judge(rule: _Rule, frame: FrameType) -> None:
    guard = _turns.get(get_ident())
    if guard is None or not guard._watch_calls:
        return
    if rule.is_harmless is None or not rule.is_harmless(frame):
        _refuse(guard, frame, rule.call, rule.advice, _BYSTANDERS_OF_CALLS)


if sys.version_info >= (3, 12):
    _monitored: list[None] = []  # One entry per watched stretch, over all threads.

    @cache
    def _prepare_monitor() -> int:
        # 3 and 4 are nobody's by convention; the others belong to debuggers, coverage, profilers.
        for tool in (4, 3, 5, 2, 1, 0):
            if sys.monitoring.get_tool(tool) is None:
                sys.monitoring.use_tool_id(tool, "perdure")
                sys.monitoring.register_callback(tool, sys.monitoring.events.CALL, _on_call)
                os.register_at_fork(after_in_child=_forget_monitored)
                return tool
        raise UsageError("calls cannot be watched: other tools hold all ids of sys.monitoring")

    def _start_monitor() -> object:
        # Events are switched for the whole process, and per stretch: other threads pay for a
        # callback while a stretch runs and for nothing between. Staying on and answering DISABLE
        # outside turns would silence a line for the next turn that runs it.
        _monitored.append(None)
        sys.monitoring.set_events(_prepare_monitor(), sys.monitoring.events.CALL)
        return None

    def _stop_monitor(_: object) -> None:
        _monitored.pop()
        if not _monitored:
            sys.monitoring.set_events(_prepare_monitor(), 0)
            # Another thread may have begun since we looked. No lock: a fork could leave it held.
            if _monitored:
                sys.monitoring.set_events(_prepare_monitor(), sys.monitoring.events.CALL)

    def _forget_monitored() -> None:
        _monitored.clear()
        sys.monitoring.set_events(_prepare_monitor(), 0)

    def _on_call(code: object, offset: int, function: object, first: object) -> None:
        rule = _suspect(function, first)
        if rule is not None:
            _judge(rule, sys._getframe(1))

else:

    def _prepare_monitor() -> None:
        """Do nothing: a profile function needs no preparation."""

    def _start_monitor() -> object:
        previous: object = sys.getprofile()
        # cProfile sets a C function that `sys.setprofile` cannot put back. It is left alone, and
        # calls are not watched while it runs.
        if previous is None or callable(previous):
            _set_profile(_on_profile)
        return previous

    def _stop_monitor(previous: object) -> None:
        # Python unsets a profile function that raises, ours too. The stretch has its violation
        # then, and the next one sets it again. (Should another thread be setting one at that very
        # moment, the user's code gets Python's complaint about that instead of our error.)
        if previous is None or callable(previous):
            _set_profile(previous)

    def _set_profile(profiler: Callable[..., object] | None) -> None:
        # Python 3.11 refuses this while another thread is in the middle of it, which takes long
        # enough to be met: audit hooks run in there. Sleeping for nothing lets that thread finish.
        for _ in range(SET_PROFILE_ATTEMPTS):
            try:
                return sys.setprofile(profiler)
            except RuntimeError:
                time.sleep(0)
        return sys.setprofile(profiler)

    def _on_profile(frame: FrameType, event: str, function: object) -> None:
        if event == "c_call":
            rule = _suspect(function, None)
            if rule is not None:
                _judge(rule, frame)


# --- Who called, and from where


_TRUSTED = frozenset(
    {"importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport", "zoneinfo"}
    | {"logging", "warnings", "linecache", "traceback", "inspect", "tokenize", "pdb", "bdb"}
)
"""Whatever these do or call is let through: the code of an imported module, a log handler."""

_BYSTANDERS = frozenset(
    {"coverage", "debugpy", "pydevd", "_pydevd_bundle", "_pydev_bundle", "_pydevd_frame_eval"}
    | {"IPython", "ipykernel", "loguru", "structlog", "opentelemetry", "sentry_sdk"}
)
"""What these do themselves is let through, but not the user code they wrap and call."""

_BYSTANDERS_OF_CALLS = _BYSTANDERS | {"asyncio"}

_ADVICE_OF_MODULE = {
    "random": RANDOM,
    "secrets": RANDOM,
    "uuid": UUID,
    "tempfile": OUTSIDE,
    "threading": OUTSIDE,
    "queue": OUTSIDE,
    "subprocess": OUTSIDE,
}
"""What to use instead of a module of the standard library, whatever it calls in the end."""


def _refuse(
    guard: Guard, frame: FrameType, call: str, advice: str, bystanders: frozenset[str]
) -> None:
    sight = _look_around(frame, bystanders)
    if sight is None:
        return
    if sight.through is not None:
        call = _name_of(sight.through)
        advice = _ADVICE_OF_MODULE.get(_module_of(sight.through).partition(".")[0], advice)
    if current_decider() is not None:
        advice = _IN_DECIDERS.get(advice, advice)
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
    """The function of the standard library that the user called, if it was not the C function."""


def _look_around(frame: FrameType | None, bystanders: frozenset[str]) -> _Sight | None:
    """Walk from a call out to the edge of the turn; None if the call is to be let through."""
    user: FrameType | None = None
    through: FrameType | None = None
    if frame is not None and _is_ours(_module_of(frame)):
        return None
    while frame is not None:
        module = _module_of(frame)
        top = module.partition(".")[0]
        if top in _TRUSTED or (user is None and top in bystanders):
            return None
        if module.startswith("perdure.core.") and user is not None:
            break  # The edge: the core runs the user's code, and who runs the core is not asked.
        if top in sys.stdlib_module_names:
            through = frame if user is None else through
        elif not _is_ours(module) and _is_nearer_to_user(frame, user):
            user = frame
        frame = frame.f_back
    return _Sight(user, through)


def _is_nearer_to_user(frame: FrameType, known: FrameType | None) -> bool:
    path = frame.f_code.co_filename
    # The methods that dataclasses and attrs write have no line that anyone could look up.
    if path.startswith("<attrs generated") or (
        path == "<string>" and frame.f_code.co_name.startswith("__")
    ):
        return False
    return known is None or (_is_installed(known) and not _is_installed(frame))


def _is_installed(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return "site-packages" in path or "dist-packages" in path


def _is_ours(module: str) -> bool:
    return module == "perdure" or module.startswith("perdure.")


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _place_of(frame: FrameType) -> str:
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"


def _name_of(frame: FrameType) -> str:
    """Name a function of the standard library the way users call it."""
    module = _module_of(frame)
    if module in ("genericpath", "posixpath"):
        module = "os.path"
    public = ".".join(part for part in module.split(".") if not part.startswith("_")) or module
    name = f"{public}.{frame.f_code.co_qualname}".removesuffix(".__init__")
    return name.replace("random.Random.", "random.")
