"""The security requirements of the design: one test per row that a web application can show."""

from __future__ import annotations

import asyncio
import hashlib
import html
import json
import logging
import re
import typing
from collections.abc import AsyncIterator, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

import perdure.web
from perdure import Client, Engine
from perdure.errors import InstanceFailedError, UsageError
from perdure.web.pages.instance import Tab
from perdure.web.pages.routes import PAGES
from perdure.web.settings import WebLimits
from perdure.web.table import OPERATIONS
from tests.web.site import (
    HOSTILE,
    KEY,
    browser,
    caller,
    doomed,
    engine_with_all,
    memory_url,
)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client(memory_url()) as client:
        yield client


TOKEN, KEPT = perdure.web.make_token("robot", scopes=("read", "write", "admin"))
BEARER = {"authorization": f"Bearer {TOKEN}"}


def guarded(client: Client, **more: Any) -> Starlette:
    return perdure.web.app(client, tokens=[KEPT], key=KEY, **more)


def test_nobody_is_let_in_without_a_word_on_who_may_come() -> None:
    with pytest.raises(UsageError, match="insecure_no_auth=True"):
        perdure.web.app("sqlite://:memory:")
    with pytest.raises(UsageError, match="at least 16"):
        perdure.web.app("sqlite://:memory:", key="short")


async def test_wrong_tokens_are_all_answered_alike(client: Client) -> None:
    """SEC-3."""
    _, over = perdure.web.make_token("old", expires_at=datetime.now(UTC) - timedelta(days=1))
    app = perdure.web.app(client, tokens=[KEPT, over])

    async with caller(app) as api:
        none = await api.get("/api/totals")
        wrong = await api.get("/api/totals", headers={"authorization": "Bearer pdr_0"})
        right = await api.get("/api/totals", headers=BEARER)

    assert (none.status_code, wrong.status_code, right.status_code) == (401, 401, 200)
    assert none.content == wrong.content
    assert none.headers["www-authenticate"].startswith("Bearer")


async def test_a_token_that_is_over_is_no_token(client: Client) -> None:
    """SEC-3."""
    ends = datetime.now(UTC) - timedelta(seconds=1)
    token, kept = perdure.web.make_token("old", expires_at=ends)

    async with caller(
        perdure.web.app(client, tokens=[kept]), authorization=f"Bearer {token}"
    ) as api:
        assert (await api.get("/api/totals")).status_code == 401


async def test_an_address_that_keeps_guessing_is_not_listened_to(client: Client) -> None:
    """SEC-3."""
    async with caller(guarded(client)) as api:
        wrong = {"authorization": "Bearer pdr_0"}
        statuses = [(await api.get("/api/totals", headers=wrong)).status_code for _ in range(11)]
        right = await api.get("/api/totals", headers=BEARER)

    assert statuses == [401] * 10 + [429]
    assert right.status_code == 429
    assert 0 < int(right.headers["retry-after"]) <= 60


async def test_a_scope_that_is_missing_is_403_and_nothing_is_done(client: Client) -> None:
    """SEC-4."""
    reading, reader = perdure.web.make_token("reader")
    writing, writer = perdure.web.make_token("writer", scopes=("read", "write"))
    app = perdure.web.app(client, tokens=[reader, writer])
    body = {"action": "delete", "where": {"name": "x"}, "expect": 0}

    async with caller(app) as api:
        start = await api.post(
            "/api/instances",
            json={"name": "x", "instance_id": "x-1"},
            headers={"authorization": f"Bearer {reading}"},
        )
        many = await api.post(
            "/api/instances-bulk", json=body, headers={"authorization": f"Bearer {writing}"}
        )

    assert (start.status_code, start.json()["code"]) == (403, "forbidden")
    assert many.status_code == 403
    assert await client.count() == 0


@pytest.mark.parametrize(
    "path",
    ["/healthz/", "//healthz", "/HEALTHZ", "/api/x/healthz", "/%2e%2e/healthz", "/healthz%2f"],
)
async def test_health_is_one_exact_path(client: Client, path: str) -> None:
    """SEC-5."""
    async with caller(guarded(client)) as api:
        tricked = await api.send(api.build_request("GET", httpx.URL("http://127.0.0.1" + path)))
        plain = await api.get("/healthz")

    assert tricked.status_code in (401, 404)
    assert plain.status_code == 200


