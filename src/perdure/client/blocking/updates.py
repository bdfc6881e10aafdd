"""Methods of `BlockingHandle`, which wait where those of `updates` are awaited.

Made from `client/acting/updates.py` by `tools/make_blocking.py`: change that, run this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from perdure.authoring.query import AskedQuery
from perdure.authoring.update import AskedUpdate
from perdure.durations import Duration

if TYPE_CHECKING:
    from perdure.client.blocking.client import BlockingHandle
A = TypeVar("A")
T = TypeVar("T")


def update(
    self: BlockingHandle[Any],
    update: AskedUpdate[T, A],
    value: T,
    /,
    *,
    update_id: str | None = None,
    timeout: Duration | None = None,
) -> A:
    """Ask the instance, and wait for the answer that its code gives.

    The request is durable once it is sent: it survives the caller, the worker and a restart, and
    is answered or refused once. It waits until the code takes it, behind what was sent before.

    Args:
        update: Its name, what is asked and what the answer is.
        value: Checked and encoded at once.
        update_id: Given again with the same id, the update is not done again: the first outcome is
            returned, or waited for.
        timeout: How long to wait; for ever if not given. The request stays.

    Raises:
        UpdateRefusedError: The code refused it; the error has the reason.
        UpdateUnansweredError: What took it has ended, or the instance ended before it was taken.
        InstanceEndedError: The instance has ended; nothing was sent.
        InstanceNotFoundError: There is no such instance.
        InputIdReusedError: The id was given before, with another update.
        PayloadError: The value is not of the type that the update asks for.
        ResultTimeoutError: There is no answer in time; the text says what the instance waits for.
    """
    return self._thread.run(
        self._handle.update(update, value, update_id=update_id, timeout=timeout)
    )


def ask(self: BlockingHandle[Any], query: AskedQuery[T], /, *, at: int | None = None) -> T:
    """Compute a view of the orchestration's variables, by replaying its history in this process.

    Nothing is written and no worker is asked. An instance that has ended can be asked as long as
    its history is kept.

    Args:
        query: Its name and type.
        at: As of which event of the current execution; as of now if not given.

    Raises:
        UsageError: The code is not here, or has not said how to answer the query by then.
        NondeterminismError: The code here does not match the history.
        InstanceNotFoundError: There is no such instance.
    """
    return self._thread.run(self._handle.ask(query, at=at))
