"""Promises: what names one, the token that is the right to keep it, and the signal that it is.

A token says whose promise it is, and is signed with the secret of the store. It is no secret who
made it: the name of the instance can be read from it. What cannot be made without the secret is the
signature, so only a token that an orchestration gave away keeps its promise, and only that one.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

import msgspec

SIGNAL_PREFIX = "promise:"
"""How the names of signals begin that are promises. Users' signals and message ids do not."""

SECRET_BYTES = 32
SIGNATURE_BYTES = 16
MAX_TOKEN_CHARS = 2_048
"""What is longer is no token, and is not looked at."""

_VERSION = b"p1"
"""How tokens begin: with a letter, since `-` would look like an option to a shell's command."""
_PERSON = b"perdure promise1"
UNSIGNED = b"\0" * SECRET_BYTES
"""Stands for the secret where a history is replayed without its store: nothing is given away."""


class PromiseId(NamedTuple):
    """One promise of one execution."""

    instance_id: str
    incarnation: int
    execution: int
    """The one that made it; after a reset another one may wait for it."""
    number: int
    """Counted by that execution, from 1."""
    name: str

    @property
    def signal(self) -> str:
        """The name of the signal that keeps it."""
        return promise_signal(self.name, self.execution, self.number)

    @property
    def message_id(self) -> str:
        """The id under which it is kept: once, from wherever."""
        return promise_message_id(self.execution, self.number)


def promise_signal(name: str, execution: int, number: int) -> str:
    """Return the name of the signal that keeps a promise of an instance."""
    return f"{SIGNAL_PREFIX}{name}#{execution}.{number}"


def promise_message_id(execution: int, number: int) -> str:
    """Return the id under which a promise is kept."""
    return f"{SIGNAL_PREFIX}{execution}.{number}"


def promise_name(signal: str) -> str | None:
    """Return the name of the promise that a signal keeps; None if it is an ordinary one."""
    if not signal.startswith(SIGNAL_PREFIX):
        return None
    return signal.removeprefix(SIGNAL_PREFIX).rpartition("#")[0]


def write_token(secret: bytes, promise: PromiseId) -> str:
    """Return the token of a promise: letters, digits, `-` and `_`."""
    content = msgspec.msgpack.encode(promise)
    return (_VERSION + _text(_signature(secret, content) + content)).decode()


def read_token(secret: bytes, token: object) -> PromiseId | None:
    """Return the promise that a token is for; None if this store has not signed it.

    How long it takes does not tell how much of a signature is right.
    """
    if not isinstance(token, str) or not 1 <= len(token) <= MAX_TOKEN_CHARS:
        return None
    try:
        given = token.encode("ascii")
        text = given.removeprefix(_VERSION)
        data = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except (UnicodeEncodeError, Base64Error):
        return None
    signature, content = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
    is_signed = compare_digest(signature, _signature(secret, content))
    # Several texts may stand for the same bytes: one of them is the token.
    is_canonical = compare_digest(_VERSION + _text(data), given)
    if not (is_signed and is_canonical):
        return None
    return msgspec.msgpack.decode(content, type=PromiseId)


def _text(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _signature(secret: bytes, content: bytes) -> bytes:
    return blake2b(content, key=secret, digest_size=SIGNATURE_BYTES, person=_PERSON).digest()
