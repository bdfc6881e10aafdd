"""What `perdure explain` says of errors: what each means, and what to do.

Errors have no numbers. They are named by their classes, which are in messages, in problem documents
(as `code`) and in exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from perdure import errors
from perdure.errors import PerdureError, code_of

WHAT_TO_DO: Mapping[type[PerdureError], str] = {
    errors.PerdureError: "Catch it to catch everything that perdure raises.",
    errors.UsageError: "Read its text: it names the value, the place, and what is expected there.",
    errors.DefinitionError: "Change the definition as the text says; it is raised before anything "
    "runs.",
    errors.NotRegisteredError: "Hand the definition to this worker or engine, or name one of "
    "those that the text lists. perdure workers shows who serves what.",
    errors.PayloadError: "Annotate the argument or result with a type that can be stored, or "
    "convert the value; the text has the path to it.",
    errors.InvalidIdError: "Use an id of at most 200 bytes without control characters.",
    errors.LimitExceededError: "Split the work, or store large values elsewhere and pass their "
    "names; the text names the limit.",
    errors.InstanceNotFoundError: "Look for the id with perdure list; it may have been deleted, or "
    "be in another store (perdure config).",
    errors.InstanceEndedError: "It takes no more messages. perdure restart begins it anew.",
    errors.InstanceRunningError: "Wait for its end, or end it first: perdure cancel, or "
    "perdure terminate.",
    errors.NotRootError: "Delete the root that the text names; its children go with it.",
    errors.AlreadyExistsError: "Use another id, or say what is to happen with "
    'with_options(if_exists="restart" | "terminate"), or perdure start --if-exists.',
    errors.UniqueKeyError: "Give the input to the instance that has the key, which the text names.",
    errors.VersionConflictError: "Read the state again, and decide anew.",
    errors.EventsRemovedError: "Ask for what is kept: the text says from which version on. An "
    "input that is given again was accepted then, and is not decided anew.",
    errors.InstanceHeldError: "perdure explain ID says why it is held. Mend the code or the data, "
    "then perdure unpark ID lets it be tried again. Nothing of it was lost.",
    errors.NotServedError: "Name what is called in the code of the orchestration, so that run() "
    "finds it; or run a worker that serves it.",
    errors.OptionError: "The text says which option it is, what was given and what it takes.",
    errors.RecordedError: "It stands for the cause of another error: look at that one.",
    errors.InputIdReusedError: "Take a new id for a new input; give the old one again only with "
    "the same input.",
    errors.UpdateRefusedError: "The orchestration said no; its reason is in the message.",
    errors.UpdateUnansweredError: "The execution that had it has ended. Look with perdure explain "
    "ID; what it asked for may have been done in part.",
    errors.RefusedError: "Raised by code that serves an update; its caller gets UpdateRefused.",
    errors.PromiseNotFoundError: "Give the whole token, to the store whose orchestration made it. "
    "Tokens of a deleted instance are for nothing any more.",
    errors.PromiseRejectedError: "Catch it at `await due.receive()`; reason says why.",
    errors.UnexpectedCountError: "Look at those that match, as with perdure list, and expect that "
    "number. After a call that was broken off these are the ones that are left.",
    errors.PartlyDoneError: "refused has the reason of each that refused. It was done to the "
    "others.",
    errors.InputDroppedError: "A person removed it from the inbox. It may be given again under the "
    "same id.",
    errors.DecisionTooLongError: "Take what waits or computes for long out of decide and evolve, "
    "into an effect.",
    errors.OutcomeError: "type_name, message and traceback_text describe the original exception.",
    errors.ActivityError: "Catch it at the await to compensate. perdure job list --dead lists what "
    "ran out of attempts; perdure retry ID puts it back.",
    errors.ChildError: "Catch it at the await. perdure explain CHILD says what became of it.",
    errors.TooManyFailuresError: "Its tally names the first failures. Let more fail with "
    "max_failures, or give the activity a retry; then start again with the items that are left.",
    errors.InstanceFailedError: "perdure history ID has the exception with its traceback; "
    "perdure restart ID begins it anew.",
    errors.InstanceCancelledError: "The reason says who asked it to stop.",
    errors.InstanceTerminatedError: "The reason says who ended it; its code was not asked.",
    errors.ResultTimeoutError: "It still runs. Wait again at any time; the text says what it waits "
    "for, and perdure explain ID shows the evidence.",
    errors.NondeterminismError: "The code and the recorded history differ. Nothing was lost: the "
    "instance is blocked until code comes that fits. Keep both ways with ctx.patched, or run "
    "a worker with the old code. perdure replay ID shows where they part; "
    "docs/changing-code.md has the rules.",
    errors.StoreError: "Read its text; perdure doctor checks the store.",
    errors.StoreUnavailableError: "Try again later. perdure doctor says whether the store answers, "
    "is full or is locked.",
    errors.StoreFullError: "Free some space on the disk of the database; what waits is written by "
    "itself then.",
    errors.StoreCorruptError: "Restore a backup. perdure doctor names what is damaged.",
    errors.SchemaError: "Use the version that wrote the store or a newer one, or "
    "perdure migrate where the tables are not there yet.",
    errors.RowError: "The database refuses a value, such as text that it cannot hold; the text "
    "names it. Nothing of the operation was written.",
    errors.LeaseLostError: "Nothing: another worker has the work, and its result counts. Often it "
    "means that a process stands still for longer than --lease-for.",
}
"""For every class; a test holds that none is missing."""


def find_error(name: str) -> type[PerdureError] | None:
    """Return the error of a class name (`InstanceHeldError`) or of a code (`instance_held`)."""
    for kind in WHAT_TO_DO:
        if name in (kind.__name__, code_of(kind)):
            return kind
    return None


def near_error(name: str) -> str | None:
    """Return the name of the error that a name is a misspelling of; None if it is of none."""
    names = [kind.__name__ for kind in WHAT_TO_DO]
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.8)), None)


def explain_error(kind: type[PerdureError]) -> str:
    """Return what an error means, and what to do."""
    return f"{' '.join((kind.__doc__ or '').split())} {WHAT_TO_DO[kind]}"