async def test_every_route_needs_to_know_who_asks(client: Client) -> None:
    """SEC-6: all that the application has, also with methods that it does not have."""
    app = guarded(client)
    open_paths = {"/healthz", "/static/{file}"}
    asked = 0

    async with caller(app) as api:
        for route in app.routes:
            path = getattr(route, "path", "")
            for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
                answer = await api.request(method, path.replace("{", "").replace("}", ""))
                if path not in open_paths:
                    assert answer.status_code == 401, (method, path)
                    asked += 1

    assert asked >= 5 * (len(OPERATIONS) + 2 * len(PAGES))


async def test_a_websocket_is_closed_at_once(client: Client) -> None:
    """SEC-6."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.connect"}

    await guarded(client)({"type": "websocket", "path": "/", "headers": []}, receive, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_that_is_not_json_is_415(client: Client, kind: str) -> None:
    """SEC-7."""
    headers = BEARER | {"content-type": kind}
    async with caller(guarded(client)) as api:
        answer = await api.post("/api/instances", content=b'{"name": "x"}', headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_key_becomes_a_cookie_that_scripts_and_other_sites_never_see(
    client: Client,
) -> None:
    """SEC-8, and the first URL."""
    async with caller(guarded(client)) as api:
        first = await api.get(f"/failures?k={KEY}&x=1")
        wrong = await api.get("/?k=another-key-of-some-length")

    assert (first.status_code, first.headers["location"]) == (303, "/failures?x=1")
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert KEY not in cookie
    assert wrong.status_code == 401


async def test_the_cookie_is_sent_over_tls_alone_where_there_is_tls(client: Client) -> None:
    """SEC-8."""
    async with caller(guarded(client)) as api:
        api.base_url = httpx.URL("https://127.0.0.1")
        first = await api.get(f"/?k={KEY}")

    assert "secure" in first.headers["set-cookie"].lower()


async def test_a_first_url_leads_to_no_other_host(client: Client) -> None:
    async with caller(guarded(client)) as api:
        asked = api.build_request("GET", f"http://127.0.0.1//evil.example/?k={KEY}")
        first = await api.send(asked)

    assert first.headers["location"].startswith("/evil.example")


@pytest.mark.parametrize(
    "more",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_page_of_another_site_changes_nothing(client: Client, more: dict[str, str]) -> None:
    """SEC-8."""
    async with browser(guarded(client)) as page:
        answer = await page.post("/api/instances", json={"name": "x"}, headers=more)

    assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    assert await client.count() == 0


async def test_a_cookie_without_the_mark_of_the_page_changes_nothing(client: Client) -> None:
    """SEC-8."""
    async with browser(guarded(client)) as page:
        bare = await page.post(
            "/api/instances", json={"name": "x"}, headers={"x-perdure-csrf": "0"}
        )
        marked = await page.post("/api/instances", json={"name": "x"})

    assert (bare.status_code, bare.json()["code"]) == (403, "csrf")
    assert marked.status_code == 201


async def test_no_answer_allows_other_origins(client: Client) -> None:
    """SEC-8: CORS is off."""
    async with caller(guarded(client), origin="https://evil.example") as api:
        answers = [await api.get("/healthz"), await api.get("/api/totals", headers=BEARER)]

    assert not [one for one in answers if "access-control-allow-origin" in one.headers]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", ""])
async def test_a_host_that_is_not_ours_is_421(client: Client, host: str) -> None:
    """SEC-9: a name of somebody else's that leads to this machine."""
    async with caller(guarded(client)) as api:
        answer = await api.get("/healthz", headers={"host": host})

    assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")


async def test_hosts_are_named_by_who_serves(client: Client) -> None:
    """SEC-9."""
    async with caller(guarded(client, hosts=["shop.example"])) as api:
        ours = await api.get("/healthz", headers={"host": "Shop.example:8443"})
        local = await api.get("/healthz")

    assert (ours.status_code, local.status_code) == (200, 421)


