"""Every exception this package raises.

PerdureError                     catch this to catch everything below
├── UsageError                   the caller broke a rule of the API
│   ├── DefinitionError          a definition that cannot work, or two of one name
│   ├── OptionError              an option of a wrong type, or out of its range; a ValueError too
│   ├── NotRegisteredError       no definition of that name on this worker
│   ├── NotServedError           `run` calls what no worker serves
│   ├── PayloadError             a value that cannot be stored, or not as annotated
│   ├── InvalidIdError           an id with forbidden characters, empty or too long
│   ├── LimitExceededError       more or larger than a named limit allows
│   ├── InstanceNotFoundError    no such instance
│   ├── InstanceEndedError       the instance has ended and takes no more messages
│   ├── InstanceRunningError     the instance has not ended, and what was asked needs that
│   ├── NotRootError             the instance is a child and goes only with its root
│   ├── AlreadyExistsError       that id is taken by something else
│   ├── UniqueKeyError           another instance of the decider has that business key
│   ├── VersionConflictError     the decider's instance is not at the expected version
│   ├── EventsRemovedError       what was asked needs events that the decider no longer keeps
│   ├── InstanceHeldError        the instance is parked or blocked, and takes no input until freed
│   ├── InputIdReusedError       the input_id was given before, with another input
│   ├── PromiseNotFoundError     a token that is for no promise of this store
│   ├── UnexpectedCountError     a filter finds more or fewer than the caller expects
│   ├── PartlyDoneError          what was asked for many was refused by some of them
│   ├── InputDroppedError        the input was taken out of the inbox before it was decided
│   └── DecisionTooLongError     the decider's code computes too long over the input
├── RecordedError                stands for a recorded exception, in a chain of causes
├── OutcomeError                 an instance or an activity did not succeed
│   ├── ActivityError, ChildError            raised at the `await` inside an orchestration
│   ├── InstanceFailedError, InstanceCancelledError, InstanceTerminatedError
│   │                            raised by `Handle.result()`
│   └── UpdateRefusedError, UpdateUnansweredError
│                                raised by `Handle.update()`
├── PromiseRejectedError         raised at `await due.receive()` inside an orchestration
├── RefusedError                 raised by code that serves an update, to refuse it
├── TooManyFailuresError         more items of a `for_each` have failed than may fail
├── ResultTimeoutError           the instance is still running when the wait ended
├── NondeterminismError          the code no longer matches its history, or cannot be replayed
└── StoreError                   the database said no
    ├── StoreUnavailableError    locked, full, read-only or out of reach: may work later
    │   └── StoreFullError       the disk of the database is full
    ├── StoreCorruptError        the file is damaged or not ours
    ├── SchemaError              no store there yet, or written by a newer perdure
    ├── RowError                 the database refused one value; nothing of it was written
    └── LeaseLostError           another worker holds the work now; stop quietly
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from perdure.outcome_errors import ActivityError as ActivityError
from perdure.outcome_errors import ChildError as ChildError
from perdure.outcome_errors import InstanceCancelledError as InstanceCancelledError
from perdure.outcome_errors import InstanceFailedError as InstanceFailedError
from perdure.outcome_errors import InstanceTerminatedError as InstanceTerminatedError
from perdure.outcome_errors import OutcomeError as OutcomeError
from perdure.outcome_errors import PerdureError as PerdureError
from perdure.outcome_errors import RecordedError as RecordedError
from perdure.outcome_errors import UpdateRefusedError as UpdateRefusedError
from perdure.outcome_errors import UpdateUnansweredError as UpdateUnansweredError
from perdure.tallies import Tally


class UsageError(PerdureError):
    """The caller broke a rule of the API."""


class DefinitionError(UsageError):
    """A definition cannot work as written, or two definitions share a name."""


class OptionError(UsageError, ValueError):
    """An option is of a wrong type or out of its range."""


class NotRegisteredError(UsageError):
    """No definition of that name is known here."""

    def __init__(self, what: str, name: str, *, known: list[str], advice: str = "") -> None:
        listed = ", ".join(sorted(known)) or "none"
        hint = f"; {advice}" if advice else ""
        super().__init__(f"no {what} named {name!r} is registered here (known: {listed}){hint}")
        self.name = name
        self.known = known


class NotServedError(UsageError):
    """An instance waits for what no live worker serves, and `run` is alone."""

    def __init__(self, instance_id: str, what: str) -> None:
        super().__init__(
            f"instance {instance_id!r} cannot go on: {what}. run() serves what the code of its "
            "orchestration names; what it calls in another way is handed over by name, as in "
            "Engine(url, [orchestration, activity]), or served by another worker that runs already"
        )
        self.instance_id = instance_id


class PayloadError(UsageError):
    """A value cannot be stored, or does not come back equal."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class InvalidIdError(UsageError):
    """An id or name has forbidden characters, is empty, or is too long."""

    def __init__(self, what: str, value: object, problem: str) -> None:
        shown = repr(value)
        if len(shown) > 60:
            shown = shown[:57] + "..."
        super().__init__(f"{what} {shown} {problem}")
        self.value = value
        self.problem = problem


