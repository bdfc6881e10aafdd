"""One attempt of a job: what it calls, how it ends, and what that means for the job.

The functions that call user code return an outcome and raise nothing, whatever that code does; only
a Ctrl-C goes through. What an outcome means is decided here too, from values
alone. Who starts attempts and stops them is `jobs`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from perdure.authoring.activity import Activity, encode_result
from perdure.authoring.deciders.members import encode_returned_input
from perdure.authoring.failures import describe
from perdure.authoring.scope import InlineRequest
from perdure.clock import Clock
from perdure.errors import PayloadError
from perdure.jobs.ctrl_c import is_ctrl_c
from perdure.jobs.running import RunningActivity
from perdure.model.histories.events import (
    NULL,
    ActivityCompleted,
    ActivityFailed,
    EffectRetried,
    Failure,
    write_event,
)
from perdure.model.jobs import ClaimedJob, JobEnd, JobPolicy
from perdure.model.options import delay_after
from perdure.model.streams import SentItems

WAIT_TOLD_MS = 100
"""How long a job must have waited for its beginning to be recorded with its result: most begin at
once, and theirs are not a byte longer."""


class Returned(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The code returned, and its result can be stored."""

    result: msgspec.Raw
    sent: tuple[SentItems, ...] | None = None
    """What it sent to streams and is not stored yet; None: it has sent nothing."""


