"""Durable execution for Python: orchestrations and deciders that survive a crash.

What is listed here is the public API. Everything else may change in any release.

Each name is loaded when it is first used: a module that only describes activities and
orchestrations does not pay for the worker, the store and their libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.authoring.activity import Activity, activity
    from perdure.authoring.activity_context import ActivityContext, activity_context
    from perdure.authoring.builtin.for_each import Page, for_each
    from perdure.authoring.context import Context, context
    from perdure.authoring.deciders.decider import DeadEffect, Decider, EndedOrchestration
    from perdure.authoring.deciders.decision import (
        Acceptance,
        Accepted,
        AlreadyCompleted,
        Decision,
        Rejected,
    )
    from perdure.authoring.deciders.describing import describe
    from perdure.authoring.inline import inline
    from perdure.authoring.key import Key
    from perdure.authoring.orchestration import Orchestration, orchestration
    from perdure.authoring.promise import Promise
    from perdure.authoring.query import Query
    from perdure.authoring.race import race
    from perdure.authoring.ref import InstanceRef
    from perdure.authoring.registry import Defined
    from perdure.authoring.schedules.schedule import Schedule
    from perdure.authoring.schedules.when import Cron, Every
    from perdure.authoring.signal import Signal
    from perdure.authoring.stream import Item, Stream
    from perdure.authoring.transaction import transaction
    from perdure.authoring.update import Request, Update
    from perdure.client.blocking.client import BlockingClient
    from perdure.client.client import Client, default_url
    from perdure.client.deciders.schedules import ScheduleHandle, ScheduleInfo
    from perdure.client.engine import Engine
    from perdure.client.handle import Handle
    from perdure.client.run import run
    from perdure.client.worker import Worker
    from perdure.errors import PerdureError
    from perdure.model.histories.slot import Slot
    from perdure.model.instances import Status
    from perdure.model.options import Retention, Retry, WorkerOptions
    from perdure.tallies import Tally

__all__ = [
    "Acceptance",
    "Accepted",
    "Activity",
    "ActivityContext",
    "AlreadyCompleted",
    "BlockingClient",
    "Client",
    "Context",
    "Cron",
    "DeadEffect",
    "Decider",
    "Decision",
    "Defined",
    "EndedOrchestration",
    "Engine",
    "Every",
    "Handle",
    "InstanceRef",
    "Item",
    "Key",
    "Orchestration",
    "Page",
    "PerdureError",
    "Promise",
    "Query",
    "Rejected",
    "Request",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleHandle",
    "ScheduleInfo",
    "Signal",
    "Slot",
    "Status",
    "Stream",
    "Tally",
    "Update",
    "Worker",
    "WorkerOptions",
    "activity",
    "activity_context",
    "context",
    "default_url",
    "describe",
    "for_each",
    "inline",
    "orchestration",
    "race",
    "run",
    "transaction",
]

_HOMES = {
    "authoring.activity": ("Activity", "activity"),
    "authoring.activity_context": ("ActivityContext", "activity_context"),
    "authoring.context": ("Context", "context"),
    "authoring.deciders.decider": ("DeadEffect", "Decider", "EndedOrchestration"),
    "authoring.deciders.decision": (
        "Acceptance",
        "Accepted",
        "AlreadyCompleted",
        "Decision",
        "Rejected",
    ),
    "authoring.deciders.describing": ("describe",),
    "authoring.builtin.for_each": ("Page", "for_each"),
    "authoring.inline": ("inline",),
    "authoring.key": ("Key",),
    "authoring.orchestration": ("Orchestration", "orchestration"),
    "authoring.promise": ("Promise",),
    "authoring.query": ("Query",),
    "authoring.race": ("race",),
    "authoring.ref": ("InstanceRef",),
    "authoring.registry": ("Defined",),
    "authoring.schedules.schedule": ("Schedule",),
    "authoring.schedules.when": ("Cron", "Every"),
    "authoring.signal": ("Signal",),
    "authoring.stream": ("Item", "Stream"),
    "authoring.transaction": ("transaction",),
    "authoring.update": ("Request", "Update"),
    "client.blocking.client": ("BlockingClient",),
    "client.client": ("Client", "default_url"),
    "client.engine": ("Engine",),
    "client.handle": ("Handle",),
    "client.run": ("run",),
    "client.deciders.schedules": ("ScheduleHandle", "ScheduleInfo"),
    "client.worker": ("Worker",),
    "errors": ("PerdureError",),
    "model.instances": ("Status",),
    "model.options": ("Retention", "Retry", "WorkerOptions"),
    "model.histories.slot": ("Slot",),
    "tallies": ("Tally",),
}


if not TYPE_CHECKING:  # or checkers would take every misspelled name for something

    def __getattr__(name: str) -> Any:
        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(f"perdure.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
