"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec

from perdure.web.operations import IDEMPOTENCY_HEADER, ApiRoute

API = "/api"
"""Where the routes of the table begin."""

TAKES_KEY = ("start_instance", "send_signal", "execute_input", "send_input")
"""Operations that take an `Idempotency-Key`."""

PROBLEM = {
    "type": "object",
    "description": "RFC 9457. `code` never changes its meaning.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
    },
}


def document_for(operations: Iterable[ApiRoute]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these routes."""
    listed = list(operations)
    kinds = [one.returns for one in listed if one.returns is not None]
    kinds += [one.body for one in listed if one.body is not None]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas, components = _as_sent(schemas), _as_sent(components)
    by_kind = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        described = _described(one, by_kind)
        paths.setdefault(f"{API}{one.path}", {})[one.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "perdure",
            "version": version("perdure"),
            "description": "Instances of a perdure store: look at them, start and steer them.",
        },
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {
            "schemas": components | {"Problem": PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def query_parameters(operation: ApiRoute) -> list[dict[str, Any]]:
    """Return what the query of an operation may have."""
    [schema], _ = msgspec.json.schema_components([operation.query], ref_template="{name}")
    _, components = msgspec.json.schema_components([operation.query])
    found = components[operation.query.__name__].get("properties", {}) if schema else {}
    return [{"name": name, "in": "query", "schema": one} for name, one in found.items()]


def path_names(operation: ApiRoute) -> list[str]:
    """Return the named parts of an operation's path."""
    return [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]


def _as_sent(schema: Any) -> Any:
    """Return a schema with lengths of time as they are sent: in seconds."""
    if isinstance(schema, dict):
        if schema.get("format") == "duration":
            return {"type": "number", "description": "Seconds."}
        return {key: _as_sent(value) for key, value in schema.items()}
    if isinstance(schema, list | tuple):
        return [_as_sent(one) for one in schema]
    return schema


def _described(one: ApiRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = one.says.partition("\n")
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in path_names(one)
    ]
    parameters += query_parameters(one)
    if one.name in TAKES_KEY:
        parameters.append(
            {"name": IDEMPOTENCY_HEADER, "in": "header", "schema": {"type": "string"}}
        )
    answer: dict[str, Any] = {"description": "As asked."}
    content: dict[str, Any] = {}
    if one.returns is not None:
        content["application/json"] = {"schema": schemas[repr(one.returns)]}
    if one.streams:
        content["text/event-stream"] = {"schema": {"type": "string", "description": one.streams}}
    if content:
        answer["content"] = content
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": summary,
        "description": f"{' '.join(rest.split())} Needs the scope `{one.scope}`.".strip(),
        "parameters": parameters,
        "responses": {
            str(one.status): answer,
            "default": {
                "description": "Refused, or not possible.",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        },
    }
    if one.body is not None:
        content = {"application/json": {"schema": schemas[repr(one.body)]}}
        found["requestBody"] = {"required": True, "content": content}
    return found
