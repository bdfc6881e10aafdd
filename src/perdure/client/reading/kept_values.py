"""Methods of `Handle` for what an instance shows: its report, and values under keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.authoring.key import ReadKey, key_codec, key_name
from perdure.client.reading.info import Json, Report, report_of
from perdure.client.reading.lists import check_count
from perdure.durations import Duration

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from perdure.client.handle import Handle

T = TypeVar("T")


async def report(self: Handle[Any]) -> Report | None:
    """Return what the instance says of its progress; None if it never said anything."""
    [row] = await self._core.store.admin.read_reports([self.instance_id])
    if row is None:
        await self._row()
    return report_of(row)


async def wait_report(
    self: Handle[Any],
    *,
    after: int = 0,
    timeout: Duration | None = None,  # noqa: ASYNC109 - its error says what is waited for
) -> Report | None:
    """Wait for a report that is newer than the one with version `after`; None if none comes.

    It is the newest then: those between are not kept. An instance that has ended says nothing
    more, so a caller that asks for the next one until there is none sees the last one and goes on.

    Raises:
        InstanceNotFoundError: There is no such instance.
        ResultTimeoutError: It did not come in time; the text says what the instance waits for.
    """
    check_count("after", after, least=0)
    what = "report" if after == 0 else f"report after version {after}"
    waiting = self._core.wait_reported(self.instance_id, after)
    return report_of(await self._within(timeout, waiting, what))


@overload
async def kv(self: Handle[Any], /) -> dict[str, Json]: ...
@overload
async def kv(self: Handle[Any], key: ReadKey[T], /) -> T | None: ...
@overload
async def kv(self: Handle[Any], key: str, /) -> Json: ...
@overload
async def kv(self: Handle[Any], key: str, type: type[T], /) -> T | None: ...
@overload
async def kv(self: Handle[Any], key: str, type: TypeForm[T], /) -> T | None: ...
async def kv(self: Handle[Any], key: Any = None, type: Any = Any, /) -> Any:
    """Return what the instance keeps: all its values by key, sorted, or the one of a key.

    Args:
        key: The key, which has the type of its value if it is a `Key`; None if there is nothing
            under it.
        type: What the value is decoded as.

    Raises:
        InstanceNotFoundError: There is no such instance.
        PayloadError: The value is not of that type.
    """
    wanted = None if key is None else key_name(key)
    rows = await self._core.store.admin.read_kv(self.instance_id, wanted)
    if not rows:
        await self._row()
    if wanted is None:
        return {one: json.loads(row.value) for one, row in sorted(rows.items())}
    return key_codec(key, type).decode(rows[wanted].value) if wanted in rows else None


@overload
async def wait_kv(
    self: Handle[Any],
    key: ReadKey[T],
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,  # noqa: ASYNC109 - as below
) -> T | None: ...
@overload
async def wait_kv(
    self: Handle[Any],
    key: str,
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,  # noqa: ASYNC109 - as below
) -> Json: ...
@overload
async def wait_kv(
    self: Handle[Any],
    key: str,
    type: type[T],
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,  # noqa: ASYNC109 - as below
) -> T | None: ...
@overload
async def wait_kv(
    self: Handle[Any],
    key: str,
    type: TypeForm[T],
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,  # noqa: ASYNC109 - as below
) -> T | None: ...
async def wait_kv(
    self: Handle[Any],
    key: Any,
    type: Any = Any,
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,  # noqa: ASYNC109 - its error says what is waited for
) -> Any:
    """Wait until the instance keeps a value under a key, and return it.

    An instance that has ended sets nothing more: if it has no such value, None is returned.

    Args:
        key: The key, which has the type of its value if it is a `Key`.
        type: What the value is decoded as.
        after: Only a value that was set after this time counts, in milliseconds since 1970 by the
            store's clock; any if not given.
        timeout: How long to wait; for ever if not given.

    Raises:
        InstanceNotFoundError: There is no such instance.
        ResultTimeoutError: It did not come in time; the text says what the instance waits for.
        PayloadError: The value is not of that type.
    """
    wanted = key_name(key)
    check_count("after", after, least=0)
    waiting = self._core.wait_kept(self.instance_id, wanted, after)
    row = await self._within(timeout, waiting, f"value under key {wanted!r}")
    return None if row is None else key_codec(key, type).decode(row.value)
