"""From an orchestration and its arguments to an instance that can be started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import BEHAVIOUR, orchestration_key
from perdure.clock import to_ms
from perdure.codec import MAX_ID_BYTES, check_id
from perdure.errors import AlreadyExistsError, UsageError
from perdure.ids import fresh_id
from perdure.model.events import Started, StoredEvent, read_event, write_event
from perdure.model.instances import InstanceRow, NewInstance
from perdure.model.messages import Delivery


def split(
    first: Any, args: tuple[Any, ...]
) -> tuple[str | None, Orchestration[..., Any], tuple[Any, ...]]:
    """Return the id, if there is one, the orchestration and its arguments."""
    instance_id = None
    if isinstance(first, str):
        instance_id = check_id("instance id", first)
        if not args:
            raise UsageError("start(instance_id, orchestration, ...): the orchestration is missing")
        first, *rest = args
        args = tuple(rest)
    return instance_id, check_orchestration("start", first), args


def check_orchestration(method: str, given: Any) -> Orchestration[..., Any]:
    """Return an orchestration that a caller gave."""
    if not isinstance(given, Orchestration):
        raise UsageError(
            f"{given!r} is not an orchestration: {method} takes a function made with @orchestration"
        )
    return given


def new_instance(
    instance_id: str | None,
    orchestration: Orchestration[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    now_ms: int,
    code: str,
    messages: tuple[Delivery, ...] = (),
) -> NewInstance:
    """Return an instance to be started.

    Args:
        instance_id: Its id; None for one that is made.
        orchestration: What it runs, with the options of the start.
        args: Arguments by position.
        kwargs: Arguments by name.
        now_ms: The time by the store's clock.
        code: Digest of the code, where it is known that this code will run.
        messages: Delivered with the start.
    """
    if instance_id is None:
        instance_id = orchestration.options.instance_id
    delay = orchestration.options.delay
    return _new(
        instance_id or made_id(orchestration.name, now_ms),
        orchestration.name,
        orchestration.version,
        orchestration.definition.codec.encode(args, kwargs),
        now_ms=now_ms,
        code=code,
        visible_at_ms=0 if delay is None else now_ms + to_ms(delay),
        messages=messages,
    )


def successor(row: InstanceRow, *, now_ms: int, code: str) -> NewInstance:
    """Return an instance with the id, definition and input of one that has ended."""
    return _new(row.instance_id, row.name, row.version, row.input, now_ms=now_ms, code=code)


def made_id(name: str, now_ms: int) -> str:
    """Return an id of an instance that was given none."""
    # Time first, so that ids made one after another lie beside each other in the indexes.
    made = f"{name}-{now_ms:x}{fresh_id() & 0xFFFFFFFFFF:010x}"
    return made if len(made.encode()) <= MAX_ID_BYTES else made[-MAX_ID_BYTES // 4 :]


def check_same_definition(existing: InstanceRow, orchestration: Orchestration[..., Any]) -> None:
    """Refuse an instance of another definition. One that is known by name fits every version."""
    is_same = existing.name == orchestration.name
    if not is_same or orchestration.version not in ("", existing.version):
        has = existing.version or "(any version)"
        asked = orchestration.version or "(any version)"
        raise AlreadyExistsError(
            existing.instance_id,
            f"as {existing.name} {has}, not {orchestration.name} {asked}",
        )


def as_begun(row: InstanceRow, first: Sequence[StoredEvent], new: NewInstance) -> InstanceRow:
    """Return the row of an instance that has continued as it was when the instance was begun.

    Its input and perhaps its version are others since then; a start that is made again is compared
    with the first. Where the first execution was pruned, nothing is left to compare with.
    """
    if not first:
        return msgspec.structs.replace(row, version=new.definition.variant, input=new.input)
    started = read_event(first[0].kind, first[0].body)
    assert isinstance(started, Started), "a history begins with its start"
    is_moved_there = row.version == new.definition.variant
    return msgspec.structs.replace(
        row,
        version=row.version if is_moved_there else started.version,
        input=bytes(started.input),
    )


def check_joinable(
    existing: InstanceRow,
    new: NewInstance,
    orchestration: Orchestration[..., Any],
    code: Orchestration[..., Any] | None,
) -> None:
    """Accept an instance that is what would have been started; refuse anything else.

    Args:
        existing: The instance that has the id.
        new: What would have been started.
        orchestration: What was to be started, perhaps known by name only.
        code: The same as it is written, if this process has it.
    """
    check_same_definition(existing, orchestration)
    known = code or orchestration
    if existing.input == new.input or known.definition.codec.same(existing.input, new.input):
        return
    how = "with another input"
    if known.is_elsewhere:
        how += (
            f", as far as can be told where {known.name!r} is known by name only: give the "
            "arguments by position or by name as at the first start, or hand over the definition"
        )
    raise AlreadyExistsError(new.instance_id, how)


def _new(
    instance_id: str,
    name: str,
    version: str,
    input: bytes,
    *,
    now_ms: int,
    code: str,
    visible_at_ms: int = 0,
    messages: tuple[Delivery, ...] = (),
) -> NewInstance:
    kind, body = write_event(
        Started(
            name=name, version=version, behaviour=BEHAVIOUR, input=msgspec.Raw(input), code=code
        )
    )
    return NewInstance(
        instance_id=instance_id,
        incarnation=fresh_id(),
        definition=orchestration_key(name, version),
        input=input,
        start_kind=kind,
        start_body=body,
        created_ms=now_ms,
        visible_at_ms=visible_at_ms,
        commit_id=fresh_id(),
        messages=messages,
    )
