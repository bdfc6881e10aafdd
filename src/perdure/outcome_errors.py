"""Errors that tell how something ended. Users have them from `perdure.errors`, with the tree."""

from __future__ import annotations

import re


class PerdureError(Exception):
    """Base of everything this package raises."""

    __module__ = "perdure.errors"


class RecordedError(PerdureError):
    """Stands for an exception that was recorded, in the chain of causes of another."""

    __module__ = "perdure.errors"

    def __init__(
        self,
        type_name: str,
        message: str,
        *,
        place: str = "",
        members: tuple[RecordedError, ...] = (),
    ) -> None:
        super().__init__(_told(type_name, message, place, members=members))
        self.type_name = type_name
        self.message = message
        self.place = place
        """The user's line that raised it, as `shop.py:41 in charge`; or nothing."""
        self.members = members
        """Those of an exception group."""


class OutcomeError(PerdureError):
    """An instance or an activity did not succeed.

    `type_name`, `message`, `place` and `traceback_text` describe the original exception, and
    `origin` stands for it, with its own causes; it is never rebuilt from a class name found in
    stored data. The traceback is among the notes, so that it is shown wherever the error is.
    """

    __module__ = "perdure.errors"

    def __init__(
        self,
        summary: str,
        *,
        type_name: str = "",
        message: str = "",
        traceback_text: str = "",
        place: str = "",
        origin: RecordedError | None = None,
    ) -> None:
        super().__init__(summary)
        self.type_name = type_name
        self.message = message
        self.traceback_text = traceback_text
        self.place = place
        self.origin = origin
        if traceback_text:
            self.add_note(f"{self._heading()}:\n{traceback_text.rstrip()}")

    def _heading(self) -> str:
        return "As it was recorded"


def _told(
    type_name: str,
    message: str,
    place: str,
    origin: RecordedError | None = None,
    members: tuple[RecordedError, ...] = (),
) -> str:
    """Return an exception in one line: what it is, where it was raised, which others are in it, and
    what was being handled then, such as the failure that an undo was for."""
    text = f"{type_name}: {message} ({place})" if place else f"{type_name}: {message}"
    for number, member in enumerate(members if origin is None else origin.members):
        text = f"{text}{'; ' if number else ': '}{member}"
    before = None if origin is None else origin.__context__
    if isinstance(before, RecordedError) and before.type_name != "CancelledError":
        text = f"{text}; raised while handling {before}"
    return text


_FROM_BELOW = ": ChildError: "
_SAME_PLACES = re.compile(r"( \([^()]+\))\1+")


def _without_the_middle(text: str) -> str:
    """Name the first and the last of children that failed for one of their own: all of them would
    be more than is kept of a message, whose end tells why."""
    first, *others = text.split(_FROM_BELOW)
    if len(others) < 3:
        return text
    return _SAME_PLACES.sub(r"\1", _FROM_BELOW.join([first, "...", others[-1]]))


class ActivityError(OutcomeError):
    """An activity failed for good: out of attempts, not to be retried, or past its deadline."""

    __module__ = "perdure.errors"

    def __init__(
        self,
        activity: str,
        *,
        type_name: str,
        message: str,
        traceback_text: str = "",
        attempts: int = 1,
        place: str = "",
        origin: RecordedError | None = None,
        not_rebuilt: str = "",
    ) -> None:
        tries = "" if attempts == 1 else f" after {attempts} attempts"
        why = (
            f"; it comes as an ActivityError although raises= names it, since what it holds cannot "
            f"be stored: {not_rebuilt}"
        )
        super().__init__(
            f"activity {activity!r} failed{tries}: {_told(type_name, message, place, origin)}"
            f"{why if not_rebuilt else ''}",
            type_name=type_name,
            message=message,
            traceback_text=traceback_text,
            place=place,
            origin=origin,
        )
        self.activity = activity
        self.attempts = attempts

    def _heading(self) -> str:
        return f"As it was recorded (to catch it as {self.type_name}, name that in raises=)"


class ChildError(OutcomeError):
    """A child did not complete: it failed, was cancelled or terminated, or could not start."""

    __module__ = "perdure.errors"

    def __init__(
        self,
        instance_id: str,
        *,
        status: str,
        type_name: str,
        message: str,
        traceback_text: str = "",
        place: str = "",
        origin: RecordedError | None = None,
    ) -> None:
        super().__init__(
            _without_the_middle(
                f"child {instance_id!r} {status}: {_told(type_name, message, place, origin)}"
            ),
            type_name=type_name,
            message=message,
            traceback_text=traceback_text,
            place=place,
            origin=origin,
        )
        self.instance_id = instance_id
        self.status = status


class InstanceFailedError(OutcomeError):
    """The instance failed."""

    __module__ = "perdure.errors"

    def __init__(
        self,
        instance_id: str,
        *,
        type_name: str,
        message: str,
        traceback_text: str = "",
        place: str = "",
        origin: RecordedError | None = None,
    ) -> None:
        super().__init__(
            f"instance {instance_id!r} failed: {_told(type_name, message, place, origin)}",
            type_name=type_name,
            message=message,
            traceback_text=traceback_text,
            place=place,
            origin=origin,
        )
        self.instance_id = instance_id


class InstanceCancelledError(OutcomeError):
    """The instance was cancelled."""

    __module__ = "perdure.errors"

    def __init__(self, instance_id: str, reason: str) -> None:
        super().__init__(f"instance {instance_id!r} was cancelled: {reason}", message=reason)
        self.instance_id = instance_id
        self.reason = reason


class InstanceTerminatedError(OutcomeError):
    """The instance was terminated."""

    __module__ = "perdure.errors"

    def __init__(self, instance_id: str, reason: str) -> None:
        super().__init__(f"instance {instance_id!r} was terminated: {reason}", message=reason)
        self.instance_id = instance_id
        self.reason = reason


class UpdateRefusedError(OutcomeError):
    """The code of the instance refused the update."""

    __module__ = "perdure.errors"

    def __init__(self, instance_id: str, update: str, update_id: str, reason: str) -> None:
        super().__init__(
            f"instance {instance_id!r} refused update {update!r}: {reason}", message=reason
        )
        self.instance_id = instance_id
        self.update_id = update_id
        self.reason = reason


class UpdateUnansweredError(OutcomeError):
    """The update was given and will not be answered: what took it has ended, or none did."""

    __module__ = "perdure.errors"

    def __init__(self, instance_id: str, update: str, update_id: str, status: str) -> None:
        super().__init__(
            f"instance {instance_id!r} has not answered update {update!r} and will not: "
            f"{_UNANSWERED.get(status, f'it {status} before')}. Some of it may have been done; "
            "the same id gets this outcome again",
            message=status,
        )
        self.instance_id = instance_id
        self.update_id = update_id
        self.status = status
        """What the instance came to: *completed*, *failed*, *cancelled*, *terminated*, *continued
        as new*, *deleted* or *dropped*."""


_UNANSWERED = {
    "cancelled": "it was cancelled before",
    "terminated": "it was terminated before",
    "deleted": "it was deleted before",
    "dropped": "the update was dropped from its inbox, or the instance replaced by a new one",
}
