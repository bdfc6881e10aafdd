"""What code in a turn must not call, what to use instead, and whose calls are let through.

All of Python's clocks and sources of randomness are C functions in the end, so nothing else has to
be known. Which ones is decided here; who notices a call is `call_monitor`, who refuses it is
`guard`.
"""

from __future__ import annotations

import _random
import _thread
import os
import random
import time
import uuid
from collections.abc import Callable
from datetime import date
from functools import partial
from opcode import opmap
from types import BuiltinFunctionType, FrameType, MethodDescriptorType, MethodType, ModuleType
from typing import NamedTuple

CLOCK = "use context().now()"
RANDOM = "use context().random"
UUID = "use context().uuid()"
IDENTITY = "use context().instance_id"
SLEEP = "use await asyncio.sleep(...)"
OUTSIDE = "do it in an activity, or await inline(...)"
NETWORK = "it talks to the network: do it in an activity, or await inline(...)"

IN_DECIDERS = {
    CLOCK: "use the `now` that decide is given",
    RANDOM: "draw it where the input is made, or in an effect that returns an input",
    UUID: "make it where the input is made, or in an effect that returns an input",
    IDENTITY: "hand it in with the input",
    SLEEP: "use .timer(key, after=..., input=...)",
    OUTSIDE: "do it in an activity, as .effect(activity, ...)",
    NETWORK: "it talks to the network: do it in an activity, as .effect(activity, ...)",
}
"""What to write instead in a decider, which has no context."""

# --- Whose calls are let through

TRUSTED = frozenset(
    {"importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport", "zoneinfo"}
    | {"logging", "warnings", "linecache", "traceback", "inspect", "tokenize", "pdb", "bdb"}
)
"""Whatever these do or call is let through: the code of an imported module, a log handler."""

BYSTANDERS = frozenset(
    {"coverage", "debugpy", "pydevd", "_pydevd_bundle", "_pydev_bundle", "_pydevd_frame_eval"}
    | {"IPython", "ipykernel", "loguru", "structlog", "opentelemetry", "sentry_sdk"}
)
"""What these do themselves is let through, but not the user code they wrap and call."""

BYSTANDERS_OF_CALLS = BYSTANDERS | {"asyncio"}


def is_ours(module: str) -> bool:
    """Return whether a module is one of perdure's."""
    return module == "perdure" or module.startswith("perdure.")


def may_call(module: str) -> bool:
    """Return whether a module may itself call what others must not."""
    top = module.partition(".")[0]
    return top in TRUSTED or top in BYSTANDERS_OF_CALLS or is_ours(module)


# --- What the outside is


EVENT_FAMILIES = frozenset(
    {"glob", "os", "pathlib", "shutil", "tempfile", "sqlite3"}  # files
    | {"socket", "http", "urllib", "ftplib", "imaplib", "nntplib", "poplib", "smtplib", "telnetlib"}
    | {"subprocess", "pty", "webbrowser"}  # processes
)
"""What the audit events of files, sockets and processes begin with: the modules that cause them."""
EVENTS = frozenset(
    {"open", "fcntl.flock", "fcntl.lockf", "builtins.input", "time.sleep"}
    | {"_thread.start_new_thread", "_thread.start_joinable_thread"}
)
HARMLESS_EVENTS = frozenset({"os.add_dll_directory", "os.putenv", "os.unsetenv"})

NETWORK_PACKAGES = frozenset(
    {"httpx", "httpcore", "requests", "urllib3", "aiohttp", "websockets", "grpc", "botocore"}
    | {"psycopg", "psycopg2", "asyncpg", "redis", "pymongo", "kafka", "pika"}
)
"""Installed ones. They read a clock before they connect, and that is not what is wrong."""

ADVICE_OF_MODULE = {
    "random": RANDOM,
    "secrets": RANDOM,
    "uuid": UUID,
    "tempfile": OUTSIDE,
    "threading": OUTSIDE,
    "queue": OUTSIDE,
    "subprocess": OUTSIDE,
    **dict.fromkeys(NETWORK_PACKAGES, NETWORK),
}
"""What to use instead of a module, whatever it calls in the end."""

# --- Which calls are forbidden


class Rule(NamedTuple):
    """Forbids the calls of a function."""

    call: str
    advice: str
    is_harmless: Callable[[FrameType], bool] | None = None
    """Judges by the frame that makes the call, where the same function may be fine."""