class LimitExceededError(UsageError):
    """Something is more, or larger, than a named limit allows."""

    def __init__(self, limit: str, *, allowed: int, found: int, advice: str = "") -> None:
        hint = f"; {advice}" if advice else ""
        super().__init__(f"{limit} is limited to {allowed:,}, found {found:,}{hint}")
        self.limit = limit
        self.allowed = allowed
        self.found = found


class InstanceNotFoundError(UsageError):
    """There is no instance of that id."""

    def __init__(self, instance_id: str, text: str = "") -> None:
        super().__init__(text or f"no instance {instance_id!r}")
        self.instance_id = instance_id


class InstanceEndedError(UsageError):
    """The instance has ended and takes no more messages."""

    def __init__(self, instance_id: str, status: str) -> None:
        super().__init__(f"instance {instance_id!r} has ended ({status}), it takes no messages")
        self.instance_id = instance_id
        self.status = status


class InstanceRunningError(UsageError):
    """The instance has not ended, and what was asked needs that."""

    def __init__(self, instance_id: str, status: str, advice: str) -> None:
        super().__init__(f"instance {instance_id!r} has not ended ({status}): {advice}")
        self.instance_id = instance_id
        self.status = status


class NotRootError(UsageError):
    """The instance is a child: it is deleted with its root, or not at all."""

    def __init__(self, instance_id: str, root_id: str) -> None:
        super().__init__(
            f"instance {instance_id!r} is a child and cannot be deleted by itself; "
            f"delete its root {root_id!r} with all that belongs to it"
        )
        self.instance_id = instance_id
        self.root_id = root_id


class AlreadyExistsError(UsageError):
    """The id is taken by an instance of another definition or another input."""

    def __init__(self, instance_id: str, problem: str, *, advice: str = "") -> None:
        hint = advice or (
            "use another id, or say what to do with "
            '.with_options(if_exists="restart" | "terminate")'
        )
        super().__init__(f"instance {instance_id!r} already exists {problem}; {hint}")
        self.instance_id = instance_id


class UniqueKeyError(UsageError):
    """Another instance of the decider has the business key."""

    def __init__(self, key: str, *, decider: str, holder: str) -> None:
        super().__init__(
            f"the unique key {key!r} of decider {decider!r} is taken by {holder!r}; "
            "it is free again when that instance has completed"
        )
        self.key = key
        self.decider = decider
        self.holder = holder
        """The instance that has it, by the id its decider gives it."""


class VersionConflictError(UsageError):
    """The decider's instance is not at the version that its caller expected."""

    def __init__(self, instance_id: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"instance {instance_id!r} is at version {found}, not {expected} as expected; "
            "read its state again and decide anew"
        )
        self.instance_id = instance_id
        self.expected = expected
        self.found = found


class EventsRemovedError(UsageError):
    """What was asked needs events of a decider's instance that were removed: see `keep_events`."""

    def __init__(self, what: str, *, kept_after: int) -> None:
        super().__init__(
            f"{what} needs events that were removed: the oldest that is kept is version "
            f"{kept_after + 1}, so ask from version {kept_after} on; a decider keeps more with a "
            "larger keep_events"
        )
        self.kept_after = kept_after
        """The version that the removed events led to: all behind it are kept."""


class InstanceHeldError(UsageError):
    """The instance is parked or blocked: it does not go on, and takes no input, until it is freed
    by code that fits or by an operator."""

    def __init__(self, instance_id: str, status: str, reason: str, *, advice: str = "") -> None:
        hint = f"client.handle({instance_id!r}).unpark() lets it be tried again"
        if status == "blocked":
            hint = f"it goes on by itself with a worker whose code fits; {hint}"
        if advice:
            hint = f"{hint}; {advice}"
        super().__init__(f"instance {instance_id!r} is {status}: {reason}; {hint}")
        self.instance_id = instance_id
        self.status = status
        self.reason = reason


class InputIdReusedError(UsageError):
    """The id of an input or update was given before, with another one."""

    def __init__(
        self, instance_id: str, input_id: str, differing: Sequence[str], *, what: str = "input"
    ) -> None:
        super().__init__(
            f"{what} id {input_id!r} was given to instance {instance_id!r} before, with another "
            f"{what} (other in {', '.join(differing)}): an id stands for one {what}, so that "
            f"giving it again is safe; take a new id for a new {what}"
        )
        self.instance_id = instance_id
        self.input_id = input_id
        self.differing = tuple(differing)


