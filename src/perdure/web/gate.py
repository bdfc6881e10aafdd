"""Everything that a request must pass before any of it is answered.

In this order: size of the headers, the name of the host (DNS rebinding), who asks (a token, the
host application's word, or the key of the first URL, which becomes a cookie), where a request that
changes something comes from, and how often the caller asks. Only two things are open to
all: static files and `/healthz`. Every answer gets the headers that keep a browser from running or
framing anything (SEC-18).
"""

from __future__ import annotations

import hmac
import inspect
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from perdure.web.access import SCOPES, Access, find_token, now_utc
from perdure.web.problems import RefusalError
from perdure.web.rates import Failures, Rates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from perdure.web.settings import WebSettings

ACCESS = "perdure.access"
"""Where the gate leaves what a request may do."""
CSRF_HEADER = "x-perdure-csrf"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/healthz",)
STATIC = "/static/"
TWIN = ".json"
"""What the address of a page's data ends with."""
ESCAPED_TWIN = "%2Ejson"

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_SECURITY = {name.lower().encode(): value.encode() for name, value in SECURITY_HEADERS.items()}

_ADDED = list(_SECURITY.items())
_ADDED_TO_VALUES = [*_ADDED, (b"cache-control", b"no-store")]
_EVERYTHING = Access()

_UNKNOWN = RefusalError(
    401,
    "unauthorized",
    "this needs a token (Authorization: Bearer ...) or the key of the server: open the address "
    "that it printed when it started",
    {"WWW-Authenticate": 'Bearer realm="perdure"'},
)


class Gate:
    """Lets requests pass to an application.

    Args:
        app: What is behind.
        settings: Who may do what.
        refuse: Makes the answer to a request that is refused.
        open_paths: What is open to all, besides static files.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: WebSettings,
        refuse: Callable[[Request, Exception], Awaitable[Response]],
        open_paths: Collection[str] = OPEN_PATHS,
    ) -> None:
        self._app = app
        self._settings = settings
        self._refuse = refuse
        self._open_paths = open_paths
        limits = settings.limits
        self._rates = Rates(limits.rate_per_s, limits.burst, settings.monotonic)
        self._failures = Failures(limits.failures_per_min, settings.monotonic)
        self._cookie = _cookie_of(settings.key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        scope = _with_whole_segments(scope)
        request = Request(scope, receive)
        guarded = _guarded(send, is_static=route_path(scope).startswith(STATIC))
        try:
            answer = await self._admit(request)
        except RefusalError as refusal:
            answer = await self._refuse(request, refusal)
        if answer is None:
            await self._app(scope, receive, guarded)
        else:
            await answer(scope, receive, guarded)

    async def _admit(self, request: Request) -> Response | None:
        """Return nothing if a request may pass; else the answer that it gets at once.

        Raises:
            RefusalError: It may not.
        """
        self._check_headers(request)
        self._check_host(request)
        path = route_path(request.scope)
        if path in self._open_paths or path.startswith(STATIC):
            return None
        access, is_ambient, first = await self._who(request)
        if first is not None:
            return first
        if request.method not in SAFE_METHODS:
            self._check_origin(request)
            if is_ambient:
                self._check_csrf(request, access)
        wait_s = self._rates.take(access.who or _address(request))
        if wait_s:
            raise RefusalError(
                429, "rate_limited", "too many requests; wait", {"Retry-After": str(ceil(wait_s))}
            )
        request.scope[ACCESS] = access
        return None

    # ------------------------------------------------------------------ who asks

    async def _who(self, request: Request) -> tuple[Access, bool, Response | None]:
        """Return what a request may do, whether a browser says so by itself, and the answer that
        turns a key into a cookie."""
        settings = self._settings
        access, is_ambient, first = None, True, None
        if settings.tokens and (shown := _bearer(request)) is not None:
            access, is_ambient = self._by_token(request, shown), False
        elif settings.authorize is not None:
            access = await self._by_host(request)
            is_ambient = "cookie" in request.headers or _is_basic(request)
        elif settings.key is not None:
            access, first = self._by_key(request, settings.key)
        elif settings.insecure_no_auth:
            access = _EVERYTHING
            # A program has nothing to show here; a browser still must not act for another site.
            is_ambient = "origin" in request.headers or "sec-fetch-site" in request.headers
        if access is None:
            raise _UNKNOWN
        if settings.read_only:
            access = Access(who=access.who, scopes=frozenset({"read"}))
        return access, is_ambient, first

    def _by_token(self, request: Request, shown: str) -> Access | None:
        self._check_failures(request)
        token = find_token(self._settings.tokens, shown, now_utc())
        if token is None:
            self._failures.add(_address(request))
            return None
        return Access(who=token.name, scopes=token.scopes)

    async def _by_host(self, request: Request) -> Access | None:
        assert self._settings.authorize is not None
        said: Any = self._settings.authorize(request)
        if inspect.isawaitable(said):
            said = await said
        if said is True:
            return Access()
        return said if isinstance(said, Access) else None

    def _by_key(self, request: Request, key: str) -> tuple[Access | None, Response | None]:
        name, expected = self._cookie
        given = request.query_params.get("k")
        if given is not None and request.method == "GET":
            self._check_failures(request)
            if not hmac.compare_digest(given.encode(), key.encode()):
                self._failures.add(_address(request))
                return None, None
            return Access(who="browser"), _without_key(request, name, expected)
        shown = request.cookies.get(name, "")
        if hmac.compare_digest(shown.encode(), expected.encode()):
            return Access(who="browser"), None
        return None, None

    def _check_failures(self, request: Request) -> None:
        wait_s = self._failures.wait_s(_address(request))
        if wait_s > 0:
            raise RefusalError(
                429,
                "too_many_failures",
                "too many wrong keys or tokens from this address; wait",
                {"Retry-After": str(ceil(wait_s))},
            )

    # --------------------------------------------------------------- where it comes from

    def _check_headers(self, request: Request) -> None:
        size = sum(len(name) + len(value) for name, value in request.scope["headers"])
        limit = self._settings.limits.header_bytes
        if size > limit:
            raise RefusalError(
                431, "headers_too_large", f"headers may have {limit:,} bytes at most"
            )

    def _check_host(self, request: Request) -> None:
        hosts = self._settings.hosts
        if hosts is None:
            return
        name = _host_name(request.headers.get("host", ""))
        if name not in hosts:
            raise RefusalError(
                421,
                "wrong_host",
                f"this server is not known as {name[:100]!r}; its hosts are named "
                "with --allow-host, or hosts= of perdure.web.app",
            )

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "same-origin")
        is_other = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
        if is_other or site not in ("same-origin", "none"):
            raise RefusalError(
                403, "cross_origin", "a page of another site may not change anything here"
            )

    def _check_csrf(self, request: Request, access: Access) -> None:
        expected = csrf_token(self._settings, access)
        shown = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(shown.encode(), expected.encode()):
            raise RefusalError(
                403,
                "csrf",
                "a browser has to send the page's own mark (X-Perdure-Csrf): load the page again; "
                "a program uses a token instead of a cookie",
            )


def csrf_token(settings: WebSettings, access: Access) -> str:
    """Return what pages send along with what they change."""
    return settings.sign("csrf", access.who)


def access_of(request: Request) -> Access:
    """Return what a request may do that has passed the gate."""
    access = request.scope[ACCESS]
    assert isinstance(access, Access)
    return access


def check_scope(access: Access, scope: str, *, read_only: bool) -> None:
    """Refuse a request that may not do such a thing.

    Raises:
        RefusalError: It may not.
    """
    if scope in access.scopes:
        return
    if read_only:
        raise RefusalError(403, "read_only", "this server only shows; it was started read-only")
    has = ", ".join(one for one in SCOPES if one in access.scopes)
    raise RefusalError(403, "forbidden", f"this needs the scope {scope!r}; yours: {has}")


def route_path(scope: Scope) -> str:
    """Return the path below the place where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def escaped(text: str) -> str:
    """Return a text as one segment of a path. One that ends like the JSON of a page is told apart
    from that by its dot, which is escaped too."""
    segment = quote(text, safe="")
    return f"{segment.removesuffix(TWIN)}{ESCAPED_TWIN}" if segment.endswith(TWIN) else segment


