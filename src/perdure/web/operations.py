"""What one route of the API is, and how a request becomes a call of its handler.

A route is declared once, as an `ApiRoute`. From that come the route itself, the checks of its
query and body, the scope that it needs, its place in the OpenAPI document and its line in the
reference.
"""

from __future__ import annotations

import asyncio
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.client.client import Client
from perdure.client.reading.overview import QueueInfo
from perdure.ids import fresh_name
from perdure.web.access import Access, AccessScope, now_utc
from perdure.web.audit import ASKED, DONE, AuditRow, keep_row
from perdure.web.bodies import read_json
from perdure.web.changes import PagePace
from perdure.web.cursors import CursorSecret
from perdure.web.gate import access_of, check_scope, unescaped
from perdure.web.pages.recent import RecentPages
from perdure.web.pages.records import Record
from perdure.web.pages.starts import Starts
from perdure.web.problems import RETRY_AFTER_S, RefusalError, document_of, response_for
from perdure.web.rates import Openings
from perdure.web.settings import WebSettings
from perdure.web.sse import StreamEvent, sse
from perdure.web.totals import RecentByKey, RecentQueues, RecentTotals, RecentValue
from perdure.web.values import dump, shown

IDEMPOTENCY_HEADER = "idempotency-key"

Method: TypeAlias = Literal["GET", "POST", "DELETE"]

Q = TypeVar("Q")
B = TypeVar("B")
S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query or a body in which nothing is asked for."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all requests of an application share."""

    client: Client
    settings: WebSettings
    streams: Openings
    totals: RecentTotals
    queues: RecentQueues
    pace: PagePace
    recent: RecentPages
    starts: RecentByKey[Starts]
    cursors: CursorSecret
    lately: RecentValue[Mapping[str, Record]]

    def forget_counts(self) -> None:
        """Have who asks from now on see what was just done here."""
        self.recent.clear()
        self.totals.forget()
        self.queues.forget()


@dataclass(frozen=True, slots=True)
class CheckedRequest(Generic[Q, B]):
    """A request that was checked, as handlers see it."""

    site: Site
    request: Request
    access: Access
    path: dict[str, str]
    """The parts of the path that have a name."""
    query: Q
    body: B

    @property
    def client(self) -> Client:
        """Where everything is asked for.

        Raises:
            RefusalError: It is not open.
        """
        client = self.site.client
        if not client._core.is_open:
            raise RefusalError(
                503,
                "not_open",
                "the store is not open: give the application that this one is mounted in "
                "lifespan=perdure.web.lifespan(...)",
            )
        return client

    async def cursor_secret(self) -> bytes:
        """Return what signs the cursors of lists; see `CursorSecret`."""
        return await self.site.cursors.read(self.client._core)

    async def queues(self) -> list[QueueInfo]:
        """Return what waits for which definition, and who takes it; see `RecentQueues`."""
        return await self.site.queues.get(self.client)

    @property
    def wants_stream(self) -> bool:
        """Whether the caller asked for server-sent events."""
        return "text/event-stream" in self.request.headers.get("accept", "")

    def stream(self, events: AsyncIterator[StreamEvent]) -> Response:
        """Return an answer that sends events as they come.

        Raises:
            RefusalError: Too many streams are open.
        """
        return sse(events, mask=self.site.settings.mask, streams=self.site.streams)

    def repeat_key(self, given: str | None, field: str) -> str | None:
        """Return the id under which a request may be sent again, from its body or its header.

        Raises:
            RefusalError: The two differ.
        """
        header = self.request.headers.get(IDEMPOTENCY_HEADER)
        if header is None or given is None or header == given:
            return given if given is not None else header
        raise RefusalError(
            400,
            "idempotency_mismatch",
            f"Idempotency-Key and {field} are the same thing here, and they differ: give one",
        )

    def reason(self, given: str) -> str:
        """Return why something is done, with who did it where no reason was given."""
        return given or f"by {self.access.who or 'a caller'} over HTTP"

    def reason_and_who(self, given: str) -> str:
        """Return why something is done, with who did it in any case."""
        return (
            f"{given} (by {self.access.who})" if given and self.access.who else self.reason(given)
        )


