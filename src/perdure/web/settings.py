"""What a web application was told when it was made, checked once."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from os import urandom
from time import monotonic

from perdure.errors import UsageError
from perdure.limits import PAGE_MAX
from perdure.web.access import Authorize, Token
from perdure.web.audit import Audit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""How a browser on the same machine names it."""

MIN_KEY_CHARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """How much one caller, and all of them, may ask for."""

    body_bytes: int = 4 * 1024 * 1024
    """Largest body of a request."""
    body_within_s: float = 10.0
    """How long a body may take to arrive."""
    header_bytes: int = 16 * 1024
    """All headers of a request together."""
    page: int = PAGE_MAX
    """The largest page of a list. A request for more gets so many."""
    list_within_s: float = 5.0
    """How long a list, a count or a page of a list may take to be found."""
    wait_s: float = 60.0
    """The longest that a request waits for a result."""
    rate_per_s: float = 200.0
    """Requests per second of one caller, in the long run."""
    burst: int = 400
    """How many may come at once."""
    failures_per_min: int = 10
    """Wrong keys and tokens from one address; then all of it are refused for a while."""
    streams: int = 200
    """How many streams may be open at the same time."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value <= 0:
                raise ValueError(f"{name} must be more than 0, got {value!r}")
        if self.page > PAGE_MAX:
            raise ValueError(f"page must be at most {PAGE_MAX}, got {self.page}")


@dataclass(frozen=True, slots=True)
class StripButton:
    """A button of the strip, pressed without a question."""

    name: str
    label: str
    press: Callable[[], Awaitable[None]]
    is_danger: bool = False


@dataclass(frozen=True, slots=True)
class PageStrip:
    """A line at the head of every page, with buttons for what only the serving program can do."""

    text: Callable[[], str]
    """What it says now."""
    buttons: Sequence[StripButton]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How a web application behaves."""

    read_only: bool = False
    authorize: Authorize | None = None
    tokens: Sequence[Token] = ()
    key: str | None = None
    insecure_no_auth: bool = False
    hosts: Collection[str] | None = None
    """Names under which it may be asked for, without ports; None: any."""
    mask: Collection[str] = ()
    audit: Audit | None = None
    """Keeps a row of each action."""
    limits: WebLimits = field(default_factory=WebLimits)
    secret: bytes = field(default_factory=lambda: urandom(32))
    """Signs forms; and places in lists, where the store does not tell its own secret."""
    title: str = ""
    """What the pages call the store."""
    strip: PageStrip | None = None
    """A line with buttons at the head of every page."""
    monotonic: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        has_auth = self.authorize is not None or self.tokens or self.key is not None
        if not has_auth and not self.insecure_no_auth:
            raise UsageError(
                "nobody would have to say who they are: hand over authorize=, tokens= or key=, or "
                "insecure_no_auth=True if everybody who reaches it may do everything"
            )
        if self.key is not None and len(self.key) < MIN_KEY_CHARS:
            raise UsageError(f"key must have at least {MIN_KEY_CHARS} characters")

    def sign(self, *parts: str) -> str:
        """Return a signature that only this application can make."""
        return hmac.new(self.secret, "\0".join(parts).encode(), sha256).hexdigest()


def checked_hosts(hosts: Collection[str] | None, *, is_mounted: bool) -> frozenset[str] | None:
    """Return under which names an application may be asked for.

    Without any it is for this machine alone, unless the application that it is mounted in says who
    may come, and so knows its own names.
    """
    if hosts is None:
        return None if is_mounted else frozenset(LOOPBACK)
    if isinstance(hosts, str):
        raise UsageError(f"hosts must be a collection of names, got {hosts!r}")
    return frozenset(host.lower() for host in hosts)
