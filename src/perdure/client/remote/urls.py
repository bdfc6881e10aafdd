"""Which URLs are those of servers. Read by every client, so it imports nothing."""

from __future__ import annotations

SCHEMES = ("http", "https")


def is_remote(url: object) -> bool:
    """Return whether a URL is that of a server of the HTTP API."""
    return isinstance(url, str) and url.partition("://")[0].lower() in SCHEMES
