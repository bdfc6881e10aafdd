"""`ctx.kv`: what an instance keeps by key, for itself and for clients that read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from perdure.authoring.scope import Scope, refuse_elsewhere
from perdure.clock import from_datetime
from perdure.codec import JSON, Json, check_id, value_codec
from perdure.errors import DefinitionError, LimitExceededError, PayloadError
from perdure.limits import MAX_KV_KEYS, MAX_KV_VALUE_BYTES
from perdure.model.histories.events import KvCleared, KvEntry, KvPruned, KvRemoved, KvSet

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

_JSON_LEAVES = {NoneType, bool, int, float, str}


class KV(MutableMapping[str, Json]):
    """A dict of JSON values that lasts as long as the instance, over continue-as-new as well.

    Reading is immediate and needs no `await`. Keys come sorted. What is read is a copy: to change a
    value, set it again. Anything that can be stored can be set; `read` gives it back as the type it
    was, and plain indexing as JSON.
    """

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __getitem__(self, key: str) -> Json:
        return JSON.decode(bytes(self._entries()[key].value))

    def __setitem__(self, key: str, value: object) -> None:
        refuse_elsewhere(self._scope, "the kv")
        key = check_id("kv key", key)
        put_encoded(self._scope, key, encode_value(value, f"kv[{key!r}]"))

    def __delitem__(self, key: str) -> None:
        if key not in self._entries():
            raise KeyError(key)
        self._scope.note(KvRemoved(key=key))

    def __contains__(self, key: object) -> bool:
        return key in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries()))

    def __len__(self) -> int:
        return len(self._entries())

    def __repr__(self) -> str:
        return f"KV({dict(self)!r})"

    def read(self, key: str, type: TypeForm[T], /) -> T | None:
        """Return a value as the type it was, or None if there is none.

        Raises:
            PayloadError: The value is none of that type.
        """
        entry = self._entries().get(key)
        return None if entry is None else decode_value(bytes(entry.value), type, f"kv[{key!r}]")

    def prune(self, before: datetime) -> None:
        """Remove the values that were set before a point in time, and not since."""
        before_ms = from_datetime(before)
        if any(entry.updated_ms < before_ms for entry in self._entries().values()):
            self._scope.note(KvPruned(before_ms=before_ms))

    def clear(self) -> None:
        """Remove all values."""
        if self._entries():
            self._scope.note(KvCleared())

    def _entries(self) -> Mapping[str, KvEntry]:
        refuse_elsewhere(self._scope, "the kv")
        return self._scope.kv


def put_encoded(scope: Scope, key: str, data: bytes) -> None:
    """Keep a value, as JSON, under a key of the instance that runs.

    Raises:
        LimitExceededError: It is too large, or there are too many keys.
    """
    entries = scope.kv
    if len(data) > MAX_KV_VALUE_BYTES:
        raise LimitExceededError(
            f"kv[{key!r}]: the size in bytes of a value",
            allowed=MAX_KV_VALUE_BYTES,
            found=len(data),
            advice="keep the data in a file or a bucket and set where it is",
        )
    if key not in entries and len(entries) >= MAX_KV_KEYS:
        raise LimitExceededError(
            f"kv[{key!r}]: the number of keys of one instance",
            allowed=MAX_KV_KEYS,
            found=len(entries) + 1,
            advice="delete keys, prune old ones, or keep a dict under one key",
        )
    scope.note(KvSet(key=key, value=msgspec.Raw(data)))


def read_entry(scope: Scope, key: str) -> KvEntry | None:
    """Return what the instance that runs keeps under a key."""
    return scope.kv.get(key)


def remove_entry(scope: Scope, key: str) -> None:
    """Keep nothing under a key any more."""
    if key in scope.kv:
        scope.note(KvRemoved(key=key))


def encode_value(value: object, path: str) -> bytes:
    """Return a value as JSON where no annotation says what it is.

    Dataclasses, datetimes and the like are written as their own type says, inside lists and dicts
    too.

    Raises:
        PayloadError: It cannot be stored.
        LimitExceededError: It is larger than any value may be.
    """
    try:
        return JSON.encode(value if type(value) in _JSON_LEAVES else _plain(value, path), path)
    except RecursionError:
        raise PayloadError(path, "is nested too deeply, or contains itself; flatten it") from None


def decode_value(data: bytes, type: Any, path: str) -> Any:
    """Return a stored value as a type; errors name the path."""
    try:
        return value_codec(type).decode(data)
    except PayloadError as error:
        raise PayloadError(f"{path} as {error.path}", error.problem) from error


def _plain(value: Any, path: str) -> Json:
    kind = type(value)
    if kind is list or kind is tuple:
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if kind is dict:
        return dict(_plain_item(key, item, f"{path}[{key!r}]") for key, item in value.items())
    if kind is set or kind is frozenset:
        # Not the set's own order: that changes with PYTHONHASHSEED.
        step = f"{path}{{...}}"
        items = [_plain(item, step) for item in value]
        return sorted(items, key=lambda item: JSON.encode(item, step))
    if kind in _JSON_LEAVES:
        return value
    if kind is object:
        # As an annotation it means any JSON, but here none was written.
        raise PayloadError(path, "got object, which is no data; use a dataclass or the JSON types")
    try:
        codec = value_codec(kind)
    except DefinitionError as error:
        raise PayloadError(path, f"got {kind.__qualname__}, which is no data: {error}") from error
    return msgspec.json.decode(codec.encode(value, path))


def _plain_item(key: object, item: Any, path: str) -> tuple[str, Json]:
    if type(key) is not str:
        kind = type(key).__qualname__
        raise PayloadError(path, f"has a key of type {kind}; in JSON keys are str: use str(key)")
    return key, _plain(item, path)
