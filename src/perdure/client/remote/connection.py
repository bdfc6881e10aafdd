"""The way to a server of the HTTP API: requests, and what comes back as values and errors."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, urlsplit

import msgspec

from perdure import errors
from perdure.client.reading.as_json import shown_time
from perdure.client.reading.info import Json
from perdure.errors import PerdureError, StoreUnavailableError, UsageError, code_of
from perdure.store.forking import ProcessMark

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

API = "/api"
ANSWER_WITHIN_S = 30.0
"""How long a request may take, beyond what it waits for."""
ASK_WAIT_S = 20.0
"""How long one request waits for a result; then the next one does."""
MAX_TRIES = 5
"""How often a request is sent that the server refused because there were too many."""
MAX_PAUSE_S = 10.0


class RemoteConnection:
    """A server of the HTTP API.

    Args:
        url: Where the application is: `https://jobs.example.com`, or a path below.
        token: What the server is shown, if it asks for one.
    """

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.username is not None or parts.query or parts.fragment or not parts.hostname:
            raise UsageError(
                "the URL of a server is http(s)://host[:port][/path], without user, password or "
                "query; a token is handed over as token="
            )
        if not find_spec("httpx"):
            raise UsageError("a client over HTTP needs httpx; run: pip install perdure[remote]")
        self.url = url.rstrip("/")
        self._token = token
        self._http: httpx.AsyncClient | None = None
        self._is_entered = False
        self._process = ProcessMark("Client")

    def enter(self) -> None:
        """Begin the block whose end closes it.

        Raises:
            UsageError: There is one already, which would be left with nothing.
        """
        is_in_block, self._is_entered = self._http is not None and self._is_entered, True
        if is_in_block:
            raise UsageError(
                "this Client is in a block already, whose end closes it: use it there, or make "
                "another Client(...)"
            )

    async def open(self) -> None:
        """Be ready to ask. The server is not asked yet."""
        import httpx  # late: an extra, and few need it

        self._process.refuse_elsewhere()
        if self._http is None:
            headers = {"Accept": "application/json"}
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token}"
            self._http = httpx.AsyncClient(headers=headers, follow_redirects=False)
            self._process.set(self)

    async def close(self) -> None:
        """Let go of the connections. In a forked child they are the parent's."""
        if self._http is not None and not self._process.is_elsewhere:
            http, self._http = self._http, None
            await http.aclose()

    async def get(self, *path: str, wait_s: float = 0.0, **query: Any) -> Json:
        """Ask for something."""
        return await self.ask("GET", path, query=query, wait_s=wait_s)

    async def post(self, *path: str, wait_s: float = 0.0, **body: Any) -> Json:
        """Have something done."""
        return await self.ask("POST", path, body=body, wait_s=wait_s)

    async def ask(
        self,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        wait_s: float = 0.0,
    ) -> Json:
        """Send a request, and return the JSON of its answer.

        Args:
            method: GET, POST or DELETE.
            path: Its segments below `/api`, as they are: an id may have a slash in it.
            query: What is not None is sent.
            body: Sent as JSON.
            wait_s: How long the server was asked to wait.

        Raises:
            PerdureError: What the server refused it with.
            StoreUnavailableError: The server was not reached, or cannot answer now. A request that
                changes something may have been done all the same.
        """
        if self._http is None:
            raise UsageError("this Client is not open: use `async with`, or await open() first")
        self._process.refuse_elsewhere()
        url = self.url + API + "".join(f"/{quote(part, safe='')}" for part in path)
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        for tried in range(1, MAX_TRIES + 1):
            answer = await self._send(
                method, url, _params(query or {}), content, headers, wait_s + ANSWER_WITHIN_S
            )
            if answer.status_code != 429 or tried == MAX_TRIES:
                break
            await asyncio.sleep(_pause_s(answer))
        if answer.status_code >= 400:
            raise error_of(answer.status_code, _problem(answer), self.url)
        return json.loads(answer.content) if answer.content else None

    async def _send(
        self,
        method: str,
        url: str,
        params: list[tuple[str, str | int | float | bool | None]],
        content: bytes | None,
        headers: dict[str, str],
        within_s: float,
    ) -> httpx.Response:
        import httpx  # late, as above

        assert self._http is not None
        try:
            return await self._http.request(
                method, url, params=params, content=content, headers=headers, timeout=within_s
            )
        except httpx.HTTPError as error:
            raise StoreUnavailableError(
                f"{self.url} cannot be reached: {type(error).__name__}: {error}"
            ) from error


def read(kind: Any, value: Json) -> Any:
    """Return the JSON of an answer as what a client of the store would have returned."""
    return msgspec.convert(value, kind, strict=False, dec_hook=_decode)


def encoded(data: bytes) -> Json:
    """Return an encoded value as the JSON that it is."""
    return json.loads(data)


def error_of(status: int, problem: dict[str, Any], url: str) -> PerdureError:
    """Return the error that a problem document stands for: of the same class, with the same text
    and what else is told of it."""
    code, detail = str(problem.get("code", "")), str(problem.get("detail", ""))
    kind = ERRORS.get(code)
    if kind is None and (status == 429 or status >= 500):
        return StoreUnavailableError(f"{url} cannot answer now ({status}): {detail}")
    if kind is None:
        return UsageError(f"{url} refused it ({status}): {detail}")
    error = kind.__new__(kind, detail)
    Exception.__init__(error, detail)
    facts = {name: value for name, value in problem.items() if name not in _OF_DOCUMENTS}
    if "instance_status" in facts:
        facts["status"] = facts.pop("instance_status")
    for name, value in facts.items():
        setattr(error, name, value)
    return error


ERRORS = {
    code_of(kind): kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PerdureError)
}
_OF_DOCUMENTS = {"type", "title", "status", "code", "detail", "error_id"}


def _params(query: Mapping[str, Any]) -> list[tuple[str, str | int | float | bool | None]]:
    found: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in query.items():
        if value is None:
            continue
        many = value if isinstance(value, list | tuple) else [value]
        found += [(name, _text(one)) for one in many]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return shown_time(value) if isinstance(value, datetime) else str(value)


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = json.loads(answer.content)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"detail": answer.reason_phrase}


def _pause_s(answer: httpx.Response) -> float:
    said = answer.headers.get("retry-after", "")
    return min(float(said) if said.isdecimal() else 1.0, MAX_PAUSE_S)


def _decode(kind: type[T], value: Json) -> T:
    if kind is timedelta and isinstance(value, int | float) and math.isfinite(value):
        return cast(T, timedelta(seconds=value))
    raise TypeError(f"{value!r} is no {kind.__name__}")
