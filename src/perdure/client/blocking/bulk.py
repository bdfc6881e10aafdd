"""Methods of `BlockingClient`, which wait where those of `bulk` are awaited.

Made from `client/acting/bulk.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack

from perdure.authoring.signal import Signal
from perdure.client.histories.points import Point
from perdure.client.reading.lists import InstanceQuery

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingClient
T = TypeVar("T")


def cancel_all(
    self: BlockingClient, *, expect: int, reason: str = "", **which: Unpack[InstanceQuery]
) -> int:
    """Ask all instances that match to stop; return how many were asked.

    Called again after it was broken off, it asks all that have not ended; to be asked twice
    changes nothing.

    Args:
        expect: How many match and have not ended. If there are more or fewer, nothing is done and
            the error says how many.
        reason: Why; kept with each.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    return self._thread.run(self._client.cancel_all(expect=expect, reason=reason, **which))


def terminate_all(
    self: BlockingClient, *, expect: int, reason: str = "", **which: Unpack[InstanceQuery]
) -> int:
    """Stop all instances that match now; return how many were stopped. No worker is needed.

    Called again after it was broken off, it finds those that are left: `expect` is their number.

    Args:
        expect: How many match and have not ended. If there are more or fewer, nothing is done and
            the error says how many.
        reason: Why; kept with each.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    return self._thread.run(self._client.terminate_all(expect=expect, reason=reason, **which))


def signal_all(
    self: BlockingClient,
    signal: Signal[T],
    value: T,
    /,
    *,
    expect: int,
    message_id: str,
    **which: Unpack[InstanceQuery],
) -> int:
    """Send a signal to all instances that match; return how many got it by this call.

    Args:
        signal: Its name and type.
        value: Checked and encoded at once.
        expect: How many match and have not ended. If there are more or fewer, nothing is sent and
            the error says how many.
        message_id: What makes the call repeatable: each instance gets the signal once under it,
            however often this is called.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
        PayloadError: The value cannot be stored.
    """
    return self._thread.run(
        self._client.signal_all(signal, value, expect=expect, message_id=message_id, **which)
    )


def unpark_all(self: BlockingClient, *, expect: int, **which: Unpack[InstanceQuery]) -> int:
    """Let all parked and blocked instances that match be tried again; return how many were.

    Args:
        expect: How many match and are parked or blocked. If there are more or fewer, nothing is
            done and the error says how many.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    return self._thread.run(self._client.unpark_all(expect=expect, **which))


def retry_all(self: BlockingClient, *, expect: int, **which: Unpack[InstanceQuery]) -> int:
    """Put the dead jobs of all instances that match back into their queues; return how many
    instances had one. What `retry_dead_jobs` does, for instances by their own conditions.

    Args:
        expect: How many instances match, with dead jobs or without. If there are more or fewer,
            nothing is done and the error says how many.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
    """
    return self._thread.run(self._client.retry_all(expect=expect, **which))


def reset_all(
    self: BlockingClient,
    point: Point | None = None,
    /,
    *,
    expect: int,
    reason: str = "",
    **which: Unpack[InstanceQuery],
) -> int:
    """Let all instances that match go on from an earlier point; return how many do.

    Called again after it was broken off with `status="failed"`, it finds those that are left:
    `expect` is their number.

    Args:
        point: As in `handle.reset`. Not given: for each just before what it failed at, or before
            it was asked to stop; then it is for those alone that failed or were stopped.
        expect: How many match. If there are more or fewer, nothing is done and the error says how
            many.
        reason: Why; kept with each.
        **which: The conditions of `instances`; at least one.

    Raises:
        UsageError: No condition was given, or `expect` does not match.
        PartlyDoneError: Some have no such point, or are deciders'; the others were reset.
    """
    return self._thread.run(self._client.reset_all(point, expect=expect, reason=reason, **which))
