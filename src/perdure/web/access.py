"""Who may do what: scopes, tokens, and what a host application says of a request.

A token is 256 random bits. Only its SHA-256 is kept, in the configuration of the server: a reader
of that cannot use it.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from os import urandom
from typing import Literal, TypeAlias, get_args

from starlette.requests import Request

from perdure.errors import UsageError

AccessScope: TypeAlias = Literal["read", "write", "admin"]
"""`read` looks; `write` starts and steers instances; `admin` also deletes and acts on many."""

SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)

TOKEN_PREFIX = "pdr_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a caller may do, and who it is."""

    who: str = ""
    """For the log and the history."""
    scopes: frozenset[AccessScope] = frozenset(SCOPES)

    def __post_init__(self) -> None:
        check_scopes(self.scopes)


Authorize: TypeAlias = Callable[[Request], Access | bool | Awaitable["Access | bool | None"] | None]
"""Tells what a request may do: an `Access`, True for everything, False or None for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as the server knows it."""

    name: str
    """Who has it."""
    sha256: str
    """The hash of its text, in hexadecimal."""
    scopes: frozenset[AccessScope] = frozenset({"read"})
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        check_scopes(self.scopes)
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise UsageError(
                f"token {self.name!r}: sha256 must be 64 hexadecimal digits, the hash of the "
                "token's text; make_token() returns one"
            )
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise UsageError(f"token {self.name!r}: expires_at needs a time zone")

    def line(self) -> str:
        """Return the token as a line of a file that `read_tokens` reads."""
        until = "" if self.expires_at is None else f" {self.expires_at.isoformat()}"
        scopes = ",".join(scope for scope in SCOPES if scope in self.scopes)
        return f"{self.name} {scopes} {self.sha256}{until}"


def make_token(
    name: str, *, scopes: Iterable[AccessScope] = ("read",), expires_at: datetime | None = None
) -> tuple[str, Token]:
    """Return the text of a new token, for its owner alone, and what the server keeps of it."""
    text = TOKEN_PREFIX + urandom(32).hex()
    kept = Token(name=name, sha256=_hash(text), scopes=frozenset(scopes), expires_at=expires_at)
    return text, kept


def read_tokens(text: str) -> list[Token]:
    """Return the tokens that a file names, one per line: name, scopes, hash, and when it ends.

    Raises:
        UsageError: A line is not like that; the error says which.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in (3, 4):
            raise UsageError(
                f"line {number} of the tokens: expected `name scopes sha256 [expiry]`, "
                f"got {len(words)} words"
            )
        try:
            until = None if len(words) == 3 else datetime.fromisoformat(words[3])
            scopes = frozenset(words[1].split(","))
            found.append(
                Token(
                    name=words[0],
                    sha256=words[2],
                    scopes=check_scopes(scopes),
                    expires_at=until,
                )
            )
        except (ValueError, UsageError) as error:
            raise UsageError(f"line {number} of the tokens: {error}") from error
    return found


def find_token(tokens: Sequence[Token], text: str, now: datetime) -> Token | None:
    """Return the token that a caller has shown; None if there is none, or it is over.

    All are compared, in constant time each: how long it takes says nothing (SEC-3).
    """
    hashed = _hash(text)
    found = None
    for token in tokens:
        if hmac.compare_digest(token.sha256, hashed):
            found = token
    if found is None or (found.expires_at is not None and found.expires_at <= now):
        return None
    return found


def now_utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def check_scopes(scopes: Iterable[str]) -> frozenset[AccessScope]:
    """Return scopes that were given as text.

    Raises:
        UsageError: There is none of that name.
    """
    given = frozenset(scopes)
    unknown = sorted(given - set(SCOPES))
    if unknown or not given:
        named = ", ".join(map(repr, unknown)) or "none at all"
        raise UsageError(f"scopes: {named}; there are {', '.join(SCOPES)}")
    return frozenset(scope for scope in SCOPES if scope in given)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