RouteHandler: TypeAlias = Callable[[CheckedRequest[Any, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One route."""

    method: Method
    path: str
    """Below `/api`; named parts in braces."""
    scope: AccessScope
    """What a caller must be allowed to do."""
    handler: RouteHandler
    returns: Any
    """The type of the answer's JSON; None: nothing."""
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    status: int = 200
    is_list: bool = False
    """Whether it looks through much, and is given up after `WebLimits.list_within_s`."""
    streams: str = ""
    """What it sends as server-sent events to those who accept them; empty: nothing."""

    @property
    def name(self) -> str:
        """Its handler's name, unique among all."""
        return self.handler.__name__

    @property
    def says(self) -> str:
        """What its handler's docstring says."""
        return (self.handler.__doc__ or "").strip()

    @property
    def is_action(self) -> bool:
        """Whether it may change something."""
        return self.scope != "read"


def endpoint(operation: ApiRoute, site: Site) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers requests of an operation."""

    async def answer(request: Request) -> Response:
        access = access_of(request)
        audit = _Audited(operation, site, request, access)
        try:
            check_scope(access, operation.scope, read_only=site.settings.read_only)
            ask = await _ask(operation, site, request, access)
            await audit.keep(ASKED)
            found = operation.handler(ask)
            found = await (found_in_time(site, found) if operation.is_list else found)
        except Exception as error:
            document, headers = document_of(error)
            await audit.keep(document["code"])
            return response_for(document, headers)
        except asyncio.CancelledError:
            await audit.keep("broken_off")
            raise
        finally:
            if operation.is_action:
                site.forget_counts()
        await audit.keep(DONE, _count_in(found))
        if isinstance(found, Response):
            return found
        return json_response(site.settings, found, status=operation.status)

    return answer


async def found_in_time(site: Site, found: Awaitable[T]) -> T:
    """Return what a list has, if it is found in time (SEC-15).

    What waits for its turn to be read is not read then. What is being read ends by itself: a look
    is bounded (decision 42); a count reads on to its end.

    Raises:
        RefusalError: It was not found in time.
    """
    within_s = site.settings.limits.list_within_s
    try:
        async with asyncio.timeout(within_s) as limit:
            return await found
    except TimeoutError as error:
        if not limit.expired():
            raise
        text = (
            f"it was not found within {within_s:g} s: ask for less, with conditions that leave "
            "fewer, or try again when the store has less to do"
        )
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        raise RefusalError(503, "query_timeout", text, headers) from error


def json_response(settings: WebSettings, value: object, *, status: int = 200) -> Response:
    """Return a value of the client as JSON, without what is masked."""
    if value is None and status == 204:
        return Response(status_code=204)
    content = dump(shown(value, settings.mask))
    return Response(content, status_code=status, media_type="application/json")


async def _ask(
    operation: ApiRoute, site: Site, request: Request, access: Access
) -> CheckedRequest[Any, Any]:
    limits = site.settings.limits
    path = {name: unescaped(value) for name, value in request.path_params.items()}
    query = read_query(operation.query, request)
    body = None
    if operation.body is not None:
        value = await read_json(request, limit=limits.body_bytes, within_s=limits.body_within_s)
        try:
            body = msgspec.convert(value, operation.body)
        except msgspec.ValidationError as error:
            raise RefusalError(400, "invalid_body", f"the body does not fit: {error}") from error
    return CheckedRequest(site, request, access, path, query, body)


def read_query(kind: type[S], request: Request, *, of_form: bool = False) -> S:
    """Return the query of a request.

    Args:
        kind: What it may have.
        request: The request.
        of_form: It may come from a form, whose empty fields were not filled in.

    Raises:
        RefusalError: It has a field that is not known, twice, or of another type.
    """
    given: dict[str, Any] = {}
    many = _lists_in(kind)
    # Most have none, and to make nothing of nothing costs as much as to look a row up.
    asked = request.query_params.multi_items() if request.scope["query_string"] else ()
    for name, value in asked:
        if of_form and not value:
            continue
        if name in many:
            given.setdefault(name, []).extend(value.split(","))
        elif name in given:
            raise RefusalError(400, "invalid_query", f"{name!r} is there twice in the query")
        else:
            given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RefusalError(400, "invalid_query", f"the query does not fit: {error}") from error


@cache
def _lists_in(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of a query that may have several values."""
    return frozenset(field.name for field in msgspec.structs.fields(kind) if _is_many(field.type))


def _is_many(annotation: Any) -> bool:
    members = (
        typing.get_args(annotation)
        if typing.get_origin(annotation) in (types.UnionType, typing.Union)
        else (annotation,)
    )
    return any(typing.get_origin(member) in (list, tuple) for member in members)


class _Audited:
    """Puts one action on record, before and after (SEC-34)."""

    def __init__(self, operation: ApiRoute, site: Site, request: Request, access: Access) -> None:
        self._operation = operation
        self._audit = site.settings.audit
        self._request = request
        self._who = access.who
        self._request_id = fresh_name() if operation.is_action else ""

    async def keep(self, outcome: str, count: int | None = None) -> None:
        """Keep a row, if this is an action.

        Raises:
            RefusalError: It was asked for, and the row could not be kept.
        """
        if not self._operation.is_action:
            return
        request = self._request
        row = AuditRow(
            at=now_utc(),
            request_id=self._request_id,
            who=self._who,
            action=self._operation.name,
            target={name: unescaped(value) for name, value in request.path_params.items()},
            outcome=outcome,
            count=count,
            address="" if request.client is None else request.client.host,
        )
        await keep_row(self._audit, row)


def _count_in(found: object) -> int | None:
    """Return to how many an action was done, where its answer says so."""
    for field in ("done", "instances"):
        count = getattr(found, field, None)
        if isinstance(count, int):
            return count
    return None