class Raised(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The code raised, ran out of time or died, or could not be called at all."""

    failure: Failure
    class_names: tuple[str, ...] = ()
    """Names of the exception's class and of all its bases, for `no_retry`."""
    is_final: bool = False
    """Whether another attempt cannot end in another way."""
    is_dead: bool = False
    """Whether the job is given up, though another attempt might end in another way."""


class GivenBack(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The attempt came to nothing and says nothing about the job."""

    delay_ms: int = 0
    """When a worker may try again."""
    refund: bool = False
    """Whether the attempt does not count, because its code was not started."""
    misfit: str = ""
    """Why the code here cannot take its arguments. Other code may."""


AttemptResult: TypeAlias = Returned | Raised | GivenBack


class JobCode(NamedTuple):
    """What an attempt calls, and how its values are read and written."""

    name: str
    fn: Callable[..., Any]
    decode: Callable[[bytes], tuple[list[Any], dict[str, Any]]]
    encode: Callable[[object], bytes]
    takes_context: bool = False
    raises: tuple[type[Exception], ...] = ()
    returns_input: bool = False
    """Whether the result is written as an input of the decider that asked for it."""
    takes_connection: bool = False
    """Whether it runs inside a transaction, with a connection as first argument."""


def activity_work(activity: Activity[..., Any]) -> JobCode:
    """Return how to run an activity.

    Raises:
        DefinitionError: Its arguments or its result can never be stored.
    """
    definition = activity.definition
    return JobCode(
        name=activity.name,
        fn=definition.fn,
        decode=definition.codec.decode,
        encode=lambda value: encode_result(activity, value),
        takes_context=definition.takes_context,
        raises=activity.raises,
        takes_connection=definition.takes_connection,
    )


def returning_input(work: JobCode) -> JobCode:
    """Return the same work with its result written as an input of some decider."""

    def encode(value: object) -> bytes:
        work.encode(value)  # It must be what the activity says it returns.
        return encode_returned_input(value)

    return work._replace(encode=encode, returns_input=True)


def inline_work(request: InlineRequest) -> JobCode:
    """Return how to run an inline call; its arguments are bound already."""
    return JobCode(
        name=request.label, fn=request.run, decode=lambda _: ([], {}), encode=request.encode
    )


# -------------------------------------------------------------- calling it


async def call_async(work: JobCode, input: bytes, context: RunningActivity) -> AttemptResult:
    """Call an async function and wait for it."""
    is_calling = False
    try:
        args, kwargs = _decode(work, input)
        is_calling = True
        if work.takes_context:
            args = [context, *args]
        value = await work.fn(*args, **kwargs)
        is_calling = False
        return Returned(msgspec.Raw(work.encode(value)))
    except _MisfitError as error:
        return GivenBack(refund=True, misfit=str(error))
    except BaseException as error:
        return _outcome_of(error, work, context, is_final=not is_calling)


async def finish_async(
    work: JobCode, value: Coroutine[Any, Any, Any], context: RunningActivity
) -> AttemptResult:
    """Wait for the coroutine that a plain function returned."""

    async def wait() -> Any:
        return await value

    return await call_async(
        work._replace(fn=wait, decode=lambda _: ([], {}), takes_context=False), b"", context
    )


def call_sync(
    work: JobCode, input: bytes, context: RunningActivity
) -> AttemptResult | Coroutine[Any, Any, Any]:
    """Call a plain function. What it returns may be a coroutine, for `finish_async`."""
    is_calling = False
    try:
        args, kwargs = _decode(work, input)
        is_calling = True
        if work.takes_context:
            args = [context, *args]
        value = work.fn(*args, **kwargs)
        if inspect.iscoroutine(value):
            return value
        is_calling = False
        return Returned(msgspec.Raw(work.encode(value)))
    except _MisfitError as error:
        return GivenBack(refund=True, misfit=str(error))
    except BaseException as error:
        return _outcome_of(error, work, context, is_final=not is_calling)


class _MisfitError(Exception):
    """Stored arguments are not those that the code here takes."""


def _decode(work: JobCode, input: bytes) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a job.

    Raises:
        _MisfitError: They are not those that this code takes. Older or newer code may have asked
            for it, and takes them.
        PayloadError: They are damaged, for any code.
    """
    try:
        return work.decode(input)
    except PayloadError as error:
        if _is_json(input):
            raise _MisfitError(str(error)) from None
        raise


def _outcome_of(
    error: BaseException, work: JobCode, context: RunningActivity, *, is_final: bool
) -> AttemptResult:
    if is_ctrl_c(error):
        raise error
    if context.is_cancelled and isinstance(error, asyncio.CancelledError):
        return GivenBack()
    return raised(error, raises=work.raises, is_final=is_final)


def raised(
    error: BaseException, *, raises: tuple[type[Exception], ...] = (), is_final: bool = False
) -> Raised:
    """Return an exception as an outcome; its failure has no time yet."""
    try:
        failure = describe(error, raises=raises)
    except BaseException:
        # User code runs in here too (`__str__`, properties), and may do anything.
        failure = Failure(type_name=type(error).__qualname__, message="<cannot be described>")
    type_name = failure.type_name.encode("utf-8", "replace").decode()
    return Raised(
        failure=msgspec.structs.replace(failure, type_name=type_name),
        class_names=tuple(kind.__name__ for kind in type(error).__mro__),
        is_final=is_final,
    )


# ------------------------------------------------------- what the end means


@lru_cache(maxsize=1024)
def read_policy(data: bytes) -> JobPolicy:
    """Return the policy in a job's row.

    Raises:
        msgspec.MsgspecError: The row is damaged.
    """
    return _policies.decode(data)


_policies = msgspec.json.Decoder(JobPolicy)


def conclude(
    job: ClaimedJob,
    policy: JobPolicy,
    outcome: AttemptResult,
    *,
    clock: Clock,
    chance: Callable[[], float],
    details: bytes | None = None,
    began_ms: int = 0,
) -> JobEnd:
    """Return what becomes of a job after an attempt.

    Args:
        job: The job.
        policy: The policy in its row.
        outcome: How the attempt ended.
        clock: Tells the time; not asked for a result.
        chance: Returns a random number between 0 and 1, for the jitter.
        details: What the attempt's last heartbeat said, for the next one.
        began_ms: When the attempt began; 0: not known.
    """
    match outcome:
        case Returned(result, sent):
            completed = ActivityCompleted(
                schedule=job.key.seq,
                result=result,
                failures=job.failures.kept,
                began_ms=began_ms if _is_worth_telling(job, began_ms) else 0,
            )
            end = _answer(job, policy, completed)
            if sent is not None:
                # No other code has seen it yet, and a copy would cost more.
                force_setattr(end, "sent", sent)
                force_setattr(end, "attempt", job.attempt)
            return end
        case GivenBack(delay_ms, refund, misfit):
            return JobEnd(
                key=job.key,
                token=job.token,
                retry_at_ms=clock() + delay_ms,
                refund=refund,
                misfit=misfit,
                details=details,
            )
        case Raised(failure):
            failure = msgspec.structs.replace(failure, at_ms=clock(), began_ms=began_ms)
            is_final = _is_final(policy, outcome)
            is_dead = (
                outcome.is_dead
                or _is_exhausted(job, policy, outcome)
                or (is_final and not _is_awaited(job))
            )
            if is_dead or is_final:
                return _failed(job, policy, failure, is_dead=is_dead)
            delay_ms = delay_after(policy, job.failures.count + 1, chance=chance())
            at_ms = clock() + delay_ms
            return JobEnd(
                key=job.key, token=job.token, retry_at_ms=at_ms, failure=failure, details=details
            )


def _is_worth_telling(job: ClaimedJob, began_ms: int) -> bool:
    """Return whether the beginning of an attempt says more than when its job was made."""
    return job.attempt > 1 or 0 < job.created_ms <= began_ms - WAIT_TOLD_MS


def _failed(job: ClaimedJob, policy: JobPolicy, failure: Failure, *, is_dead: bool) -> JobEnd:
    """Return the end of a job that is not tried again."""
    all_failures = job.failures.plus(failure)
    # Of an effect what its dead job says, those that were lost included.
    attempts = all_failures.count if _is_of_orchestration(job) else job.attempt
    failed = ActivityFailed(schedule=job.key.seq, failures=all_failures.kept, attempts=attempts)
    end = _answer(job, policy, failed)
    # A dead job is kept with all its failures, so the last one goes with it.
    return msgspec.structs.replace(end, is_dead=True, failure=failure) if is_dead else end


def _is_awaited(job: ClaimedJob) -> bool:
    """Return whether code waits for the end of a job, so that a failure is an answer to it. An
    effect has no caller that waits, and a call that was put back has failed already."""
    return _is_of_orchestration(job) and not job.is_rerun


def _is_of_orchestration(job: ClaimedJob) -> bool:
    # Deciders have no version.
    return bool(job.owner_version)


def _is_final(policy: JobPolicy, outcome: Raised) -> bool:
    """Return whether a failure is the last: trying again was never promised, or is in vain."""
    return (
        outcome.is_final
        or policy.max_attempts == 1
        or not set(policy.no_retry).isdisjoint(outcome.class_names)
    )


def _is_exhausted(job: ClaimedJob, policy: JobPolicy, outcome: Raised) -> bool:
    """Return whether a failure that could have been tried again was the last one allowed."""
    return (
        policy.max_attempts is not None
        and job.failures.count + 1 >= policy.max_attempts
        and not _is_final(policy, outcome)
    )


def _answer(
    job: ClaimedJob, policy: JobPolicy, event: ActivityCompleted | ActivityFailed
) -> JobEnd:
    # The call of an orchestration that has failed stays so.
    is_retried = job.is_rerun and not _is_of_orchestration(job)
    kind, body = write_event(_retried(job, policy, event) if is_retried else event)
    return JobEnd(key=job.key, token=job.token, kind=kind, body=body)


def _retried(
    job: ClaimedJob, policy: JobPolicy, event: ActivityCompleted | ActivityFailed
) -> EffectRetried:
    """Return the end of an effect that was put back, with all that its decider has forgotten."""
    retried = EffectRetried(
        effect=job.key.seq,
        activity=job.queue.name,
        failures=event.failures,
        returns_input=policy.returns_input,
        correlation=policy.correlation,
    )
    if isinstance(event, ActivityCompleted):
        return msgspec.structs.replace(retried, result=event.result)
    return msgspec.structs.replace(
        retried, attempts=max(event.attempts, 1), input=_arguments(job.input)
    )


def _arguments(input: bytes) -> msgspec.Raw:
    """Return arguments as a part of a message, which those of a damaged row cannot be."""
    return msgspec.Raw(input) if _is_json(input) else NULL


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True
