"""What the exit code of a command says. They are part of the interface: scripts rely on them."""

from __future__ import annotations

from enum import IntEnum

from perdure.errors import (
    AlreadyExistsError,
    EventsRemovedError,
    InputIdReusedError,
    InstanceCancelledError,
    InstanceEndedError,
    InstanceHeldError,
    InstanceNotFoundError,
    InstanceRunningError,
    InstanceTerminatedError,
    NondeterminismError,
    NotRegisteredError,
    NotRootError,
    OutcomeError,
    PartlyDoneError,
    PerdureError,
    PromiseNotFoundError,
    ResultTimeoutError,
    StoreError,
    UnexpectedCountError,
    UniqueKeyError,
    VersionConflictError,
)


class ExitCode(IntEnum):
    """How a command ended."""

    GOOD = 0
    """Done."""
    FAILED = 1
    """The instance failed; or what was asked for is refused as things stand, was found wanting
    (`doctor`), missing (`migrate --check`) or different (`diff`)."""
    USAGE = 2
    """The command cannot be done as it was written."""
    NOT_FOUND = 3
    """There is no such instance, job, definition or projection."""
    RUNNING = 4
    """The instance still ran when the wait ended."""
    STOPPED = 5
    """The instance was cancelled or terminated."""
    MISMATCH = 6
    """The code does not fit the history."""
    NO_STORE = 7
    """The store cannot be reached, is not there, is damaged, or a newer perdure has written it."""
    INTERRUPTED = 130
    """Ctrl-C."""


_BY_ERROR: tuple[tuple[type[PerdureError] | tuple[type[PerdureError], ...], ExitCode], ...] = (
    ((InstanceNotFoundError, NotRegisteredError, PromiseNotFoundError), ExitCode.NOT_FOUND),
    (
        (
            AlreadyExistsError,
            InputIdReusedError,
            InstanceEndedError,
            InstanceHeldError,
            InstanceRunningError,
            NotRootError,
            EventsRemovedError,
            PartlyDoneError,
            UnexpectedCountError,
            UniqueKeyError,
            VersionConflictError,
        ),
        ExitCode.FAILED,
    ),
    ((InstanceCancelledError, InstanceTerminatedError), ExitCode.STOPPED),
    (OutcomeError, ExitCode.FAILED),
    (ResultTimeoutError, ExitCode.RUNNING),
    (NondeterminismError, ExitCode.MISMATCH),
    (StoreError, ExitCode.NO_STORE),
)


def exit_code_of(error: PerdureError) -> ExitCode:
    """Return the exit code for an error."""
    for kinds, code in _BY_ERROR:
        if isinstance(error, kinds):
            return code
    return ExitCode.USAGE
