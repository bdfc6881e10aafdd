"""Places in lists, signed: a caller hands back what it was given, or is refused."""

from __future__ import annotations

import hmac
from hashlib import sha256

from perdure.client.acting.keeping import find_secret
from perdure.client.core import ClientCore
from perdure.web.problems import RefusalError

SIGNATURE_CHARS = 32
_PURPOSE = b"web cursors\0"


class CursorSecret:
    """What signs the places of an application: the same after a restart, and at every server of
    the store, as it is made from what the store keeps.

    A role that only reads is refused that. Then the application's own secret signs: a place lasts
    as long as the server, and no other server takes it, unless both were given the same one.
    """

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._refused_in: int | None = None
        """The epoch of the store in which it was refused: it is not asked for with each list, as
        each refusal is an error in the log of the database."""

    async def read(self, core: ClientCore) -> bytes:
        """Return it."""
        epoch = core.store.epoch.number
        secret = None if self._refused_in == epoch else await find_secret(core)
        self._refused_in = epoch if secret is None else None
        return sha256(_PURPOSE + (secret or self._own)).digest()


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
