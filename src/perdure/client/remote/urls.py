"""Which URLs are those of servers. Read by every client, so it imports nothing."""

from __future__ import annotations

SCHEMES = ("http", "https")


def is_remote(url: str) -> bool:
    """Tell whether a URL is that of a server of the HTTP API."""
    return url.partition("://")[0].lower() in SCHEMES
