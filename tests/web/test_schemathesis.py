"""The API asked for all that its document allows, and for some that it does not.

Requests are made up from the served document, the same ones each time. Each is sent without a token
first, which must be refused, and then with one. Names in paths are made up too; every other time
they are replaced by what is there, so that more than a 404 is tried.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from zlib import crc32

import httpx
import pytest
import requests
import schemathesis
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import perdure.web
from perdure import Engine
from perdure.web import make_token
from perdure.web.openapi import document_for
from perdure.web.settings import WebLimits
from perdure.web.table import OPERATIONS
from tests.each import each
from tests.web.site import caller, engine_with_all, quick

DOCUMENT = json.loads(json.dumps(document_for(OPERATIONS)))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
ENDLESS = "GET /api/changes"
"""A stream without an end, which has tests of its own."""
ROUTES: dict[str, Any] = {
    found.label: found
    for one in SCHEMA.get_all_operations()
    if isinstance(one, Ok) and (found := one.ok()).label != ENDLESS
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 6
THERE = {
    "instance_id": ("order/1", "failed-1", "done-1", "a-1"),
    "decider": ("account",),
    "name": ("ledger",),
    "no": ("1",),
}
"""What paths can name, by the name of the part."""

SAME_EACH_TIME = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

TOKEN, KEPT = make_token("schemathesis", scopes=["read", "write", "admin"])
LIMITS = WebLimits(wait_s=0.01, rate_per_s=1e6, burst=1_000_000, failures_per_min=1_000_000)

MadeUp: TypeAlias = "Case[Any]"
"""A request that was made up."""
Send: TypeAlias = Callable[[requests.PreparedRequest], httpx.Response]


@pytest.fixture
def send() -> Iterator[Send]:
    """Send a request to an application whose engine runs in a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_served()) as ask:

        def sent(request: requests.PreparedRequest) -> httpx.Response:
            return _in_loop(portal, ask, request)

        yield sent


@asynccontextmanager
async def _served() -> AsyncIterator[Callable[[requests.PreparedRequest], Any]]:
    async with engine_with_all() as engine:
        app = perdure.web.app(engine, tokens=[KEPT], limits=LIMITS)
        async with caller(app) as api:

            async def ask(request: requests.PreparedRequest) -> httpx.Response:
                await _put_back(engine)
                return await api.request(
                    str(request.method),
                    str(request.url),
                    headers={name: str(value) for name, value in request.headers.items()},
                    content=_body(request),
                )

            yield ask


def _body(request: requests.PreparedRequest) -> bytes:
    body = request.body or b""
    assert isinstance(body, str | bytes)
    return body.encode() if isinstance(body, str) else body


async def _put_back(engine: Engine) -> None:
    """Start again what an earlier request has deleted."""
    await engine.start("done-1", quick, "book")


def _in_loop(portal: BlockingPortal, ask: Any, request: requests.PreparedRequest) -> httpx.Response:
    answer: httpx.Response = portal.call(ask, request)
    return answer


def prepared(case: MadeUp, *, token: str | None) -> requests.PreparedRequest:
    """Return a made-up request as it is sent."""
    sent = case.as_transport_kwargs(base_url="http://127.0.0.1")
    headers = {name: one for name, one in sent["headers"].items() if name != "Authorization"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return requests.Request(**{**sent, "headers": headers}).prepare()


def named(case: MadeUp) -> dict[str, str]:
    """Return what a made-up path is to name instead; nothing for every other one."""
    chance = crc32(repr(case.path_parameters).encode())
    known = {name: found[chance // 2 % len(found)] for name, found in THERE.items()}
    return {name: one for name, one in known.items() if chance % 2 and name in case.path_parameters}


def test_every_route_is_asked() -> None:
    assert len(ROUTES) == len(OPERATIONS) - 1


@each(ROUTES)
def test_a_route_answers_as_the_document_says_and_only_to_those_who_may(
    label: str, send: Send
) -> None:
    def check(case: MadeUp) -> None:
        case.path_parameters.update(named(case))
        refused = send(prepared(case, token=None))
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")

        answer = send(prepared(case, token=TOKEN))

        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as group:
            told = "; ".join(f"{one.title}: {one.message}" for one in group.exceptions)
            raise AssertionError(
                f"{case.as_curl_command()} {answer.status_code} {answer.text[:300]} {told}"
            ) from None
        known = DOCUMENT["paths"][case.operation.path][case.operation.method]["responses"]
        assert answer.is_error or str(answer.status_code) in known

    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        made_up = ROUTES[label].as_strategy(generation_mode=mode)
        SAME_EACH_TIME(given(case=made_up)(lambda case: check(case)))()
