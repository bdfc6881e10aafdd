"""Routes that start, steer, end and remove instances."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.signal import Signal
from perdure.client.acting.bulk_acts import FAILED_OR_STOPPED
from perdure.client.acting.sending import signal_delivery
from perdure.client.acting.start_and_ask import begin_with_signal
from perdure.client.client import Client
from perdure.client.reading.info import InstanceInfo, Json
from perdure.client.reading.lists import InstanceQuery
from perdure.codec import check_id
from perdure.errors import PartlyDoneError, UnexpectedCountError, UsageError
from perdure.ids import fresh_name
from perdure.limits import BULK_MAX, PAGE_MAX
from perdure.model.admin import DeletedCounts
from perdure.model.instances import HELD, LIVE, Status
from perdure.model.options import IfExists
from perdure.web.api.instances import CountQuery, conditions, handle_of
from perdure.web.api.repair import PointBody, point_of
from perdure.web.operations import CheckedRequest, Nothing
from perdure.web.problems import RefusalError

ACTS = {
    "cancel": LIVE,
    "terminate": LIVE,
    "signal": LIVE,
    "unpark": HELD,
    "retry": tuple(Status),
    "reset": tuple(Status),
}
"""What is done by a filter, and for instances of which statuses it is."""

MAX_DELAY_S = 100 * 365 * 86_400
"""The longest that a start waits."""


class StartBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to start."""

    name: str
    """The orchestration's name."""
    instance_id: str | None = None
    """Its id; made if not given. Started again with the same id and input, it is the same one."""
    version: str | None = None
    input: dict[str, Json] | list[Json] = []
    """Its arguments: by name as an object, by position as an array."""
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_DELAY_S)] = 0
    if_exists: IfExists = "join"


class SignalBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal."""

    name: str
    value: Json = None
    message_id: str | None = None
    """Sent again with the same id, it is delivered once."""


class SignalWithStartBody(SignalBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal, and what to start for it."""

    orchestration: str
    """The orchestration's name."""
    version: str | None = None
    input: dict[str, Json] | list[Json] = []
    """Its arguments: by name as an object, by position as an array."""
    if_exists: IfExists = "join"
    """What becomes of an instance that has ended: `restart` and `terminate` replace it."""


class ReasonBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: str = ""


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object."""


class DeleteQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an instance is deleted."""

    force: bool = False


class Deleted(msgspec.Struct, frozen=True):
    """What a deletion removed."""

    instances: int
    executions: int
    events: int
    messages: int
    jobs: int


class Unparked(msgspec.Struct, frozen=True):
    """Whether it was parked or blocked."""

    was_held: bool


class BulkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do to many."""

    action: Literal["cancel", "terminate", "signal", "unpark", "retry", "reset", "delete"]
    where: CountQuery
    """Which; at least one condition."""
    expect: Annotated[int, msgspec.Meta(ge=0)]
    """How many they are. If there are more or fewer, nothing is done."""
    reason: str = ""
    signal: str = ""
    """The name of the signal that is sent."""
    value: Json = None
    """Its value."""
    message_id: str | None = None
    """What makes sending repeatable: each instance gets the signal once under it."""
    point: PointBody = PointBody()
    """Where they are reset to; not given: each just before what it failed at, or was stopped."""


class BulkDone(msgspec.Struct, frozen=True):
    """What came of it."""

    matched: int
    done: int
    failed: dict[str, str]
    """Why, by instance."""


async def start_instance(ask: CheckedRequest[Nothing, StartBody]) -> InstanceInfo:
    """Start an instance, and return where it stands.

    `Idempotency-Key` is taken as the instance id where the body has none.
    """
    body = ask.body
    named, args, kwargs = named_start(
        ask.client, body.name, body.version, body.input, body.if_exists
    )
    if body.delay_s:
        named = named.with_options(delay=timedelta(seconds=body.delay_s))
    instance_id = ask.repeat_key(body.instance_id, "instance_id")
    first: Any = (named,) if instance_id is None else (instance_id, named)
    handle = await ask.client.start(*first, *args, **kwargs)
    return await handle.info()


def named_start(
    client: Client,
    name: str,
    version: str | None,
    input: dict[str, Json] | list[Json],
    if_exists: IfExists,
) -> tuple[Orchestration[..., Any], tuple[Json, ...], dict[str, Json]]:
    """Return what a request starts: the orchestration, and its arguments by position and by name.

    Raises:
        PayloadError: They do not fit the code, where that is at hand.
    """
    named: Orchestration[..., Any] = Orchestration.named(name, Any)
    named = named.with_options(if_exists=if_exists)
    if version is not None:
        named = named.with_options(version=version)
    args, kwargs = ((), input) if isinstance(input, dict) else (tuple(input), {})
    _check_arguments(client, name, version, named.definition.codec.encode(args, kwargs))
    return named, args, kwargs


async def send_signal(ask: CheckedRequest[Nothing, SignalBody]) -> None:
    """Send a signal to an instance. `Idempotency-Key` is taken as the message id."""
    signal: Signal[Any] = Signal(ask.body.name, Any)
    message_id = ask.repeat_key(ask.body.message_id, "message_id")
    await handle_of(ask).send(signal, ask.body.value, message_id=message_id)


async def send_with_start(ask: CheckedRequest[Nothing, SignalWithStartBody]) -> InstanceInfo:
    """Send a signal to an instance, and start it first if it does not exist, in one commit.

    An instance that is live only gets the signal, whatever its input. `Idempotency-Key` is taken
    as the message id.
    """
    body = ask.body
    signal: Signal[Any] = Signal(body.name, Any)
    message_id = ask.repeat_key(body.message_id, "message_id")
    instance_id = check_id("instance id", ask.path["instance_id"])
    delivery = signal_delivery(instance_id, signal, body.value, message_id=message_id)
    named, args, kwargs = named_start(
        ask.client, body.orchestration, body.version, body.input, body.if_exists
    )
    await begin_with_signal(ask.client._core, delivery, named, args, kwargs)
    return await handle_of(ask).info()


async def cancel_instance(ask: CheckedRequest[Nothing, ReasonBody]) -> None:
    """Ask an instance to stop: its code may clean up."""
    await handle_of(ask).cancel(ask.reason(ask.body.reason))


async def terminate_instance(ask: CheckedRequest[Nothing, ReasonBody]) -> None:
    """Stop an instance now; its code is not asked."""
    await handle_of(ask).terminate(ask.reason(ask.body.reason))


async def unpark_instance(ask: CheckedRequest[Nothing, NoBody]) -> Unparked:
    """Let a parked or blocked instance be tried again."""
    return Unparked(await handle_of(ask).unpark())


async def restart_instance(ask: CheckedRequest[Nothing, NoBody]) -> InstanceInfo:
    """Start an instance that has ended again, with the same input."""
    handle = handle_of(ask)
    await handle.restart()
    info: InstanceInfo = await handle.info()
    return info


async def delete_instance(ask: CheckedRequest[DeleteQuery, None]) -> Deleted:
    """Delete an instance and everything below it."""
    return deleted_of(await ask.client.delete(ask.path["instance_id"], force=ask.query.force))


async def drop_message(ask: CheckedRequest[Nothing, None]) -> None:
    """Remove a message or timer from an inbox."""
    number = ask.path["no"]
    # Below zero is what the execution before had not taken.
    if not re.fullmatch(r"-?[0-9]{1,30}", number):
        raise RefusalError(400, "invalid_query", f"{number[:40]!r} is not the number of a message")
    await ask.client.drop_message(ask.path["instance_id"], int(number))


async def act_on_many(ask: CheckedRequest[Nothing, BulkBody]) -> BulkDone:
    """Do one thing to all instances that match, at most 1,000.

    Without a condition, or if they are not as many as expected, nothing is done.
    """
    body = ask.body
    which = conditions(body.where)
    if not which.keys() - {"roots_only"}:
        raise RefusalError(
            400, "empty_filter", "`where` needs a condition that says which: status, name, ids, ..."
        )
    matched = await ask.client.count(**which)
    if matched != body.expect or matched > BULK_MAX:
        raise UnexpectedCountError(
            f"{matched:,} instances match, {body.expect:,} were expected and {BULK_MAX:,} is the "
            "most; nothing was done",
            expected=body.expect,
            found=matched,
        )
    if body.action == "delete":
        return await _delete_each(ask, which)
    try:
        done = await _act(ask, which)
    except PartlyDoneError as error:
        return BulkDone(matched, error.done, error.refused)
    return BulkDone(matched, done, {})


async def _act(ask: CheckedRequest[Nothing, BulkBody], which: InstanceQuery) -> int:
    """Do it to those that match and that it is for; return to how many."""
    client, body = ask.client, ask.body
    point = point_of(body.point) if body.action == "reset" else None
    is_open = body.action == "reset" and point is None
    statuses = FAILED_OR_STOPPED if is_open else ACTS[body.action]
    named = which.get("status") or tuple(Status)
    which["status"] = tuple(one for one in statuses if one in named)
    expect = await client.count(**which) if which["status"] else 0
    if not expect:
        return 0
    match body.action:
        case "cancel":
            reason = ask.reason(body.reason)
            return await client.cancel_all(expect=expect, reason=reason, **which)
        case "terminate":
            reason = ask.reason(body.reason)
            return await client.terminate_all(expect=expect, reason=reason, **which)
        case "signal":
            signal: Signal[Any] = Signal(body.signal, Any)
            message_id = ask.repeat_key(body.message_id, "message_id") or fresh_name()
            return await client.signal_all(
                signal, body.value, expect=expect, message_id=message_id, **which
            )
        case "unpark":
            return await client.unpark_all(expect=expect, **which)
        case "retry":
            return await client.retry_all(expect=expect, **which)
        case "reset":
            reason = ask.reason(body.reason)
            return await client.reset_all(point, expect=expect, reason=reason, **which)
    raise AssertionError(f"{body.action} is not done by a filter")


def _check_arguments(client: Client, name: str, version: str | None, stored: bytes) -> None:
    """Refuse arguments that do not fit, where the code is at hand; elsewhere a worker does so.

    Raises:
        PayloadError: They do not fit.
    """
    beside = client._core.beside
    known = {} if beside is None else beside.registry.orchestrations
    found = [
        one
        for (its_name, its_version), one in known.items()
        if its_name == name and version in (None, its_version)
    ]
    if len(found) == 1:  # Without a version a worker chooses among several.
        found[0].definition.codec.decode(stored)


async def _delete_each(ask: CheckedRequest[Nothing, BulkBody], which: InstanceQuery) -> BulkDone:
    """Delete those that match, each with everything below it; running ones refuse."""
    found: list[str] = []
    after = None
    while True:
        page = await ask.client.instances(limit=PAGE_MAX, after=after, **which)
        found += [item.instance_id for item in page.items]
        after = page.next
        if after is None or len(found) >= BULK_MAX:
            break
    found = found[: ask.body.expect]
    failed: dict[str, str] = {}
    for instance_id in found:
        try:
            await ask.client.delete(instance_id)
        except UsageError as error:
            failed[instance_id] = str(error)
    return BulkDone(len(found), len(found) - len(failed), failed)


def deleted_of(counts: DeletedCounts) -> Deleted:
    """Return what a deletion removed, as it is sent."""
    return Deleted(*counts)
