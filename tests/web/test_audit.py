"""Audit rows (SEC-34): every action leaves who, when, what, on what and what it came to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import perdure.web
from perdure import Client
from perdure.errors import UsageError
from perdure.web import AuditRow, audit_file
from perdure.web.audit import audit_to_stderr
from perdure.web.operations import ApiRoute
from perdure.web.table import OPERATIONS
from tests.web.site import caller, memory_url

TOKEN, KEPT = perdure.web.make_token("robot", scopes=("read", "write", "admin"))
BEARER = {"authorization": f"Bearer {TOKEN}"}
ACTIONS = [one for one in OPERATIONS if one.is_action]
ASKED = [*ACTIONS, *(one for one in OPERATIONS if not one.is_action and one.method == "POST")]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client(memory_url()) as client:
        yield client


def outcomes(rows: list[AuditRow]) -> list[tuple[str, str, str]]:
    return [(row.who, row.action, row.outcome) for row in rows]


def path_of(operation: ApiRoute) -> str:
    return "/api" + operation.path.replace("{", "").replace("}", "")


async def test_every_action_leaves_a_row(client: Client) -> None:
    """Whatever is sent and whatever it comes to; what only reads leaves none."""
    rows: list[AuditRow] = []
    async with caller(perdure.web.app(client, tokens=[KEPT], audit=rows.append), **BEARER) as api:
        for operation in ASKED:
            rows.clear()
            body: Any = None if operation.body is None else {}
            await api.request(operation.method, path_of(operation), json=body)

            if operation.is_action:
                assert {(row.who, row.action) for row in rows} == {("robot", operation.name)}
                assert [row.outcome for row in rows[:-1]] in ([], ["asked"])
                assert rows[-1].outcome != "asked"
                assert len({row.request_id for row in rows}) == 1
                assert rows[0].at.tzinfo is UTC
            else:
                assert rows == [], operation.name

    assert len(ACTIONS) > 25


async def test_what_is_done_has_a_row_before_and_after_with_its_count(client: Client) -> None:
    seen: list[tuple[AuditRow, int]] = []

    async def keep(row: AuditRow) -> None:
        seen.append((row, await client.count()))

    async with caller(perdure.web.app(client, tokens=[KEPT], audit=keep), **BEARER) as api:
        for number in range(2):
            body = {"name": "x", "instance_id": f"a/{number}"}
            assert (await api.post("/api/instances", json=body)).status_code == 201
        await api.post("/api/instances/a%2F0/cancel", json={"reason": "a secret"})
        bulk = {"action": "terminate", "where": {"name": "x"}, "expect": 2}
        assert (await api.post("/api/instances-bulk", json=bulk)).json()["done"] == 2

    rows = [row for row, _ in seen]
    assert [(row.action, row.outcome, count) for row, count in seen[:2]] == [
        ("start_instance", "asked", 0),
        ("start_instance", "done", 1),
    ]
    assert [(row.action, row.target, row.outcome) for row in rows[4:6]] == [
        ("cancel_instance", {"instance_id": "a/0"}, "asked"),
        ("cancel_instance", {"instance_id": "a/0"}, "done"),
    ]
    assert [row.count for row in rows[-2:]] == [None, 2]
    assert "secret" not in str(rows)


async def test_what_is_refused_has_one_row_with_the_reason(client: Client) -> None:
    rows: list[AuditRow] = []
    reading, reader = perdure.web.make_token("reader")
    app = perdure.web.app(client, tokens=[KEPT, reader], audit=rows.append)
    async with caller(app) as api:
        shown = {"authorization": f"Bearer {reading}"}
        await api.post("/api/instances", json={"name": "x"}, headers=shown)
        await api.post("/api/instances", json={"no": "x"}, headers=BEARER)
        await api.delete("/api/instances/nobody", headers=BEARER)

    assert outcomes(rows) == [
        ("reader", "start_instance", "forbidden"),
        ("robot", "start_instance", "invalid_body"),
        ("robot", "delete_instance", "asked"),
        ("robot", "delete_instance", "instance_not_found"),
    ]


async def test_nothing_is_done_that_cannot_be_put_on_record(client: Client) -> None:
    def broken(row: AuditRow) -> None:
        raise OSError("secret/path")

    async with caller(perdure.web.app(client, tokens=[KEPT], audit=broken), **BEARER) as api:
        answer = await api.post("/api/instances", json={"name": "x", "instance_id": "x-1"})
        read = await api.get("/api/totals")

    assert (answer.status_code, answer.json()["code"]) == (503, "audit_unavailable")
    assert "secret" not in answer.text
    assert await client.count() == 0
    assert read.status_code == 200


async def test_what_was_done_stays_done_when_its_end_cannot_be_put_on_record(
    client: Client,
) -> None:
    def once(row: AuditRow) -> None:
        if row.outcome != "asked":
            raise OSError

    async with caller(perdure.web.app(client, tokens=[KEPT], audit=once), **BEARER) as api:
        answer = await api.post("/api/instances", json={"name": "x", "instance_id": "x-1"})

    assert answer.status_code == 201
    assert await client.count() == 1


ROW = AuditRow(
    at=datetime(2026, 11, 18, tzinfo=UTC),
    request_id="r",
    who="ada\n{",
    action="cancel_instance",
    target={"instance_id": "a/1"},
    outcome="asked",
)


async def test_a_file_gets_a_line_of_json_per_row_and_is_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    keep = audit_file(file)
    for _ in range(2):
        await keep(ROW)  # type: ignore[misc]  # this one is a coroutine

    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert (
        lines
        == [
            {
                "at": "2026-11-18T00:00:00+00:00",
                "request_id": "r",
                "who": "ada\n{",
                "action": "cancel_instance",
                "target": {"instance_id": "a/1"},
                "outcome": "asked",
                "count": None,
                "address": "",
            }
        ]
        * 2
    )
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_file_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    keep = audit_file(file)
    file.rename(tmp_path / "old.jsonl")

    await keep(ROW)  # type: ignore[misc]

    assert len(file.read_text().splitlines()) == 1


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"audit rows cannot be written to .*: No such file"):
        audit_file(tmp_path / "nowhere" / "audit.jsonl")


def test_rows_go_to_the_standard_error_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    audit_to_stderr(ROW)

    assert json.loads(capsys.readouterr().err)["who"] == "ada\n{"
