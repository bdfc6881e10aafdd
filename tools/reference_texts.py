"""What the made pages of the reference say that no docstring does: heads, causes and cures."""

from __future__ import annotations

HEADS = {
    "objects": """# Client, handle, context

MADE_OF

What callers, orchestrations and activities hold, with every method, and first how it is called: a
slash ends what is given by position alone. In short: [public names](public-names.md).
""",
    "options": """# Options and defaults

MADE_OF

Options are values, checked when they are made. Lengths of time are `timedelta`, or numbers of
seconds.
""",
    "limits": """# Limits

MADE_OF

What goes over one is refused with an error that names the limit and the value, at the line that
does it (`LimitExceededError`, or `InvalidIdError` for ids). What is only cut short or warned about
says so. There is no limit on the length of a history, on how many messages continue-as-new carries
over, and on how many kept signals one turn takes. What one caller may ask of the web application is
[`WebLimits`](options.md#weblimits).
""",
    "errors": """# Errors, causes, cures

MADE_OF

All are in `perdure.errors`; `PerdureError` is in `perdure` as well. A message names the thing, the
value, the place, and what to do.
""",
    "events": """# Events of a history

MADE_OF

What `handle.history()` returns, `perdure history` prints, and replay reads. A history is: a message
event, what it caused, the next message event, and so on. A kind is never renamed or reused, and a
new field has a default, so that every history can be read for ever. A star marks a field that is
always there; `schedule` is the number of the event that is answered.
""",
    "telemetry": """# Logs and metrics

MADE_OF

`engine.telemetry.snapshot()` is a plain object;
`perdure.telemetry.prometheus_collector(engine.telemetry)` hands the metrics to `prometheus_client`.
A thing is counted when the store has accepted it, so a replay or a refused commit counts nothing.
Logs are those of the standard library, below the logger `perdure`;
`perdure.telemetry.JsonFormatter` writes them as lines of JSON. [Observe and
repair](../operating.md#metrics-and-logs) shows both at work.
""",
}

LOG_FIELDS = """A line is a constant text with facts beside it, as `extra`. Values, reasons and the
texts of your exceptions are in the history and never in the log.

| field | says |
|---|---|
| `instance_id`, `execution` | which instance, and which generation of it, from 1 |
| `definition`, `version` | which orchestration or decider, and its version (a decider has none) |
| `activity`, `attempt` | which activity, and which run of the call, from 1 |
| `worker_id` | the worker that logs, or that is spoken of |
| `error_type`, `raised_at` | the class of an exception of yours, and its lines, innermost first |
| `projection`, `event` | which projection or subscription, and which event |
| `jump_ms` | by how much a clock is off |
| `path`, `bytes` | a file, and its size |
| `error_id` | the number that a caller over HTTP was told instead of a traceback |"""

CAUSES_OF_LOGS = (
    """Those that a person may have to act on are warnings and errors. `…` stands for a fact."""
)