class PromiseNotFoundError(UsageError):
    """A token is for no promise: cut off, changed, of another store, or its instance is gone."""

    def __init__(self, token: object) -> None:
        # Not the token itself: of one that is right the text would be the right.
        size = f"of {len(token)} characters" if isinstance(token, str) else f"({type(token)})"
        super().__init__(
            f"the token {size} is for no promise of this store: give it as promise.make() gave it, "
            "to the store that made it; or its instance was deleted"
        )


class UnexpectedCountError(UsageError):
    """A filter finds more or fewer instances than the caller expects; nothing was done."""

    def __init__(self, text: str, *, expected: int, found: int) -> None:
        super().__init__(text)
        self.expected = expected
        self.found = found


class PartlyDoneError(UsageError):
    """Something was done to many instances, and some refused. It was done to the others."""

    def __init__(self, what: str, done: int, refused: dict[str, str]) -> None:
        first, why = next(iter(refused.items()))
        more = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
        super().__init__(
            f"{what}: done to {done:,} instances; {first!r}{more} refused: {why}. `refused` of "
            "this error has each with its reason"
        )
        self.done = done
        self.refused = refused


class InputDroppedError(UsageError):
    """The input waited in the inbox, and was removed from there before it was decided."""

    def __init__(self, instance_id: str, input_id: str) -> None:
        super().__init__(
            f"input {input_id!r} of instance {instance_id!r} was dropped from the inbox before it "
            "was decided, or the instance was deleted; it may be given again under the same id"
        )
        self.instance_id = instance_id
        self.input_id = input_id


class DecisionTooLongError(UsageError):
    """The decider's code computes too long over the input. Nothing of it was recorded."""

    def __init__(self, instance_id: str, reason: str) -> None:
        super().__init__(f"an input for instance {instance_id!r} cannot be decided: {reason}")
        self.instance_id = instance_id
        self.reason = reason


class PromiseRejectedError(PerdureError):
    """A promise was rejected by a caller that had its token. Raised inside the orchestration."""

    def __init__(self, promise: str, reason: str) -> None:
        super().__init__(f"promise {promise!r} was rejected: {reason}")
        self.promise = promise
        self.reason = reason


class TooManyFailuresError(PerdureError):
    """More items of a `for_each` have failed than may; what was under way was cancelled."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(f"more items have failed than max_failures allows: {tally}")
        self.done, self.failed = tally.done, tally.failed
        self.failures = list(tally.failures)

    @property
    def tally(self) -> Tally:
        """What was counted until then, without the pages that were cancelled."""
        return Tally(done=self.done, failed=self.failed, failures=tuple(self.failures))


class ResultTimeoutError(PerdureError, TimeoutError):
    """The instance is still running when the wait for its result, report or value ended."""

    def __init__(
        self, instance_id: str, timeout: timedelta, explanation: str, *, what: str = "result"
    ) -> None:
        super().__init__(
            f"instance {instance_id!r} has no {what} after {timeout.total_seconds():g} s: "
            f"{explanation}"
        )
        self.instance_id = instance_id
        self.timeout = timeout


class RefusedError(PerdureError):
    """Raised by code that serves an update: the update is refused, and the code goes on."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NondeterminismError(PerdureError):
    """The code no longer matches its history, or did something that cannot be replayed.

    For a mismatch, `seq`, `recorded`, `asked` and `place` say where; the text shows both sides.
    """

    def __init__(
        self,
        text: str,
        *,
        seq: int | None = None,
        recorded: str | None = None,
        asked: str | None = None,
        place: str | None = None,
    ) -> None:
        super().__init__(text)
        self.seq = seq
        self.recorded = recorded
        self.asked = asked
        self.place = place


class StoreError(PerdureError):
    """The database said no."""


class StoreUnavailableError(StoreError):
    """The database is locked, full, read-only or out of reach. It may work later."""

    unsure: tuple[object, ...] = ()
    """The operations that may have been written all the same: their answer was lost."""


class StoreFullError(StoreUnavailableError):
    """The disk of the database is full. It can be read, and writes again when there is room."""


class StoreCorruptError(StoreError):
    """The file is damaged, or is not a perdure store."""


class SchemaError(StoreError):
    """There is no store yet where one must be, or it was written by a newer perdure."""


class RowError(StoreError):
    """The database refused one value. Nothing of the operation was written."""


class LeaseLostError(StoreError):
    """Another worker holds the work now; a worker that sees this stops quietly."""


def code_of(kind: type[PerdureError]) -> str:
    """Return the code that an error has outside Python: its name without `Error`, in snake case."""
    name = kind.__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
