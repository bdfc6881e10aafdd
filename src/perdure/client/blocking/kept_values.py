"""Methods of `BlockingHandle`, which wait where those of `kept_values` are awaited.

Made from `client/reading/kept_values.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.authoring.key import ReadKey
from perdure.client.reading.info import Json, Report
from perdure.durations import Duration

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingHandle
if TYPE_CHECKING:
    from typing_extensions import TypeForm
T = TypeVar("T")


def report(self: BlockingHandle[Any]) -> Report | None:
    """Return what the instance says of its progress; None if it never said anything."""
    return self._thread.run(self._handle.report())


def wait_report(
    self: BlockingHandle[Any], *, after: int = 0, timeout: Duration | None = None
) -> Report | None:
    """Wait for a report that is newer than the one with version `after`; None if none comes.

    It is the newest then: those between are not kept. An instance that has ended says nothing
    more, so a caller that asks for the next one until there is none sees the last one and goes on.

    Raises:
        InstanceNotFoundError: There is no such instance.
        ResultTimeoutError: It did not come in time; the text says what the instance waits for.
    """
    return self._thread.run(self._handle.wait_report(after=after, timeout=timeout))


@overload
def kv(self: BlockingHandle[Any], /) -> dict[str, Json]: ...
@overload
def kv(self: BlockingHandle[Any], key: ReadKey[T], /) -> T | None: ...
@overload
def kv(self: BlockingHandle[Any], key: str, /) -> Json: ...
@overload
def kv(self: BlockingHandle[Any], key: str, type: type[T], /) -> T | None: ...
@overload
def kv(self: BlockingHandle[Any], key: str, type: TypeForm[T], /) -> T | None: ...
def kv(self: BlockingHandle[Any], key: Any = None, type: Any = Any, /) -> Any:
    """Return what the instance keeps: all its values by key, sorted, or the one of a key.

    Args:
        key: The key, which has the type of its value if it is a `Key`; None if there is nothing
            under it.
        type: What the value is decoded as.

    Raises:
        InstanceNotFoundError: There is no such instance.
        PayloadError: The value is not of that type.
    """
    return self._thread.run(self._handle.kv(key, type))


@overload
def wait_kv(
    self: BlockingHandle[Any],
    key: ReadKey[T],
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,
) -> T | None: ...
@overload
def wait_kv(
    self: BlockingHandle[Any], key: str, /, *, after: int = 0, timeout: Duration | None = None
) -> Json: ...
@overload
def wait_kv(
    self: BlockingHandle[Any],
    key: str,
    type: type[T],
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,
) -> T | None: ...
@overload
def wait_kv(
    self: BlockingHandle[Any],
    key: str,
    type: TypeForm[T],
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,
) -> T | None: ...
def wait_kv(
    self: BlockingHandle[Any],
    key: Any,
    type: Any = Any,
    /,
    *,
    after: int = 0,
    timeout: Duration | None = None,
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
    return self._thread.run(self._handle.wait_kv(key, type, after=after, timeout=timeout))
