"""The API: what the client says, as JSON; what a caller wants, done once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

import perdure.web
from perdure import Client, Engine
from tests.web.site import HOSTILE, caller, engine_with_all, memory_url


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with engine_with_all() as engine:
        yield engine


@pytest.fixture
async def api(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    token, kept = perdure.web.make_token("robot", scopes=("read", "write", "admin"))
    app = perdure.web.app(engine, tokens=[kept])
    async with caller(app, authorization=f"Bearer {token}") as client:
        client.base_url = httpx.URL("http://127.0.0.1/api/")
        yield client


async def test_a_list_has_every_instance_once_page_by_page(api: httpx.AsyncClient) -> None:
    found, after = [], None
    while True:
        query = {"limit": 2} if after is None else {"limit": 2, "after": after}
        page = (await api.get("instances", params=query)).json()
        found += [one["instance_id"] for one in page["items"]]
        after = page["next"]
        if after is None:
            break

    assert sorted(found) == [
        "account:a-1",
        "done-1",
        "failed-1",
        "family-1",
        "order/1",
        "toys-child",
    ]


async def test_a_list_takes_the_conditions_of_the_client(api: httpx.AsyncClient) -> None:
    one = await api.get("instances", params={"status": "failed,completed", "name": "doomed"})
    counted = await api.get("instances-count", params={"roots_only": "true"})

    assert [item["instance_id"] for item in one.json()["items"]] == ["failed-1"]
    assert counted.json() == {"count": 5}


async def test_payloads_are_in_a_list_only_if_asked_for(api: httpx.AsyncClient) -> None:
    without = (await api.get("instances", params={"prefix": "done"})).json()["items"][0]
    having = await api.get("instances", params={"prefix": "done", "payloads": "true"})

    assert (without["input"], without["output"]) == (None, None)
    assert having.json()["items"][0]["input"] == {"order": "book"}
    assert having.json()["items"][0]["output"] == "book packed"


async def test_an_id_with_a_slash_is_one_segment_of_the_path(api: httpx.AsyncClient) -> None:
    shown = (await api.get("instances/order%2F1")).json()
    explained = (await api.get("instances/order%2F1/explain")).json()

    assert shown["instance_id"] == "order/1"
    assert shown["input"] == {"order": HOSTILE}
    assert "waits for signal 'go'" in explained["explanation"]


async def test_a_history_comes_in_pages(api: httpx.AsyncClient) -> None:
    first = (await api.get("instances/done-1/history", params={"limit": 3})).json()
    rest = (await api.get("instances/done-1/history", params={"after": first["next"]})).json()

    kinds = [event["kind"] for event in first["items"] + rest["items"]]
    assert kinds == ["started", "activity_scheduled", "activity_completed", "completed"]
    assert (len(first["items"]), rest["next"]) == (3, None)


async def test_events_of_a_history_are_found_in_pages(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "instances/done-1/history"
    found = (await api.get(path, params={"kind": "activity", "limit": 1})).json()
    monkeypatch.setattr("perdure.client.histories.finding.PAGE_MAX", 2)
    monkeypatch.setattr("perdure.web.api.instances.LOOKS", 2)
    part = (await api.get(path, params={"kind": "completed"})).json()
    rest = (await api.get(path, params={"kind": "completed", "after": part["next"]})).json()
    refused = await api.get(path, params={"kind": "nonsense"})

    assert [event["kind"] for event in found["items"]] == ["activity_scheduled"]
    assert (found["next"], part["items"], part["next"]) == (2, [], 2)
    assert [event["kind"] for event in rest["items"]] == ["completed"]
    assert (refused.status_code, refused.json()["code"]) == (400, "usage")


async def test_a_tree_has_the_children(api: httpx.AsyncClient) -> None:
    tree = (await api.get("instances/family-1/tree")).json()

    assert tree["info"]["instance_id"] == "family-1"
    assert [one["info"]["instance_id"] for one in tree["children"]] == ["toys-child"]


async def test_a_result_says_how_an_instance_ended(api: httpx.AsyncClient) -> None:
    done = (await api.get("instances/done-1/result")).json()
    failed = (await api.get("instances/failed-1/result")).json()
    running = (await api.get("instances/order%2F1/result")).json()

    assert (done["status"], done["result"], done["error"]) == ("completed", "book packed", None)
    assert failed["status"] == "failed"
    assert HOSTILE in failed["error"]["message"]
    assert "traceback" not in str(failed)
    assert running["status"] == "running"
    assert "signal 'go'" in running["explanation"]


async def test_a_result_is_waited_for(api: httpx.AsyncClient, engine: Engine) -> None:
    answer = await api.post("instances/order%2F1/signals", json={"name": "go", "value": "go on"})
    ended = (await api.get("instances/order%2F1/result", params={"wait": 60})).json()

    assert answer.status_code == 204
    assert ended["result"] == f"{HOSTILE} packed, go on"


async def test_a_start_is_the_same_one_when_it_is_sent_again(api: httpx.AsyncClient) -> None:
    body = {"name": "quick", "input": {"order": "pen"}}

    first = await api.post("instances", json=body, headers={"Idempotency-Key": "pen-1"})
    again = await api.post("instances", json=body, headers={"Idempotency-Key": "pen-1"})
    other = {"name": "quick", "input": {"order": "ink"}, "instance_id": "pen-1"}
    refused = await api.post("instances", json=other)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["instance_id"] == again.json()["instance_id"] == "pen-1"
    assert (refused.status_code, refused.json()["code"]) == (409, "already_exists")


async def test_arguments_are_taken_by_position_too(api: httpx.AsyncClient) -> None:
    started = await api.post("instances", json={"name": "quick", "input": ["cup"]})
    instance_id = started.json()["instance_id"]

    ended = await api.get(f"instances/{instance_id}/result", params={"wait": 60})

    assert ended.json()["result"] == "cup packed"


async def test_a_key_and_an_id_that_differ_are_refused(api: httpx.AsyncClient) -> None:
    body = {"name": "quick", "input": ["x"], "instance_id": "one"}

    refused = await api.post("instances", json=body, headers={"Idempotency-Key": "two"})

    assert (refused.status_code, refused.json()["code"]) == (400, "idempotency_mismatch")


async def test_a_key_that_comes_again_with_another_input_is_refused(api: httpx.AsyncClient) -> None:
    """SEC-35."""
    key = {"Idempotency-Key": "request-7"}

    answers = [
        await api.post(
            "deciders/account/inputs",
            json={"tag": "Deposit", "value": {"account": "new", "amount": amount}},
            headers=key,
        )
        for amount in (5, 5, 6)
    ]

    assert [one.status_code for one in answers] == [200, 200, 409]
    assert answers[0].json() == answers[1].json()
    assert answers[2].json()["code"] == "input_id_reused"


async def test_cancelled_is_on_record_with_who_did_it(
    api: httpx.AsyncClient, engine: Engine
) -> None:
    await api.post("instances/order%2F1/cancel", json={})

    ended = (await api.get("instances/order%2F1/result", params={"wait": 60})).json()
    assert ended["status"] == "cancelled"
    assert ended["error"]["message"] == "by robot over HTTP"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"times": 2.5}, "count(times)"),
        (["two"], "count(times)"),
        ({}, "count(times)"),
        ({"times": 2, "often": 3}, "count(often)"),
    ],
)
async def test_a_start_whose_arguments_do_not_fit_the_code_here_is_refused(
    api: httpx.AsyncClient, given: object, told: str
) -> None:
    body = {"name": "count", "instance_id": "count-1", "input": given}

    refused = await api.post("instances", json=body)

    assert (refused.status_code, refused.json()["code"]) == (422, "payload")
    assert told in refused.json()["detail"]
    assert (await api.get("instances/count-1")).status_code == 404


async def test_terminated_restarted_and_deleted(api: httpx.AsyncClient) -> None:
    ended = await api.post("instances/order%2F1/terminate", json={"reason": "enough"})
    again = await api.post("instances/order%2F1/restart", json={})
    early = await api.delete("instances/order%2F1")
    gone = await api.delete("instances/order%2F1", params={"force": "true"})

    assert ended.status_code == 204
    assert again.json()["status"] == "running"
    assert (early.status_code, early.json()["code"]) == (409, "instance_running")
    assert gone.json()["instances"] == 1
    assert (await api.get("instances/order%2F1")).status_code == 404


async def test_unparking_what_is_not_held_changes_nothing(api: httpx.AsyncClient) -> None:
    answer = await api.post("instances/order%2F1/unpark", json={})

    assert answer.json() == {"was_held": False}


async def test_an_act_on_many_needs_a_filter_and_a_count(api: httpx.AsyncClient) -> None:
    empty = {"action": "delete", "where": {"roots_only": True}, "expect": 5}
    wrong = {"action": "delete", "where": {"status": ["completed"], "name": "quick"}, "expect": 7}

    refused = await api.post("instances-bulk", json=empty)
    unexpected = await api.post("instances-bulk", json=wrong)

    assert (refused.status_code, refused.json()["code"]) == (400, "empty_filter")
    assert (unexpected.status_code, unexpected.json()["code"]) == (409, "unexpected_count")
    assert (await api.get("instances-count")).json() == {"count": 6}


async def test_an_act_on_many_says_what_it_could_not_do(api: httpx.AsyncClient) -> None:
    body = {"action": "delete", "where": {"name": "quick"}, "expect": 2}

    done = (await api.post("instances-bulk", json=body)).json()

    assert (done["matched"], done["done"], list(done["failed"])) == (2, 1, ["toys-child"])


async def test_an_input_is_decided_once(api: httpx.AsyncClient) -> None:
    body = {"tag": "Deposit", "value": {"account": "a-1", "amount": 5}}
    key = {"Idempotency-Key": "req-1"}

    first = (await api.post("deciders/account/inputs", json=body, headers=key)).json()
    again = (await api.post("deciders/account/inputs", json=body, headers=key)).json()
    other = {"tag": "Deposit", "value": {"account": "a-1", "amount": 6}}
    reused = await api.post("deciders/account/inputs", json=other, headers=key)

    assert (first["outcome"], first["version"]) == ("accepted", 4)
    assert again["version"] == 4
    assert (reused.status_code, reused.json()["code"]) == (409, "input_id_reused")


async def test_a_rejection_is_an_answer(api: httpx.AsyncClient) -> None:
    body = {"tag": "Deposit", "value": {"account": "a-1", "amount": 500}}

    answer = await api.post("deciders/account/inputs", json=body)

    assert answer.status_code == 200
    assert answer.json() == {"outcome": "rejected", "tag": "TooMuch", "reason": {"limit": 100}}


async def test_a_state_is_told_as_of_any_event(api: httpx.AsyncClient) -> None:
    now = (await api.get("deciders/account/instances/a-1/state")).json()
    before = (await api.get("deciders/account/instances/a-1/state", params={"at": 2})).json()
    events = await api.get("deciders/account/instances/a-1/events", params={"limit": 2})

    assert now == {"state": {"owner": "Ada", "amount": 42}}
    assert before == {"state": {"owner": "Ada", "amount": 40}}
    assert [one["tag"] for one in events.json()["items"]] == ["Opened", "Deposited"]
    assert events.json()["next"] == 2


async def test_an_input_is_tried_without_a_trace(api: httpx.AsyncClient) -> None:
    body = {"tag": "Deposit", "value": {"account": "a-1", "amount": 7}}

    tried = (await api.post("deciders/account/tries", json=body)).json()

    assert tried["outcome"]["state"] == {"owner": "Ada", "amount": 49}
    state = (await api.get("deciders/account/instances/a-1/state")).json()["state"]
    assert state["amount"] == 42


async def test_a_state_needs_the_code(engine: Engine) -> None:
    async with Client(memory_url()) as client:
        app = perdure.web.app(client, insecure_no_auth=True)
        async with caller(app) as api:
            answer = await api.get("/api/deciders/account/instances/a-1/state")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_registered")


async def test_dead_jobs_are_retried_and_forgotten(api: httpx.AsyncClient, engine: Engine) -> None:
    listed = (await api.get("dead-jobs", params={"activity": "explode"})).json()
    key = listed["items"][0]["key"]

    nothing = await api.post("dead-jobs", json={})
    gone = await api.delete(f"dead-jobs/{key}")
    unknown = await api.post(f"dead-jobs/{key}/retry", json={})

    assert listed["items"][0]["instance_id"] == "failed-1"
    assert (nothing.status_code, nothing.json()["code"]) == (400, "empty_filter")
    assert gone.status_code == 204
    assert (unknown.status_code, unknown.json()["code"]) == (400, "usage")


async def test_workers_queues_and_definitions_name_what_is_served(
    api: httpx.AsyncClient, engine: Engine
) -> None:
    await api.post("instances", json={"name": "orphan"})
    [worker] = (await api.get("workers")).json()
    queues = (await api.get("queues")).json()
    definitions = {one["name"]: one for one in (await api.get("definitions")).json()}

    assert worker["worker_id"] == engine.worker_id
    assert {one["name"] for one in worker["definitions"]} >= {"ship", "pack", "account"}
    assert [one["kind"] for one in worker["slots"]] == ["async", "threaded", "process"]
    assert (worker["instances"], worker["is_exact"]) == (0, True)
    assert worker["jobs"] == sum(one["leased"] for one in worker["leases"])
    assert [(one["name"], one["unclaimed"]) for one in queues] == [
        ("orphan", "needs orphan (any version)")
    ]
    assert definitions["ship"]["schema"]["required"] == ["order"]
    assert definitions["ship"]["about"] == "Pack an order and wait until it may go."


async def test_totals_and_what_an_instance_keeps_are_told(api: httpx.AsyncClient) -> None:
    totals = (await api.get("totals")).json()
    stats = (await api.get("instances/done-1/stats")).json()

    assert totals["instances"]["completed"] == 3
    assert stats["events"] == 4
    assert (await api.get("instances/done-1/kv")).json() == {}
    assert (await api.get("instances/done-1/report")).json() is None
    assert (await api.get("instances/done-1/executions")).json()[0]["ended_as"] == "completed"
    assert (await api.get("instances/order%2F1/jobs")).json() == []
    assert (await api.get("instances/order%2F1/progress")).json() == []
    assert (await api.get("instances/order%2F1/inbox")).json() == []
    assert (await api.get("sessions")).json() == []
    assert [one["name"] for one in (await api.get("projections")).json()] == ["ledger"]


async def test_an_unknown_instance_is_a_problem_with_its_id(api: httpx.AsyncClient) -> None:
    answer = await api.get("instances/nobody")

    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == 404
    assert answer.json() == {
        "type": "urn:perdure:problem:instance_not_found",
        "title": "Not Found",
        "status": 404,
        "code": "instance_not_found",
        "detail": "no instance 'nobody'",
        "instance_id": "nobody",
    }


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("instances?color=red", "invalid_query"),
        ("instances?limit=many", "invalid_query"),
        ("instances?limit=0", "invalid_query"),
        ("instances?name=a&name=b", "invalid_query"),
        ("instances?status=sleeping", "usage"),
        ("instances/done-1/history?execution=9", "usage"),
    ],
)
async def test_a_wrong_query_is_named(api: httpx.AsyncClient, path: str, code: str) -> None:
    answer = await api.get(path)

    assert (answer.status_code, answer.json()["code"]) == (400, code)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "missing required field `name`"),
        ({"name": "quick", "colour": 1}, "colour"),
        ({"name": 7}, "$.name"),
    ],
)
async def test_a_wrong_body_is_named(
    api: httpx.AsyncClient, body: dict[str, object], said: str
) -> None:
    answer = await api.post("instances", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_body")
    assert said in answer.json()["detail"]


async def test_an_app_opens_its_own_client_and_closes_it() -> None:
    app = perdure.web.app(memory_url(), insecure_no_auth=True)
    client = app.state.perdure_client

    async with app.router.lifespan_context(app), caller(app) as api:
        answer = await api.get("/api/instances")
        assert answer.json() == {"items": [], "next": None}

    assert not client._core.is_open


async def test_an_app_leaves_a_client_open_that_was() -> None:
    async with Client(memory_url()) as client:
        app = perdure.web.app(client, insecure_no_auth=True)
        async with app.router.lifespan_context(app):
            pass

        assert client._core.is_open


async def test_a_client_that_nobody_opened_is_a_problem_that_says_what_to_do() -> None:
    app = perdure.web.app(memory_url(), insecure_no_auth=True)

    async with caller(app) as api:
        answer = await api.get("/api/instances")

    assert (answer.status_code, answer.json()["code"]) == (503, "not_open")
    assert "lifespan" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"instances/done-1/streams/words?after={10**20}"),
        ("GET", f"deciders/account/instances/a-1/observations?after={10**20}"),
        ("DELETE", f"instances/done-1/inbox/{10**20}"),
        ("DELETE", f"instances/done-1/inbox/-{10**20}"),
        ("DELETE", "instances/done-1/inbox/%C2%B2"),
        ("DELETE", "instances/done-1/inbox/1_000"),
    ],
)
async def test_a_number_that_no_database_takes_is_refused(
    api: httpx.AsyncClient, method: str, path: str
) -> None:
    refused = await api.request(method, path)

    assert refused.status_code == 400
    assert refused.json()["code"] in ("usage", "invalid_query")