def unescaped(segment: str) -> str:
    """Return a segment of a path as its sender wrote it."""
    return unquote(segment)


# -------------------------------------------------------------------------- inside


def _with_whole_segments(scope: Scope) -> Scope:
    """Return a scope whose path is cut where its sender cut it.

    An id may have a slash in it, sent as %2F. Servers decode the path as a whole, after which that
    slash looks like any other. Here `/` and `%` inside a segment stay escaped, and the dot of an id
    that ends in `.json` if it was sent so.
    """
    raw = scope.get("raw_path")
    if not raw or b"%" not in raw:
        return scope
    root = scope.get("root_path", "")
    segments = raw.partition(b"?")[0].decode("ascii", "replace").split("/")
    own = segments[root.count("/") + 1 :]
    return {**scope, "path": f"{root}/{'/'.join(map(_whole_segment, own))}"}


def _whole_segment(raw: str) -> str:
    decoded = unquote(raw).replace("%", "%25").replace("/", "%2F")
    if raw.lower().endswith(ESCAPED_TWIN.lower()):
        return f"{decoded.removesuffix(TWIN)}{ESCAPED_TWIN}"
    return decoded


def _guarded(send: Send, *, is_static: bool) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [one for one in message["headers"] if one[0].lower() not in _SECURITY]
            says_kept = is_static or any(name.lower() == b"cache-control" for name, _ in headers)
            added = _ADDED if says_kept else _ADDED_TO_VALUES
            message = {**message, "headers": [*headers, *added]}
        await send(message)

    return send_with_headers


def _cookie_of(key: str | None) -> tuple[str, str]:
    """Return name and value of the cookie that stands for a key. The name differs between keys:
    cookies of one machine are not kept apart by port."""
    if key is None:
        return "", ""
    name = sha256(f"name\0{key}".encode()).hexdigest()[:12]
    return f"perdure_{name}", hmac.new(key.encode(), b"cookie", sha256).hexdigest()


def _without_key(request: Request, name: str, value: str) -> Response:
    """Return the answer that keeps a key as a cookie, and takes it out of the address."""
    rest = [(key, one) for key, one in request.query_params.multi_items() if key != "k"]
    # Segments are escaped already. Two slashes at the head would lead to another host.
    path = "/" + quote(request.scope["path"], safe="/%:@").lstrip("/")
    target = path + (f"?{urlencode(rest)}" if rest else "")
    response = RedirectResponse(target, status_code=303)
    response.set_cookie(
        name,
        value,
        path=request.scope.get("root_path", "") or "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


def _bearer(request: Request) -> str | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" else None


def _is_basic(request: Request) -> bool:
    return request.headers.get("authorization", "").lower().startswith("basic ")


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    name = host.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if ":" in name else name