def rule_of(function: object, first: object = None) -> Rule | None:
    """Return the rule for a call of `function`; `first` is its first argument, where known.

    Runs for every call that is watched. It must not run user code, so it compares types and
    identities and never asks an object for its class, hash or equality: those of C functions,
    unlike those of what they are bound to, look at pointers only.
    """
    kind = type(function)
    if kind is BuiltinFunctionType:
        rule = _RULES.get(function)
        if rule is not None:
            return rule
        owner: object = function.__self__  # type: ignore[attr-defined] # kind says it has one
        if type(owner) is ModuleType:
            return rule_of(first) if function is iter else None
    elif kind is MethodDescriptorType:
        owner = first
    else:
        return _rule_of_other(kind, function, first)
    if issubclass(type(owner), (_random.Random, type)):
        return _rule_of_method(owner, function.__name__)  # type: ignore[attr-defined] # as above
    return None


_METHODS_OF_DATE = ("now", "utcnow", "today")
_METHODS_OF_RANDOM = ("random", "getrandbits", "seed")


def is_by_argument(function: object) -> bool:
    """Return whether a call of it is forbidden or not by what it is given first."""
    is_caller = function is map or function is filter or function is iter
    return is_caller or type(function) is MethodDescriptorType


def _rule_of_other(kind: type, function: object, first: object) -> Rule | None:
    """Look through what calls another function for its caller, without Python code of its own."""
    if kind is MethodType:
        owner = function.__self__  # type: ignore[attr-defined] # kind says it has one
        if owner is random._inst or type(owner) is random.SystemRandom:
            return Rule(f"random.{function.__func__.__name__}", RANDOM)  # type: ignore[attr-defined]
    elif kind is partial:
        rule = rule_of(function.func)  # type: ignore[attr-defined] # kind says it has one
        # Which functions these are is a matter of their arguments, and here it has some.
        if rule is not None and (rule.is_harmless is None or not function.args):  # type: ignore[attr-defined]
            return rule
    elif function is map or function is filter:
        return rule_of(first)
    return None


def _rule_of_method(owner: object, name: str) -> Rule | None:
    if isinstance(owner, type):
        if name in _METHODS_OF_DATE and issubclass(owner, date):
            return Rule(f"{owner.__qualname__}.{name}", CLOCK)
        return None
    if name in _METHODS_OF_RANDOM and owner is random._inst:
        return Rule(f"random.{name}", RANDOM)
    if name == "seed":
        return Rule("random.Random", RANDOM, _is_seeded)
    return None


def _is_seeded(frame: FrameType) -> bool:
    # Random() and seed() both end in Random.seed(None), which calls the C method we were told of.
    return frame.f_code is not _SEED_CODE or frame.f_locals.get("a") is not None


_SEED_CODE = random.Random.seed.__code__


def _has_arguments(least: int, frame: FrameType) -> bool:
    """Return whether the call a frame is making passes at least that many arguments.

    Neither kind of monitor shows them; the instruction does. An unpacked call is given the benefit
    of the doubt.
    """
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] != opmap["CALL"] or code[at + 1] >= least


def _make_rules() -> dict[object, Rule]:
    rules: dict[object, Rule] = {time.sleep: Rule("time.sleep", SLEEP)}

    def add(module: ModuleType, names: str, advice: str, explicit_from: int | None = None) -> None:
        harmless = None if explicit_from is None else partial(_has_arguments, explicit_from)
        for name in names.split():
            function = getattr(module, name, None)  # Not every system has every function.
            if function is not None:
                rules[function] = Rule(f"{module.__name__}.{name}", advice, harmless)

    add(time, "time monotonic perf_counter process_time thread_time clock_gettime", CLOCK)
    add(time, "time_ns monotonic_ns perf_counter_ns process_time_ns thread_time_ns", CLOCK)
    add(time, "clock_gettime_ns", CLOCK)
    add(time, "localtime gmtime ctime asctime", CLOCK, explicit_from=1)
    add(time, "strftime", CLOCK, explicit_from=2)
    add(os, "urandom getrandom", RANDOM)
    add(os, "times", CLOCK)
    add(os, "getpid getppid", IDENTITY)
    add(os, "stat lstat access readlink statvfs", OUTSIDE)
    add(_thread, "start_new_thread start_joinable_thread", OUTSIDE)
    # Absent where the system has no libuuid; uuid1 then reads a clock that is watched anyway.
    add(uuid, "_generate_time_safe", UUID)
    return rules


_RULES = _make_rules()


def rules() -> list[Rule]:
    """Return the rules of single functions."""
    return list(_RULES.values())


FORBIDDEN_NAMES = frozenset(
    {rule.call.partition(".")[2] for rule in _RULES.values()}
    | {*_METHODS_OF_DATE, *_METHODS_OF_RANDOM}
)
"""The names of all forbidden functions and methods, without those of their owners."""