CURES = {
    "ActivityError": (
        "an activity raised what its `raises=` does not name, timed out or missed its deadline, "
        "and has no attempts left.",
        "look at `type_name`, `message` and `traceback_text`. Catch it where the orchestration "
        "can go on; give the activity a `retry`; name exceptions that you want to tell apart in "
        "`raises=`.",
    ),
    "AlreadyExistsError": (
        "an instance was started under an id that another definition or another input has.",
        'use another id, or say what to do: `.with_options(if_exists="restart")` or '
        '`"terminate"`. The same definition with the same input is no error: its handle is '
        "returned.",
    ),
    "ChildError": (
        "a child failed, was cancelled or terminated, or could not be started (its id is taken).",
        "look at `status` and at the child: `perdure show ID`. Catch it where the parent can go "
        "on.",
    ),
    "DecisionTooLongError": (
        "`decide` or `evolve` computes for longer than `WorkerOptions(turn_limit=...)`, or for "
        "ever.",
        "move long work into an effect. Nothing of the input was recorded.",
    ),
    "DefinitionError": (
        "a definition that cannot work: a type that cannot be stored, a name that is taken, a "
        "method that is missing.",
        "the message names the definition and what to change.",
    ),
    "PromiseNotFoundError": (
        "a token that was cut off or changed, or is of another store, or whose instance was "
        "deleted.",
        "give the token as `promise.make()` gave it, to the store that made it.",
    ),
    "PromiseRejectedError": (
        "whoever had the token of a promise has rejected it.",
        "catch it at `await due.receive()`, and do what is to be done then; `reason` says why.",
    ),
    "PartlyDoneError": (
        "something was asked of many instances (`reset_all`, for one), and some refused.",
        "`refused` has each with its reason, and `done` says to how many it was done. Calling it "
        "again finds those that are left.",
    ),
    "UnexpectedCountError": (
        "a filter finds more or fewer instances than `expect` says: others came or ended "
        "meanwhile, or an earlier call did a part.",
        "look at them (`client.instances` with the same conditions), and give the number that is "
        "meant: `found` has it.",
    ),
    "InputDroppedError": (
        "a person dropped the input from the inbox, or deleted the instance, while its caller "
        "waited.",
        "give it again, under the same id, if it is still wanted.",
    ),
    "InputIdReusedError": (
        "an `input_id` was given again, with another input.",
        "take a new id for a new input. An id that comes from a request must come with the "
        "request's own content.",
    ),
    "InstanceCancelledError": (
        "the instance was cancelled, and its code has stopped.",
        "nothing is wrong: `reason` says who wanted it and why. `handle.restart()` begins it "
        "again.",
    ),
    "InstanceEndedError": (
        "a signal or an input was sent to an instance that has ended.",
        "start another one, or `handle.restart()`; `client.send_with_start` starts one if there "
        "is none.",
    ),
    "InstanceFailedError": (
        "the orchestration raised something that it did not catch.",
        "look at `type_name`, `message` and `traceback_text`, or at `perdure show ID`. Mend the "
        "code, then `handle.restart()`.",
    ),
    "InstanceHeldError": (
        "the instance is blocked (its code does not fit its history) or parked (its turns kept "
        "failing).",
        "the text has the reason. Blocked: deploy code that fits. Parked: mend the cause, then "
        "`handle.unpark()`.",
    ),
    "InstanceNotFoundError": (
        "no instance has that id: misspelled, deleted, or in another store.",
        "`perdure list` shows what there is; `perdure config` shows which store was asked.",
    ),
    "InstanceRunningError": (
        "a restart or a deletion was asked of an instance that has not ended.",
        "wait for its end, or terminate it first; `delete(force=True)` removes a running one.",
    ),
    "InstanceTerminatedError": (
        "the instance was terminated from outside; its code was not asked.",
        "nothing is wrong: `reason` says who wanted it and why. `handle.restart()` begins it "
        "again.",
    ),
    "InvalidIdError": (
        "an id, name, key or tag is empty, longer than 200 bytes, or has characters that cannot "
        "be shown.",
        "the message names it and what is wrong with it.",
    ),
    "LeaseLostError": (
        "another worker has the work: this one was silent for longer than its lease.",
        "none is needed, the work goes on there. If it happens often, the machine stalls: look "
        "at its load, or give `lease_for` more time.",
    ),
    "LimitExceededError": (
        "something is larger or more than a [named limit](limits.md) allows.",
        "the message names the limit, what was found, and a way around it: keep large data in a "
        "file or a bucket and hand on where it is.",
    ),
    "NondeterminismError": (
        "the code asks for something else than its history has, or did what cannot be replayed "
        "(a clock, a random number, a file).",
        "the text shows both sides and the line. [Change code](../changing-code.md) for the "
        "first, [what an orchestration may do](../replayable-code.md) for the second.",
    ),
    "NotRegisteredError": (
        "a definition, decider or projection of that name is not known here; the message lists "
        "those that are.",
        "hand it to the engine or worker, or correct the name.",
    ),
    "NotRootError": (
        "a child was to be deleted by itself.",
        "delete its root, which the message names.",
    ),
    "OutcomeError": (
        "the common kind of all that say how an instance or an activity ended.",
        "catch this to catch them all.",
    ),
    "PayloadError": (
        "a value is not what the annotation says, cannot be stored, or would not come back equal.",
        "the message has the path to it. Annotate it as what it is; see [what is stored "
        "how](stored-values.md).",
    ),
    "PerdureError": (
        "the common kind of everything that perdure raises.",
        "catch this to catch everything.",
    ),
    "ResultTimeoutError": (
        "an instance has not ended, reported or kept a value in the time that its caller gave. "
        "It goes on.",
        "the text says what it waits for. Wait again, or see to that.",
    ),
    "RowError": (
        "the database refused one value, such as a text with a character that it does not take.",
        "change the value. Nothing of the operation was written.",
    ),
    "SchemaError": (
        "the store was written by a newer perdure than this one.",
        "update perdure here.",
    ),
    "StoreCorruptError": (
        "the file is damaged, or is no store of perdure.",
        "check the path; `perdure doctor` says what is damaged. Put a backup in place.",
    ),
    "StoreError": (
        "the common kind of what the database says no to.",
        "the kinds below it say what to do.",
    ),
    "StoreFullError": (
        "the disk of the database has no room for what is to be written.",
        "free some space. Reading goes on meanwhile, a worker goes on by itself, and a caller "
        "tries again, with the same id if there is one.",
    ),
    "StoreUnavailableError": (
        "the database is locked, full, read-only or out of reach.",
        "a worker waits and goes on by itself. A caller tries again: with the same id if there "
        "is one, since what `unsure` names may have been written all the same.",
    ),
    "TooManyFailuresError": (
        "more items of a `for_each` have failed, each out of attempts, than `max_failures` allows.",
        "look at `tally.failures`, which names the first ones. Let more fail, or give the activity "
        "a `retry`. What was done stays done: start again with the items that are left.",
    ),
    "UniqueKeyError": (
        "another live instance of the decider has the business key; `holder` is its id.",
        "use another key, or wait until that instance has completed. See [business "
        "keys](../how-to/business-keys.md).",
    ),
    "UsageError": (
        "a rule of the API was broken; the message says which.",
        "correct the call. Nothing was done.",
    ),
    "VersionConflictError": (
        "the instance of a decider has had other events since its caller looked: `expected` and "
        "`found`.",
        "read the state again, and decide anew.",
    ),
    "EventsRemovedError": (
        "the decider keeps only its newest events (`keep_events`), and older ones are asked for: "
        "by `state(at=)`, `events`, `transitions`, a wait, or an input id accepted long ago.",
        "ask from `kept_after` on. An input that was accepted is not decided again.",
    ),
    "NotServedError": (
        "`run` was called, and its orchestration calls something that no worker serves.",
        "the text names it. Call it by its name in the code, so that `run` finds it; or use an "
        "`Engine` and hand it all definitions.",
    ),
    "OptionError": (
        "an option was given a value of another type, or one that makes no sense.",
        "the text says which option, what was given and what it takes.",
    ),
    "RecordedError": (
        "nothing by itself: it stands in a chain of causes for an exception that was recorded by "
        "another process.",
        "look at the error that has it as its cause.",
    ),
    "RefusedError": (
        "your own code raised it in a function that serves an update, to refuse that update.",
        "nothing, inside `update.served_by(...)`. Elsewhere it is an exception like any other: "
        "refuse with `request.refuse(reason)`.",
    ),
    "UpdateRefusedError": (
        "the code of the instance refused the update.",
        "`reason` says why. Given again under its id, it is refused again: take a new id for "
        "another try.",
    ),
    "UpdateUnansweredError": (
        "the instance ended, was deleted or continued as new before it answered; `status` says "
        "which.",
        "look at what the instance has done: some of the update may be among it. Code that "
        "continues as new answers before that.",
    ),
}
"""Of each error what causes it, and what to do."""
