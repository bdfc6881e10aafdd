"""A start whose id is taken: join what is there, replace it, or refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.authoring.orchestration import Orchestration
from perdure.errors import AlreadyExistsError, InstanceEndedError
from perdure.model.histories.events import Started, StoredEvent, read_event
from perdure.model.instances import InstanceRow, NewInstance
from perdure.store.base import ExecutionKey

if TYPE_CHECKING:
    from perdure.client.core import ClientCore


async def settle(
    core: ClientCore,
    existing: InstanceRow,
    new: NewInstance,
    orchestration: Orchestration[..., Any],
) -> None:
    """Do what the options of a start say of an id that exists."""
    policy = orchestration.options.if_exists
    if policy == "fail":
        raise AlreadyExistsError(new.instance_id, f"({existing.status})")
    if policy == "terminate" and not existing.status.is_terminal:
        await core.terminate(new.instance_id, "replaced by a new start")
        await _replace(core, existing, new, orchestration)
    elif policy in ("restart", "terminate") and existing.status.is_terminal:
        await _replace(core, existing, new, orchestration)
    else:
        await _join(core, existing, new, orchestration)


async def settle_ended(
    core: ClientCore,
    existing: InstanceRow,
    new: NewInstance,
    orchestration: Orchestration[..., Any],
) -> None:
    """Do what the options of a start say of an id that has ended, for a signal with a start."""
    match orchestration.options.if_exists:
        case "fail":
            raise AlreadyExistsError(new.instance_id, f"({existing.status})")
        case "restart" | "terminate":
            taken = await core.replace(existing, new)
            # Another client replaced it meanwhile: if that one is live, it got the signal.
            if taken is None or not taken.status.is_terminal:
                return
    raise InstanceEndedError(new.instance_id, existing.status)


async def _replace(
    core: ClientCore,
    existing: InstanceRow,
    new: NewInstance,
    orchestration: Orchestration[..., Any],
) -> None:
    taken = await core.replace(existing, new)
    if taken is not None:
        await _join(core, taken, new, orchestration)


async def _join(
    core: ClientCore,
    existing: InstanceRow,
    new: NewInstance,
    orchestration: Orchestration[..., Any],
) -> None:
    if existing.execution > 1:
        key = ExecutionKey(existing.instance_id, existing.incarnation, 1)
        [first] = await core.store.read_histories([key], limit=1)
        existing = _as_begun(existing, first, new)
    code = core.find_code(existing.name, existing.version)
    _check_joinable(existing, new, orchestration, code)


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


def _as_begun(row: InstanceRow, first: Sequence[StoredEvent], new: NewInstance) -> InstanceRow:
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


def _check_joinable(
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
