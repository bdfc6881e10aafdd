"""Places in lists, signed: a caller hands back what it was given, or is refused."""

from __future__ import annotations

import hmac
from hashlib import sha256

from perdure.web.problems import RefusalError

SIGNATURE_CHARS = 32


def sign_cursor(secret: bytes, kind: str, cursor: str | None) -> str | None:
    """Return the cursor of a list as it is given to callers."""
    return None if cursor is None else f"{_signature(secret, kind, cursor)}.{cursor}"


def open_cursor(secret: bytes, kind: str, signed: str | None) -> str | None:
    """Return the cursor behind what a caller handed back.

    Raises:
        RefusalError: This server did not give it for this list.
    """
    if signed is None:
        return None
    signature, _, cursor = signed.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(secret, kind, cursor).encode()):
        raise RefusalError(
            400,
            "invalid_cursor",
            f"after={signed[:40]!r} is not the `next` of an earlier page of {kind}: hand over "
            "`next` unchanged, or leave it out for the first page",
        )
    return cursor


def _signature(secret: bytes, kind: str, cursor: str) -> str:
    text = f"{kind}\0{cursor}".encode()
    return hmac.new(secret, text, sha256).hexdigest()[:SIGNATURE_CHARS]
