"""Names and numbers that an execution makes: the same at every replay, never made twice."""

from __future__ import annotations

import random
import re
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from perdure.codec import MAX_ID_BYTES


class ExecutionId(NamedTuple):
    """One execution of one instance."""

    instance_id: str
    incarnation: int
    execution: int


def child_id(parent: ExecutionId, number: int) -> str:
    """Return the id of the n-th child that was not given one.

    No other execution or incarnation of the parent makes the same.
    """
    mark = blake2b(b"%d %d" % (parent.incarnation, parent.execution), digest_size=3).hexdigest()
    made = f"{parent.instance_id}/{mark}.{number}"
    if len(made.encode()) > MAX_ID_BYTES:
        whole = blake2b(made.encode(), digest_size=16).hexdigest()
        made = f"{made[:20]}/{whole}"
    return made


def child_incarnation(parent: ExecutionId, seq: int) -> int:
    """Return the incarnation of the child that the parent's event number `seq` starts."""
    text = b"%d %d %d" % (parent.incarnation, parent.execution, seq)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def made_uuid(id: ExecutionId, number: int) -> UUID:
    """Return the n-th id of an execution's own series."""
    seed = b"uuid %s %d" % (_seed(id), number)
    return UUID(bytes=blake2b(seed, digest_size=16).digest(), version=4)


def made_random(id: ExecutionId) -> random.Random:
    """Return an execution's own random numbers."""
    seed = blake2b(b"random %s" % _seed(id), digest_size=16).digest()
    return random.Random(int.from_bytes(seed, "big"))


def _seed(id: ExecutionId) -> bytes:
    return b"%s %d %d" % (id.instance_id.encode(), id.incarnation, id.execution)


def restarted_id(child: str, owner: ExecutionId) -> str:
    """Return the id under which a child is started again in another execution than its own."""
    mark = blake2b(b"%d %d" % (owner.incarnation, owner.execution), digest_size=3).hexdigest()
    made = f"{given_id(child)}~{mark}"
    if len(made.encode()) > MAX_ID_BYTES:
        whole = blake2b(f"{made} {owner.instance_id}".encode(), digest_size=16).hexdigest()
        made = f"{made[:20]}/{whole}"
    return made


def given_id(child: str) -> str:
    """Return the id that the code gave to a child which may have been started again since."""
    return _RESTARTED.sub("", child)


def is_made(child: str) -> bool:
    """Return whether an id looks like one that was made by `child_id`."""
    return _MADE.search(child) is not None


_MADE = re.compile(r"/([0-9a-f]{6}\.[0-9]+|[0-9a-f]{32})(~[0-9a-f]{6})?$")
_RESTARTED = re.compile("~[0-9a-f]{6}$")
"""What tells an id that was made so before."""
