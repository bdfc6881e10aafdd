"""Starting an instance and sending to it, in one commit: where `send_with_start` and
`update_with_start` end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.authoring.orchestration import Orchestration
from perdure.client.acting.existing import check_same_definition, settle_ended
from perdure.client.acting.starting import new_instance, refuse_deciders_id
from perdure.client.acting.update_requests import UpdateRequest, answer_in, wait_outcome, was_given
from perdure.model.messages import Delivery

if TYPE_CHECKING:
    from perdure.client.core import ClientCore


async def begin_with_signal(
    core: ClientCore,
    delivery: Delivery,
    orchestration: Orchestration[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Start an instance with a signal in its inbox; one that is live only gets the signal.

    A signal that is sent again under its message id changes nothing, also if the instance has
    ended meanwhile.

    Raises:
        InstanceEndedError, AlreadyExistsError: Nothing was sent.
    """
    instance_id = delivery.instance_id
    refuse_deciders_id(core, instance_id)
    new = new_instance(
        instance_id,
        orchestration,
        tuple(args),
        dict(kwargs),
        now_ms=core.store.clock(),
        code=core.code_of(orchestration.name, orchestration.version),
        messages=(delivery,),
    )
    # Looked at before: a signal for another instance cannot be called back.
    [found] = await core.store.read_instances([instance_id])
    if found is not None and not found.status.is_terminal:
        check_same_definition(found, orchestration)
    existing = await core.begin(new)
    if existing is not None and existing.status.is_terminal:
        message_id = delivery.message_id or ""
        if message_id not in await core.store.deciders.read_receipts(instance_id, [message_id]):
            await settle_ended(core, existing, new, orchestration)


async def ask_with_start(
    core: ClientCore,
    request: UpdateRequest,
    orchestration: Orchestration[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> bytes:
    """Start an instance with an update in its inbox, and return the answer as JSON.

    Raises:
        InstanceEndedError, AlreadyExistsError: Nothing was sent.
        UpdateRefusedError, UpdateUnansweredError, InputIdReusedError: It has no answer.
    """
    new = new_instance(
        request.instance_id,
        orchestration,
        tuple(args),
        dict(kwargs),
        now_ms=core.store.clock(),
        code=core.code_of(orchestration.name, orchestration.version),
        messages=(request.delivery,),
    )

    async def send() -> bool:
        # Looked at before: an update for another instance cannot be called back.
        [found] = await core.store.read_instances([request.instance_id])
        if found is not None and not found.status.is_terminal:
            check_same_definition(found, orchestration)
        if found is not None and await was_given(core, request):
            return False
        existing = await core.begin(new)
        if existing is not None and existing.status.is_terminal:
            if await was_given(core, request):
                return False
            await settle_ended(core, existing, new, orchestration)
        return existing is None

    return answer_in(request, await wait_outcome(core, request, send))
