"""The OpenAPI document and the reference say what the routes do."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest
from starlette.routing import Route

import perdure.web
from perdure.web.openapi import API, document_for, path_names, query_parameters
from perdure.web.operations import ApiRoute
from perdure.web.table import OPERATIONS
from tests.each import each
from tests.web.site import caller, engine_with_all, memory_url
from tools.make_http_reference import page

DOCUMENT = document_for(OPERATIONS)
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"


def test_the_document_has_every_route_and_no_other() -> None:
    app = perdure.web.app(memory_url(), insecure_no_auth=True)
    served = {
        (route.path, method.lower())
        for route in app.routes
        if isinstance(route, Route) and route.path.startswith(f"{API}/")
        for method in (route.methods or set()) - {"HEAD"}
    }
    told = {(path, method) for path, ways in DOCUMENT["paths"].items() for method in ways}

    assert served - told == {(f"{API}/openapi.json", "get")}
    assert told - served == set()


@each(OPERATIONS, name=lambda one: one.name)
def test_an_operation_says_all_that_is_asked_of_it(one: ApiRoute) -> None:
    told = DOCUMENT["paths"][f"{API}{one.path}"][one.method.lower()]
    named = [parameter["name"] for parameter in told["parameters"]]

    assert told["summary"].endswith((".", ";", ":"))
    assert set(path_names(one)) <= set(named)
    fields = [field.name for field in msgspec.structs.fields(one.query)]
    assert [parameter["name"] for parameter in query_parameters(one)] == fields
    assert ("requestBody" in told) == (one.body is not None) == (one.method == "POST")
    assert (
        one.method == "GET"
        or one.is_action
        or one.name in ("try_input", "check_code", "plan_reset")
    )
    assert one.scope in ("read", "write", "admin")


def test_every_reference_in_the_document_leads_somewhere() -> None:
    def references(value: object) -> set[str]:
        if isinstance(value, dict):
            own = {str(value["$ref"])} if "$ref" in value else set()
            return own.union(*(references(one) for one in value.values()))
        if isinstance(value, list):
            return set().union(*(references(one) for one in value))
        return set()

    found = references(DOCUMENT)
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}

    assert len(found) > 20
    assert found <= known


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/instances/done-1", "InstanceInfo"),
        ("/api/instances/done-1/stats", "InstanceStats"),
        ("/api/instances/family-1/tree", "InstanceTree"),
        ("/api/totals", "StoreTotals"),
        ("/api/instances?payloads=true", "InstanceList"),
        ("/api/instances/failed-1/result", "Outcome"),
    ],
)
async def test_an_answer_has_the_fields_that_the_document_tells(path: str, name: str) -> None:
    async with engine_with_all() as engine:
        app = perdure.web.app(engine, insecure_no_auth=True)
        async with caller(app) as api:
            answer = await api.get(path)

    schema = DOCUMENT["components"]["schemas"][name]
    assert list(answer.json()) == list(schema["properties"])


async def test_the_document_is_served() -> None:
    app = perdure.web.app(memory_url(), insecure_no_auth=True)

    async with caller(app) as api:
        served: httpx.Response = await api.get("/api/openapi.json")

    assert served.json() == msgspec.json.decode(msgspec.json.encode(DOCUMENT))


def test_the_reference_is_what_the_table_says() -> None:
    assert REFERENCE.read_text() == page(), "run tools/make_http_reference.py"
