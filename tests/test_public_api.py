"""The public names: few, explained, all on one page, and nothing else where users type a dot."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import BlockingClient, Client, Engine, Handle, Worker, orchestration
from perdure.client.blocking.client import BlockingHandle

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "make_public_names.py"))
STORE = "sqlite://:memory:public-names"

MAX_PUBLIC_NAMES = 60
"""Deciders brought eight: the classes that are written with (`Decider`, `Decision`), the outcomes
that callers match, what hooks are handed (`DeadEffect`, `EndedOrchestration`), `describe`. They are
the whole vocabulary of the second programming model. `transaction` is an activity that is handed a
connection, and has another signature than its callers see, which an option of `activity` could not
say to a type checker. `Defined` and `Acceptance` are for type checkers: a list of definitions and a
decision that is built step by step must be annotated. `for_each` brought three: itself,
what its source returns, and what it comes to."""

CLIENT = [
    "cancel_all",
    "close",
    "complete_job",
    "count",
    "count_dead_jobs",
    "dead_jobs",
    "delete",
    "delete_all",
    "drop_message",
    "dry_run",
    "events",
    "events_json",
    "execute",
    "execute_json",
    "fail_job",
    "forget_dead_job",
    "forget_projection",
    "handle",
    "inbox",
    "instances",
    "key_holder",
    "metrics",
    "observations",
    "open",
    "pause_projection",
    "projection",
    "projections",
    "prune",
    "put_schedule",
    "queues",
    "rebuild_projection",
    "reject",
    "reset_all",
    "resolve",
    "resume_projection",
    "retry_all",
    "retry_dead_job",
    "retry_dead_jobs",
    "schedule",
    "schedules",
    "send",
    "send_json",
    "send_with_start",
    "sessions",
    "signal_all",
    "start",
    "state",
    "state_json",
    "telemetry",
    "terminate_all",
    "transitions",
    "unpark_all",
    "update_with_start",
    "within",
    "workers",
]

HANDLE = [
    "ask",
    "cancel",
    "delete",
    "executions",
    "explain",
    "export",
    "fork",
    "history",
    "info",
    "instance_id",
    "jobs",
    "kv",
    "plan",
    "progress",
    "prune",
    "report",
    "reset",
    "restart",
    "result",
    "send",
    "stats",
    "stream",
    "streams",
    "terminate",
    "tree",
    "unpark",
    "update",
    "wait_kv",
    "wait_report",
]

ENGINE = sorted([*CLIENT, "health", "hurry", "registry", "worker_id"])
WORKER = ["client", "health", "registry", "run", "telemetry", "worker_id"]


@orchestration
async def nothing() -> None: ...


def names_of(thing: object) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


def test_the_public_names_are_sorted_and_unique() -> None:
    assert perdure.__all__ == sorted(set(perdure.__all__))


def test_the_public_names_are_few() -> None:
    assert len(perdure.__all__) <= MAX_PUBLIC_NAMES


def test_an_unknown_name_is_refused() -> None:
    unknown = "workflow"

    with pytest.raises(AttributeError, match="no attribute 'workflow'"):
        getattr(perdure, unknown)


@pytest.mark.parametrize("module", TOOL["MODULES"])
def test_a_public_name_can_be_imported_and_is_explained(module: str) -> None:
    for name in TOOL["public_names"](module):
        said = TOOL["said_of_name"](module, name)

        assert said.strip(), f"{module}.{name} is not explained"
        # What a dataclass makes up when there is none.
        assert not said.startswith(f"{name}("), f"{module}.{name} is not explained"


@pytest.mark.parametrize("kind", TOOL["OBJECTS"], ids=lambda kind: kind.__name__)
def test_what_a_public_object_has_is_explained(kind: type) -> None:
    unexplained = [
        name for name in TOOL["members"](kind) if not TOOL["said_of_member"](kind, name).strip()
    ]

    assert unexplained == []


def test_the_page_of_public_names_says_what_there_is() -> None:
    assert TOOL["PAGE"].read_text() == TOOL["make"](), "run: python tools/make_public_names.py"


# ------------------------------------------------------------- what users see behind a dot


async def test_a_client_has_what_is_its_users_and_nothing_else() -> None:
    assert names_of(Client(STORE)) == CLIENT
    assert names_of(Engine(STORE, [nothing])) == ENGINE
    assert names_of(Worker(STORE, [nothing])) == WORKER


def test_a_blocking_client_has_what_the_other_one_has() -> None:
    with BlockingClient(STORE) as client:
        assert names_of(client) == CLIENT
        assert names_of(client.handle("n")) == HANDLE
        assert names_of(client.start("n", nothing)) == HANDLE


async def test_a_handle_has_what_is_its_users_and_nothing_else() -> None:
    async with Client(STORE) as client:
        assert names_of(client.handle("n")) == HANDLE
        assert names_of(await client.start("m", nothing)) == HANDLE


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Client, CLIENT),
        (Engine, ENGINE),
        (Worker, WORKER),
        (Handle, HANDLE),
        (BlockingClient, CLIENT),
        (BlockingHandle, HANDLE),
    ],
)
def test_the_page_lists_what_these_classes_have(kind: type[Any], names: list[str]) -> None:
    assert TOOL["members"](kind) == names
