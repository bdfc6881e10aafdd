"""Every option of a worker as a flag of `perdure worker`, made from this table.

A name is the field's, with dashes; those of retention begin with `retain`. A test holds that no
field is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import click

from perdure.cli.options import DURATION
from perdure.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

RETAIN = "retain_"
"""Begins the names of what `Retention` has."""


class WorkerFlag(NamedTuple):
    """A flag, and what it means."""

    type: str
    """duration, count, rate, text, pairs or range"""
    help: str
    choices: tuple[str, ...] = ()


WORKER_FLAGS: dict[str, WorkerFlag] = {
    "async_jobs": WorkerFlag("count", "Async activities at the same time.  [default: 1000]"),
    "threaded_jobs": WorkerFlag("count", "Sync activities at the same time.  [default: 32]"),
    "process_jobs": WorkerFlag(
        "count", "Activities with process=True at the same time; 0: one per core.  [default: 0]"
    ),
    "lease_for": WorkerFlag(
        "duration",
        "How long work stays a worker's without a sign of life. Longer: slower recovery after a "
        "crash; shorter: more repeated work when the machine stalls.  [default: 30s]",
    ),
    "poll_min": WorkerFlag(
        "duration", "How soon to look again for others' work after there was some. [default: 20ms]"
    ),
    "poll_max": WorkerFlag("duration", "How seldom to look when nothing happens.  [default: 1s]"),
    "claim_batch": WorkerFlag("count", "Turns or jobs to claim at once.  [default: 200]"),
    "hot_instances": WorkerFlag(
        "count", "Instances kept in memory between turns.  [default: 20000]"
    ),
    "max_attempts": WorkerFlag(
        "count",
        "How often a turn is tried without a commit before its instance is parked, and a job lost "
        "with its worker before it fails.  [default: 10]",
    ),
    "turn_warning": WorkerFlag(
        "duration", "How long a turn computes before the stuck line is logged.  [default: 2s]"
    ),
    "turn_limit": WorkerFlag(
        "duration", "How long a turn computes before its instance is parked.  [default: 30s]"
    ),
    "cancel_grace": WorkerFlag(
        "duration", "How long a cancelled activity may go on.  [default: 10s]"
    ),
    "watch_calls": WorkerFlag(
        "text",
        "How to watch for clocks, random and uuid inside turns.  [default: first]",
        ("always", "first", "never"),
    ),
    "watched_turns": WorkerFlag(
        "count", "Turns of each definition that are watched closely.  [default: 20]"
    ),
    "shadow_rate": WorkerFlag(
        "rate", "Which part of instances is replayed as a check, 0 to 1.  [default: 0.001]"
    ),
    "collect_after": WorkerFlag(
        "count", "New objects before Python's collector runs; 0: its own.  [default: 100000]"
    ),
    "thread_switch": WorkerFlag(
        "duration", "How long a thread waits for the interpreter.  [default: 1ms]"
    ),
    "max_sessions": WorkerFlag("count", "Sessions with running jobs; 0: none.  [default: 10]"),
    "session_lease": WorkerFlag(
        "duration", "How long a session stays without a sign of life.  [default: 30s]"
    ),
    "session_idle": WorkerFlag(
        "duration", "How long a session without jobs is kept.  [default: 5m]"
    ),
    "versions": WorkerFlag(
        "pairs", "Which recorded versions to take: checkout='>=1.2,<2'.  [default: those here]"
    ),
    "behaviours": WorkerFlag(
        "range", "Which behaviour numbers to take, as 1-2.  [default: this release's]"
    ),
    "prefer": WorkerFlag(
        "pairs", "Which version begins where none is named: checkout=1.2.0  [default: the latest]"
    ),
    "heartbeat_every": WorkerFlag(
        "duration", "How often details of heartbeats are written at most.  [default: 1s]"
    ),
    "unserved_retry": WorkerFlag(
        "duration", "Pause before a job that cannot run here is offered again.  [default: 1s]"
    ),
    "unserved_retry_max": WorkerFlag("duration", "The longest such pause.  [default: 1m]"),
    "housekeeping_every": WorkerFlag(
        "duration", "How often to look for what may be removed.  [default: 5m]"
    ),
    "metrics_every": WorkerFlag(
        "duration", "How often to ask what waits, for the gauges.  [default: 1m]"
    ),
    "retain_ended": WorkerFlag(
        "duration", "How long instances are kept after they ended.  [default: for ever]"
    ),
    "retain_executions": WorkerFlag(
        "count", "How many earlier executions of an instance are kept.  [default: all]"
    ),
    "retain_receipts": WorkerFlag(
        "duration", "How long it is known that a message was delivered.  [default: 7d]"
    ),
    "retain_unborn": WorkerFlag(
        "duration", "How long messages wait for an instance nobody starts.  [default: 30d]"
    ),
    "retain_dead_jobs": WorkerFlag(
        "duration", "How long dead jobs are kept for a person.  [default: for ever]"
    ),
    "retain_pages": WorkerFlag(
        "duration", "How long pages of for_each are kept after they ended.  [default: 1h]"
    ),
    "retain_streams": WorkerFlag(
        "duration", "How long streams are kept after their instance ended.  [default: as it]"
    ),
}
"""All but the name, the tags and the time to stop, which have flags of their own."""


def worker_flags(command: F) -> F:
    """Add a flag for every option of a worker; the command gets them under their names."""
    # The first to be added is the last to be shown.
    for name, flag in reversed(WORKER_FLAGS.items()):
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            type=click.Choice(flag.choices) if flag.choices else _TYPES[flag.type],
            metavar=None if flag.choices else _METAVARS[flag.type],
            multiple=flag.type == "pairs",
            help=flag.help,
        )(command)
    return command


def said_flags(values: dict[str, Any]) -> dict[str, Any]:
    """Return what was said of a worker's options, made of what JSON has: durations in seconds."""
    said: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or value == ():
            continue
        match WORKER_FLAGS[name].type:
            case "pairs":
                said[name] = dict(_pair(name, one) for one in value)
            case "range":
                said[name] = _range(name, value)
            case _:
                said[name] = value.total_seconds() if isinstance(value, timedelta) else value
    return said


def _pair(name: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise UsageError(f"--{name} {text!r} must be NAME=VALUE")
    return key, value


def _range(name: str, text: str) -> list[int]:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise UsageError(f"--{name} {text!r} must be a number or two with a dash, as 1-2")
    return [int(first), int(last or first)]


_TYPES: dict[str, Any] = {
    "duration": DURATION,
    "count": click.INT,
    "rate": click.FLOAT,
    "text": click.STRING,
    "pairs": click.STRING,
    "range": click.STRING,
}
_METAVARS = {
    "duration": "DURATION",
    "count": "N",
    "rate": "RATE",
    "text": "TEXT",
    "pairs": "NAME=VALUE",
    "range": "N-N",
}