async def test_a_body_is_read_up_to_the_limit_and_no_further(client: Client) -> None:
    """SEC-10."""
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1000
            yield b" " * 1000

    app = guarded(client, limits=WebLimits(body_bytes=10_000))
    headers = BEARER | {"content-type": "application/json"}
    async with caller(app) as api:
        told = await api.post(
            "/api/instances", content=b"{}", headers=headers | {"content-length": "10001"}
        )
        flood = await api.post("/api/instances", content=endless(), headers=headers)

    assert (told.status_code, flood.status_code) == (413, 413)
    assert flood.headers["connection"] == "close"
    assert read <= 12_000


async def test_large_headers_are_431(client: Client) -> None:
    """SEC-11."""
    async with caller(guarded(client)) as api:
        answer = await api.get("/healthz", headers={"x-much": "x" * 17_000})

    assert answer.status_code == 431


async def test_a_body_that_does_not_come_is_408(client: Client) -> None:
    """SEC-11."""

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    app = guarded(client, limits=WebLimits(body_within_s=0.01))
    headers = BEARER | {"content-type": "application/json"}
    async with caller(app) as api:
        answer = await api.post("/api/instances", content=never(), headers=headers)

    assert answer.status_code == 408


async def test_a_compressed_body_is_415(client: Client) -> None:
    """SEC-12."""
    headers = BEARER | {"content-type": "application/json", "content-encoding": "gzip"}
    async with caller(guarded(client)) as api:
        answer = await api.post("/api/instances", content=b"\x1f\x8b", headers=headers)

    assert answer.status_code == 415


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 201 + b"1" + b"}" * 201,
        b'{"name": ' + b"1" * 401 + b"}",
        b'{"name": NaN}',
        b'{"name": -Infinity}',
        b'{"name": 1e999}',
        b'{"name": "a", "name": "b"}',
        b'{"name": "\xff"}',
        b'\xef\xbb\xbf{"name": "a"}',
        b'{"name": "\\ud800"}',
        b'{"name": "a"} more',
        b"",
    ],
    ids=lambda body: repr(body[:24]),
)
async def test_json_that_could_mean_two_things_is_refused(client: Client, body: bytes) -> None:
    """SEC-13."""
    headers = BEARER | {"content-type": "application/json"}
    async with caller(guarded(client)) as api:
        answer = await api.post("/api/instances", content=body, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("bad", ["a\x00b", "a\nb", "../a", "a\\b", "x" * 201])
async def test_an_id_that_cannot_be_is_refused(client: Client, bad: str) -> None:
    """SEC-14."""
    async with caller(guarded(client), **BEARER) as api:
        asked = await api.get(f"/api/instances/{quote(bad, safe='')}")
        given = await api.post("/api/instances", json={"name": "x", "instance_id": bad})

    assert (asked.status_code, asked.json()["code"]) == (400, "invalid_id")
    assert (given.status_code, given.json()["code"]) == (400, "invalid_id")


async def test_a_zero_byte_in_a_payload_comes_back(client: Client) -> None:
    """SEC-14."""
    async with caller(guarded(client), **BEARER) as api:
        body = {"name": "x", "instance_id": "x-1", "input": ["a\x00b"]}
        await api.post("/api/instances", json=body)
        shown = (await api.get("/api/instances/x-1")).json()

    assert shown["input"] == {"0": "a\x00b"}


async def test_conditions_are_values_and_never_statements(client: Client) -> None:
    """SEC-15."""
    async with caller(guarded(client), **BEARER) as api:
        await api.post("/api/instances", json={"name": "x", "instance_id": "x_1"})
        injected = await api.get("/api/instances", params={"name": "x'; drop table live; --"})
        wild = await api.get("/api/instances", params={"prefix": "%"})
        many = await api.get("/api/instances", params={"ids": ",".join(map(str, range(501)))})

    assert injected.json()["items"] == wild.json()["items"] == []
    assert many.status_code == 400
    assert await client.count() == 1


async def test_a_page_has_500_at_most_and_a_cursor_is_ours(client: Client) -> None:
    """SEC-17."""
    async with caller(guarded(client), **BEARER) as api:
        for number in range(3):
            await api.post("/api/instances", json={"name": "x", "instance_id": f"x-{number}"})
        huge = await api.get("/api/instances", params={"limit": 10**9})
        page = (await api.get("/api/instances", params={"limit": 1})).json()
        _, _, cursor = page["next"].partition(".")
        forged = await api.get("/api/instances", params={"after": f"{'0' * 32}.{cursor}"})
        swapped = await api.get("/api/dead-jobs", params={"after": page["next"]})

    assert huge.status_code == 200
    assert (forged.status_code, forged.json()["code"]) == (400, "invalid_cursor")
    assert swapped.status_code == 400


async def test_a_list_goes_on_after_a_restart_and_at_another_server(client: Client) -> None:
    """Each application has what it signs forms with by itself."""
    async with caller(guarded(client, secret=b"1" * 32), **BEARER) as api:
        for number in range(3):
            await api.post("/api/instances", json={"name": "x", "instance_id": f"x-{number}"})
        page = (await api.get("/api/instances", params={"limit": 2})).json()
    async with caller(guarded(client, secret=b"2" * 32), **BEARER) as api:
        rest = await api.get("/api/instances", params={"after": page["next"]})

    assert [one["instance_id"] for one in page["items"]] == ["x-2", "x-1"]
    assert [one["instance_id"] for one in rest.json()["items"]] == ["x-0"]


async def test_a_link_to_a_page_of_a_list_is_good_after_a_restart_and_at_another_server() -> None:
    async with engine_with_all() as engine:
        for number in range(50):
            named: Any = perdure.Orchestration.named("x", str)
            await engine.start(f"x-{number:02}", named)
        with suppress(InstanceFailedError):
            await (await engine.start("failed-2", doomed, "x")).result()
        async with caller(perdure.web.app(engine, insecure_no_auth=True)) as before:
            shown = (await before.get("/")).text
            [older] = re.findall(r'href="(/[^"]*after=[^"]+)"', shown)
            instances = (await before.get("/api/instances?limit=1")).json()["next"]
            dead = (await before.get("/api/dead-jobs?limit=1")).json()["next"]
        links = {
            html.unescape(older): "done-1",
            f"/i/family-1?tab=children&page={quote(instances)}": "family-1",
            f"/queues?after={quote(dead)}": "explode",
        }
        async with caller(perdure.web.app(engine, insecure_no_auth=True)) as after:
            answers = {link: await after.get(link) for link in links}

    assert instances is not None
    assert dead is not None
    for link, words in links.items():
        assert answers[link].status_code == 200, link
        assert words in answers[link].text, link


async def test_no_page_lets_a_payload_do_anything() -> None:
    """SEC-18 and SEC-19."""
    async with engine_with_all() as engine:
        hostile = f"x{HOSTILE}"
        await engine.send_json("account", "Open", {"account": "a-1", "owner": hostile})
        app = perdure.web.app(engine, key=KEY, title=HOSTILE)
        async with browser(app) as page:
            paths = [route.path for route in PAGES if "{" not in route.path]
            paths += [f"/i/order%2F1?tab={tab}" for tab in TABS]
            paths += [f"/i/failed-1?tab={tab}" for tab in TABS]
            paths += ["/i/account:a-1", "/i/order%2F1?tab=history&full=true"]
            paths += [f"/?q={httpx.QueryParams({'q': HOSTILE})}", "/i/%3Cscript%3E"]
            for path in paths:
                answer = await page.get(path)
                assert "<script>alert" not in answer.text, path
                assert answer.text.count("<script") == 1, path
                assert " style=" not in answer.text, path
                assert " onclick" not in answer.text, path
                assert "{{7*7}}" in answer.text or "49" not in answer.text.split("<main")[1], path
                csp = answer.headers["content-security-policy"]
                assert "default-src 'none'" in csp
                assert "unsafe" not in csp
                assert answer.headers["x-content-type-options"] == "nosniff"


TABS = tuple(tab for tab in typing.get_args(Tab) if tab != "state")


async def test_a_long_value_is_cut_on_the_page_and_whole_in_the_json() -> None:
    """SEC-18."""
    async with engine_with_all() as engine:
        app = perdure.web.app(engine, key=KEY)
        async with browser(app) as page:
            body = {"name": "quick", "instance_id": "long", "input": {"order": "z" * 200_000}}
            await page.post("/api/instances", json=body)
            shown = await page.get("/i/long?tab=payload")
            twin = await page.get("/i/long.json?tab=payload")

    assert shown.text.count("z") < 150_000
    assert "bytes are shown" in shown.text
    assert len(twin.json()["info"]["input"]["order"]) == 200_000


async def test_nothing_secret_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-23 and SEC-36."""
    canary = "canary-4711"
    token, kept = perdure.web.make_token("robot", scopes=("read", "write", "admin"))
    with caplog.at_level(logging.DEBUG):
        async with caller(perdure.web.app(client, tokens=[kept], key=KEY)) as api:
            headers = {"authorization": f"Bearer {token}"}
            body = {"name": "x", "instance_id": "x-1", "input": [canary]}
            await api.post("/api/instances", json=body, headers=headers)
            await api.post("/api/instances/x-1/cancel", json={"reason": canary}, headers=headers)
            await api.get(f"/?k={KEY}")
            await api.get("/api/instances/x-1")

    ours = [record for record in caplog.records if record.name.startswith("perdure")]
    said = "".join(str(record.__dict__) for record in ours)
    assert len(ours) >= 2
    for secret in (canary, token, KEY):
        assert secret not in said


async def test_an_action_is_on_record(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-34: who, what, on what, what it came to."""
    with caplog.at_level(logging.INFO, logger="perdure.web.audit"):
        async with caller(guarded(client), **BEARER) as api:
            await api.post("/api/instances", json={"name": "x", "instance_id": "x-1"})
            await api.delete("/api/instances/nobody")
            await api.get("/api/instances")

    told = [
        (one.__dict__["who"], one.__dict__["action"], one.__dict__["outcome"])
        for one in caplog.records
        if one.name == "perdure.web.audit"
    ]
    assert told == [
        ("robot", "start_instance", "done"),
        ("robot", "delete_instance", "instance_not_found"),
    ]


def test_a_token_is_kept_as_its_hash() -> None:
    """SEC-30."""
    text, kept = perdure.web.make_token("robot", scopes=("read", "write"))

    assert len(bytes.fromhex(text.removeprefix("pdr_"))) == 32
    assert text.removeprefix("pdr_") not in kept.line()
    assert kept.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert perdure.web.read_tokens(f"# ours\n\n{kept.line()}\n") == [kept]


@pytest.mark.parametrize(
    "line", ["robot read", "robot read abc", f"robot fly {'0' * 64}", f"a read {'0' * 64} monday"]
)
def test_a_line_that_is_no_token_is_named(line: str) -> None:
    with pytest.raises(UsageError, match="line 2"):
        perdure.web.read_tokens(f"# first\n{line}")


async def test_a_caller_that_asks_too_often_waits(client: Client) -> None:
    """SEC-32."""
    app = guarded(client, limits=WebLimits(rate_per_s=0.001, burst=3))

    async with caller(app, **BEARER) as api:
        statuses = [(await api.get("/api/totals")).status_code for _ in range(4)]
        late = await api.get("/api/totals")

    assert statuses == [200, 200, 200, 429]
    assert int(late.headers["retry-after"]) > 0


async def test_streams_are_limited(client: Client) -> None:
    """SEC-32."""
    app = guarded(client, limits=WebLimits(streams=1))
    opened, gone = asyncio.Event(), asyncio.Event()

    async def send(message: MutableMapping[str, Any]) -> None:
        opened.set()

    async def receive() -> MutableMapping[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "GET",
        "path": "/api/changes",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", BEARER["authorization"].encode())],
    }
    stream = asyncio.ensure_future(app(scope, receive, send))
    await opened.wait()
    async with caller(app, **BEARER) as api:
        refused = await api.get("/api/changes")
        gone.set()
        await stream
        ended = await api.get(
            "/api/instances/nobody/result", headers={"accept": "text/event-stream"}
        )

    assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
    assert ended.status_code == 404


@pytest.mark.parametrize(
    "path", ["/api/instances", "/api/instances-count", "/", "/index.json", "/failures"]
)
async def test_a_list_that_is_not_found_in_time_is_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """SEC-15."""

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    for name in ("instances", "count", "dead_jobs"):
        monkeypatch.setattr(client, name, never)
    app = guarded(client, limits=WebLimits(list_within_s=0.01))
    async with caller(app, **BEARER) as api:
        answer = await api.get(path)
        one = await api.get("/api/instances/nothing")

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert "query_timeout" in answer.text or "not found within 0.01 s" in answer.text
    assert one.status_code == 404


async def test_a_store_that_is_gone_is_503(client: Client) -> None:
    """SEC-33."""
    async with caller(guarded(client), **BEARER) as api:
        await client.close()
        answer = await api.get("/api/totals")
        health = await api.get("/healthz")

    assert answer.status_code == 503
    assert health.status_code == 200


async def test_what_was_not_foreseen_is_told_by_a_number_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-36."""

    secret = "secret-of-the-house"

    async def broken(self: Client) -> None:
        raise RuntimeError(secret)

    monkeypatch.setattr(Client, "metrics", broken)
    async with caller(guarded(client), **BEARER) as api:
        answer = await api.get("/api/totals")
        page = await api.get("/")

    assert answer.status_code == 500
    assert answer.json()["error_id"] in str([one.__dict__ for one in caplog.records])
    assert secret not in answer.text + page.text
    assert secret not in str([one.__dict__ for one in caplog.records])
    assert page.status_code == 500


async def test_read_only_shows_and_changes_nothing() -> None:
    async with engine_with_all() as engine:
        app = perdure.web.app(engine, key=KEY, read_only=True)
        async with browser(app) as page:
            shown = await page.get("/i/order%2F1")
            refused = await page.post("/api/instances/order%2F1/cancel", json={})

    assert shown.status_code == 200
    assert "data-act" not in shown.text
    assert (refused.status_code, refused.json()["code"]) == (403, "read_only")


async def test_the_host_application_says_who_may_do_what(client: Client) -> None:
    async def authorize(request: Request) -> perdure.web.Access | None:
        who = request.headers.get("x-user")
        if who == "boss":
            return perdure.web.Access(who=who)
        return perdure.web.Access(who=who, scopes=frozenset({"read"})) if who else None

    inner = perdure.web.app(client, authorize=authorize)
    async with caller(Starlette(routes=[Mount("/ops/x", inner)])) as api:
        nobody = await api.get("/ops/x/api/totals")
        guest = await api.post(
            "/ops/x/api/instances", json={"name": "x"}, headers={"x-user": "guest"}
        )
        boss = await api.post(
            "/ops/x/api/instances", json={"name": "x"}, headers={"x-user": "boss"}
        )
        with_cookie = await api.post(
            "/ops/x/api/instances",
            json={"name": "x"},
            headers={"x-user": "boss", "cookie": "session=1"},
        )

    assert [one.status_code for one in (nobody, guest, boss)] == [401, 403, 201]
    assert with_cookie.json()["code"] == "csrf"


async def test_masked_fields_are_never_shown(client: Client) -> None:
    app = perdure.web.app(client, insecure_no_auth=True, mask=["Card"])
    async with caller(app, accept="text/html") as api:
        page = await api.get("/")
        mark = page.text.partition('data-csrf="')[2].partition('"')[0]
        body = {"name": "x", "instance_id": "x-1", "input": [{"card": "4111", "sum": 3}]}
        await api.post("/api/instances", json=body, headers={"x-perdure-csrf": mark})
        shown = (await api.get("/api/instances/x-1")).text
        shown += (await api.get("/i/x-1?tab=payload")).text
        shown += (await api.get("/i/x-1?tab=history&full=true")).text
        # Bodies are whole there, so it is not given at all.
        export = await api.get("/api/instances/x-1/export")
        shown += export.text

    assert (export.status_code, export.json()["code"]) == (403, "masked")
    assert "4111" not in shown
    assert json.dumps("•••", ensure_ascii=False) in shown


async def test_an_open_server_lets_programs_act_and_no_page_of_another_site(
    client: Client,
) -> None:
    async with caller(perdure.web.app(client, insecure_no_auth=True)) as api:
        program = await api.post("/api/instances", json={"name": "x"})
        page = await api.post(
            "/api/instances", json={"name": "x"}, headers={"origin": "http://127.0.0.1"}
        )

    assert (program.status_code, page.json()["code"]) == (201, "csrf")


async def test_an_open_server_says_so_on_every_page(client: Client) -> None:
    """SEC-2: the banner."""
    async with caller(perdure.web.app(client, insecure_no_auth=True), accept="text/html") as api:
        page = await api.get("/workers")

    assert "everybody who reaches this server" in page.text


async def test_engines_are_served_like_clients() -> None:
    async with Engine(memory_url(), []) as engine:
        app = perdure.web.app(engine, insecure_no_auth=True)
        async with caller(app) as api:
            assert (await api.get("/api/workers")).status_code == 200
