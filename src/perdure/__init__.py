"""Durable execution for Python: orchestrations that survive a crash.

What is listed here is the public API. Everything else may change in any release.
"""

from perdure.authoring.activity import Activity, ActivityContext, activity, activity_context
from perdure.authoring.context import Context, context
from perdure.authoring.inline import inline
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.authoring.race import race
from perdure.authoring.signal import Signal
from perdure.client.blocking import BlockingClient
from perdure.client.client import Client
from perdure.client.engine import Engine
from perdure.client.handle import Handle
from perdure.client.run import run
from perdure.errors import PerdureError
from perdure.model.instances import Status
from perdure.model.options import Retry, WorkerOptions
from perdure.worker.worker import Worker

__all__ = [
    "Activity",
    "ActivityContext",
    "BlockingClient",
    "Client",
    "Context",
    "Engine",
    "Handle",
    "Orchestration",
    "PerdureError",
    "Retry",
    "Signal",
    "Status",
    "Worker",
    "WorkerOptions",
    "activity",
    "activity_context",
    "context",
    "inline",
    "orchestration",
    "race",
    "run",
]
