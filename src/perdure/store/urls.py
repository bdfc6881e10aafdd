"""URLs of stores as people may see them: without passwords, also where they are not well formed."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

_IN_QUERY = re.compile(r"(?<=[?&])(password|sslpassword)=([^&#]*)", re.IGNORECASE)
_HIDDEN = "***"


def shown_url(url: str) -> str:
    """Return a URL as people may see it: without password. Also one that is not well formed."""
    if url.startswith("sqlite:"):
        return url
    place, query = _split(url)
    before, user, password, rest = _parts(place)
    if password:
        place = f"{before}{user}:{_HIDDEN}@{rest}"
    return place + _IN_QUERY.sub(rf"\1={_HIDDEN}", query)


def _split(url: str) -> tuple[str, str]:
    """Return what stands before the options, and those with their question mark."""
    place, mark, query = url.partition("?")
    if "@" in query and "@" not in place:
        # A password with a question mark in it, which should have been %3F.
        access, at, rest = url.rpartition("@")
        place, mark, query = rest.partition("?")
        place = access + at + place
    return place, mark + query


def _parts(place: str) -> tuple[str, str, str, str]:
    """Return what stands up to the slashes, user, password, and what stands behind the @."""
    access, _, rest = place.rpartition("@")
    before, slashes, login = access.partition("//") if "//" in access else ("", "", access)
    user, _, password = login.partition(":")
    return before + slashes, user, password, rest


def hide_password(text: str, url: str) -> str:
    """Return a message without the password of a URL, in whatever form it is in there (SEC-23)."""
    text = text.replace(url, shown_url(url))
    for secret in _passwords(url):
        text = text.replace(secret, _HIDDEN)
    return text


def _passwords(url: str) -> set[str]:
    if url.startswith("sqlite:"):
        return set()
    place, query = _split(url)
    written = {_parts(place)[2], *(match[2] for match in _IN_QUERY.finditer(query))}
    forms = written | {unquote(one) for one in written} | {quote(one) for one in written}
    # What is as short as a letter or two would be found in every other word.
    return {one for one in forms if len(one) > 2}
